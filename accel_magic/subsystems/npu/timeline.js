// The timeline's behavior in the browser: one function body for all of its events; loads nothing.
// Arguments: source (bars), arrows, labels, plot, range, pane, jobs (their columns), texts (names, chains, who,
// layers, colors), lane_px, table_rows.
const d = source.data
const count = d.left.length
const right_of = (i) => d.left[i] + d.width[i]
const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => ({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})[c])
const duration = (ms, digits = 3) => {
  if (!Number.isFinite(ms)) return "-"
  const units = [[1e3, "s"], [1, "ms"], [1e-3, "us"], [1e-6, "ns"]]
  const [size, unit] = units.find(([size]) => Math.abs(ms) >= size * 0.9995) ?? units[3]
  return `${Number((ms / size).toPrecision(digits))} ${unit}`
}
const name_of = (i) => d.steps[i] > 1 ? `${d.steps[i]} steps, the first: ${texts.names[d.name[i]]}`
  : d.layer[i] === texts.layers.length - 1 ? `job ${d.job[i]}`
  : texts.names[d.name[i]] + (d.calls[i] > 1 ? ` x ${d.calls[i]}` : "")
const who_of = (code) => code < 0 ? "" : texts.who[code]

const hint = "drag: select; click: select a step's whole job; Esc: clear the selection; Ctrl + wheel, or the window in the strip: zoom"

function table(heads, rows, more) {
  const head = heads.map((text, at) => `<th class="${at < 2 ? "l" : ""}">${escaped(text)}</th>`).join("")
  const body = rows.map((row) => `<tr>${row.map((text, at) =>
    `<td class="${at < 2 ? "l" : ""}" title="${escaped(text)}">${escaped(text)}</td>`).join("")}</tr>`).join("")
  const rest = more > 0 ? `<div class="note">and ${more.toLocaleString("en")} more: select fewer</div>` : ""
  return `<div class="scroll"><table><thead><tr>${head}</tr></thead><tbody>${body}</tbody></table>${rest}</div>`
}

function show_tables(chosen) {
  const all = chosen.length === 0
  const picked = all ? [...Array(count).keys()] : [...chosen]
  const steps = picked.filter((i) => d.layer[i] < texts.layers.length - 1).sort((a, b) => d.left[a] - d.left[b])
  const wanted = new Set(picked.map((i) => d.job[i]).filter((job) => job >= 0))
  const listed = jobs.job.map((_, at) => at).filter((at) => all || wanted.has(jobs.job[at]))
  const step_count = steps.reduce((sum, i) => sum + d.steps[i], 0)
  const what = all ? "all" : "selected"
  const of_steps = table(["layer", "step", "start", "duration", "job", "thread", "caused by"],
    steps.slice(0, table_rows).map((i) => [texts.layers[d.layer[i]], name_of(i), duration(d.left[i], 6),
      d.width[i] > 0 ? duration(d.width[i]) : "", d.job[i] < 0 ? "" : d.job[i],
      who_of(d.who[i]), texts.chains[d.chain[i]]]), steps.length - table_rows)
  const of_jobs = table(["job", "status", "submitted", "latency", "wait", "thread"],
    listed.slice(0, table_rows).map((at) => [jobs.job[at], jobs.status[at], duration(jobs.submitted[at], 6),
      duration(jobs.latency[at]), duration(jobs.wait[at]), jobs.thread[at]]), listed.length - table_rows)
  const parts = [`<div class="part"><b>Steps, ${what}: ${step_count.toLocaleString("en")}</b>${of_steps}</div>`]
  if (jobs.job.length) parts.push(`<div class="part"><b>Jobs, ${what}: ${listed.length.toLocaleString("en")}</b>${of_jobs}</div>`)
  const [html] = pane.elements
  html.html = `<div class="hint">${hint}</div><div class="tables">${parts.join("")}</div>`
  pane.elements = [html]
}

function show_arrows(chosen) {
  const wanted = new Set(chosen.map((i) => d.job[i]).filter((job) => job >= 0))
  const shown = {x0: [], y0: [], x1: [], y1: []}
  if (wanted.size <= 40) {
    for (let i = 0; i < links.job.length; i++) {
      if (!wanted.has(links.job[i])) continue
      shown.x0.push(links.x0[i]); shown.y0.push((links.lane0[i] + 0.5) * lane_px)
      shown.x1.push(links.x1[i]); shown.y1.push((links.lane1[i] + 0.5) * lane_px)
    }
  }
  arrows.data = shown
}

function show_labels() {
  const per_px = (range.end - range.start) / Math.max(plot.inner_width, 1)
  const shown = {x: [], y: [], text: [], layer: []}
  for (let i = 0; i < count && shown.x.length < 400; i++) {
    const left = Math.max(d.left[i], range.start), right = Math.min(right_of(i), range.end)
    const fits = Math.floor((right - left) / per_px / 5.6) - 1
    if (fits < 4) continue
    const text = name_of(i)
    shown.x.push(left + 3 * per_px); shown.y.push((d.lane[i] + 0.5) * lane_px); shown.layer.push(d.layer[i])
    shown.text.push(text.length <= fits ? text : text.slice(0, fits - 1) + "…")
  }
  labels.data = shown
}

// The step under the pointer, or up to 4 pixels beside it, because most steps are narrower than a pixel.
function picked(x, y) {
  const near = 4 * (range.end - range.start) / Math.max(plot.inner_width, 1)
  const lane = Math.floor(y / lane_px)
  let best = -1, distance = near
  for (let i = 0; i < count; i++) {
    if (d.lane[i] !== lane) continue
    const away = x < d.left[i] ? d.left[i] - x : x > right_of(i) ? x - right_of(i) : 0
    if (away < distance || (away === distance && away === 0)) { best = i; distance = away }
  }
  return best
}

// All steps of its job; without a job all steps caused by the same call of the program; else the step alone.
function related(i) {
  if (i < 0) return []
  const [column, value] = d.job[i] >= 0 ? [d.job, d.job[i]] : d.root[i] >= 0 ? [d.root, d.root[i]] : [null, 0]
  if (column === null) return [i]
  return [...Array(count).keys()].filter((k) => column[k] === value)
}

if (cb_obj.event_name === "tap") {
  source.selected.indices = related(picked(cb_obj.x, cb_obj.y))
} else if (cb_obj === source.selected) {
  show_tables(source.selected.indices)
  show_arrows(source.selected.indices)
} else {
  // The first of these events comes when the plot gets its size; zooming and panning send many in a row.
  if (pane.elements[0].html === "") show_tables([])
  clearTimeout(plot.__accel_magic_labels)
  if (labels !== null) plot.__accel_magic_labels = setTimeout(show_labels, 60)
}

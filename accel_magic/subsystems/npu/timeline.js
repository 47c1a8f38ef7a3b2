// The timeline's behavior in the browser: draws labels, arrows and tables; loads nothing.

import {
  source, arrows, labels, plot, range, pane, jobs, links, texts, lane_px, table_rows, cb_context
} from "./timeline_arguments.js"
import {
  d, count, right_of, duration, name_of, kind_of, is_job, who_of, escaped, table, picked, related, first, beside, across
} from "./timeline_steps.js"

const hint = "drag: select; click: select a step's whole job; Esc: clear the selection; Ctrl + wheel, or the window in " +
  "the strip: zoom; arrow keys: from step to step, Enter: its whole job"

const legend = (() => {
  const kinds = [...new Set(d.kind)].sort((a, b) => a - b).filter((kind) => texts.kinds[kind].includes("task"))
  const items = kinds.map((kind) => `<span><i style="background:${texts.colors[kind]}"></i>${escaped(texts.kinds[kind])}</span>`)
  return kinds.length > 1 ? `<div class="legend">${items.join("")}</div>` : ""
})()
let cursor = -1

function show_tables(chosen) {
  const all = chosen.length === 0
  const picked = all ? [...Array(count).keys()] : [...chosen]
  const steps = picked.filter((i) => !is_job(i)).sort((a, b) => d.left[a] - d.left[b])
  const wanted = new Set(picked.map((i) => d.job[i]).filter((job) => job >= 0))
  const listed = jobs.job.map((_, at) => at).filter((at) => all || wanted.has(jobs.job[at]))
  const step_count = steps.reduce((sum, i) => sum + d.steps[i], 0)
  const what = all ? "all" : "selected"
  const without_jobs = (row) => jobs.job.length ? row : row.filter((_, at) => at !== 4)
  const of_steps = table(without_jobs(["layer", "step", "start", "duration", "job", "thread", "caused by"]),
    steps.slice(0, table_rows).map((i) => without_jobs([kind_of(i), name_of(i), duration(d.left[i], 6),
      d.width[i] > 0 ? duration(d.width[i]) : "", d.job[i] < 0 ? "" : d.job[i],
      who_of(d.who[i]), texts.chains[d.chain[i]]])), steps.length - table_rows)
  const of_jobs = table(["job", "status", "submitted", "latency", "wait", "thread"],
    listed.slice(0, table_rows).map((at) => [jobs.job[at], jobs.status[at], duration(jobs.submitted[at], 6),
      duration(jobs.latency[at]), duration(jobs.wait[at]), jobs.thread[at]]), listed.length - table_rows)
  const parts = [`<div class="part"><b>Steps, ${what}: ${step_count.toLocaleString("en")}</b>${of_steps}</div>`]
  if (jobs.job.length) parts.push(`<div class="part"><b>Jobs, ${what}: ${listed.length.toLocaleString("en")}</b>${of_jobs}</div>`)
  const [html] = pane.elements
  html.html = `${legend}<div class="hint">${hint}</div><div class="said" role="status" aria-live="polite">${said()}</div><div class="tables">${parts.join("")}</div>`
  pane.elements = [html]
}

// The step that the keyboard is at, in words.
function said() {
  if (cursor < 0) return ""
  const job = d.job[cursor] < 0 ? "" : `, job ${d.job[cursor]}`
  const took = d.width[cursor] > 0 ? `, ${duration(d.width[cursor])}` : ""
  return escaped(`${kind_of(cursor)}: ${name_of(cursor)}, at ${duration(d.left[cursor], 6)}${took}${job}, ${who_of(d.who[cursor])}`)
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return
  const at = cursor < 0 ? null : cursor
  const moves = {
    ArrowRight: () => beside(at, 1), ArrowLeft: () => beside(at, -1), ArrowDown: () => across(at, 1), ArrowUp: () => across(at, -1),
  }
  if (event.key in moves) {
    cursor = at === null ? first() : moves[event.key]()
    source.selected.indices = cursor < 0 ? [] : [cursor]
    into_view()
  } else if (event.key === "Enter" && at !== null) {
    source.selected.indices = related(at)
  } else if (event.key === "Escape") {
    cursor = -1
    source.selected.indices = []
  } else {
    return
  }
  event.preventDefault()
  event.stopPropagation()  // JupyterLab has its own shortcuts on these keys
}

// Pans to the step at the keyboard, if it is outside the visible range.
function into_view() {
  if (cursor < 0 || (right_of(cursor) >= range.start && d.left[cursor] <= range.end)) return
  const span = range.end - range.start, [low, high] = range.bounds
  const start = Math.min(Math.max(d.left[cursor] - span / 2, low), high - span)
  range.setv({start, end: start + span})
}

let place

function attach() {
  place = cb_context.index.find_one(plot)?.canvas_view.events_el
  if (!place) return
  place.tabIndex = 0
  place.setAttribute("role", "application")
  place.setAttribute("aria-label", "Timeline: arrow keys go from step to step, Enter selects a step's job, Escape selects all")
  place.addEventListener("keydown", pressed)
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
  const shown = {x: [], y: [], text: [], kind: []}
  for (let i = 0; i < count && shown.x.length < 400; i++) {
    const left = Math.max(d.left[i], range.start), right = Math.min(right_of(i), range.end)
    const fits = Math.floor((right - left) / per_px / 5.6) - 1
    if (fits < 4) continue
    const text = name_of(i)
    shown.x.push(left + 3 * per_px); shown.y.push((d.lane[i] + 0.5) * lane_px); shown.kind.push(d.kind[i])
    shown.text.push(text.length <= fits ? text : text.slice(0, fits - 1) + "…")
  }
  labels.data = shown
}

let soon

function hear(event) {
  if (event.event_name === "tap") {
    cursor = picked(event.x, event.y)
    source.selected.indices = related(cursor)
    place?.focus({preventScroll: true})
  } else if (event === source.selected) {
    show_tables(source.selected.indices)
    show_arrows(source.selected.indices)
  } else {
    // The first of these events comes when the plot gets its size; zooming and panning send many in a row.
    if (pane.elements[0].html === "") show_tables([])
    if (place === undefined) attach()
    clearTimeout(soon)
    if (labels !== null) soon = setTimeout(show_labels, 60)
  }
}

export {hear}

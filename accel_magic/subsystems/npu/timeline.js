// The timeline's behavior in the browser: draws labels, arrows and tables; loads nothing.

import {
  source, arrows, labels, plot, range, pane, jobs, links, texts, lane_px, table_rows
} from "./timeline_arguments.js"
import {d, count, right_of, duration, name_of, who_of, table, picked, related} from "./timeline_steps.js"

const hint = "drag: select; click: select a step's whole job; Esc: clear the selection; Ctrl + wheel, or the window in the strip: zoom"

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

let soon

function hear(event) {
  if (event.event_name === "tap") {
    source.selected.indices = related(picked(event.x, event.y))
  } else if (event === source.selected) {
    show_tables(source.selected.indices)
    show_arrows(source.selected.indices)
  } else {
    // The first of these events comes when the plot gets its size; zooming and panning send many in a row.
    if (pane.elements[0].html === "") show_tables([])
    clearTimeout(soon)
    if (labels !== null) soon = setTimeout(show_labels, 60)
  }
}

export {hear}

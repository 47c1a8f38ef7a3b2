// The computations of a timeline: texts of its steps, which are under the pointer and which belong together.

import {source, plot, range, texts, lane_px} from "./timeline_arguments.js"

export const d = source.data
export const count = d.left.length
export const right_of = (i) => d.left[i] + d.width[i]
export const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => ({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})[c])
export const duration = (ms, digits = 3) => {
  if (!Number.isFinite(ms)) return "-"
  const units = [[1e3, "s"], [1, "ms"], [1e-3, "us"], [1e-6, "ns"]]
  const [size, unit] = units.find(([size]) => Math.abs(ms) >= size * 0.9995) ?? units[3]
  return `${Number((ms / size).toPrecision(digits))} ${unit}`
}
// Bars of jobs on the device are below the layers of steps.
const device = texts.kinds.indexOf("NPU")
export const is_job = (i) => d.layer[i] === device
export const kind_of = (i) => texts.kinds[d.kind[i]]
export const name_of = (i) => d.steps[i] > 1 ? `${d.steps[i]} steps, the first: ${texts.names[d.name[i]]}`
  : is_job(i) ? `job ${d.job[i]}`
  : texts.names[d.name[i]] + (d.calls[i] > 1 ? ` x ${d.calls[i]}` : "")
export const who_of = (code) => code < 0 ? "" : texts.who[code]

export function table(heads, rows, more) {
  const head = heads.map((text, at) => `<th class="${at < 2 ? "l" : ""}">${escaped(text)}</th>`).join("")
  const body = rows.map((row) => `<tr>${row.map((text, at) =>
    `<td class="${at < 2 ? "l" : ""}" title="${escaped(text)}">${escaped(text)}</td>`).join("")}</tr>`).join("")
  const rest = more > 0 ? `<div class="note">and ${more.toLocaleString("en")} more: select fewer</div>` : ""
  return `<div class="scroll"><table><thead><tr>${head}</tr></thead><tbody>${body}</tbody></table>${rest}</div>`
}

// The step under the pointer, or up to 4 pixels beside it, because most steps are narrower than a pixel.
export function picked(x, y) {
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
export function related(i) {
  if (i < 0) return []
  const [column, value] = d.job[i] >= 0 ? [d.job, d.job[i]] : d.root[i] >= 0 ? [d.root, d.root[i]] : [null, 0]
  if (column === null) return [i]
  return [...Array(count).keys()].filter((k) => column[k] === value)
}

// Bars of each lane by their beginning, for the keyboard.
const lanes = new Map()
for (let i = 0; i < count; i++) {
  if (!lanes.has(d.lane[i])) lanes.set(d.lane[i], [])
  lanes.get(d.lane[i]).push(i)
}
for (const bars of lanes.values()) bars.sort((a, b) => d.left[a] - d.left[b])
const order = [...lanes.keys()].sort((a, b) => a - b)

// The first bar that is visible; else the first.
export function first() {
  const bars = lanes.get(order[0]) ?? []
  return bars.find((i) => right_of(i) >= range.start) ?? bars[0] ?? -1
}

// The next bar in the same lane (by: 1), or the one before (-1); the same at an end.
export function beside(i, by) {
  const bars = lanes.get(d.lane[i])
  return bars[Math.min(Math.max(bars.indexOf(i) + by, 0), bars.length - 1)]
}

// The bar of the next lane (by: 1), or the one above (-1), that is nearest in time.
export function across(i, by) {
  const bars = lanes.get(order[order.indexOf(d.lane[i]) + by])
  if (bars === undefined) return i
  const away = (k) => Math.max(d.left[k] - right_of(i), d.left[i] - right_of(k), 0) + Math.abs(d.left[k] - d.left[i]) / 1e6
  return bars.reduce((best, k) => away(k) < away(best) ? k : best)
}

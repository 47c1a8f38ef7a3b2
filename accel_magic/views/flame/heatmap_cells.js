// The computations of a heatmap: its cells, what is selected, and texts. Draws nothing and does not access the page.
// A cell's number is column * rows + row.

import {selection, grid, step, weights, samples, states, unit, units, untimed} from "./heatmap_arguments.js"

export const {column, rows, columns} = grid
export const count = columns * rows
export const cell_s = column / rows

// Numbers formatted as by Python's format.py.
const plain = {useGrouping: false, maximumFractionDigits: 9}
const three = (value) => Number(value.toPrecision(3)).toLocaleString("en", plain)
const counted = (number, what) => `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`
const clock = (minutes) => minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
export function amount(value, table) {
  if (table[table.length - 1][1] === "s" && value >= 99.95e9) {
    const seconds = Math.round(value / 1e9)
    return seconds < 3600 ? `${clock(Math.floor(seconds / 60))} ${seconds % 60} s` : clock(Math.floor(seconds / 60))
  }
  let at = 0
  while (at + 1 < table.length && Math.abs(value) / table[at][0] >= table[at + 1][0] / table[at][0] - 0.5) at++
  return `${three(value / table[at][0])} ${table[at][1].trim()}`.trim()
}
export const weighed = (value) => units.weight ? amount(value, units.weight) : counted(value, unit.slice(0, -1))
// Times with enough digits to distinguish two cells.
export function at_time(seconds) {
  const [size, name] = column >= 1e-1 ? [1, "s"] : column >= 1e-4 ? [1e-3, "ms"] : [1e-6, "us"]
  const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(cell_s / size) - 1e-9)))
  const minutes = size === 1 && seconds >= 100 ? Math.floor(Number(seconds.toFixed(digits)) / 60) : 0
  const rest = `${((seconds - 60 * minutes) / size).toFixed(digits)} ${name}`
  return minutes ? `${clock(minutes)} ${rest}` : rest
}

export const state = {anchor: 0, cursor: 0, block: false, cells: [], mask: 0}

function shown_states() {
  const on = selection.tags.filter((code) => states.includes(code))
  return selection.tags.length === 0 ? states : on
}

export function sum_states() {
  const on = shown_states()
  const mask = on.reduce((bits, code) => bits | (1 << code), 0)
  if (mask === state.mask && state.weight) return false
  Object.assign(state, {mask, weight: new Float64Array(count), samples: new Float64Array(count)})
  on.forEach((code) => {
    const at = states.indexOf(code)
    for (let i = 0; i < count; i++) { state.weight[i] += weights[at][i]; state.samples[i] += samples[at][i] }
  })
  return true
}

export const cell_at = (x, y) => {
  const clamped = (value, most) => Math.min(Math.max(Math.floor(value), 0), most - 1)
  return clamped(x / column, columns) * rows + clamped(y / cell_s, rows)
}

export const step_start = (cell) => cell - cell % step
const step_end = (cell) => step_start(cell) + step - 1

// The cells from the first to the last in order of time, or the block with these corners; in whole steps.
export function between(a, b, block) {
  const first = step_start(Math.min(a, b)), last = step_end(Math.max(a, b))
  if (!block) return Array.from({length: last - first + 1}, (_, i) => first + i)
  const low = step_start(Math.min(a % rows, b % rows)), high = step_end(Math.max(a % rows, b % rows))
  const cells = []
  for (let c = Math.floor(first / rows); c <= Math.floor(last / rows); c++)
    for (let r = low; r <= high; r++) cells.push(c * rows + r)
  return cells
}

export function box(left, right, bottom, top) {
  return {x: [left, left, right, right, left], y: [bottom, top, top, bottom, bottom]}
}

export function edge(cells, block) {
  if (cells.length === 0) return {x: [], y: []}
  const first = cells[0], last = cells[cells.length - 1]
  const [c0, r0, c1, r1] = [Math.floor(first / rows), first % rows, Math.floor(last / rows), last % rows]
  const [left, right] = [c0 * column, (c1 + 1) * column]
  if (block || c0 === c1) return box(left, right, r0 * cell_s, (r1 + 1) * cell_s)
  const [from, to] = [r0 * cell_s, (r1 + 1) * cell_s]
  return {
    x: [left, left, c1 * column, c1 * column, right, right, left + column, left + column, left],
    y: [from, column, column, to, to, 0, 0, from, from],
  }
}

export function description(cells) {
  const left_out = untimed ? ` Not shown: ${counted(untimed, "sample")} without a time.` : ""
  if (cells.length === 0) {
    const how = "drag: select a time range; Shift + drag: a block; or arrows, Shift + arrows; Esc or double click: select all"
    const coarse = step > 1 ? ` In steps of ${amount(step * cell_s * 1e9, units.time)}.` : ""
    return `<span class="hint">${how}.${coarse}${left_out}</span>`
  }
  let weight = 0, seen = 0
  for (const i of cells) { weight += state.weight[i]; seen += state.samples[i] }
  const start = cells[0] * cell_s, end = (cells[cells.length - 1] + 1) * cell_s
  const length = amount(cells.length * cell_s * 1e9, units.time)
  const kind = cells.length - 1 === cells[cells.length - 1] - cells[0] ? length : `a block of ${length}`
  const all = state.weight.reduce((sum, one) => sum + one, 0)
  const share = all ? `${three(100 * weight / all)} %` : "-"
  const rows_too = unit === "samples" ? "" : `, in ${counted(seen, "sample")}`
  return `<b>Selected: ${at_time(start)} to ${at_time(end)}</b> (${kind}): ` +
    `${weighed(weight)}, ${share} of ${weighed(all)}${rows_too}. <span class="hint">Esc: select all.${left_out}</span>`
}

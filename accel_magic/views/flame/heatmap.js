// The heatmap's behavior in the browser: draws cells and handles events; loads nothing.

import {
  plot, bar, pane, every, chosen, outline, cursor, selection, step, scales, cb_context
} from "./heatmap_arguments.js"
import {
  column, rows, columns, count, cell_s, state, weighed, at_time, sum_states, cell_at, step_start, between, box, edge,
  description
} from "./heatmap_cells.js"

// The colors of these cells (null: all) as an image, one row for each row of cells.
function image(cells) {
  const old = every.data_source.data.image[0]
  const made = new old.constructor(count, old.shape)
  const limits = scales[state.mask]?.limits ?? []
  const shade = (weight) => {
    let low = 0, high = limits.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (limits[middle] <= weight) low = middle + 1
      else high = middle
    }
    return low
  }
  const put = (i) => { made[(i % rows) * columns + Math.floor(i / rows)] = shade(state.weight[i]) }
  if (cells === null) for (let i = 0; i < count; i++) put(i)
  else cells.forEach(put)
  return made
}

function show_states() {
  const scale = scales[state.mask]
  every.data_source.data = {image: [image(null)]}
  plot.title.text = scale?.title ?? "When: no state selected"
  bar.color_mapper.palette = scale?.colors ?? bar.color_mapper.palette
  bar.ticker.ticks = scale?.ticks ?? []
  bar.major_label_overrides = new Map((scale?.ticks ?? []).map((tick, at) => [tick, scale.labels[at]]))
}

function show_cells(cells, block) {
  state.cells = cells
  const some = cells.length > 0
  every.glyph.global_alpha = some ? 0.35 : 1
  chosen.data_source.data = {image: [image(cells)]}
  outline.data = edge(cells, block)
  const [html] = pane.elements
  html.html = `<div class="what" role="status" aria-live="polite">${description(cells)}</div>`
  pane.elements = [html]
}

function select(a, b, block, done) {
  Object.assign(state, {anchor: a, cursor: b, block})
  const cells = between(a, b, block)
  show_cells(cells, block)
  if (done) selection.data = {cells}
}

// Selects one cell; with Shift, all from the first selected cell to this one.
function point(here, shift) {
  select(shift && state.cells.length ? state.anchor : here, here, false, true)
}

function clear() {
  cursor.data = {x: [], y: []}
  show_cells([], false)
  selection.data = {cells: []}
}

function show_cursor() {
  const c = Math.floor(state.cursor / rows), r = step_start(state.cursor) % rows
  cursor.data = box(c * column, (c + 1) * column, r * cell_s, (r + step) * cell_s)
}

function pressed(event) {
  const steps = {ArrowRight: rows, ArrowLeft: -rows, ArrowUp: step, ArrowDown: -step, Home: -count, End: count}
  const {key} = event
  if (key in steps) {
    const anchor = state.cells.length ? state.anchor : state.cursor
    state.cursor = Math.min(Math.max(state.cursor + steps[key], 0), count - 1)
    if (event.shiftKey) select(anchor, state.cursor, false, true)
    show_cursor()
  } else if (key === "Enter" || key === " ") {
    select(state.cursor, state.cursor, false, true)
    show_cursor()
  } else if (key === "Escape") {
    clear()
  } else {
    return
  }
  event.preventDefault()
  event.stopPropagation()  // JupyterLab has its own shortcuts on these keys
}

// What the tooltip shows of the cell there: its times, weight and number of samples.
function describe(x, y) {
  const i = cell_at(x, y)
  const [start, end] = [i * cell_s, (i + 1) * cell_s]
  const [weight, seen] = [state.weight[i], state.samples[i]]
  return [`${at_time(start)} to ${at_time(end)}`, weighed(weight), seen.toLocaleString("en")]
}

function attach() {
  state.place = cb_context.index.find_one(plot)?.canvas_view.events_el
  if (!state.place) return
  state.place.tabIndex = 0
  state.place.setAttribute("role", "group")
  state.place.setAttribute("aria-label", "heatmap of time: arrow keys move, with Shift they select; Escape selects all")
  state.place.addEventListener("keydown", pressed)
  state.place.addEventListener("blur", () => { cursor.data = {x: [], y: []} })
}

// If the user pauses before dragging, Bokeh sends press and mousemove events, not pan.
function drag({event_name, x, y, modifiers}) {
  if (state.from === undefined) return
  const here = cell_at(x, y), {shift} = modifiers
  const done = event_name === "panend" || event_name === "pressup"
  if (state.held && here === state.from) point(here, shift)
  else select(state.from, here, shift, done)
  if (done) Object.assign(state, {from: undefined, held: false})
}

function follow() {
  if (sum_states()) { show_states(); show_cells(state.cells, state.block) }
  const wanted = Array.from(selection.data.cells ?? [])
  const same = wanted.length === state.cells.length && wanted.every((cell, at) => cell === state.cells[at])
  if (!same) show_cells(wanted, false)
}

function hear(event) {
  const {event_name, x, y} = event
  const inside = x >= 0 && x < columns * column && y >= 0 && y < column
  if ((event_name === "tap" || event_name === "press") && !inside) return
  if (event_name === "panstart" || event_name === "press") {
    state.place?.focus({preventScroll: true})
    Object.assign(state, {from: cell_at(x, y), held: event_name === "press"})
  } else if (event_name === "mousemove" && !state.held) {
    return
  } else if (["pan", "mousemove", "panend", "pressup"].includes(event_name)) {
    drag(event)
  } else if (event_name === "tap") {
    state.place?.focus({preventScroll: true})
    Object.assign(state, {from: undefined, held: false})
    point(cell_at(x, y), event.modifiers.shift)
  } else if (event_name === "doubletap") {
    clear()
  } else if (event === selection) {
    follow()
  }
}

sum_states()
show_cells([], false)
attach()
export {hear, describe}

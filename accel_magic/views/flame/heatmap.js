// The heatmap's behavior in the browser: one function body for all of its events; loads nothing.
// Arguments: plot, bar (of colors), pane (the line below), every, chosen (images), outline, cursor (lines), selection,
// grid (column: seconds, rows, columns), step (cells selected together), weights, samples (a row for each of states),
// scales (by the bits of the shown states: title, limits of the colors, ticks and labels of the bar), unit (of weights),
// units, untimed.
// A cell's number is column * rows + row.
const {column, rows, columns} = grid
const count = columns * rows
const cell_s = column / rows

// Numbers formatted as by Python's format.py.
const plain = {useGrouping: false, maximumFractionDigits: 9}
const three = (value) => Number(value.toPrecision(3)).toLocaleString("en", plain)
const counted = (number, what) => `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`
const clock = (minutes) => minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
function amount(value, table) {
  if (table[table.length - 1][1] === "s" && value >= 99.95e9) {
    const seconds = Math.round(value / 1e9)
    return seconds < 3600 ? `${clock(Math.floor(seconds / 60))} ${seconds % 60} s` : clock(Math.floor(seconds / 60))
  }
  let at = 0
  while (at + 1 < table.length && Math.abs(value) / table[at][0] >= table[at + 1][0] / table[at][0] - 0.5) at++
  return `${three(value / table[at][0])} ${table[at][1].trim()}`.trim()
}
const weighed = (value) => units.weight ? amount(value, units.weight) : counted(value, unit.slice(0, -1))
// Times with enough digits to distinguish two cells.
function at_time(seconds) {
  const [size, name] = column >= 1e-1 ? [1, "s"] : column >= 1e-4 ? [1e-3, "ms"] : [1e-6, "us"]
  const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(cell_s / size) - 1e-9)))
  const minutes = size === 1 && seconds >= 100 ? Math.floor(Number(seconds.toFixed(digits)) / 60) : 0
  const rest = `${((seconds - 60 * minutes) / size).toFixed(digits)} ${name}`
  return minutes ? `${clock(minutes)} ${rest}` : rest
}

const state = plot.__accel_magic_heatmap ??= {anchor: 0, cursor: 0, block: false, cells: [], mask: 0}

function shown_states() {
  const on = selection.tags.filter((code) => states.includes(code))
  return selection.tags.length === 0 ? states : on
}

function sum_states() {
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

const cell_at = (x, y) => {
  const clamped = (value, most) => Math.min(Math.max(Math.floor(value), 0), most - 1)
  return clamped(x / column, columns) * rows + clamped(y / cell_s, rows)
}

const step_start = (cell) => cell - cell % step
const step_end = (cell) => step_start(cell) + step - 1

// The cells from the first to the last in order of time, or the block with these corners; in whole steps.
function between(a, b, block) {
  const first = step_start(Math.min(a, b)), last = step_end(Math.max(a, b))
  if (!block) return Array.from({length: last - first + 1}, (_, i) => first + i)
  const low = step_start(Math.min(a % rows, b % rows)), high = step_end(Math.max(a % rows, b % rows))
  const cells = []
  for (let c = Math.floor(first / rows); c <= Math.floor(last / rows); c++)
    for (let r = low; r <= high; r++) cells.push(c * rows + r)
  return cells
}

function box(left, right, bottom, top) {
  return {x: [left, left, right, right, left], y: [bottom, top, top, bottom, bottom]}
}

function edge(cells, block) {
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

function description(cells) {
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

function begin() {
  sum_states()
  show_cells([], false)
  plot.__accel_magic_cell = (x, y) => {
    const i = cell_at(x, y)
    const [start, end] = [i * cell_s, (i + 1) * cell_s]
    const [weight, seen] = [state.weight[i], state.samples[i]]
    return [`${at_time(start)} to ${at_time(end)}`, weighed(weight), seen.toLocaleString("en")]
  }
  state.place = cb_context.index.find_one(plot)?.canvas_view.events_el
  if (!state.place) return
  state.place.tabIndex = 0
  state.place.setAttribute("role", "group")
  state.place.setAttribute("aria-label", "heatmap of time: arrow keys move, with Shift they select; Escape selects all")
  state.place.addEventListener("keydown", pressed)
  state.place.addEventListener("blur", () => { cursor.data = {x: [], y: []} })
}

const {event_name} = cb_obj
const inside = () => cb_obj.x >= 0 && cb_obj.x < columns * column && cb_obj.y >= 0 && cb_obj.y < column
if (!plot.__accel_magic_cell) {
  begin()
} else if ((event_name === "tap" || event_name === "press") && !inside()) {
  return
} else if (event_name === "panstart" || event_name === "press") {
  state.place?.focus({preventScroll: true})
  Object.assign(state, {from: cell_at(cb_obj.x, cb_obj.y), held: event_name === "press"})
} else if (event_name === "mousemove" && !state.held) {
  return
} else if (["pan", "mousemove", "panend", "pressup"].includes(event_name)) {
  // If the user pauses before dragging, Bokeh sends press and mousemove events, not pan.
  if (state.from === undefined) return
  const here = cell_at(cb_obj.x, cb_obj.y), {shift} = cb_obj.modifiers
  const done = event_name === "panend" || event_name === "pressup"
  if (state.held && here === state.from) point(here, shift)
  else select(state.from, here, shift, done)
  if (done) Object.assign(state, {from: undefined, held: false})
} else if (event_name === "tap") {
  state.place?.focus({preventScroll: true})
  Object.assign(state, {from: undefined, held: false})
  point(cell_at(cb_obj.x, cb_obj.y), cb_obj.modifiers.shift)
} else if (event_name === "doubletap") {
  clear()
} else if (cb_obj === selection) {
  if (sum_states()) { show_states(); show_cells(state.cells, state.block) }
  const wanted = Array.from(selection.data.cells ?? [])
  const same = wanted.length === state.cells.length && wanted.every((cell, at) => cell === state.cells[at])
  if (!same) show_cells(wanted, false)
}

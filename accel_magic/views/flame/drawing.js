// Draws a flame graph: frames, colors, texts and the number of rows.

import {source, labels, outline, plot, box, options, cb_context} from "./arguments.js"
import {label_of, laid_out} from "./tree.js"
import {amount, mixed, packed, FADED} from "./words.js"
import {state, shown} from "./state.js"
import {color_of} from "./colors.js"
import {describe_view} from "./controls.js"

export const graph = () => cb_context.index.find_one(plot)?.canvas_view.events_el

const pen = document.createElement("canvas").getContext("2d")
const widths = new Map()
const width_of = (letter) => {
  if (!widths.has(letter)) {
    pen.font = `${options.font_size} ${options.font}`
    widths.set(letter, pen.measureText(letter).width)
  }
  return widths.get(letter)
}

function fitted(text, room) {
  let used = 0, fits = 0
  const dots = width_of("…"), letters = Array.from(text)
  for (let i = 0; i < letters.length; i++) {
    used += width_of(letters[i])
    if (used > room) return fits >= 2 ? letters.slice(0, fits).join("") + "…" : ""
    if (used + dots <= room) fits = i + 1
  }
  return text
}

export const text_width = (text) => Array.from(text).reduce((sum, letter) => sum + width_of(letter), 0)
export const text_of = (node) => node === 0 ? `all: ${amount(state.total[0])}`
  : label_of(state.tree.frame[node], state.tree.with_line)

export function redraw() {
  const {tree, total} = state, width = Math.max(plot.inner_width, 1), zoomed = shown()
  const drawn = laid_out(tree, total, zoomed, options.least_px / width, options.most_rows, options.most_above)
  const count = drawn.node.length, colors = new Array(count)
  const text = {x: [], y: [], text: []}
  let deepest = 0
  for (let k = 0; k < count; k++) {
    const node = drawn.node[k], color = color_of(node)
    const fade = k < drawn.dimmed || (state.matched !== null && state.matched[tree.frame[node]] === 0)
    colors[k] = packed(fade ? mixed(color, FADED, 0.85) : color)
    deepest = Math.max(deepest, drawn.row[k])
    const room = (drawn.right[k] - drawn.left[k]) * width - 7
    const fits = room < 14 ? "" : fitted(text_of(node), room)
    if (fits !== "") { text.x.push(drawn.left[k]); text.y.push(drawn.row[k] + 0.5); text.text.push(fits) }
  }
  if (deepest >= state.rows) resize(deepest + 1)
  state.drawn = drawn
  const gap = 0.6 / width
  source.data = {
    left: drawn.left,
    right: drawn.right.map((right, k) => right - drawn.left[k] > 4 * gap ? right - gap : right),
    top: drawn.row.map((row) => row + 0.03), bottom: drawn.row.map((row) => row + 0.97),
    color: colors, node: drawn.node,
  }
  labels.data = text
  outlined()
  describe_view()
}

export function outlined() {
  const k = state.focused ? state.drawn.node.indexOf(state.cursor) : -1, {left, right, row} = state.drawn
  outline.data = k < 0 ? {left: [], right: [], top: [], bottom: []}
    : {left: [left[k]], right: [right[k]], top: [row[k] + 0.04], bottom: [row[k] + 0.96]}
}

// The plot grows if a zoom shows deeper stacks; it does not shrink again, so that the page does not jump.
export function resize(rows) {
  state.rows = rows
  plot.height = rows * options.row_px
  const [first, last] = state.inverted ? [rows, 0] : [0, rows]
  plot.y_range.setv({start: first, end: last})
}

// If the stacks are higher than the box, scrolls to this row and its neighbors.
export function scroll_to(row) {
  const element = cb_context.index.find_one(box)?.el
  if (!element) return
  const px = options.row_px, y = (state.inverted ? row : state.rows - 1 - row) * px
  element.scrollTop = Math.min(Math.max(element.scrollTop, y + 4 * px - element.clientHeight), y - 3 * px)
}

export function scroll_to_root() {
  const view = cb_context.index.find_one(box)
  if (view) setTimeout(() => { view.el.scrollTop = state.inverted ? 0 : view.el.scrollHeight }, 60)
}

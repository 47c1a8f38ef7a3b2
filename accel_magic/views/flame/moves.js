// User actions in a flame graph: zooming, going back, searching, moving with keys.

import {selection} from "./arguments.js"
import {selected, entries_within, matched_frames} from "./tree.js"
import {timed, entries, state, functions, weigh, tree_by} from "./state.js"
import {graph, redraw, outlined, scroll_to} from "./drawing.js"
import {sentence} from "./about.js"
import {search_box, what} from "./controls.js"

export function zoom(node) {
  if (node === state.zoomed) return
  state.visited = [...state.visited.slice(0, state.at + 1), node]
  state.at = state.visited.length - 1
  show(node)
}

function show(node) {
  state.zoomed = state.cursor = node
  redraw()
  scroll_to(state.drawn.dimmed)
}

export function step(by) {
  const to = state.at + by
  if (to < 0 || to >= state.visited.length) return
  state.at = to
  show(state.visited[to])
}

export function reset() {
  search_box.value = ""
  Object.assign(state, {visited: [0], at: 0, text: "", trouble: "", matched: null})
  show(0)
}

export function search(text) {
  let trouble = ""
  try {
    state.matched = text === "" ? null : matched_frames(text, state.tree.with_line)
  } catch (error) {
    state.matched = null
    trouble = `invalid regular expression: ${error.message.replace(/^.*: /, "").toLowerCase()}`
  }
  Object.assign(state, {text, trouble})
  redraw()
}

export function switch_tree(by_line) {
  const before = state.tree
  state.tree = tree_by(by_line)
  const moved = (node) => by_line ? before.of.indexOf(node) : functions.of[node]
  state.visited = state.visited.map(moved)
  Object.assign(state, {by_line, zoomed: moved(state.zoomed), cursor: moved(state.cursor)})
  weigh()
  search(state.text)
}

function widest(places) {
  const {left, right} = state.drawn, width = (k) => right[k] - left[k]
  return places.length ? places.reduce((a, b) => width(b) > width(a) ? b : a) : undefined
}

// Moves the cursor: "out" to the caller, "in" to the widest callee, -1 and 1 to the neighbors in the row.
function move(where) {
  const {node, row, dimmed} = state.drawn, {tree} = state
  const k = Math.max(node.indexOf(state.cursor), 0)
  if (where === "out") {
    const up = tree.parent[node[k]]
    if (up < 0) return
    if (k === dimmed) return zoom(up)
    state.cursor = up
  } else {
    const places = node.map((_, i) => i), beside = places.filter((i) => row[i] === row[k])
    const found = where === "in" ? widest(places.filter((i) => i > k && tree.parent[node[i]] === node[k]))
      : beside[beside.indexOf(k) + where]
    if (found === undefined) return
    state.cursor = node[found]
  }
  outlined()
  scroll_to(state.drawn.row[state.drawn.node.indexOf(state.cursor)])
  what.textContent = sentence(state.cursor)
}

export function to_widest_match() {
  const {node, row, dimmed} = state.drawn
  const found = widest(node.map((_, k) => k).filter((k) => k >= dimmed && state.matched?.[state.tree.frame[node[k]]] === 1))
  if (found !== undefined) {
    state.cursor = node[found]
    scroll_to(row[found])
  }
  focus()
}

export const focus = () => graph()?.focus({preventScroll: true})

export function at(x, y) {
  const {node, left, right, row} = state.drawn
  return node.find((_, k) => row[k] === Math.floor(y) && left[k] <= x && x < right[k])
}

export function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return
  const [out, in_] = state.inverted ? ["ArrowUp", "ArrowDown"] : ["ArrowDown", "ArrowUp"]
  const does = {
    [out]: () => move("out"), [in_]: () => move("in"),
    ArrowLeft: () => move(-1), ArrowRight: () => move(1),
    Enter: () => zoom(state.cursor), Backspace: () => step(event.shiftKey ? 1 : -1),
    Escape: reset, "/": () => search_box.focus(),
  }[event.key]
  if (!does) return
  event.preventDefault()
  event.stopPropagation()
  does()
}

// Applies the heatmap's selection and the states that are switched on.
export function select() {
  const cells = selection.data.cells ?? []
  state.cells = cells.length ? selected(Array.from(cells)) : null
  state.within = state.cells === null ? entries : entries_within(timed, state.cells)
  state.line_own = state.line_total = null
  weigh()
  redraw()
}

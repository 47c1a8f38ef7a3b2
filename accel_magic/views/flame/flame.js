// Puts the parts of a flame graph into its page, and handles Bokeh's events.

import {controls, table, selection, options} from "./arguments.js"
import {h} from "./words.js"
import {state, weigh} from "./state.js"
import {graph, redraw, outlined, scroll_to_root} from "./drawing.js"
import {about} from "./about.js"
import {zoom, reset, search, switch_tree, focus, at, pressed, select} from "./moves.js"
import {gone, top_table} from "./tables.js"
import {bar, switches, legend, what} from "./controls.js"

function put(pane, ...parts) {
  const [html] = pane.elements
  html.html = h("div", {}, ...parts)
  pane.elements = [html]
}

// Adds keys and a label for screen readers, as soon as Bokeh's view exists.
function attach(tries) {
  const element = graph()
  if (!element) return tries && setTimeout(() => attach(tries - 1), 100)
  element.tabIndex = 0
  element.setAttribute("role", "application")
  element.setAttribute("aria-label", "Flame graph: arrow keys move between frames, Enter zooms, Backspace goes back, " +
    "Escape shows everything, slash searches. The table below lists the top frames.")
  element.addEventListener("keydown", pressed)
  for (const kind of ["focus", "blur"]) {
    element.addEventListener(kind, () => { state.focused = kind === "focus"; outlined() })
  }
  scroll_to_root()
}

function tapped(x, y) {
  const node = at(x, y)
  if (node !== undefined) zoom(node)
  focus()
}

const describe = (node, what) => about[what](node)

function hear(event) {
  if (event === selection) select()
  else if (event.event_name !== undefined) tapped(event.x, event.y)
  else redraw()
}

put(controls, bar, switches, legend, what)
put(table, gone, top_table)
if (options.by_line) weigh()
else switch_tree(false)
attach(50)
export {state, redraw, select, search, zoom, reset, hear, describe}

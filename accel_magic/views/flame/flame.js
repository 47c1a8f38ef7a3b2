// Puts the parts of a flame graph into its page, and handles Bokeh's events.
//
// This script and those before it are the body of one function, which runs once: accel_magic/views/flame/flame.py joins
// them. Arguments: data, source (drawn frames), labels, outline (of the keyboard cursor's frame), plot, box (which
// scrolls the plot), controls and table (panes above and below it), selection (of the heatmap: column `cells`, empty for
// all; tags: the shown states, empty for all), options.

const graph = () => cb_context.index.find_one(plot)?.canvas_view.events_el

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
return {state, redraw, select, search, zoom, reset, hear, describe: (node, what) => about[what](node)}

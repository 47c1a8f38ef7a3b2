// Puts the parts of a flame graph into its page, and hears what Bokeh tells of it.
//
// This script and those before it are the body of one function, which runs once: accel_magic/views/flame/flame.py puts
// them together. They take: data, source (frames drawn), labels, outline (of the frame that keys move), plot, box (which
// scrolls the plot), controls and table (panes above and below it), selection (of the heatmap: column `cells`, none for
// all; tags: the states shown, none for all), options.

const graph = () => cb_context.index.find_one(plot)?.canvas_view.events_el

function put(pane, ...parts) {
  const [html] = pane.elements
  html.html = h("div", {}, ...parts)
  pane.elements = [html]
}

// Bokeh's view is needed for keys, and a name for those who do not see the graph.
function attach(tries) {
  const element = graph()
  if (!element) return tries && setTimeout(() => attach(tries - 1), 100)
  element.tabIndex = 0
  element.setAttribute("role", "application")
  element.setAttribute("aria-label", "Flame graph: arrow keys move among frames, Enter zooms, Backspace goes back, " +
    "Escape shows all, slash searches. The table below has the top frames.")
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
return {state, redraw, select, search, zoom, reset, hear, tell: (node, what) => about[what](node)}

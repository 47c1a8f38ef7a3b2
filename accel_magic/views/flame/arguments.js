// Arguments of the script. In a page, Bokeh passes them, and this module is left out: data (accel_magic/views/flame/page_data.py),
// source (drawn frames), labels, outline (of the keyboard cursor's frame), plot, box (which scrolls the plot), controls and
// table (panes above and below it), selection (of the heatmap: column `cells`, empty for all; tags: the shown states,
// empty for all), options (accel_magic/views/flame/bokeh_flame_graph.py), cb_context (Bokeh's).

export let data, source, labels, outline, plot, box, controls, table, selection, options, cb_context

// Sets them, in tests: before other modules are imported.
export function pass(page) {
  ({data, source, labels, outline, plot, box, controls, table, selection, options, cb_context} = page)
}

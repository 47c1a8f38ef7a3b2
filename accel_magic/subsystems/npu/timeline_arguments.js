// Arguments of the script. In a page, Bokeh passes them, and this module is left out: source (bars), arrows, labels (null
// if lanes are too low), plot, range, pane, jobs (their columns), links, texts (names, chains, who, kinds, colors),
// lane_px, table_rows, cb_context (Bokeh's).

export let source, arrows, labels, plot, range, pane, jobs, links, texts, lane_px, table_rows, cb_context

// Sets them, in tests: before other modules are imported.
export function pass(page) {
  ({source, arrows, labels, plot, range, pane, jobs, links, texts, lane_px, table_rows} = page)
}

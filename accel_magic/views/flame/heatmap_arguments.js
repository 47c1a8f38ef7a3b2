// Arguments of the script. In a page, Bokeh passes them, and this module is left out: plot, bar (of colors), pane (the line
// below), every, chosen (images), outline, cursor (lines), selection, grid (column: seconds, rows, columns), step (cells
// selected together), weights, samples (a row for each of states), scales (by the bits of the shown states: title, limits
// of the colors, ticks and labels of the bar), unit (of weights), units, untimed, cb_context (Bokeh's).

export let plot, bar, pane, every, chosen, outline, cursor, selection, grid, step, weights, samples, states, scales, unit,
  units, untimed, cb_context

// Sets them, in tests: before other modules are imported.
export function pass(page) {
  ({plot, bar, pane, every, chosen, outline, cursor, selection, grid, step, weights, samples, states, scales, unit,
    units, untimed, cb_context} = page)
}

// The current view of a flame graph and its weights. `entries`: of the whole profile; `within`: of the heatmap's
// selection.

import {data, options} from "./arguments.js"
import {
  entries_of, timed_of, selected, entries_within, tree_of_lines, tree_of_functions, own_of, totals_of, path_of
} from "./tree.js"

export const lines = tree_of_lines()
export const timed = data.timed === null ? null : timed_of(data.timed)
export const entries = data.entries === null ? entries_within(timed, selected(null)) : entries_of(data.entries)
export const baseline = data.baseline === null ? null : entries_of(data.baseline)
export const everything = options.states.map(() => true)
export const state = {tree: lines, by_line: true, states: [...everything], cells: null, within: entries, zoomed: 0, cursor: 0,
               focused: false, visited: [0], at: 0, text: "", trouble: "", matched: null, color: options.color,
               inverted: options.inverted, rows: options.rows, drawn: null, own: null, total: null, before: null,
               line_own: null, line_total: null, description: ""}
export let functions = null

export function weigh() {
  state.own = own_of(state.tree, state.within, state.states)
  state.total = totals_of(state.tree, state.own)
  state.before = baseline && totals_of(state.tree, own_of(state.tree, baseline, state.states))
}

// Weights by line, also if the view merges lines.
export function weigh_lines() {
  state.line_own ??= own_of(lines, state.within, state.states)
  state.line_total ??= totals_of(lines, state.line_own)
}

// The zoomed frame, or its nearest caller with weight in the selection.
export const shown = () => path_of(state.tree, state.zoomed).find((node) => state.total[node] > 0) ?? 0

export function tree_by(by_line) {
  functions ??= tree_of_functions(lines, (tree) => totals_of(tree, own_of(tree, entries, everything)))
  return by_line ? lines : functions
}

// What a flame graph shows at the moment, and what that weighs. `entries`: of all of the profile; `within`: of what is
// selected in the heatmap.

const lines = tree_of_lines()
const timed = data.timed === null ? null : timed_of(data.timed)
const entries = data.entries === null ? entries_within(timed, selected(null)) : entries_of(data.entries)
const baseline = data.baseline === null ? null : entries_of(data.baseline)
const everything = options.states.map(() => true)
const state = {tree: lines, by_line: true, states: [...everything], cells: null, within: entries, zoomed: 0, cursor: 0,
               focused: false, visited: [0], at: 0, text: "", trouble: "", matched: null, color: options.color,
               inverted: options.inverted, rows: options.rows, drawn: null, own: null, total: null, before: null,
               line_own: null, line_total: null, told: ""}
let functions = null

function weigh() {
  state.own = own_of(state.tree, state.within, state.states)
  state.total = totals_of(state.tree, state.own)
  state.before = baseline && totals_of(state.tree, own_of(state.tree, baseline, state.states))
}

// By line, also where lines are merged.
function weigh_lines() {
  state.line_own ??= own_of(lines, state.within, state.states)
  state.line_total ??= totals_of(lines, state.line_own)
}

// Of a frame that has nothing in the selection the nearest caller that has something is shown.
const shown = () => path_of(state.tree, state.zoomed).find((node) => state.total[node] > 0) ?? 0

function tree_by(by_line) {
  functions ??= tree_of_functions(lines, (tree) => totals_of(tree, own_of(tree, entries, everything)))
  return by_line ? lines : functions
}

// What the heatmap has selected, and the states that are switched on, are what counts from now on.
function select() {
  const cells = selection.data.cells ?? []
  state.cells = cells.length ? selected(Array.from(cells)) : null
  state.within = state.cells === null ? entries : entries_within(timed, state.cells)
  state.line_own = state.line_total = null
  weigh()
  redraw()
}

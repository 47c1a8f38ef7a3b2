// The tables below a flame graph: top frames, and frames that only the baseline has.

import {options} from "./arguments.js"
import {frames, label_of, top_frames} from "./tree.js"
import {h, several, amount, share} from "./words.js"
import {lines, state, weigh_lines} from "./state.js"
import {text_of} from "./drawing.js"

export const gone = h("details", {hidden: true})
export const top_table = h("details", {toggle: () => list_top()}, h("summary", {}, "Top frames as a table"))

function rows_of(heads, rows) {
  return h("table", {}, h("thead", {}, h("tr", {}, ...heads.map((text) => h("th", {scope: "col"}, text)))),
    h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((text) => h("td", {title: text}, text))))))
}

export function list_top() {
  if (!top_table.open) return
  weigh_lines()
  const sum = state.total[0]
  const rows = top_frames(lines, state.line_own, state.line_total, state.by_line, options.table_rows)
  top_table.querySelector("table")?.remove()
  top_table.append(rows_of(["frame", "own", "own share", "total", "total share", "kind"], rows.map(([frame, own, total]) =>
    [label_of(frame, state.by_line), amount(own), share(own, sum), amount(total), share(total, sum),
     options.kinds[frames.kind[frame]]])))
}

export function list_gone(before) {
  const {tree, total} = state, nodes = []
  for (let i = 1; i < tree.count; i++) {
    if (before[i] > 0 && total[i] === 0 && (total[tree.parent[i]] > 0 || tree.parent[i] === 0)) nodes.push(i)
  }
  nodes.sort((a, b) => before[b] - before[a])
  const sum = nodes.reduce((sum, node) => sum + before[node], 0)
  gone.hidden = nodes.length === 0 || state.cells !== null  // with a selection, it would list frames of other times
  gone.replaceChildren(
    h("summary", {}, `Only in the baseline: ${several(nodes.length, "call")}, ${share(sum, before[0])} of it`),
    rows_of(["frame", "called by", "in the baseline", "share of it"], nodes.slice(0, options.table_rows).map((node) =>
      [text_of(node), tree.parent[node] === 0 ? "" : text_of(tree.parent[node]), amount(before[node]),
       share(before[node], before[0])])))
}

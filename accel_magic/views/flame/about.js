// Descriptions of a frame: for the tooltip, the keyboard cursor and screen readers.

import {options} from "./arguments.js"
import {frames, name_of, file_of, path_of} from "./tree.js"
import {amount, share, cut} from "./words.js"
import {lines, baseline, state, weigh_lines, shown} from "./state.js"
import {change_of} from "./colors.js"
import {text_of} from "./drawing.js"

function line_of(node) {
  const {tree} = state, frame = tree.frame[node]
  if (tree.with_line || !frames.line[frame]) return frames.line[frame] ? `:${frames.line[frame]}` : ""
  weigh_lines()
  const sums = new Map(), total = state.line_total
  for (let i = 1; i < lines.count; i++) {
    if (tree.of[i] === node && total[i] > 0) {
      const line = frames.line[lines.frame[i]]
      sums.set(line, (sums.get(line) ?? 0) + total[i])
    }
  }
  const ranked = [...sums].sort((a, b) => b[1] - a[1])
  const named = ranked.slice(0, 4).map(([line, sum]) => `${line} (${share(sum, state.total[node])})`)
  return `, line${ranked.length > 1 ? "s" : ""} ${named.join(", ")}${ranked.length > 4 ? ", …" : ""}`
}

export const about = {
  name: (node) => node === 0 ? "all" : cut(name_of(state.tree.frame[node]) || text_of(node), 300),
  where: (node) => {
    const file = file_of(state.tree.frame[node])
    return file === "" ? "-" : cut(file, 120) + line_of(node)
  },
  kind: (node) => node === 0 ? "whole profile" : options.kinds[frames.kind[state.tree.frame[node]]],
  total: (node) => `${amount(state.total[node])}, ${share(state.total[node], state.total[0])} of all` +
    (path_of(state.tree, shown()).includes(node) ? "" : within(node)),
  own: (node) => state.own[node] === 0 ? "none"
    : `${amount(state.own[node])}, ${share(state.own[node], state.total[0])} of all`,
  before: (node) => {
    const {now, before} = change_of(node), points = Number((100 * (now - before)).toPrecision(3))
    return `was ${share(before, 1)} of all: ${points > 0 ? "+" : ""}${points} points` +
      (before > 0 ? `, ${Number((now / before).toPrecision(3))}x` : ", new")
  },
}

const within = (node) => shown() === 0 ? "" : `, ${share(state.total[node], state.total[shown()])} of the zoomed frame`
export const sentence = (node, most = 80) => `${cut(text_of(node), most)}: ${about.total(node)}; own ${about.own(node)}` +
  (baseline ? `; ${about.before(node)}` : "")

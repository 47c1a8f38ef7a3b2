// Colors of a flame graph's frames, and the legend.

import {options} from "./arguments.js"
import {frames, texts, own_of} from "./tree.js"
import {h, share, cut, rgb, mixed, WHITE} from "./words.js"
import {lines, entries, everything, state} from "./state.js"

const by_category = options.categories.map(([, color]) => rgb(color))
// Modules by own weight, the heaviest first.
const groups = (() => {
  const own = own_of(lines, entries, everything), sums = texts.groups.map(() => 0)
  for (let i = 1; i < lines.count; i++) sums[frames.group[lines.frame[i]]] += own[i]
  const ranked = sums.map((_, at) => at).filter((at) => texts.groups[at] !== options.no_module)
  return ranked.sort((a, b) => sums[b] - sums[a] || a - b)
})()
const by_group = texts.groups.map(() => rgb(options.rest))
groups.slice(0, options.module_colors.length).forEach((group, at) => { by_group[group] = rgb(options.module_colors[at]) })

export function change_of(node) {
  const now = state.total[node] / (state.total[0] || 1), before = state.before[node] / (state.before[0] || 1)
  return {now, before, relative: Math.abs(now - before) < options.same ? 0 : (now - before) / Math.max(now, before)}
}

const by_change = (relative) =>
  mixed(rgb(options.changes[1]), rgb(options.changes[relative > 0 ? 2 : 0]), Math.abs(relative) ** 0.75)

export function color_of(node) {
  const frame = state.tree.frame[node]
  if (state.color === "change") return by_change(node === 0 ? 0 : change_of(node).relative)
  const color = state.color === "kind" ? by_category[frames.category[frame]] : by_group[frames.group[frame]]
  // Vary the lightness by function, so that neighbors of one color can be distinguished.
  return mixed(color, WHITE, (Math.imul(frames.function[frame] + 1, 0x9E3779B1) >>> 24) / 255 * 0.22)
}

export function legend_items() {
  const item = (color, text) => h("span", {}, h("i", {style: `background:${color}`}), text)
  if (state.color === "change") {
    const [less, same, more] = options.changes
    return [item(more, "larger share than before"), item(less, "smaller share"), item(same, "same share")]
  }
  const column = state.color === "kind" ? frames.category : frames.group, sums = new Map(), present = new Set()
  for (let i = 1; i < state.tree.count; i++) {
    if (state.total[i] === 0) continue
    const code = column[state.tree.frame[i]]
    present.add(code)
    sums.set(code, (sums.get(code) ?? 0) + state.own[i])
  }
  const text = (name, sum) => sum > 0 ? `${name} ${share(sum, state.total[0])}` : name
  if (state.color === "kind") {
    return [...present].sort((a, b) => a - b).map((code) => {
      const [name, color] = options.categories[code]
      return item(color, text(name, sums.get(code)))
    })
  }
  const colored = groups.slice(0, options.module_colors.length)
  const rest = [...present].filter((code) => !colored.includes(code)).reduce((sum, code) => sum + (sums.get(code) ?? 0), 0)
  return [...colored.map((code, at) => [code, at]).filter(([code]) => present.has(code))
    .map(([code, at]) => item(options.module_colors[at], text(cut(texts.groups[code], 30), sums.get(code)))),
    item(options.rest, text("other", rest))]
}

// The computations of a flame graph: trees, weights, positions and matches. Draws nothing and does not access the page.
// A parent's number is smaller than its children's; 0 is the root.

import {data} from "./arguments.js"

export const frames = data.frames
export const texts = JSON.parse(new TextDecoder().decode(data.texts))
export const name_of = (frame) => texts.names[frames.name[frame]]
export const file_of = (frame) => texts.files[frames.file[frame]]

// The label that Python made, reassembled; without the line if frames that differ only in line are merged.
export function label_of(frame, with_line) {
  const tail = texts.tails[frames.tail[frame]]
  if (tail[0] === "\x01") return tail.slice(1)
  return name_of(frame) + (with_line ? tail.replace("\0", frames.line[frame]) : tail.replace(":\0", ""))
}

const unpacked = ({values, codes}) => codes === null ? values : Float64Array.from(codes, (code) => values[code])

// Running sum of the differences from one entry to the next.
function added(steps) {
  let at = 0
  return Int32Array.from(steps, (step) => at += step)
}

export const entries_of = ({node, state, weight}) => ({node: added(node), state, weight: unpacked(weight)})

export function timed_of({node, cell, state, weight, begun, ended}) {
  let at = 0
  const cells = Int32Array.from(cell, (step, i) => at = node[i] > 0 ? step : at + step)
  return {node: added(node), cell: cells, state, weight: unpacked(weight), begun, ended}
}

// The selected cells of `timed`, and the number of selected ns from a cell on. `cells`: those of the heatmap, which may
// be finer; null for all.
export function selected(cells) {
  const {column_ns, rows, columns, step} = data.grid, count = columns * rows
  const start = (cell) => Math.floor(cell / rows) * column_ns + Math.ceil((cell % rows) * column_ns / rows)
  const has = new Uint8Array(count).fill(cells === null ? 1 : 0), from = new Float64Array(count + 1)
  for (const cell of cells ?? []) has[Math.floor(cell / step)] = 1
  for (let i = count - 1; i >= 0; i--) from[i] = from[i + 1] + (has[i] ? start(i + 1) - start(i) : 0)
  return {has, from}
}

// The weights of `timed` in these cells (from `selected`).
export function entries_within({node, cell, state, weight, begun, ended}, {has, from}) {
  const part = Float64Array.from(weight, (all, i) => has[cell[i]] ? all : 0)
  if (begun !== null) {
    for (let i = 0; i < part.length; i++) part[i] += begun[i] * from[cell[i] + 1] - ended[i] * from[cell[i]]
  }
  return {node, state, weight: part}
}

// The tree with a node for each frame, line included, under its parent.
export function tree_of_lines() {
  const count = data.depth.length
  const parent = new Int32Array(count).fill(-1), above = new Int32Array(65536)
  for (let i = 1; i < count; i++) {
    parent[i] = above[data.depth[i] - 1]
    above[data.depth[i]] = i
  }
  const self = Int32Array.from({length: count}, (_, i) => i)
  return {count, parent, frame: data.frame, depth: data.depth, order: self, of: self, with_line: true}
}

// The tree in which siblings that differ only in line are one node, `of` each; siblings are sorted by `total`, descending.
export function tree_of_functions(lines, total_of) {
  const parent = [], frame = [], depth = [], known = new Map(), of = new Int32Array(lines.count)
  const functions = lines.count + 1
  for (let i = 0; i < lines.count; i++) {
    const up = i === 0 ? -1 : of[lines.parent[i]]
    const key = (up + 1) * functions + frames.function[lines.frame[i]]
    let node = known.get(key)
    if (node === undefined) {
      node = parent.length
      known.set(key, node)
      parent.push(up)
      frame.push(lines.frame[i])
      depth.push(up < 0 ? 0 : depth[up] + 1)
    }
    of[i] = node
  }
  const tree = {count: parent.length, parent: Int32Array.from(parent), frame, depth, of, with_line: false}
  const total = total_of(tree)
  tree.order = Int32Array.from(parent, (_, i) => i).sort((a, b) => depth[a] - depth[b] || total[b] - total[a] || a - b)
  return tree
}

// Weight of the stacks that end in each node. `states`: whether each state counts, by number.
export function own_of({count, of}, {node, state, weight}, states) {
  const own = new Float64Array(count)
  for (let i = 0; i < node.length; i++) if (states[state[i]]) own[of[node[i]]] += weight[i]
  return own
}

export function totals_of(tree, own) {
  const total = own.slice()
  for (let i = tree.count - 1; i > 0; i--) total[tree.parent[i]] += total[i]
  return total
}

// The node and its ancestors, the root last.
export function path_of(tree, node) {
  const path = []
  for (let i = node; i >= 0; i = tree.parent[i]) path.push(i)
  return path
}

// The frames to draw, with `zoomed` as wide as the plot: its ancestors above it, and its descendants with at least the
// share `least` of the width. Left and right edges from 0 to 1; rows from 0. `rows`: deeper frames are left out;
// `most_above`: if there are more ancestors, the outer ones are left out.
export function laid_out(tree, total, zoomed, least, rows, most_above) {
  const {count, parent, order} = tree
  const above = path_of(tree, zoomed).reverse()
  const skipped = Math.max(above.length - 1 - most_above, 0)
  const row = new Int32Array(count).fill(-1), next = new Float64Array(count)
  const node = above.slice(skipped), left = node.map(() => 0), right = node.map(() => 1), at = node.map((_, i) => i)
  const whole = total[zoomed], dimmed = at.length - 1
  let deeper = false, narrower = 0
  row[zoomed] = dimmed
  if (whole > 0) {
    for (let k = 0; k < count; k++) {
      const i = order[k], up = parent[i]
      if (up < 0 || row[up] < 0 || i === zoomed || total[i] === 0) continue
      const from = next[up]
      next[up] = from + total[i]
      if (total[i] < least * whole) { narrower++; continue }
      if (row[up] + 1 >= rows) { deeper = true; continue }
      row[i] = row[up] + 1
      next[i] = from
      node.push(i)
      left.push(from / whole)
      right.push((from + total[i]) / whole)
      at.push(row[i])
    }
  }
  return {node, left, right, row: at, dimmed, skipped, deeper, narrower}
}

// The frames that match a text in their label or file, ignoring case; /text/ is a regular expression.
function matcher(text) {
  const pattern = /^\/(.+)\/[a-z]*$/.exec(text)
  if (pattern) {
    const wanted = new RegExp(pattern[1], "i")
    return (label) => wanted.test(label)
  }
  const wanted = text.toLowerCase()
  return (label) => label.toLowerCase().includes(wanted)
}

export function matched_frames(text, with_line) {
  const finds = matcher(text)
  return Uint8Array.from(frames.name, (_, frame) =>
    frame > 0 && (finds(label_of(frame, with_line)) || finds(file_of(frame))) ? 1 : 0)
}

// Weight below `zoomed` of stacks with a match, each counted once even if several of its frames match; and the matches.
export function matched_weight(tree, total, zoomed, matched) {
  const covered = new Uint8Array(tree.count), inside = new Uint8Array(tree.count)
  let weight = 0, nodes = 0
  for (let i = 0; i < tree.count; i++) {
    const up = tree.parent[i], hit = matched[tree.frame[i]] === 1, over = up >= 0 && covered[up] === 1
    inside[i] = i === zoomed || (up >= 0 && inside[up]) ? 1 : 0
    covered[i] = over || hit ? 1 : 0
    if (!inside[i] || total[i] === 0) continue
    if (hit) nodes++
    if (covered[i] && (i === zoomed || !over)) weight += total[i]
  }
  return {weight, nodes}
}

// Frames by own weight, as [frame, own, total]; in `total` a stack counts once even if it has the frame several times.
// `by_line`: whether frames that differ only in line are separate.
export function top_frames(lines, own, total, by_line, most) {
  const key_of = by_line ? (frame) => frame : (frame) => frames.function[frame]
  const sums = new Map(), stack = [], active = new Map()
  for (let i = 1; i < lines.count; i++) {
    while (stack.length >= lines.depth[i]) {
      const left = stack.pop()
      active.set(left, active.get(left) - 1)
    }
    const frame = lines.frame[i], key = key_of(frame), times = active.get(key) ?? 0
    stack.push(key)
    active.set(key, times + 1)
    if (total[i] === 0) continue
    const sum = sums.get(key) ?? [frame, 0, 0]
    sum[1] += own[i]
    if (times === 0) sum[2] += total[i]
    sums.set(key, sum)
  }
  return [...sums.values()].sort((a, b) => b[1] - a[1] || b[2] - a[2]).slice(0, most)
}

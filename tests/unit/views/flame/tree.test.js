// The computations of a flame graph, on a profile whose every weight is known.

import assert from "node:assert/strict"
import {test} from "node:test"

import {pass} from "../../../../accel_magic/views/flame/arguments.js"
import {ALL, IDLE, MAIN, RECURSIVE, WORK_10, WORK_20, page} from "./page.js"

const ON_CPU = [true, false], BOTH = [true, true]
pass(page())
const tree = await import("../../../../accel_magic/views/flame/tree.js")
const {lines, entries} = await import("../../../../accel_magic/views/flame/state.js")
const total_of = (made, states = ON_CPU) => tree.totals_of(made, tree.own_of(made, entries, states))
const functions = tree.tree_of_functions(lines, total_of)
const of_line = total_of(lines)

test("a label has the line of its frame unless frames that differ only in line are merged", () => {
  assert.deepEqual([0, 1, 3, 4].map((frame) => tree.label_of(frame, true)), ["all", "main (app.py:1)", "work (app.py:20)", "idle"])
  assert.deepEqual([0, 1, 3, 4].map((frame) => tree.label_of(frame, false)), ["all", "main (app.py)", "work (app.py)", "idle"])
})

test("packed weights are looked up by their codes", () => {
  const {weight} = tree.entries_of({node: [1, 1], state: [0, 0], weight: {values: [5, 7], codes: [1, 0]}})

  assert.deepEqual([...weight], [7, 5])
})

test("a frame's total is its own weight and that of its callees", () => {
  assert.deepEqual([...tree.own_of(lines, entries, ON_CPU)], [0, 1, 20, 30, 4, 45])
  assert.deepEqual([...of_line], [100, 55, 20, 34, 4, 45])
})

test("weights are of the shown states", () => {
  assert.equal(total_of(lines, BOTH)[IDLE], 145)
  assert.equal(total_of(lines, [false, true])[MAIN], 0)
})

test("merging lines makes one node of siblings and keeps the sum", () => {
  const merged = functions.of[WORK_10], total = total_of(functions)

  assert.equal(functions.count, lines.count - 1)
  assert.equal(functions.of[WORK_20], merged)
  assert.equal(total[merged], 54)
  assert.notEqual(functions.of[RECURSIVE], merged)
  assert.equal(total[0], of_line[0])
})

test("siblings of merged lines are in the order of their weights, after their parent", () => {
  const at = (node) => functions.order.indexOf(functions.of[node])

  assert.ok(at(ALL) < at(MAIN))
  assert.ok(at(MAIN) < at(IDLE)) // 55 and 45
  assert.ok(at(IDLE) < at(WORK_10)) // a row deeper
})

test("a path starts at the node and ends at the root", () => {
  assert.deepEqual(tree.path_of(lines, RECURSIVE), [RECURSIVE, WORK_20, MAIN, ALL])
})

test("frames are as wide as their share of the zoomed frame, below their callers", () => {
  const drawn = tree.laid_out(lines, of_line, ALL, 0, 10, 10)
  const of = (node) => { const k = drawn.node.indexOf(node); return [drawn.left[k], drawn.right[k], drawn.row[k]] }

  assert.deepEqual(of(ALL), [0, 1, 0])
  assert.deepEqual(of(MAIN), [0, 0.55, 1])
  assert.deepEqual(of(IDLE), [0.55, 1, 1])
  assert.deepEqual(of(WORK_20), [0.2, 0.54, 2])
  assert.deepEqual(of(RECURSIVE), [0.2, 0.24, 3])
})

test("a zoomed frame is as wide as the plot, below its callers, and others are not drawn", () => {
  const drawn = tree.laid_out(lines, of_line, WORK_20, 0, 10, 10)

  assert.deepEqual(drawn.node, [ALL, MAIN, WORK_20, RECURSIVE])
  assert.deepEqual(drawn.right.slice(0, 3), [1, 1, 1])
  assert.equal(drawn.dimmed, 2)
  assert.equal(drawn.right[3], 4 / 34)
})

test("narrow, deep and outer frames are left out and counted", () => {
  assert.equal(tree.laid_out(lines, of_line, ALL, 0.1, 10, 10).narrower, 1)
  assert.deepEqual(tree.laid_out(lines, of_line, ALL, 0, 2, 10).node, [ALL, MAIN, IDLE])
  assert.equal(tree.laid_out(lines, of_line, ALL, 0, 2, 10).deeper, true)
  assert.equal(tree.laid_out(lines, of_line, RECURSIVE, 0, 10, 1).skipped, 2)
})

test("a search finds labels and files, ignoring case; between slashes it is a regular expression", () => {
  assert.deepEqual([...tree.matched_frames("WORK", true)], [0, 0, 1, 1, 0])
  assert.deepEqual([...tree.matched_frames("/a/app", true)], [0, 1, 1, 1, 0])
  assert.deepEqual([...tree.matched_frames("/^(main|idle)/", true)], [0, 1, 0, 0, 1])
  assert.deepEqual([...tree.matched_frames(":20", false)], [0, 0, 0, 0, 0])
  assert.throws(() => tree.matched_frames("/(/", true), SyntaxError)
})

test("the weight of matches counts each stack once", () => {
  const work = tree.matched_frames("work", true)

  assert.deepEqual(tree.matched_weight(lines, of_line, ALL, work), {weight: 54, nodes: 3})
  assert.deepEqual(tree.matched_weight(lines, of_line, WORK_20, work), {weight: 34, nodes: 2})
  assert.deepEqual(tree.matched_weight(lines, of_line, IDLE, work), {weight: 0, nodes: 0})
})

test("the top frames count a recursive stack once", () => {
  const own = tree.own_of(lines, entries, ON_CPU)

  assert.deepEqual(tree.top_frames(lines, own, of_line, false, 2), [[2, 54, 54], [4, 45, 45]])
  assert.deepEqual(tree.top_frames(lines, own, of_line, true, 9), [[4, 45, 45], [3, 30, 34], [2, 24, 24], [1, 1, 55]])
})

// The cells of a heatmap: two columns of a second, four rows each, selected two at a time.

import assert from "node:assert/strict"
import {test} from "node:test"

import {pass} from "../../../../accel_magic/views/flame/heatmap_arguments.js"

const DURATIONS = [[1, "ns"], [1e3, "us"], [1e6, "ms"], [1e9, "s"]]
const selection = {tags: [], data: {cells: []}}
pass({
  selection, grid: {column: 1, rows: 4, columns: 2}, step: 2, states: [0, 2],
  weights: [[1e6, 2e6, 0, 0, 0, 0, 0, 5e6], [0, 0, 0, 0, 2e6, 0, 0, 0]],
  samples: [[1, 2, 0, 0, 0, 0, 0, 5], [0, 0, 0, 0, 2, 0, 0, 0]],
  unit: "ns", units: {weight: DURATIONS, time: DURATIONS}, untimed: 3,
})
const cells = await import("../../../../accel_magic/views/flame/heatmap_cells.js")
cells.sum_states()

test("a position is in the cell of its column and row, and at the edge if it is beyond", () => {
  assert.equal(cells.cell_at(1.3, 0.6), 6)
  assert.equal(cells.cell_at(-5, 0.1), 0)
  assert.equal(cells.cell_at(99, 99), 7)
})

test("a range has all cells in order of time, in whole steps", () => {
  assert.deepEqual(cells.between(1, 4, false), [0, 1, 2, 3, 4, 5])
  assert.deepEqual(cells.between(4, 1, false), cells.between(1, 4, false))
})

test("a block has the same rows of each column", () => {
  assert.deepEqual(cells.between(2, 7, true), [2, 3, 6, 7])
})

test("the outline of a range surrounds its first and last cells", () => {
  assert.deepEqual(cells.edge([2, 3], false), {x: [0, 0, 1, 1, 0], y: [0.5, 1, 1, 0.5, 0.5]})
  assert.deepEqual(cells.edge([2, 3, 4, 5], false).x, [0, 0, 1, 1, 2, 2, 1, 1, 0])
  assert.deepEqual(cells.edge([], false), {x: [], y: []})
})

test("weights are sums of the shown states, and are summed again only if these change", () => {
  assert.deepEqual([...cells.state.weight], [1e6, 2e6, 0, 0, 2e6, 0, 0, 5e6])
  assert.equal(cells.sum_states(), false)
  selection.tags = [2]
  assert.equal(cells.sum_states(), true)
  assert.deepEqual([...cells.state.samples], [0, 0, 0, 0, 2, 0, 0, 0])
  selection.tags = []
  cells.sum_states()
})

test("a selection is described by its times, weight and share", () => {
  const text = cells.description([0, 1])

  assert.match(text, /Selected: 0\.0 s to 0\.5 s<\/b> \(500 ms\)/)
  assert.match(text, /3 ms, 30 % of 10 ms, in 3 samples/)
  assert.match(text, /Not shown: 3 samples without a time/)
  assert.match(cells.description([2, 3, 6, 7]), /a block of 1 s/)
})

test("without a selection the description says how to select, and in which steps", () => {
  assert.match(cells.description([]), /drag: .*In steps of 500 ms/)
})

test("amounts are those of Python: three digits, minutes from 100 seconds on", () => {
  assert.deepEqual([0, 999, 1500, 99.9e9, 100e9, 3725e9].map((value) => cells.amount(value, DURATIONS)),
    ["0 ns", "999 ns", "1.5 us", "99.9 s", "1 min 40 s", "1 h 2 min"])
})

test("times from 100 seconds on are in minutes, with the digits that distinguish two cells", () => {
  assert.equal(cells.at_time(1.25), "1.3 s")
  assert.equal(cells.at_time(3725.5), "1 h 2 min 5.5 s")
})

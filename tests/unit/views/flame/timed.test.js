// The weights of a flame graph in selected cells of the heatmap.

import assert from "node:assert/strict"
import {test} from "node:test"

import {pass} from "../../../../accel_magic/views/flame/arguments.js"
import {IDLE, MAIN, page} from "./page.js"

// Two columns of two cells of 500 ns; a heatmap with cells of half that. Samples of `main` in cells 0, 1 and 3; one wait in
// `idle`, from 700 ns to 1600 ns: `begun` and `ended` count waits that begin and end in a cell.
const timed = {
  node: Int8Array.from([MAIN, 0, 0, IDLE - MAIN, 0]), cell: Int8Array.from([0, 1, 2, 1, 2]),
  state: Uint8Array.from([0, 0, 0, 1, 1]), weight: {values: Float64Array.from([10, 20, 40, 300, 100]), codes: null},
  begun: Int8Array.from([0, 0, 0, 1, 0]), ended: Int8Array.from([0, 0, 0, 0, 1]),
}
const grid = {column_ns: 1000, rows: 2, columns: 2, step: 2, folded: 0}
pass(page({timed, grid, entries: null, baseline: null}))
const {entries_within, own_of, selected} = await import("../../../../accel_magic/views/flame/tree.js")
const {entries, lines, timed: unpacked} = await import("../../../../accel_magic/views/flame/state.js")

test("numbers of nodes and cells are sums of the stored differences", () => {
  assert.deepEqual([...unpacked.node], [MAIN, MAIN, MAIN, IDLE, IDLE])
  assert.deepEqual([...unpacked.cell], [0, 1, 3, 1, 3])
})

test("the selected time of all later cells is known at each", () => {
  assert.deepEqual([...selected(null).from], [2000, 1500, 1000, 500, 0])
  assert.deepEqual([...selected([2, 3, 6]).from], [1000, 1000, 500, 500, 0])
})

test("samples count in the cells that are selected", () => {
  const main = (cells) => own_of(lines, entries_within(unpacked, selected(cells)), [true, false])[MAIN]

  assert.equal(main(null), 70)
  assert.equal(main([0, 1]), 10)
  assert.equal(main([2, 7]), 60)
})

test("a wait counts in the cells that it passes through", () => {
  const idle = (cells) => own_of(lines, entries_within(unpacked, selected(cells)), [false, true])[IDLE]

  assert.equal(idle([0]), 0)
  assert.equal(idle([2]), 300) // its rest of the cell in which it begins
  assert.equal(idle([4]), 500) // a cell in between
  assert.equal(idle([6]), 100) // until its end
  assert.equal(idle(null), 900)
})

test("without other entries the whole profile is that of all cells", () => {
  assert.deepEqual([...entries.weight.slice(0, 3)], [10, 20, 40])
})

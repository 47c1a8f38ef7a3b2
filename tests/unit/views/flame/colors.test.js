// The colors of a flame graph's frames.

import assert from "node:assert/strict"
import {test} from "node:test"

import {pass} from "../../../../accel_magic/views/flame/arguments.js"
import {IDLE, MAIN, WORK_10, WORK_20, page} from "./page.js"

pass(page())
const {state, weigh} = await import("../../../../accel_magic/views/flame/state.js")
const {change_of, color_of} = await import("../../../../accel_magic/views/flame/colors.js")
state.states = [true, false]
weigh()

const color = (by, node) => {
  state.color = by
  return color_of(node)
}

test("a change compares shares of the total, not weights", () => {
  const {now, before, relative} = change_of(WORK_10)

  assert.deepEqual([now, before], [0.2, 0.6])
  assert.ok(Math.abs(relative - (0.2 - 0.6) / 0.6) < 1e-12)
  assert.equal(change_of(WORK_20).relative, 1) // new
})

test("frames are red if their share grew and blue if it shrank", () => {
  const [more, , blue] = color("change", WORK_20), [red, , less] = color("change", WORK_10)

  assert.deepEqual([more, blue], [255, 0])
  assert.ok(less > red)
  assert.deepEqual(color("change", 0), [255, 255, 255])
})

test("colors by kind and by module are lighter or equal to those given", () => {
  const [red, green, blue] = color("kind", MAIN)

  assert.equal(red, 255)
  assert.ok(green === blue && green < 128)
  assert.equal(color("kind", IDLE)[2], 255)
  assert.equal(color("module", MAIN)[1], 255)
  assert.ok(color("module", IDLE).every((part) => part >= 128))
})

test("frames of one function have one color", () => {
  assert.deepEqual(color("kind", WORK_10), color("kind", WORK_20))
})

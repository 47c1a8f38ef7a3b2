// The steps of a timeline: their texts, which one is under the pointer, and which belong together.

import assert from "node:assert/strict"
import {test} from "node:test"

import {pass} from "../../../../accel_magic/subsystems/npu/timeline_arguments.js"

const bars = {  // milliseconds; two lanes of 10 pixels; step 3 is 40 steps drawn as one, step 4 is a job
  left: [0, 10, 20, 30, 12], width: [5, 5, 0.001, 5, 8], lane: [0, 0, 0, 0, 1], layer: [0, 1, 1, 1, 2],
  kind: [0, 1, 1, 1, 2], name: [0, 1, 1, 1, 0], steps: [1, 1, 1, 40, 1], calls: [1, 3, 1, 1, 1],
  job: [-1, 7, 7, -1, 7], root: [2, 2, 2, -1, 2],
}
pass({
  source: {data: bars}, plot: {inner_width: 1000}, range: {start: 0, end: 1000}, lane_px: 10,
  texts: {names: ["infer", "<submit>"], who: ["python (7)"], kinds: ["program", "driver", "NPU"]},
})
const steps = await import("../../../../accel_magic/subsystems/npu/timeline_steps.js")

test("a step is found under the pointer and up to four pixels beside it", () => {
  assert.equal(steps.picked(12, 5), 1)
  assert.equal(steps.picked(22, 5), 2) // one of a microsecond
  assert.equal(steps.picked(26.5, 5), 3) // nearer than that before it
  assert.equal(steps.picked(12, 15), 4)
})

test("no step is found elsewhere", () => {
  assert.equal(steps.picked(500, 5), -1)
  assert.equal(steps.picked(2, 15), -1)
})

test("related steps are those of the job, without one those of the same call, else the step alone", () => {
  assert.deepEqual(steps.related(1), [1, 2, 4])
  assert.deepEqual(steps.related(0), [0, 1, 2, 4])
  assert.deepEqual(steps.related(3), [3])
  assert.deepEqual(steps.related(-1), [])
})

test("a bar is named by its step, the number of calls, its job, or what it summarizes", () => {
  assert.deepEqual([0, 1, 3, 4].map(steps.name_of), ["infer", "<submit> x 3", "40 steps, the first: <submit>", "job 7"])
})

test("keys go to the neighbors in a lane, and to the nearest step of the next lane", () => {
  assert.equal(steps.first(), 0)
  assert.deepEqual([steps.beside(0, 1), steps.beside(1, -1), steps.beside(0, -1), steps.beside(3, 1)], [1, 0, 0, 3])
  assert.deepEqual([steps.across(0, 1), steps.across(4, -1), steps.across(4, 1), steps.across(0, -1)], [4, 1, 4, 0])
})

test("durations have three digits", () => {
  assert.deepEqual([0.0015, 1.23456, 999.6, NaN].map((value) => steps.duration(value)), ["1.5 us", "1.23 ms", "1 s", "-"])
})

test("names in tables are escaped, and rows that are left out are counted", () => {
  const html = steps.table(["layer"], [["<submit>"]], 1200)

  assert.match(html, /&lt;submit&gt;/)
  assert.doesNotMatch(html, /<submit>/)
  assert.match(html, /and 1,200 more/)
})

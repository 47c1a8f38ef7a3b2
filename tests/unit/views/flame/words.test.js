// Numbers, texts and colors of a flame graph's page.

import assert from "node:assert/strict"
import {test} from "node:test"

import {pass} from "../../../../accel_magic/views/flame/arguments.js"
import {page} from "./page.js"

const given = page()
pass(given)
const words = await import("../../../../accel_magic/views/flame/words.js")

const amounts = (unit, ...values) => {
  given.options.unit = unit
  return values.map(words.amount)
}

test("durations have three digits, and minutes from 100 seconds on", () => {
  assert.deepEqual(amounts("ns", 0, 999, 1500, 2e6, 99.9e9, 100e9, 3725e9),
    ["0 ns", "999 ns", "1.5 us", "2 ms", "99.9 s", "1 min 40 s", "1 h 2 min"])
})

test("a value that rounds up to the next unit is shown in it", () => {
  assert.deepEqual(amounts("ns", 999.6e6), ["1 s"])
})

test("sizes are in powers of 1024, and other units are counted", () => {
  assert.deepEqual(amounts("bytes", 512, 1536, 3 * 2 ** 30), ["512 B", "1.5 KiB", "3 GiB"])
  assert.deepEqual(amounts("samples", 1, 1234567), ["1 sample", "1,234,567 samples"])
})

test("a share of nothing is a dash", () => {
  assert.equal(words.share(1, 3), "33.3 %")
  assert.equal(words.share(0, 0), "-")
})

test("a long text is cut in the middle", () => {
  assert.equal(words.cut("abcdefghijklmnop", 10), "abcdef…mnop")
  assert.equal(words.cut("abc", 3), "abc")
})

test("colors are numbers with full opacity", () => {
  assert.deepEqual(words.rgb("#ff8000"), [255, 128, 0])
  assert.equal(words.packed([255, 128, 0]), 0xff8000ff)
  assert.equal(words.hex(0x00800aff), "#00800a")
  assert.deepEqual(words.mixed([0, 0, 0], [255, 255, 255], 0.5), [128, 128, 128])
})

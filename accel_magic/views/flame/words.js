// Formats numbers, colors and elements of a flame graph's page.

import {options} from "./arguments.js"

export const h = (tag, attributes, ...children) => {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value)
    else if (value === true) element.setAttribute(name, "")
    else if (value !== false) element.setAttribute(name, value)
  }
  element.append(...children)
  return element
}
export const counted = (number) => number.toLocaleString("en")
export const several = (number, noun) => `${counted(number)} ${noun}${number === 1 ? "" : "s"}`
const scaled = (value, units) => {
  const [size, unit] = units.find(([size]) => Math.abs(value) >= size * 0.9995) ?? units.at(-1)
  return `${Number((value / size).toPrecision(3))} ${unit}`
}
const DURATIONS = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]]
const SIZES = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]]
// From 100 s on in minutes, as Python's format.py writes it.
const duration = (ns) => {
  const seconds = Math.round(ns / 1e9), minutes = Math.floor(seconds / 60)
  if (ns < 99.95e9) return scaled(ns, DURATIONS)
  return seconds < 3600 ? `${minutes} min ${seconds % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}
export const amount = (value) => options.unit === "ns" ? duration(value) : options.unit === "bytes" ? scaled(value, SIZES)
  : several(value, options.unit.slice(0, -1))
export const share = (part, whole) => whole > 0 ? `${Number((100 * part / whole).toPrecision(3))} %` : "-"
export const cut = (text, most) => text.length <= most ? text : `${text.slice(0, most * 0.6)}…${text.slice(-most * 0.4)}`

// Colors are numbers, 0xRRGGBBAA, as Bokeh expects.
export const rgb = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16))
export const mixed = (a, b, part) => a.map((value, at) => Math.round(value + (b[at] - value) * part))
export const hex = (number) => `#${(number >>> 8).toString(16).padStart(6, "0")}`
export const packed = ([r, g, b]) => ((r << 24) | (g << 16) | (b << 8) | 255) >>> 0
export const WHITE = [255, 255, 255], FADED = rgb(options.faded)

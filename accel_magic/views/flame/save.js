// Saves a flame graph as SVG as it is drawn; each frame's tooltip becomes its title.

import {source, labels, plot, options} from "./arguments.js"
import {h, hex} from "./words.js"
import {state} from "./state.js"
import {text_width} from "./drawing.js"
import {sentence} from "./about.js"
import {legend} from "./controls.js"

const LINE_PX = 18, EDGE_PX = 10

// Replaces characters that are not allowed in XML, such as control characters in a name.
const xml = (text) => text.replace(/[^\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, "\ufffd")

function svg_part(name, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name)
  for (const [key, value] of Object.entries(attributes)) {
    element.setAttribute(key, typeof value === "number" ? Number(value.toFixed(2)) : value)
  }
  element.append(...children.map((child) => typeof child === "string" ? xml(child) : child))
  return element
}
const svg_text = (x, y, text, more = {}) => svg_part("text", {x, y, "dominant-baseline": "central", ...more}, text)

// Banners, title and the description of the view, a line each.
function svg_head() {
  const lines = [...options.banners, ...(options.title ? [options.title] : []), state.description]
  return lines.map((text, i) => svg_text(0, (i + 0.5) * LINE_PX, text,
    i < options.banners.length ? {"font-weight": "bold", fill: "#b35900"} : {}))
}

function svg_frames(width, above, rows) {
  const {left, right, color, node} = source.data, {x, y, text} = labels.data, height = options.row_px
  const top = (row) => above + (state.inverted ? row : rows - 1 - row) * height
  const boxes = Array.from(node, (one, k) => svg_part("rect",
    {x: left[k] * width, y: top(state.drawn.row[k]) + 0.5, width: Math.max((right[k] - left[k]) * width, 0.1),
     height: height - 1, fill: hex(color[k])}, svg_part("title", {}, sentence(one, Infinity))))
  const names = text.map((name, i) =>
    svg_text(x[i] * width + 4, top(Math.floor(y[i])) + height / 2, name, {"pointer-events": "none"}))
  return [...boxes, ...names]
}

// The legend in lines, starting at `y`, and where it ends.
function svg_legend(width, y) {
  const parts = []
  let x = 0
  for (const item of legend.children) {
    const long = 16 + text_width(item.textContent)
    if (x > 0 && x + long > width) { x = 0; y += LINE_PX }
    parts.push(svg_part("rect", {x, y: y - 5.5, width: 11, height: 11, fill: item.firstChild.style.backgroundColor}),
      svg_text(x + 16, y, item.textContent))
    x += long + 16
  }
  return [parts, y + LINE_PX / 2]
}

function svg() {
  const width = Math.max(plot.inner_width, 300), head = svg_head(), above = head.length * LINE_PX + 8
  const rows = state.drawn.row.reduce((most, row) => Math.max(most, row + 1), 1), below = above + rows * options.row_px
  const [legends, end] = svg_legend(width, below + LINE_PX)
  const size = {width: width + 2 * EDGE_PX, height: end + 2 * EDGE_PX}
  return svg_part("svg", {
    ...size, xmlns: "http://www.w3.org/2000/svg", viewBox: `${-EDGE_PX} ${-EDGE_PX} ${size.width} ${size.height}`,
    "font-family": options.font, "font-size": options.font_size, fill: options.ink,
  }, svg_part("rect", {x: -EDGE_PX, y: -EDGE_PX, ...size, fill: "#ffffff"}), ...head, ...svg_frames(width, above, rows),
    ...legends)
}

export function save() {
  const text = new XMLSerializer().serializeToString(svg())
  const url = URL.createObjectURL(new Blob([text], {type: "image/svg+xml"}))
  h("a", {href: url, download: "flame.svg"}).click()
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}

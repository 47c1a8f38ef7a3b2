// Saves a flame graph as it is drawn, as SVG: what a pointer is told of a frame is its title, as viewers show it.

const SVG_HEAD = 18, SVG_EDGE = 10

function svg() {
  const {left, right, top, color, node} = source.data, width = Math.max(Math.round(plot.inner_width), 300)
  const heads = [...options.banners, ...(options.title ? [options.title] : []), what.textContent]
  const rows = state.drawn.row.reduce((most, row) => Math.max(most, row + 1), 1), above = heads.length * SVG_HEAD + 8
  const px = options.row_px, place = (row) => above + (state.inverted ? row : rows - 1 - row) * px
  const part = (name, attributes, ...children) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name)
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value)
    element.append(...children)
    return element
  }
  const at = (number) => Number(number.toFixed(2))
  const written = (x, y, text, more = {}) => part("text", {x: at(x), y: at(y), "dominant-baseline": "central", ...more}, text)
  const boxes = Array.from(node, (one, k) => part("rect", {
    x: at(left[k] * width), y: place(state.drawn.row[k]) + 0.5, width: at(Math.max((right[k] - left[k]) * width, 0.1)),
    height: px - 1, fill: hex(color[k])}, part("title", {}, sentence(one, Infinity))))
  const texts = labels.data.text.map((text, i) =>
    written(labels.data.x[i] * width + 4, place(Math.floor(labels.data.y[i])) + px / 2, text, {"pointer-events": "none"}))
  const words = heads.map((text, i) => written(0, i * SVG_HEAD + SVG_HEAD / 2, text,
    i < options.banners.length ? {"font-weight": "bold", fill: "#b35900"} : {}))
  const legends = [], last = above + rows * px + SVG_HEAD
  let x = 0, y = last
  for (const item of legend.children) {
    const long = 17 + text_width(item.textContent)
    if (x > 0 && x + long > width) { x = 0; y += SVG_HEAD }
    legends.push(part("rect", {x: at(x), y: y - 5.5, width: 11, height: 11, fill: item.firstChild.style.backgroundColor}),
      written(x + 16, y, item.textContent))
    x += long + 14
  }
  const [w, h] = [width + 2 * SVG_EDGE, y + SVG_HEAD / 2 + 2 * SVG_EDGE]
  return part("svg", {xmlns: "http://www.w3.org/2000/svg", viewBox: `${-SVG_EDGE} ${-SVG_EDGE} ${w} ${h}`, width: w,
    height: h, "font-family": options.font, "font-size": options.font_size, fill: options.ink},
    part("rect", {x: -SVG_EDGE, y: -SVG_EDGE, width: w, height: h, fill: "#ffffff"}), ...words, ...boxes, ...texts,
    ...legends)
}

function save() {
  const text = new XMLSerializer().serializeToString(svg())
  const url = URL.createObjectURL(new Blob([text], {type: "image/svg+xml"}))
  h("a", {href: url, download: "flame.svg"}).click()
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}

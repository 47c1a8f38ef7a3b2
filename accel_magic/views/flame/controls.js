// The controls above a flame graph, and the text next to them.

import {data, selection, options} from "./arguments.js"
import {frames, matched_weight} from "./tree.js"
import {h, counted, several, share, cut} from "./words.js"
import {baseline, state, shown} from "./state.js"
import {legend_items} from "./colors.js"
import {text_of, redraw, resize, scroll_to_root} from "./drawing.js"
import {about} from "./about.js"
import {step, reset, search, switch_tree, to_widest_match, focus, select} from "./moves.js"
import {save} from "./save.js"
import {list_top, list_gone} from "./tables.js"

export const search_box = h("input", {type: "search", placeholder: "Search: text or /regex/", "aria-label": "Search frames",
  spellcheck: "false", input: () => search(search_box.value), keydown: (event) => {
    event.stopPropagation()
    if (event.key === "Enter") to_widest_match()
    if (event.key === "Escape") { search_box.value = ""; search(""); focus() }
  }})
const found = h("output", {class: "found"})
const button = (text, title, click) => h("button", {type: "button", title, click}, text)
const back = button("Back", "previous view (Backspace)", () => step(-1))
const forward = button("Forward", "next view (Shift + Backspace)", () => step(1))
const all = button("Reset", "show all frames, clear the search (Escape)", reset)
const saved = button("Save", "save the drawing as an SVG file", save)
const choice = (text, names, chosen, changed) => h("label", {}, `${text} `, h("select",
  {change: (event) => changed(event.target.value)},
  ...Object.entries(names).map(([value, name]) => h("option", {value, selected: value === chosen}, name))))
const shown_states = options.states.map((name, code) => name === "" ? null
  : h("button", {type: "button", class: "state", "aria-pressed": "true", title: `show or hide: ${name}`,
                 click: () => flip(code)}, name))

function flip(code) {
  state.states[code] = !state.states[code]
  shown_states[code].setAttribute("aria-pressed", String(state.states[code]))
  const present = options.states.map((_, code) => code).filter((code) => options.states[code] !== "")
  const on = present.filter((code) => state.states[code])
  // The heatmap reads the states to show: [] means all, and a code of no state means none.
  selection.tags = on.length === present.length ? [] : on.length ? on : [-1]
  select()
}
const several_lines = new Set(Array.from(frames.function)).size < frames.function.length
const some_states = shown_states.filter((state) => state !== null)
const colors = {kind: "by kind", module: "by module", ...(baseline ? {change: "by change"} : {})}
export const bar = h("div", {class: "bar"}, search_box, found,
  h("span", {class: "moves"}, back, forward, all, saved))
export const switches = h("div", {class: "bar"},
  ...(some_states.length > 1 ? [h("span", {role: "group", "aria-label": "Shown states"}, ...some_states)] : []),
  choice("colors", colors, state.color, (value) => { state.color = value; redraw() }),
  ...(several_lines ? [choice("frame per", {line: "line", function: "function"}, options.by_line ? "line" : "function",
                              (value) => switch_tree(value === "line"))] : []),
  choice("root", {top: "at the top (icicle)", bottom: "at the bottom (flame)"}, state.inverted ? "top" : "bottom",
         (value) => { state.inverted = value === "top"; resize(state.rows); scroll_to_root() }))
export const legend = h("div", {class: "legend"})
export const what = h("div", {class: "shown", "aria-live": "polite"})

export function describe_view() {
  const {total, before, drawn, tree} = state, zoomed = shown()
  back.disabled = state.at === 0
  forward.disabled = state.at === state.visited.length - 1
  const where = zoomed === 0 ? "all" : cut(text_of(zoomed), 60)
  if (state.matched !== null) {
    const {weight, nodes} = matched_weight(tree, total, zoomed, state.matched)
    found.textContent = `${share(weight, total[zoomed])} of ${where} (${several(nodes, "frame")})`
  } else {
    found.textContent = state.trouble
  }
  found.title = found.textContent
  const name = zoomed === 0 ? "" : `${where}: `
  const parts = [total[0] === 0 ? "nothing in the selection" : name + about.total(zoomed)]
  if (state.cells !== null) {
    parts.push(`in the selected time only${baseline ? ", compared with the whole baseline" : ""}`)
    if (data.grid.folded) parts.push(`${several(data.grid.folded, "light frame")} merged into their callers`)
  }
  if (drawn.narrower) parts.push(`${counted(drawn.narrower)} narrower than half a pixel: zoom in`)
  if (drawn.deeper) parts.push("deeper frames not drawn: zoom in")
  if (drawn.skipped) parts.push(`${counted(drawn.skipped)} outer callers not drawn`)
  if (options.folded) parts.push(`${counted(options.folded)} of the lightest frames merged into their callers`)
  what.textContent = state.description = parts.join("; ")
  legend.replaceChildren(...legend_items())
  if (baseline) list_gone(before)
  list_top()
}

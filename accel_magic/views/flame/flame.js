// What a flame graph does in the browser: one function body for all of its events, with nothing fetched from anywhere.
// It follows tree.js and words.js, and takes: data, source (frames drawn), labels, outline (of the frame that keys move),
// plot, box (which scrolls the plot), controls and table (panes above and below it), selection (of the heatmap: column
// `cells`, none for all; tags: the states shown, none for all), options.

function start() {
  const lines = tree_of_lines(), entries = entries_of(data.entries)
  const baseline = data.baseline === null ? null : entries_of(data.baseline)
  const everything = options.states.map(() => true)
  let functions = null
  const state = {tree: lines, by_line: true, states: [...everything], cells: null, zoomed: 0, cursor: 0, focused: false,
                 visited: [0], at: 0, text: "", trouble: "", matched: null, color: options.color,
                 inverted: options.inverted, rows: options.rows, drawn: null, line_totals: null}

  // Weights of what is selected -------------------------------------------------------------------------------------
  function weigh() {
    state.own = own_of(state.tree, entries, state.states, state.cells)
    state.total = totals_of(state.tree, state.own)
    state.before = baseline && totals_of(state.tree, own_of(state.tree, baseline, state.states, null))
  }
  // Of a frame that has nothing in the selection the nearest caller that has something is shown.
  const shown = () => path_of(state.tree, state.zoomed).find((node) => state.total[node] > 0) ?? 0

  // Colours ---------------------------------------------------------------------------------------------------------
  const by_category = options.categories.map(([, color]) => rgb(color))
  const groups = (() => {
    const own = own_of(lines, entries, everything, null), sums = data.groups.map(() => 0)
    for (let i = 1; i < lines.count; i++) sums[frames.group[lines.frame[i]]] += own[i]
    const ranked = sums.map((_, at) => at).filter((at) => data.groups[at] !== options.no_module)
    return ranked.sort((a, b) => sums[b] - sums[a] || a - b)
  })()
  const by_group = data.groups.map(() => rgb(options.rest))
  groups.slice(0, options.module_colors.length).forEach((group, at) => { by_group[group] = rgb(options.module_colors[at]) })
  const change_of = (node) => {
    const now = state.total[node] / (state.total[0] || 1), before = state.before[node] / (state.before[0] || 1)
    return {now, before, relative: Math.abs(now - before) < options.same ? 0 : (now - before) / Math.max(now, before)}
  }
  const by_change = (relative) =>
    mixed(rgb(options.changes[1]), rgb(options.changes[relative > 0 ? 2 : 0]), Math.abs(relative) ** 0.75)
  function color_of(node) {
    const frame = state.tree.frame[node]
    if (state.color === "change") return by_change(node === 0 ? 0 : change_of(node).relative)
    const color = state.color === "kind" ? by_category[frames.category[frame]] : by_group[frames.group[frame]]
    // A little lighter by function: neighbours of one colour are told apart.
    return mixed(color, WHITE, (Math.imul(frames.function[frame] + 1, 0x9E3779B1) >>> 24) / 255 * 0.22)
  }

  // Drawing ---------------------------------------------------------------------------------------------------------
  const pen = document.createElement("canvas").getContext("2d")
  const widths = new Map()
  const width_of = (letter) => {
    if (!widths.has(letter)) {
      pen.font = `${options.font_size} ${options.font}`
      widths.set(letter, pen.measureText(letter).width)
    }
    return widths.get(letter)
  }
  function fitted(text, room) {
    let used = 0, fits = 0
    const dots = width_of("…")
    for (let i = 0; i < text.length; i++) {
      used += width_of(text[i])
      if (used > room) return fits >= 2 ? text.slice(0, fits) + "…" : ""
      if (used + dots <= room) fits = i + 1
    }
    return text
  }
  const text_of = (node) => node === 0 ? `all: ${amount(state.total[0])}`
    : label_of(state.tree.frame[node], state.tree.with_line)

  function redraw() {
    const {tree, total} = state, width = Math.max(plot.inner_width, 1), zoomed = shown()
    const drawn = laid_out(tree, total, zoomed, options.least_px / width, options.most_rows, options.most_above)
    const count = drawn.node.length, colors = new Array(count)
    const text = {x: [], y: [], text: []}
    let deepest = 0
    for (let k = 0; k < count; k++) {
      const node = drawn.node[k], color = color_of(node)
      const fade = k < drawn.dimmed || (state.matched !== null && state.matched[tree.frame[node]] === 0)
      colors[k] = packed(fade ? mixed(color, FADED, 0.85) : color)
      deepest = Math.max(deepest, drawn.row[k])
      const room = (drawn.right[k] - drawn.left[k]) * width - 7
      const fits = room < 14 ? "" : fitted(text_of(node), room)
      if (fits !== "") { text.x.push(drawn.left[k]); text.y.push(drawn.row[k] + 0.5); text.text.push(fits) }
    }
    if (deepest >= state.rows) resize(deepest + 1)
    state.drawn = drawn
    const gap = 0.6 / width
    source.data = {
      left: drawn.left,
      right: drawn.right.map((right, k) => right - drawn.left[k] > 4 * gap ? right - gap : right),
      top: drawn.row.map((row) => row + 0.03), bottom: drawn.row.map((row) => row + 0.97),
      color: colors, node: drawn.node,
    }
    labels.data = text
    outlined()
    told()
  }
  function outlined() {
    const k = state.focused ? state.drawn.node.indexOf(state.cursor) : -1, {left, right, row} = state.drawn
    outline.data = k < 0 ? {left: [], right: [], top: [], bottom: []}
      : {left: [left[k]], right: [right[k]], top: [row[k] + 0.04], bottom: [row[k] + 0.96]}
  }
  // The plot grows where a zoom shows deeper stacks; it does not shrink again, so that the page stands still.
  function resize(rows) {
    state.rows = rows
    plot.height = rows * options.row_px
    const [first, last] = state.inverted ? [rows, 0] : [0, rows]
    plot.y_range.setv({start: first, end: last})
  }
  function scroll_to_root() {
    const view = cb_context.index.find_one(box)
    if (view) setTimeout(() => { view.el.scrollTop = state.inverted ? 0 : view.el.scrollHeight }, 60)
  }

  // Words about a frame ---------------------------------------------------------------------------------------------
  function line_of(node) {
    const {tree} = state, frame = tree.frame[node]
    if (tree.with_line || !frames.line[frame]) return frames.line[frame] ? `:${frames.line[frame]}` : ""
    const sums = new Map(), total = state.line_totals ??= totals_of(lines, own_of(lines, entries, state.states, state.cells))
    for (let i = 1; i < lines.count; i++) {
      if (tree.of[i] === node && total[i] > 0) {
        const line = frames.line[lines.frame[i]]
        sums.set(line, (sums.get(line) ?? 0) + total[i])
      }
    }
    const ranked = [...sums].sort((a, b) => b[1] - a[1])
    const told = ranked.slice(0, 4).map(([line, sum]) => `${line} (${share(sum, state.total[node])})`)
    return `, line${ranked.length > 1 ? "s" : ""} ${told.join(", ")}${ranked.length > 4 ? ", …" : ""}`
  }
  const about = {
    name: (node) => node === 0 ? "all" : cut(name_of(state.tree.frame[node]) || text_of(node), 300),
    where: (node) => {
      const file = file_of(state.tree.frame[node])
      return file === "" ? "-" : cut(file, 120) + line_of(node)
    },
    kind: (node) => node === 0 ? "all of the profile" : options.kinds[frames.kind[state.tree.frame[node]]],
    total: (node) => `${amount(state.total[node])}, ${share(state.total[node], state.total[0])} of all` +
      (path_of(state.tree, shown()).includes(node) ? "" : within(node)),
    own: (node) => state.own[node] === 0 ? "none"
      : `${amount(state.own[node])}, ${share(state.own[node], state.total[0])} of all`,
    before: (node) => {
      const {now, before} = change_of(node), points = Number((100 * (now - before)).toPrecision(3))
      return `${share(before, 1)} of all before: ${points > 0 ? "+" : ""}${points} points` +
        (before > 0 ? `, ${Number((now / before).toPrecision(3))}x` : ", new")
    },
  }
  const within = (node) => shown() === 0 ? "" : `, ${share(state.total[node], state.total[shown()])} of what is zoomed`
  const sentence = (node) => `${text_of(node)}: ${about.total(node)}; own ${about.own(node)}` +
    (baseline ? `; ${about.before(node)}` : "")

  // Moves -----------------------------------------------------------------------------------------------------------
  function zoom(node) {
    if (node === state.zoomed) return
    state.visited = [...state.visited.slice(0, state.at + 1), node]
    state.at = state.visited.length - 1
    show(node)
  }
  function show(node) {
    state.zoomed = state.cursor = node
    redraw()
  }
  function step(by) {
    const to = state.at + by
    if (to < 0 || to >= state.visited.length) return
    state.at = to
    show(state.visited[to])
  }
  function reset() {
    search_box.value = ""
    Object.assign(state, {visited: [0], at: 0, text: "", trouble: "", matched: null})
    show(0)
  }
  function search(text) {
    let trouble = ""
    try {
      state.matched = text === "" ? null : matched_frames(text, state.tree.with_line)
    } catch (error) {
      state.matched = null
      trouble = `no regular expression: ${error.message}`
    }
    Object.assign(state, {text, trouble})
    redraw()
  }
  function switch_tree(by_line) {
    const before = state.tree
    functions ??= tree_of_functions(lines, (tree) => totals_of(tree, own_of(tree, entries, everything, null)))
    state.tree = by_line ? lines : functions
    const moved = (node) => by_line ? before.of.indexOf(node) : functions.of[node]
    state.visited = state.visited.map(moved)
    Object.assign(state, {by_line, zoomed: moved(state.zoomed), cursor: moved(state.cursor)})
    weigh()
    search(state.text)
  }
  function select() {
    const cells = selection.data.cells ?? []
    state.cells = cells.length ? selected(Array.from(cells)) : null
    state.line_totals = null
    weigh()
    redraw()
  }
  function widest(places) {
    const {left, right} = state.drawn, width = (k) => right[k] - left[k]
    return places.length ? places.reduce((a, b) => width(b) > width(a) ? b : a) : undefined
  }
  // The frame beside the cursor's: "out" is its caller, "in" the widest that it called, -1 and 1 the next in its row.
  function move(where) {
    const {node, row, dimmed} = state.drawn, {tree} = state
    const k = Math.max(node.indexOf(state.cursor), 0)
    if (where === "out") {
      const up = tree.parent[node[k]]
      if (up < 0) return
      if (k === dimmed) return zoom(up)
      state.cursor = up
    } else {
      const places = node.map((_, i) => i), beside = places.filter((i) => row[i] === row[k])
      const found = where === "in" ? widest(places.filter((i) => i > k && tree.parent[node[i]] === node[k]))
        : beside[beside.indexOf(k) + where]
      if (found === undefined) return
      state.cursor = node[found]
    }
    outlined()
    what.textContent = sentence(state.cursor)
  }
  function to_widest_match() {
    const {node, dimmed} = state.drawn
    const found = widest(node.map((_, k) => k).filter((k) => k >= dimmed && state.matched?.[state.tree.frame[node[k]]] === 1))
    if (found !== undefined) state.cursor = node[found]
    focus()
  }
  const focus = () => graph()?.focus({preventScroll: true})
  function at(x, y) {
    const {node, left, right, row} = state.drawn
    return node.find((_, k) => row[k] === Math.floor(y) && left[k] <= x && x < right[k])
  }
  function pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    const [out, in_] = state.inverted ? ["ArrowUp", "ArrowDown"] : ["ArrowDown", "ArrowUp"]
    const does = {
      [out]: () => move("out"), [in_]: () => move("in"),
      ArrowLeft: () => move(-1), ArrowRight: () => move(1),
      Enter: () => zoom(state.cursor), Backspace: () => step(event.shiftKey ? 1 : -1),
      Escape: reset, "/": () => search_box.focus(),
    }[event.key]
    if (!does) return
    event.preventDefault()
    event.stopPropagation()
    does()
  }

  // The controls and the words around the graph ---------------------------------------------------------------------
  const search_box = h("input", {type: "search", placeholder: "Search: text or /regex/", "aria-label": "Search frames",
    spellcheck: "false", input: () => search(search_box.value), keydown: (event) => {
      event.stopPropagation()
      if (event.key === "Enter") to_widest_match()
      if (event.key === "Escape") { search_box.value = ""; search(""); focus() }
    }})
  const found = h("output", {class: "found"})
  const button = (text, title, click) => h("button", {type: "button", title, click}, text)
  const back = button("Back", "to what was shown before (Backspace)", () => step(-1))
  const forward = button("Forward", "(Shift + Backspace)", () => step(1))
  const all = button("Reset", "all frames, no search (Escape)", reset)
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
    // The heatmap reads which states to show: none is all, and what no state has is none.
    selection.tags = on.length === present.length ? [] : on.length ? on : [-1]
    select()
  }
  const several_lines = new Set(Array.from(frames.function)).size < frames.function.length
  const some_states = shown_states.filter((state) => state !== null)
  const colors = {kind: "by kind", module: "by module", ...(baseline ? {change: "by change"} : {})}
  const bar = h("div", {class: "bar"}, search_box, found, h("span", {class: "gap"}), back, forward, all)
  const switches = h("div", {class: "bar"},
    ...(some_states.length > 1 ? [h("span", {role: "group", "aria-label": "What counts"}, ...some_states)] : []),
    choice("colours", colors, state.color, (value) => { state.color = value; redraw() }),
    ...(several_lines ? [choice("a frame is a", {line: "line", function: "function"}, options.by_line ? "line" : "function",
                                (value) => switch_tree(value === "line"))] : []),
    choice("root", {top: "at the top (icicle)", bottom: "at the bottom (flame)"}, state.inverted ? "top" : "bottom",
           (value) => { state.inverted = value === "top"; resize(state.rows); scroll_to_root() }))
  const legend = h("div", {class: "legend"})
  const what = h("div", {class: "shown", "aria-live": "polite"})
  const gone = h("details", {hidden: true})
  const top = h("details", {toggle: () => list_top()}, h("summary", {}, "Top frames as a table"))
  const put = (pane, ...parts) => {
    const [html] = pane.elements
    html.html = h("div", {}, ...parts)
    pane.elements = [html]
  }

  function told() {
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
    const name = zoomed === 0 ? "" : `${where}: `
    const parts = [total[0] === 0 ? "nothing in the selection" : name + about.total(zoomed)]
    if (state.cells !== null) parts.push("in the selected time only")
    if (drawn.narrower) parts.push(`${counted(drawn.narrower)} narrower than half a pixel: zoom in`)
    if (drawn.deeper) parts.push("stacks go on deeper: zoom in")
    if (drawn.skipped) parts.push(`${counted(drawn.skipped)} outer callers not drawn`)
    if (options.folded) parts.push(`${counted(options.folded)} of the lightest frames counted as their callers'`)
    what.textContent = parts.join("; ")
    legend.replaceChildren(...legend_items())
    if (baseline) list_gone(before)
    list_top()
  }
  function legend_items() {
    const item = (color, text) => h("span", {}, h("i", {style: `background:${color}`}), text)
    if (state.color === "change") {
      const [less, same, more] = options.changes
      return [item(more, "a larger share than before"), item(less, "a smaller share"), item(same, "the same")]
    }
    const column = state.color === "kind" ? frames.category : frames.group, sums = new Map(), present = new Set()
    for (let i = 1; i < state.tree.count; i++) {
      if (state.total[i] === 0) continue
      const code = column[state.tree.frame[i]]
      present.add(code)
      sums.set(code, (sums.get(code) ?? 0) + state.own[i])
    }
    const text = (name, sum) => sum > 0 ? `${name} ${share(sum, state.total[0])}` : name
    if (state.color === "kind") {
      return [...present].sort((a, b) => a - b).map((code) => {
        const [name, color] = options.categories[code]
        return item(color, text(name, sums.get(code)))
      })
    }
    const colored = groups.slice(0, options.module_colors.length)
    const rest = [...present].filter((code) => !colored.includes(code)).reduce((sum, code) => sum + (sums.get(code) ?? 0), 0)
    return [...colored.map((code, at) => [code, at]).filter(([code]) => present.has(code))
      .map(([code, at]) => item(options.module_colors[at], text(cut(data.groups[code], 30), sums.get(code)))),
      item(options.rest, text("other", rest))]
  }
  function rows_of(heads, rows) {
    return h("table", {}, h("thead", {}, h("tr", {}, ...heads.map((text) => h("th", {scope: "col"}, text)))),
      h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((text) => h("td", {title: text}, text))))))
  }
  function list_top() {
    if (!top.open) return
    state.line_totals ??= totals_of(lines, own_of(lines, entries, state.states, state.cells))
    const own = own_of(lines, entries, state.states, state.cells), sum = state.total[0]
    const rows = top_frames(lines, own, state.line_totals, state.by_line, options.table_rows)
    top.querySelector("table")?.remove()
    top.append(rows_of(["frame", "own", "own share", "total", "total share", "kind"], rows.map(([frame, own, total]) =>
      [label_of(frame, state.by_line), amount(own), share(own, sum), amount(total), share(total, sum),
       options.kinds[frames.kind[frame]]])))
  }
  function list_gone(before) {
    const {tree, total} = state, nodes = []
    for (let i = 1; i < tree.count; i++) {
      if (before[i] > 0 && total[i] === 0 && (total[tree.parent[i]] > 0 || tree.parent[i] === 0)) nodes.push(i)
    }
    nodes.sort((a, b) => before[b] - before[a])
    const sum = nodes.reduce((sum, node) => sum + before[node], 0)
    gone.hidden = nodes.length === 0
    gone.replaceChildren(
      h("summary", {}, `Only in the baseline: ${several(nodes.length, "call")}, ${share(sum, before[0])} of it`),
      rows_of(["frame", "called by", "in the baseline", "share of it"], nodes.slice(0, options.table_rows).map((node) =>
        [text_of(node), tree.parent[node] === 0 ? "" : text_of(tree.parent[node]), amount(before[node]),
         share(before[node], before[0])])))
  }

  // What Bokeh's views are needed for: keys, and a name for those who do not see the graph.
  const graph = () => cb_context.index.find_one(plot)?.el
  function attach(tries) {
    const element = graph()
    if (!element) return tries && setTimeout(() => attach(tries - 1), 100)
    element.tabIndex = 0
    element.setAttribute("role", "application")
    element.setAttribute("aria-label", "Flame graph: arrow keys move among frames, Enter zooms, Backspace goes back, " +
      "Escape shows all, slash searches. The table below has the top frames.")
    element.addEventListener("keydown", pressed)
    for (const kind of ["focus", "blur"]) {
      element.addEventListener(kind, () => { state.focused = kind === "focus"; outlined() })
    }
    scroll_to_root()
  }

  put(controls, bar, switches, legend, what)
  put(table, gone, top)
  if (options.by_line) weigh()
  else switch_tree(false)
  attach(50)
  return {
    state, redraw, select, search, zoom, reset,
    tap: (x, y) => {
      const node = at(x, y)
      if (node !== undefined) zoom(node)
      focus()
    },
    tell: (node, what) => about[what](node),
  }
}

const flame = plot.__accel_magic_flame ??= start()
if (cb_obj === selection) flame.select()
else if (cb_obj.event_name !== undefined) flame.tap(cb_obj.x, cb_obj.y)
else flame.redraw()

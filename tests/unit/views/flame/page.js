// A small profile as the arguments of a flame graph's script. Stacks, with their weights on the CPU:
//   main (app.py)                       1
//   main, work:10 (app.py)              20
//   main, work:20                       30
//   main, work:20, work:10              4
//   idle                                45; and waiting: 100

const NAMES = ["", "main", "work", "idle"]
const TAILS = ["\x01all", " (app.py:\0)", ""]
const FRAMES = [  // name, tail, file, group, function, line, kind, category
  [0, 0, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1, 1], [2, 1, 1, 1, 2, 10, 1, 1], [2, 1, 1, 1, 2, 20, 1, 1],
  [3, 2, 0, 0, 3, 0, 2, 2],
]
const COLUMNS = ["name", "tail", "file", "group", "function", "line", "kind", "category"]

export const ALL = 0, MAIN = 1, WORK_10 = 2, WORK_20 = 3, RECURSIVE = 4, IDLE = 5

const entries = (node, state, weight) => ({
  node: Int8Array.from(node, (value, i) => value - (node[i - 1] ?? 0)), state: Uint8Array.from(state),
  weight: {values: Float64Array.from(weight), codes: null},
})

export function page(changed = {}) {
  return {
    data: {
      depth: Uint8Array.from([0, 1, 2, 2, 3, 1]),
      frame: Uint8Array.from([0, 1, 2, 3, 2, 4]),
      frames: Object.fromEntries(COLUMNS.map((name, at) => [name, Uint8Array.from(FRAMES, (frame) => frame[at])])),
      texts: new TextEncoder().encode(JSON.stringify({names: NAMES, tails: TAILS, files: ["", "/a/app.py"],
                                                      groups: ["none", "app"]})),
      entries: entries([MAIN, WORK_10, WORK_20, RECURSIVE, IDLE, IDLE], [0, 0, 0, 0, 0, 1], [1, 20, 30, 4, 45, 100]),
      baseline: entries([MAIN, WORK_10, IDLE], [0, 0, 0], [1, 60, 39]),
      timed: null, grid: null, ...changed,
    },
    options: {
      unit: "ns", states: ["on CPU", "waiting"], kinds: ["other", "Python function", "native function"], no_module: "none",
      categories: [["other", "#000000"], ["Python", "#ff0000"], ["native", "#0000ff"]], module_colors: ["#00ff00"],
      rest: "#808080", changes: ["#0000ff", "#ffffff", "#ff0000"], same: 0.0005, faded: "#9d9d9d", color: "kind",
      inverted: true, rows: 4,
    },
    selection: {data: {cells: []}, tags: []},
  }
}

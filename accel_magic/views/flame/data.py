"""What a flame graph's page holds of a profile: columns as narrow as their values allow, every text once."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic.kernel.stacks.frames import Kind
from accel_magic.recording.profile import label
from accel_magic.views.flame.colors import category, module_of

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    from accel_magic.kernel.stacks.frames import Frame
    from accel_magic.views.flame.cells import Grid
    from accel_magic.views.flame.layout import Entries, Tree


LINE: Final = "\0"
"""Stands for a frame's line in the tail of its label."""
ALONE: Final = "\1"
"""Begins the tail of a label that does not begin with the frame's name."""
KINDS: Final = {
    Kind.OTHER: "other",
    Kind.PROCESS: "process",
    Kind.THREAD: "thread",
    Kind.PYTHON: "Python function",
    Kind.NATIVE: "native function",
    Kind.KERNEL: "kernel function",
    Kind.DRIVER: "driver or API call",
    Kind.WAIT: "reason of waiting",
    Kind.GPU_KERNEL: "accelerator kernel",
    Kind.GPU_SOURCE: "accelerator source",
    Kind.GPU_INSTRUCTION: "accelerator instruction",
    Kind.STALL: "reason of stalling",
    Kind.SEPARATOR: "from the CPU to the accelerator",
}
_WIDTHS: Final = (np.uint8, np.uint16, np.int8, np.int16, np.int32)
_MOST_VALUES: Final = 65_536


def page_data(tree: Tree) -> dict[str, Any]:
    """Columns of the page, without times.

    Returns:
        `depth`, `frame`: of the nodes, in preorder. `frames`: of each frame the numbers of its `name`, `tail` (what
        follows the name in its label, see `LINE` and `ALONE`), `file`, `group` (module by which it is coloured), and
        its `line`, `kind`, `category` and `function` (equal in frames that differ in line only). `texts`: `names`,
        `tails`, `files` and `groups`, as JSON in UTF-8. `entries`, `baseline` (None without one): `node`, `state`, and
        `weight` as `packed` gives it. `timed`, `grid`: None.

    """
    names, tails, files, groups, functions = (_Numbers() for _ in range(5))
    rows = [
        (
            names(frame.name),
            tails(_tail(frame)),
            files(frame.module),
            groups(module_of(frame)),
            functions((frame.name, frame.kind, frame.module)),
            frame.line,
            int(frame.kind),
            category(frame),
        )
        for frame in tree.frames
    ]
    columns = np.array(rows, np.int64).T
    of_frame = ("name", "tail", "file", "group", "function", "line", "kind", "category")
    return {
        "depth": narrow(tree.depths),
        "frame": narrow(tree.node_frames),
        "frames": {name: narrow(column) for name, column in zip(of_frame, columns, strict=True)},
        "texts": _bytes({"names": names.texts, "tails": tails.texts, "files": files.texts, "groups": groups.texts}),
        "entries": _entries(tree.entries),
        "baseline": None if tree.baseline is None else _entries(tree.baseline),
        "timed": None,
        "grid": None,
    }


def page_times(timed: Timed, step: int) -> dict[str, Any]:
    """What replaces columns of the page where there are times.

    Args:
        timed: When the stacks had their weight.
        step: How many cells of the heatmap one cell of `timed` is.

    Returns:
        `timed`: as `timed_data` gives it. `grid`: of its cells, `column_ns`, `rows`, `columns`, the `step`, and how
        many nodes are `folded`. Where none are, `timed` has all weights too, and `entries` is None.

    """
    grid = timed.grid
    cells = {"column_ns": grid.column_ns, "rows": grid.rows, "columns": grid.columns}
    replaced = {"timed": timed_data(timed), "grid": {**cells, "step": step, "folded": timed.folded}}
    return replaced if timed.folded else {**replaced, "entries": None}


def size(value: Any) -> int:
    """Bytes that columns take in a page, compressed as Bokeh does it."""
    if isinstance(value, dict):
        return sum(map(size, value.values()))
    return len(gzip.compress(value.tobytes(), 2)) if isinstance(value, np.ndarray) else 0


def timed_data(timed: Timed) -> dict[str, Any]:
    """`node` and `cell` as steps, which are small since entries are in order; `begun` and `ended` None without waits.

    A step of `node` is from one entry to the next; one of `cell` too, and within a node.
    """
    waits = bool(timed.begun.any() or timed.ended.any())
    node = np.diff(timed.node, prepend=0)
    cell = np.where(node > 0, timed.cell, np.diff(timed.cell, prepend=0))
    return {
        "node": narrow(node),
        "cell": narrow(cell),
        "state": timed.state,
        "weight": packed(timed.weight),
        "begun": narrow(timed.begun) if waits else None,
        "ended": narrow(timed.ended) if waits else None,
    }


def narrow(column: NDArray[Any]) -> NDArray[Any]:
    """Take the narrowest type of integers that holds all values of a column."""
    low, high = int(column.min(initial=0)), int(column.max(initial=0))
    kind = next(kind for kind in _WIDTHS if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    return column.astype(kind)


def packed(weights: NDArray[np.int64]) -> dict[str, Any]:
    """Weights as `values` and `codes`, each one's place in these; None where it is its own.

    Most samples of a profile at a fixed rate weigh the same. Values are uint32 where they fit, else float64 (JavaScript
    has no other numbers), which is exact up to 2**53: 104 days in ns.
    """
    values, codes = np.unique(weights, return_inverse=True)
    kind = np.uint32 if weights.max(initial=0) < 2**32 else np.float64
    if len(values) <= min(_MOST_VALUES, len(weights) // 2):
        return {"values": values.astype(kind), "codes": narrow(codes)}
    return {"values": weights.astype(kind), "codes": None}


def _entries(entries: Entries) -> dict[str, Any]:
    """`node` as steps from one entry to the next."""
    return {"node": narrow(np.diff(entries.node, prepend=0)), "state": entries.state, "weight": packed(entries.weight)}


def _bytes(texts: dict[str, list[str]]) -> NDArray[np.uint8]:
    """As bytes, which Bokeh compresses: texts it does not."""
    return np.frombuffer(json.dumps(texts, separators=(",", ":")).encode(), np.uint8)


def _tail(frame: Frame) -> str:
    text = label(frame)
    if not frame.name or not text.startswith(frame.name):
        return ALONE + text
    tail, line = text.removeprefix(frame.name), f":{frame.line})"
    return tail.removesuffix(line) + f":{LINE})" if frame.line and tail.endswith(line) else tail


class _Numbers:
    """Gives every different text a number."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}

    def __call__(self, text: Hashable) -> int:
        return self._known.setdefault(text, len(self._known))

    @property
    def texts(self) -> list[Any]:
        return list(self._known)


@dataclass(frozen=True)
class Timed:
    """Weights of E different (node, cell, state), in this order.

    A wait that lasts beyond the cell it begins in is in two of them: what lies in its first cell and in its last is
    part of `weight`; between them it fills its cells, from where it is counted in `begun` to where it is in `ended`.

    Attributes:
        grid: Of the cells.
        node: (E,) int32, where the stacks end.
        cell: (E,) int32.
        state: (E,) uint8, of `State`.
        weight: (E,) int64.
        begun: (E,) int32, waits that begin here and last beyond.
        ended: (E,) int32, waits that end here and began before.
        folded: Nodes whose weight is their callers' here.

    """

    grid: Grid
    node: NDArray[np.int32]
    cell: NDArray[np.int32]
    state: NDArray[np.uint8]
    weight: NDArray[np.int64]
    begun: NDArray[np.int32]
    ended: NDArray[np.int32]
    folded: int = 0

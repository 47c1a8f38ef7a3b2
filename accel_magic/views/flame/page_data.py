"""The profile data in a flame graph's page: columns as narrow as their values allow, every text once."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic.kernel.stacks.frames import FrameKind
from accel_magic.recording.profile import label
from accel_magic.views.flame.colors import category, module_of

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    from accel_magic.kernel.stacks.frames import Frame
    from accel_magic.views.flame.flame_layout import Entries, Tree
    from accel_magic.views.flame.heatmap_cells import Grid


LINE: Final = "\0"
"""Placeholder for a frame's line in the tail of its label."""
ALONE: Final = "\1"
"""First character of the tail of a label that does not start with the frame's name."""
KINDS: Final = {
    FrameKind.OTHER: "other",
    FrameKind.PROCESS: "process",
    FrameKind.THREAD: "thread",
    FrameKind.PYTHON: "Python function",
    FrameKind.NATIVE: "native function",
    FrameKind.KERNEL: "kernel function",
    FrameKind.DRIVER: "driver or API call",
    FrameKind.WAIT: "wait reason",
    FrameKind.GPU_KERNEL: "accelerator kernel",
    FrameKind.GPU_SOURCE: "accelerator source",
    FrameKind.GPU_INSTRUCTION: "accelerator instruction",
    FrameKind.STALL: "stall reason",
    FrameKind.SEPARATOR: "transition from CPU to accelerator",
    FrameKind.TASK: "task",
}
_WIDTHS: Final = (np.uint8, np.uint16, np.int8, np.int16, np.int32)
_MOST_VALUES: Final = 65_536


def page_data(tree: Tree) -> dict[str, Any]:
    """Columns of the page, without times.

    Returns:
        `depth`, `frame`: of the nodes, in preorder. `frames`: for each frame the numbers of its `name`, `tail` (what
        follows the name in its label, see `LINE` and `ALONE`), `file`, `group` (module, for its color), and its
        `line`, `kind`, `category` and `function` (equal for frames that differ only in line). `texts`: `names`,
        `tails`, `files` and `groups`, as JSON in UTF-8. `entries`, `baseline` (None without one): `node`, `state`, and
        `weight` as returned by `packed`. `timed`, `grid`: None.

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
    """The columns of the page to replace if samples have times.

    Args:
        timed: The weights of the stacks over time.
        step: Number of heatmap cells per cell of `timed`.

    Returns:
        `timed`: as returned by `timed_data`. `grid`: `column_ns`, `rows` and `columns` of its cells, the `step`, and
        the number of `folded` nodes. If that is 0, `timed` has all weights and `entries` is None.

    """
    grid = timed.grid
    cells = {"column_ns": grid.column_ns, "rows": grid.rows, "columns": grid.columns}
    replaced = {"timed": timed_data(timed), "grid": {**cells, "step": step, "folded": timed.folded}}
    return replaced if timed.folded else {**replaced, "entries": None}


def size(value: Any) -> int:
    """Size of columns in a page in bytes, compressed as by Bokeh."""
    if isinstance(value, dict):
        return sum(map(size, value.values()))
    return len(gzip.compress(value.tobytes(), 2)) if isinstance(value, np.ndarray) else 0


def timed_data(timed: Timed) -> dict[str, Any]:
    """`node` and `cell` as differences, which are small because entries are sorted; no `begun`, `ended` without waits.

    Differences are from one entry to the next; the first `cell` of each node is absolute.
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
    """Convert a column to the narrowest integer type that holds all its values."""
    low, high = int(column.min(initial=0)), int(column.max(initial=0))
    kind = next(kind for kind in _WIDTHS if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    return column.astype(kind)


def packed(weights: NDArray[np.int64]) -> dict[str, Any]:
    """Weights as `values` and `codes`, the index of each weight in `values`; `codes` is None if these are all weights.

    Most samples at a fixed rate have the same weight. Values are uint32 if they fit, else float64,
    JavaScript's own number type, which is exact up to 2**53: 104 days in ns.
    """
    values, codes = np.unique(weights, return_inverse=True)
    kind = np.uint32 if weights.max(initial=0) < 2**32 else np.float64
    if len(values) <= min(_MOST_VALUES, len(weights) // 2):
        return {"values": values.astype(kind), "codes": narrow(codes)}
    return {"values": weights.astype(kind), "codes": None}


def _entries(entries: Entries) -> dict[str, Any]:
    """Columns of entries, with `node` as differences from one entry to the next."""
    return {"node": narrow(np.diff(entries.node, prepend=0)), "state": entries.state, "weight": packed(entries.weight)}


def _bytes(texts: dict[str, list[str]]) -> NDArray[np.uint8]:
    """Texts as JSON bytes, because Bokeh compresses bytes but not texts."""
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
    """Weights of E different (node, cell, state), sorted in this order.

    A wait that extends beyond the cell in which it begins has two entries: its parts in its first and last cell are
    included in `weight`; between them, from the entry that counts it in `begun` to the one in `ended`, it fills its
    cells.

    Attributes:
        grid: The grid of the cells.
        node: (E,) int32, where the stacks end.
        cell: (E,) int32.
        state: (E,) uint8, of `State`.
        weight: (E,) int64.
        begun: (E,) int32, waits that begin here and end in a later cell.
        ended: (E,) int32, waits that end here and began in an earlier cell.
        folded: Number of nodes whose weight is counted as their callers'.

    """

    grid: Grid
    node: NDArray[np.int32]
    cell: NDArray[np.int32]
    state: NDArray[np.uint8]
    weight: NDArray[np.int64]
    begun: NDArray[np.int32]
    ended: NDArray[np.int32]
    folded: int = 0

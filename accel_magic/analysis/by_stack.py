"""Events grouped by stack: the kernel, native and Python stacks of each event, merged into one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
from pandas.arrays import IntegerArray

from accel_magic.kernel.stacks.frames import FrameKind
from accel_magic.kernel.stacks.interleave import interleave
from accel_magic.kernel.stacks.stack_table import COLUMNS
from accel_magic.recording.profile import label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from accel_magic.kernel.stacks.frames import Frame
    from accel_magic.kernel.stacks.stack_table import StackTable
    from accel_magic.recording.profile import Profile
    from accel_magic.recording.recording import Recording

NONE: Final = -1
"""Number of an event without a stack."""
LOST: Final = -2
"""Number of an event whose stack, or a part of it, did not fit into the stack table."""
STACKS: Final = (
    *("stack", "hits", "share", "total_ns", "mean_ns", "p50_ns", "p99_ns", "total_bytes", "where", "text", "frames"),
)
"""Columns of every table of stacks: `stack` int32, the number that events refer to; `hits` int64, events or samples;
`share` of all hits, in profiles of the total weight; `total_ns` Int64, `mean_ns`, `p50_ns`, `p99_ns` float64, of the
measured durations (NA, NaN if none); `total_bytes` Int64 (NA except in profiles of bytes); `where`, the innermost line
of the user's own code, else the innermost Python, native or other frame; `text`, labels of the frames separated by `;`;
`frames`, a tuple of `Frame`, outermost first."""
_QUANTILES: Final = (("p50_ns", 0.5), ("p99_ns", 0.99))
_LIBRARY: Final = re.compile(r"/(site|dist)-packages/|/lib/python[\d.]+/|^<frozen ")


@dataclass(frozen=True)
class CombinedStacks:
    """Distinct merged stacks, the most frequent first.

    Attributes:
        of_events: (events,) int32, number of each event's stack: an index into `frames`, or `NONE`, `LOST`.
        frames: Of each stack, outermost first.

    """

    of_events: NDArray[np.int32]
    frames: tuple[tuple[Frame, ...], ...]

    @property
    def lost(self) -> int:
        """Number of events without a stack because the stack table was full."""
        return int((self.of_events == LOST).sum())


def combine(recording: Recording) -> CombinedStacks | None:
    """Merge the stacks of every event; None if the recording has none."""
    table = recording.stacks
    if table is None:
        return None
    columns = recording.events.columns
    keys = [columns[name].values.astype(np.uint64) for name in COLUMNS if name in columns]
    kinds = [kind for name, kind in COLUMNS.items() if name in columns]
    codes, first = _different(keys, len(recording.events))
    rows = np.full((len(first), len(COLUMNS)), NONE, np.int64)
    for kind, column in zip(kinds, keys, strict=True):
        rows[:, kind] = table.rows(column[first])
    merged: dict[tuple[Frame, ...], int] = {}
    numbers = [_number(table, row, merged) for row in rows.tolist()]
    of_events = np.array(numbers, np.int64)[codes] if numbers else np.zeros(0, np.int64)
    order = np.argsort(-np.bincount(of_events[of_events >= 0], minlength=len(merged)), kind="stable")
    rank = np.empty(len(order) + 2, np.int32)
    rank[order] = np.arange(len(order))
    rank[[NONE, LOST]] = NONE, LOST  # negative: the last two elements
    stacks = tuple(merged)
    return CombinedStacks(rank[of_events], tuple(stacks[number] for number in order.tolist()))


def _different(keys: list[NDArray[np.uint64]], events: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number of each event's combination of keys, and the first event of each number."""
    codes = np.zeros(events, np.int64)
    for column in keys:
        more, different = pd.factorize(column)
        codes, _ = pd.factorize(codes * max(len(different), 1) + more)
    count = int(codes.max(initial=-1)) + 1
    first = np.empty(count, np.int64)
    first[codes[::-1]] = np.arange(events - 1, -1, -1)
    return codes, first


def _number(table: StackTable, rows: list[int], merged: dict[tuple[Frame, ...], int]) -> int:
    if min(rows) == LOST:
        return LOST
    if max(rows) == NONE:
        return NONE
    kernel, user, python = (table.of(row) if row >= 0 else () for row in rows)
    frames = interleave(kernel, user, python)
    return merged.setdefault(frames, len(merged)) if frames else NONE


def stack_table(combined: CombinedStacks, durations: NDArray[np.float64] | None) -> pd.DataFrame:
    """One row per stack, the most frequent first.

    Args:
        combined: Stacks of the events.
        durations: (events,) ns, NaN where not measured; None if nothing was measured.

    Returns:
        The columns `STACKS`.

    """
    groups = np.arange(len(combined.frames))
    table = pd.DataFrame({"stack": groups.astype(np.int32), **_numbers(combined.of_events, len(groups), durations)})
    return _with_frames(table, combined.frames)


def profile_stacks(profile: Profile) -> pd.DataFrame:
    """One row per stack of a profile, sorted by weight, descending, with the columns `STACKS`.

    `stack` is the number of the stack's leaf, as in `Profile.sample_table`. A sample with a weight of N samples or
    calls counts as N hits.
    """
    samples = profile.samples
    leaves, groups = np.unique(samples.stack, return_inverse=True)
    weights = np.zeros(len(leaves), np.int64)
    np.add.at(weights, groups, samples.weight)
    durations = samples.weight.astype(np.float64) if profile.unit == "ns" else None
    columns = _numbers(groups, len(leaves), durations)
    if profile.unit in ("samples", "calls"):
        columns["hits"] = weights
    if profile.unit == "bytes":
        columns["total_bytes"] = pd.array(weights, "Int64")
    if durations is not None:
        columns["total_ns"] = pd.array(weights, "Int64")  # exact, unlike floats
    columns["share"] = weights / max(profile.total, 1)
    frames = tuple(profile.path(int(leaf)) for leaf in leaves)
    table = pd.DataFrame({"stack": np.arange(len(leaves), dtype=np.int32), **columns})
    table = _with_frames(table, frames).assign(stack=leaves.astype(np.int32), weight=weights)
    return table.sort_values("weight", ascending=False, kind="stable", ignore_index=True)[list(STACKS)]


def grouped(combined: CombinedStacks, functions: pd.Categorical, durations: NDArray[np.float64] | None) -> pd.DataFrame:
    """One row per function and stack, by function, each function's most frequent stack first.

    Args:
        combined: Stacks of the events.
        functions: (events,) the probed function.
        durations: As in `stack_table`.

    Returns:
        Columns `function`, then `STACKS`; shares are of the function's hits.

    """
    stacks = max(len(combined.frames), 1)
    there = combined.of_events >= 0
    pairs = np.asarray(functions.codes, np.int64)[there] * stacks + combined.of_events[there]
    different, numbers = np.unique(pairs, return_inverse=True)
    groups = np.full(len(there), NONE, np.int64)
    groups[there] = numbers
    table = pd.DataFrame(
        {
            "function": pd.Categorical.from_codes(different // stacks, dtype=functions.dtype),
            "stack": (different % stacks).astype(np.int32),
            **_numbers(groups, len(different), durations),
        }
    )
    table = table.sort_values(["function", "hits"], ascending=[True, False], kind="stable", ignore_index=True)
    table["share"] = table["hits"] / table.groupby("function", observed=True)["hits"].transform("sum")
    return _with_frames(table, combined.frames, "function")


def _numbers(groups: NDArray[np.integer], count: int, durations: NDArray[np.float64] | None) -> dict[str, Any]:
    """Hits of each group, and the sum, mean and quantiles of its durations (NaN if it has none)."""
    hits = np.bincount(groups[groups >= 0], minlength=count).astype(np.int64)
    columns: dict[str, Any] = {
        "hits": hits,
        "share": hits / max(int(hits.sum()), 1),
        "total_ns": pd.array([pd.NA] * count, "Int64"),
        **{name: np.full(count, np.nan) for name in ("mean_ns", *(name for name, _ in _QUANTILES))},
        "total_bytes": pd.array([pd.NA] * count, "Int64"),
    }
    if durations is None:
        return columns
    measured = (groups >= 0) & ~np.isnan(durations)
    of, values = groups[measured], durations[measured]
    order = np.lexsort((values, of))
    of, values = of[order], values[order]
    calls = np.bincount(of, minlength=count)
    totals = np.zeros(count, np.int64)
    np.add.at(totals, of, values.astype(np.int64))
    some = calls > 0
    columns["total_ns"] = IntegerArray(totals, ~some)
    columns["mean_ns"] = np.divide(totals, calls, out=np.full(count, np.nan), where=some)
    starts = np.concatenate([[0], np.cumsum(calls)])[:-1]
    for name, quantile in _QUANTILES:
        places = starts[some] + np.ceil(quantile * calls[some]).astype(np.int64) - 1
        columns[name][some] = values[places]
    return columns


def _with_frames(table: pd.DataFrame, frames: Sequence[tuple[Frame, ...]], *before: str) -> pd.DataFrame:
    """Add the descriptions of the stacks; `stack` is an index into `frames`."""
    stacks = table["stack"].tolist()
    places = [where(each) for each in frames]
    texts = [";".join(map(label, each)) for each in frames]
    table = table.assign(
        where=pd.Series([places[stack] for stack in stacks], dtype=object),
        text=pd.Series([texts[stack] for stack in stacks], dtype=object),
        frames=pd.Series([frames[stack] for stack in stacks], dtype=object),
    )
    return table[[*before, *STACKS]]


def where(frames: tuple[Frame, ...]) -> str:
    """Label of the innermost line of the user's own Python code, else of the innermost Python, native or any frame."""
    python = [frame for frame in frames if frame.kind is FrameKind.PYTHON]
    own = [frame for frame in python if not _LIBRARY.search(frame.module)]
    native = [frame for frame in frames if frame.kind is FrameKind.NATIVE]
    return label((own or python or native or frames)[-1])

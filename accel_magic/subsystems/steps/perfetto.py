"""Export the steps and collectives of ranks as tracks of trace-event JSON, beside each process's threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accel_magic.analysis.nesting import lanes
from accel_magic.formats.trace_event_writer import TraceEvents, composed, thread_name
from accel_magic.subsystems.steps.steps import processes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd
    from numpy.typing import NDArray

_LAST_THREAD: Final = (1 << 22) - 1
"""Highest thread id of Linux: tracks count down from it."""


def tracks(steps: pd.DataFrame, collectives: pd.DataFrame, bases: Mapping[str, int]) -> Iterator[bytes]:
    """Yield the text of the entries, in pieces.

    Steps that have a length and collectives that are complete become slices. Collectives that overlap get a track each.

    Args:
        steps: `StepTables.steps`.
        collectives: `StepTables.collectives`.
        bases: What is added to each node's process and thread ids.

    """
    whole = steps.dropna(subset="duration_ns")
    names = composed("step ", whole["step"])
    end = (whole["time_ns"] + whole["duration_ns"]).to_numpy(np.int64)
    yield from _of_processes(whole, end, names, "steps", bases, first=0)
    whole = collectives.dropna(subset="end_ns")
    placed = composed(whole["operation"], " ", whole["group"], ":", whole["number"])
    names = pc.coalesce(placed, composed(whole["operation"]))  # without a group, there is no number
    end = whole["end_ns"].to_numpy(np.int64)
    yield from _of_processes(whole, end, names, "collectives", bases, first=1)


def _of_processes(
    table: pd.DataFrame, ends: NDArray[np.int64], names: pa.Array, what: str, bases: Mapping[str, int], *, first: int
) -> Iterator[bytes]:
    """Entries of each process's slices, on tracks from number `first` on."""
    begins = table["time_ns"].to_numpy(np.int64)
    nodes, pids = table["node"].astype("str").tolist(), table["pid"].tolist()
    process = processes(table)
    in_order = np.lexsort((begins, process))
    for order in np.split(in_order, np.flatnonzero(np.diff(process[in_order])) + 1) if len(table) else []:
        base = bases[nodes[order[0]]]
        pid = base + int(pids[order[0]])
        begin, end = begins[order], ends[order]
        lane = lanes(begin, end)
        thread = base + _LAST_THREAD - first - lane
        yield from TraceEvents(
            name=names.take(pa.array(order)), category=what, time_ns=begin, pid=pid, tid=thread
        ).complete(end - begin)
        for one in np.unique(thread).tolist():
            yield thread_name(pid, one, what)

"""Export the steps and collectives of ranks as tracks of trace-event JSON, beside each process's threads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.analysis.nesting import lanes
from accel_magic.formats.trace_event import joined, microseconds, plain, texts, to_bytes
from accel_magic.subsystems.steps.steps import processes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd
    from numpy.typing import NDArray

_LAST_THREAD: Final = (1 << 22) - 1
"""Highest thread id of Linux: tracks count down from it."""


def tracks(steps: pd.DataFrame, collectives: pd.DataFrame, bases: Mapping[str, int]) -> Iterator[bytes]:
    """Yield the text of the entries in pieces; every entry starts with a comma and a newline.

    Steps that have a length and collectives that are complete become slices. Collectives that overlap get a track each.

    Args:
        steps: `StepTables.steps`.
        collectives: `StepTables.collectives`.
        bases: What is added to each node's process and thread ids.

    """
    whole = steps.dropna(subset="duration_ns")
    named = [f"step {number}" for number in whole["step"].tolist()]
    end = (whole["time_ns"] + whole["duration_ns"]).to_numpy(np.int64)
    yield from _of_processes(whole, end, named, "steps", bases, first=0)
    whole = collectives.dropna(subset="end_ns")
    places = zip(whole["operation"].astype("str"), whole["group"], whole["number"].astype("str"), strict=True)
    named = [f"{operation} {group}:{number}" for operation, group, number in places]
    end = whole["end_ns"].to_numpy(np.int64)
    yield from _of_processes(whole, end, named, "collectives", bases, first=1)


def _of_processes(
    table: pd.DataFrame, ends: NDArray[np.int64], names: list[str], what: str, bases: Mapping[str, int], *, first: int
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
        name = texts([json.dumps(names[row]) for row in order.tolist()])
        yield to_bytes(
            joined(
                *(',\n{"name":', name, f',"cat":"{what}","ph":"X","dur":', microseconds(end - begin)),
                *(',"ts":', microseconds(begin), f',"pid":{pid},"tid":', plain(thread), "}"),
            )
        )
        for one in np.unique(thread).tolist():
            entry = {"name": "thread_name", "ph": "M", "pid": pid, "tid": one, "args": {"name": what}}
            yield b",\n" + json.dumps(entry, separators=(",", ":")).encode("ascii")

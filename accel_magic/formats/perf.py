"""Output of `perf script` without stacks: `comm pid/tid [cpu] time: event: fields`, with any set of fields."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accel_magic.formats import event_lines, function_graph, perf_fields
from accel_magic.formats.event_lines import (
    UNKNOWN,
    column,
    extract,
    integers,
    labels,
    rest_of,
    texts,
    times,
)
from accel_magic.formats.ftrace import with_returns
from accel_magic.formats.recording_builder import FileContent, Hits, of_event
from accel_magic.recording.recording import EventColumn

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_CALLCHAIN: Final = rf"{perf_fields.FRAME}|^\s+[0-9a-f]{{1,16}} .*\)\s*$"
"""Frames below a sample, which are skipped."""
_KNOWN: Final = f"{_CALLCHAIN}|{perf_fields.RECORD}|{perf_fields.CONTINUED}"
_FORMAT: Final = "perf script output"
_LARGEST_CPU: Final = np.iinfo(np.int16).max


def parse(blocks: Iterable[pa.BinaryArray]) -> FileContent:
    """Read the lines; a single number before the CPU is the thread id.

    The layout of the fields is decided by the first block; lines in another one are counted as not understood.
    """
    parts = iter(blocks)
    first_part = next(parts, pa.array([], pa.binary()))
    found = perf_fields.of_lines(first_part)[1]
    layout = perf_fields.DEFAULT if found is None else found.layout
    rows, others = extract(chain([first_part], parts), replace(layout, text="any").pattern)
    rows = rows.filter(pc.invert(pc.starts_with(rows["event"], "PERF_RECORD_")))
    codes, events = labels(column(rows, "event"))
    first, second = (integers(column(rows, name), np.int32) for name in ("first", "second"))
    tid = np.where(second == UNKNOWN, first, second).astype(np.int32)
    names = tuple(of_event(event, system) for system, _, event in (name.rpartition(":") for name in events))
    exits = np.array([name.function.startswith("sys_exit_") for name in names] or [False])[codes]
    traced = np.array([perf_fields.is_tracepoint(event) for event in events] or [False])[codes]
    printed, tail = perf_fields.tails(column(rows, "text"), loose=~traced)
    text = with_returns(pc.replace_substring_regex(printed, r"^\s+", ""), exits)
    columns, left_out = event_lines.columns(text, codes)
    hits = Hits(
        names=names,
        name=codes,
        time_ns=times(column(rows, "sec"), column(rows, "frac")),
        pid=first,
        tid=tid,
        cpu=_cpus(column(rows, "cpu")),
        comm=texts(column(rows, "comm")),
        columns={**_more(column(rows, "period"), tail), **columns},
    )
    chains = int(pc.sum(pc.match_substring_regex(column(others, "text"), _CALLCHAIN)).as_py() or 0)
    notes = (f"call chains were skipped ({chains:,} frames)",) if chains else ()
    rest = rest_of(others, known=_KNOWN)
    return function_graph.found(
        f"{_FORMAT} without its call chains" if chains else _FORMAT, hits, rest, left_out, notes
    )


def _cpus(digits: pa.Array) -> NDArray[np.int16]:
    numbers = integers(digits, np.int64)
    return np.where(numbers > _LARGEST_CPU, UNKNOWN, numbers).astype(np.int16)


def _more(period: pa.Array, tail: pa.Array) -> dict[str, EventColumn]:
    """Columns of the fields that only samples have: `period`, and the address's `symbol` and `dso`."""
    made = {}
    periods = perf_fields.periods(period)
    if (periods != UNKNOWN).any():
        made["period"] = EventColumn(np.maximum(periods, 0), periods != UNKNOWN)
    if tail.null_count < len(tail):
        coded = tail.dictionary_encode()
        codes = np.asarray(coded.indices.fill_null(-1)).astype(np.int32)
        for name, values in perf_fields.places(coded.dictionary).items():
            found, names = labels(pa.array([value.encode() for value in values], pa.binary()))
            made[name] = EventColumn(np.where(codes < 0, -1, found[codes]).astype(np.int32), categories=names)
    return made

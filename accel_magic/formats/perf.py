"""Default output of `perf script`: `comm pid/tid [cpu] time: event: fields`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accel_magic.formats import function_graph as graph
from accel_magic.formats import lines as fields
from accel_magic.formats.build import Found, Hits, of_event
from accel_magic.formats.ftrace import with_returns
from accel_magic.formats.lines import (
    FRACTION,
    SECONDS,
    UNKNOWN,
    column,
    extract,
    integers,
    labels,
    rest_of,
    texts,
    times,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

LINE: Final = (
    r"^[ \t]*(?P<comm>\S.{0,24}?)[ \t]+(?P<first>\d{1,9}|-1)(?:/(?P<second>\d{1,9}|-1))?"
    r"[ \t]+(?:\[(?P<cpu>\d{1,4})\][ \t]+)?"
    rf"(?P<sec>{SECONDS})\.(?P<frac>{FRACTION}):[ \t]+(?:\d{{1,18}}[ \t]+)?"
    r"(?P<event>[A-Za-z_][^\s:]*(?::[^\s:]+)*):[ \t]*(?P<text>[^\r\n]*)\s*$"
)
_CALLCHAIN: Final = r"^\s+[0-9a-f]{1,16} .*\)\s*$"
"""Frames below a sample, which are skipped."""


def parse(blocks: Iterable[pa.BinaryArray]) -> Found:
    """Read the lines; a single number before the CPU is the thread id."""
    rows, others = extract(blocks, LINE)
    codes, events = labels(column(rows, "event"))
    first, second = (integers(column(rows, name), np.int32) for name in ("first", "second"))
    tid = np.where(second == UNKNOWN, first, second).astype(np.int32)
    names = tuple(of_event(event, system) for system, _, event in (name.rpartition(":") for name in events))
    exits = np.array([name.function.startswith("sys_exit_") for name in names] or [False])[codes]
    text = with_returns(column(rows, "text"), exits)
    columns, left_out = fields.columns(text, codes)
    hits = Hits(
        names=names,
        name=codes,
        time_ns=times(column(rows, "sec"), column(rows, "frac")),
        pid=first,
        tid=tid,
        cpu=integers(column(rows, "cpu"), np.int16),
        comm=texts(column(rows, "comm")),
        columns=columns,
    )
    chains = int(pc.sum(pc.match_substring_regex(column(others, "text"), _CALLCHAIN)).as_py() or 0)
    notes = (f"call chains were skipped ({chains:,} frames)",) if chains else ()
    rest = rest_of(others, known=_CALLCHAIN)
    return graph.found("perf script output", hits, rest, left_out, notes)

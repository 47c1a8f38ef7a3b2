"""What bpftrace prints: a line for each event, maps and histograms at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accel_magic.traces.importing import fields
from accel_magic.traces.importing.bpftrace_maps import Maps, counted, read
from accel_magic.traces.importing.columns import (
    FRACTION,
    column,
    extract,
    integers,
    labels,
    texts,
    times,
    unknown,
)
from accel_magic.traces.importing.found import UNKNOWN, Found, Hits
from accel_magic.traces.importing.losses import rest_of
from accel_magic.traces.importing.names import PROBE_TEXT, of_bpftrace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

LINE: Final = (
    r"^[ \t]*(?:\[?(?:(?P<day>\d{4}-\d\d-\d\d)[T \t])?(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
    rf"(?:[.,](?P<part>{FRACTION}))?\]?[:,]?[ \t]+|"
    r"\[?(?P<sec>[0-8]?\d{1,18})(?:\."
    rf"(?P<frac>{FRACTION}))?s?\]?[:,]?[ \t]+)?"
    r"(?:(?P<comm>[^\s=@{}\"][^=@{}\"\n]{0,15}?)[ \t]+)?(?:(?P<tid>\d{1,9})[ \t]+)?"
    rf"(?P<probe>{PROBE_TEXT})[:,]?(?:[ \t]+(?P<text>.*?))?\s*$"
)
"""An event: a probe's name, before it perhaps a time, a task's name and its number; behind it perhaps `key=value`s."""

_LARGEST_PID: Final = 1 << 22
_DAY_NS: Final = 86_400_000_000_000
FORMAT: Final = "bpftrace output"


def parse(blocks: Iterable[pa.BinaryArray]) -> Found:
    """Read the text that bpftrace prints."""
    rows, others = extract(blocks, LINE)
    maps = read(column(others, "text"))
    rest = rest_of(others)
    return found(rows, maps, lost=rest.lost, malformed=max(rest.malformed - maps.lines, 0), notes=rest.notes)


def found(rows: pa.Table, maps: Maps, *, lost: int, malformed: int, notes: tuple[str, ...] = ()) -> Found:
    """Put events and maps together."""
    hits, more = _hits(rows) if len(rows) else (None, ())
    names = () if hits is None else hits.names
    counts, bars, about = counted(
        maps, names, () if hits is None else np.bincount(hits.name, minlength=len(names)), lost
    )
    return Found(FORMAT, hits, counts, bars, lost, malformed, (*more, *about, *notes))


def _hits(rows: pa.Table) -> tuple[Hits, tuple[str, ...]]:
    codes, probes = labels(column(rows, "probe"))
    time, notes = _times(rows)
    tid = integers(column(rows, "tid"), np.int32)
    if (tid != UNKNOWN).any():
        notes = (*notes, "pid and tid are both the number that stands before the probe")
    columns, left_out = fields.columns(column(rows, "text"), codes)
    if left_out:
        notes = (*notes, f"fields left out, the table would be too large: {', '.join(left_out[:10])}")
    hits = Hits(
        names=tuple(map(of_bpftrace, probes)),
        name=codes,
        time_ns=time,
        pid=tid,
        tid=tid,
        cpu=unknown(len(rows), np.int16),
        comm=texts(column(rows, "comm")),
        columns=columns,
    )
    return hits, notes


def _times(rows: pa.Table) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
    """Times of the events in ns, None where they have none that can be relied on, and why."""
    has = {
        name: np.asarray(pc.greater(pc.binary_length(column(rows, name)), 0))
        for name in ("hour", "sec", "frac", "part")
    }
    stamped = has["hour"] | has["sec"]
    if not stamped.any():
        return None, ()
    if not stamped.all() or (has["hour"].any() and has["sec"].any()):
        return None, (f"{int(stamped.sum()):,} of {len(rows):,} events have a time: the order alone is used",)
    if has["hour"].any():
        return _clock(rows, has["part"])
    if has["frac"].all():
        return times(column(rows, "sec"), column(rows, "frac")), ()
    numbers = integers(column(rows, "sec"), np.int64)
    falls = int((np.diff(numbers) < 0).sum())
    if has["frac"].any() or int(numbers.max()) < _LARGEST_PID or falls > 0.4 * len(numbers):
        return None, ("the numbers at the start of the lines are no times in ns: the order alone is used",)
    return numbers, ()


def _clock(rows: pa.Table, fraction: NDArray[np.bool_]) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
    """Times of day. Those in whole seconds order nothing and measure nothing."""
    if not fraction.all():
        first, last = (
            ":".join(column(rows, name)[row].as_py().decode() for name in ("hour", "minute", "second"))
            for row in (0, -1)
        )
        return None, (f"its times are whole seconds ({first} to {last}), too coarse to use: the order alone is used",)
    hour, minute = (integers(column(rows, name), np.int64) for name in ("hour", "minute"))
    seconds = times(column(rows, "second"), column(rows, "part"))
    time = (hour * 60 + minute) * 60_000_000_000 + seconds
    days, names = labels(column(rows, "day"))
    if len(names) > 1 or (names and names[0]):
        try:
            dates = np.array([np.datetime64(name, "D").astype(np.int64) for name in names], np.int64)
        except ValueError:
            return None, ("its dates are none: the order alone is used",)
        return time + dates[days] * _DAY_NS, ()
    midnights = np.concatenate([[0], np.cumsum(np.diff(time) < -_DAY_NS // 2)])
    return time + midnights * _DAY_NS, ()

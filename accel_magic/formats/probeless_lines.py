"""Lines of bpftrace scripts without a probe name: `[API] Submit`, `Allocation took 183 us`, `messages/sec: 57`.

They are read only if no other line in the file is an event, because a traced program may print such lines too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accel_magic.formats import event_lines, time_units
from accel_magic.formats.event_lines import UNKNOWN, groups_of, integers, labels, texts, times, unknown
from accel_magic.formats.recording_builder import Hits, PointName, Rates

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TAGGED: Final = (
    r"^[ \t]*\[(?P<tag>[A-Za-z][A-Za-z0-9_ ./-]{0,30})\]:?[ \t]+(?P<what>[^\s=][^=\r\n]*?)"
    r"(?:[ \t,;:]+(?P<text>[A-Za-z_]\w*=.*?))?\s*$"
)
_DURATION_NAMES: Final = (
    r"(?i)^[ \t]*(?P<what>[A-Za-z_][^\d@=\r\n]*?)[ \t]*(?:\b(?:took|lasted)\b|:|=)[ \t]*"
    rf"(?P<whole>\d{{1,9}})(?:\.(?P<part>\d{{1,9}}))?[ \t]*(?P<unit>{time_units.ANY})\.?\s*$"
)
_RATE: Final = (
    r"(?i)^[ \t]*(?P<what>[A-Za-z_][^\d@=/\r\n]*?)[ \t]*(?:/[ \t]*(?:s|sec|second)|per second)[ \t]*[:=]?[ \t]+"
    r"(?P<count>\d{1,12})\s*$"
)
LINE: Final = re.sub(r"\?P<\w+>", "?:", f"(?:{_TAGGED})|(?:{_DURATION_NAMES})|(?:{_RATE})")
"""Any of these lines."""

_NUMBER: Final = r"\b(?:0[xX][0-9a-fA-F]+|\d+)\b"
_MOST_CELLS: Final = 4_000_000
_NO_TEXT: Final = pa.scalar(b"", pa.binary())


@dataclass(frozen=True)
class Messages:
    """Events and rates from such lines; `lines` counts those that were understood."""

    hits: Hits | None = None
    rates: Rates | None = None
    lines: int = 0
    notes: tuple[str, ...] = ()


def read(lines: pa.Array) -> Messages:
    """Read lines, (lines,) binary, in order."""
    is_rate, rate = groups_of(lines, _RATE)
    took, call = groups_of(lines, _DURATION_NAMES)
    tagged, tag = groups_of(lines, _TAGGED)
    took &= ~is_rate
    tagged &= ~is_rate & ~took
    chosen = pa.array(is_rate)
    rates = _rates(rate["what"].filter(chosen), rate["count"].filter(chosen))
    hits, left_out = _hits(np.flatnonzero(took | tagged), took, call, tag)
    notes = ("rates per second are assumed to be printed once a second, one line for each second",) if rates else ()
    if left_out:
        notes = (*notes, event_lines.about_left_out(left_out))
    return Messages(hits, rates, int((took | tagged).sum()) + (int(is_rate.sum()) if rates else 0), notes)


def _rates(what: pa.Array, counts: pa.Array) -> Rates | None:
    """Rates over time; each counted item has its own lines, one for each second."""
    if not len(what):
        return None
    codes, names = labels(what)
    order = np.argsort(codes, kind="stable")
    first = np.searchsorted(codes[order], np.arange(len(names)))
    seconds = np.zeros(len(codes), np.int64)
    seconds[order] = np.arange(len(codes)) - first[codes[order]]
    shape = (int(seconds.max()) + 1, len(names))
    if shape[0] * shape[1] > _MOST_CELLS:
        return None
    table = np.zeros(shape, np.uint64)
    table[seconds, codes] = integers(counts, np.int64, 0).astype(np.uint64)
    return Rates(tuple(PointName(name, "tracepoint", "", name) for name in names), time_units.NANOSECONDS["s"], table)


def _hits(
    rows: NDArray[np.intp], took: NDArray[np.bool_], call: dict[str, pa.Array], tag: dict[str, pa.Array]
) -> tuple[Hits | None, tuple[str, ...]]:
    """Events of the rows, and fields left out; tagged lines that differ only in numbers are the same event."""
    if not len(rows):
        return None, ()
    place = pa.array(rows)
    tags, what, text = (pc.fill_null(tag[name].take(place), b"") for name in ("tag", "what", "text"))
    called, whole, part, spelled = (pc.fill_null(call[name].take(place), b"") for name in call)
    measured = took[rows]
    is_call = pa.array(measured)
    numbered = pc.replace_substring_regex(what, _NUMBER, "#")
    keys = pc.binary_join_element_wise(
        pc.if_else(is_call, _NO_TEXT, tags), pc.if_else(is_call, called, numbered), pa.scalar(b"\0", pa.binary())
    )
    codes, known = labels(keys)
    codes_of_units, words = labels(spelled)
    unit_ns = np.array([time_units.nanoseconds(word) for word in words], np.int64)[codes_of_units]
    columns, left_out = event_lines.columns(pc.if_else(is_call, _NO_TEXT, text), codes)
    nobody = unknown(len(rows), np.int32)
    hits = Hits(
        names=tuple(_name(*label.split("\0")) for label in known),
        name=codes,
        time_ns=None,
        pid=nobody,
        tid=nobody,
        cpu=unknown(len(rows), np.int16),
        comm=texts(pa.nulls(len(rows), pa.binary())),
        duration_ns=np.where(measured, times(whole, part, unit_ns), UNKNOWN) if measured.any() else None,
        columns=columns,
    )
    return hits, left_out


def _name(tag: str, what: str) -> PointName:
    if not tag:
        return PointName(what, "tracepoint", "", what, latency=True)
    return PointName(f"[{tag}] {what}", "tracepoint", tag, what)

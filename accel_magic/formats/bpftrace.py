"""bpftrace output: one line per event, then maps and histograms; also such lines counted by `uniq -c`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accel_magic.formats import event_lines, probeless_lines, time_units
from accel_magic.formats.bpftrace_maps import Maps, counted, read
from accel_magic.formats.event_lines import (
    FRACTION,
    UNKNOWN,
    column,
    extract,
    integers,
    labels,
    rest_of,
    text,
    texts,
    times,
    unknown,
)
from accel_magic.formats.probeless_lines import Messages
from accel_magic.formats.recording_builder import PROBE_TEXT, FileContent, Hits, of_bpftrace
from accel_magic.formats.time_units import NANOSECONDS, Units

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

LINE: Final = (
    r"^(?P<indent>[ \t]*)(?:\[?(?:(?P<day>\d{4}-\d\d-\d\d)[T \t])?(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
    rf"(?:[.,](?P<part>{FRACTION}))?\]?[:,]?[ \t]+|"
    r"\[?(?P<sec>[0-8]?\d{1,18})(?:\."
    rf"(?P<frac>{FRACTION}))?s?\]?[:,]?[ \t]+)?"
    r"(?:(?P<comm>[^\s=@{}\"][^=@{}\"\n]{0,15}?)[ \t]+)?(?:(?P<tid>\d{1,9})[ \t]+)?"
    rf"(?P<probe>{PROBE_TEXT})[:,]?(?:[ \t]+(?P<text>.*?))?\s*$"
)
"""An event: a probe name, optionally preceded by a time, task name and task id, and followed by `key=value` pairs."""

ATTACHED: Final = r"^Attach(?:ing|ed) \d+ probes?(?:\.\.\.)?\s*$"
"""The first line of bpftrace's output."""

FORMAT: Final = "bpftrace output"
_HEADING: Final = r"^\s*(?:[=*#-]{2,}[^@\d]*|[^@\d]{1,80}:)\s*$"
_UNIQ_REST: Final = r"^[ \t]*\d+[ \t]+(?:Attach(?:ing|ed) \d+ probes?(?:\.\.\.)?|\^C|Tracing.*)?\s*$"
_UNIQ_WIDTHS: Final = (7, 4)
"""Width of the counts of `uniq -c`: GNU and busybox, BSD."""

_LARGEST_PID: Final = 1 << 22
_MOST_SHARED: Final = 0.05
"""If more events than this share have the previous event's time, the clock does not count ns."""
_DAY_NS: Final = 86_400_000_000_000
_OVERRIDE: Final = "to set another unit, use a header such as TIME(ms), or accel_magic.open(path, units='ms')"


def parse(blocks: Iterable[pa.BinaryArray], given: Units) -> FileContent:
    """Read the text that bpftrace prints; `given` are the user's units."""
    rows, others = extract(blocks, LINE)
    maps = read(column(others, "text"))
    return found(rows, others, maps, given, understood=maps.lines)


def found(
    rows: pa.Table,
    others: pa.Table,
    maps: Maps,
    given: Units,
    *,
    lost: int = 0,
    malformed: int = 0,
    understood: int = 0,
) -> FileContent:
    """Combine events, maps and the lines between them.

    Args:
        rows: Lines that name a probe, as returned by `extract`.
        others: The other lines.
        maps: The printed maps.
        given: The user's units.
        lost: Events reported as lost elsewhere.
        malformed: Lines not understood elsewhere.
        understood: Number of the other lines that belong to maps.

    """
    lines = column(others, "text")
    headers = lines.filter(pc.match_substring_regex(lines, time_units.HEADER))
    known = f"{_HEADING}|{time_units.HEADER}|{time_units.TITLE}"
    clocks = time_units.of_headers(map(text, headers.to_pylist()))
    if _counted_by_uniq(rows, given, clocks):
        maps = _of_uniq(rows)
        rows = rows.slice(0, 0)
        known = f"{known}|{_UNIQ_REST}"
        about: tuple[str, ...] = ("the number at the start of each line is treated as its count (uniq -c)",)
    else:
        about = ()
    hits, notes = _hits(rows, given, clocks) if len(rows) else (None, ())
    printed = _printed(lines, known) if hits is None and not maps.names_probes else Messages()
    rest = rest_of(others, known=known)
    about = (*about, *notes, *printed.notes)
    hits = hits or printed.hits
    names = () if hits is None else hits.names
    recorded = () if hits is None else np.bincount(hits.name, minlength=len(names))
    lost += rest.lost
    counts, bars, more = counted(maps, names, recorded, lost, given, others_count=printed.rates is not None)
    return FileContent(
        FORMAT,
        hits,
        counts,
        bars,
        printed.rates,
        lost,
        malformed + max(rest.malformed - understood - printed.lines, 0),
        (*about, *more, *rest.notes),
    )


def _printed(lines: pa.Array, known: str) -> Messages:
    """Read the lines that are neither maps nor headings."""
    return probeless_lines.read(lines.filter(pc.invert(pc.match_substring_regex(lines, f"{known}|^@"))))


def _counted_by_uniq(rows: pa.Table, given: Units, clocks: tuple[str, ...]) -> bool:
    """Whether the number before each probe is a line count from `uniq -c`.

    Such counts are right-aligned in the width that `uniq` uses, and consecutive lines differ; after `sort` all lines
    differ.
    """
    if not len(rows) or clocks or time_units.TIME in given.named:
        return False
    digits, fraction, hour, indent = (
        np.asarray(pc.binary_length(column(rows, name))) for name in ("sec", "frac", "hour", "indent")
    )
    if not digits.all() or fraction.any() or hour.any() or not indent.any():
        return False
    if not any((indent + digits == np.maximum(digits, width)).all() for width in _UNIQ_WIDTHS):
        return False
    numbers = integers(column(rows, "sec"), np.int64)
    codes, different = labels(_counted_text(rows))
    smallest = int(numbers.min())
    once = len(different) == len(codes)
    return smallest > 0 and (once or (smallest == 1 and bool((np.diff(codes) != 0).all())))


def _counted_text(rows: pa.Table) -> pa.Array:
    """Text after the number: probe, task name, task id and the rest, separated by NULs."""
    parts = [pc.fill_null(column(rows, name), b"") for name in ("probe", "comm", "tid", "text")]
    return pc.binary_join_element_wise(*parts, pa.scalar(b"\0", pa.binary()))


def _of_uniq(rows: pa.Table) -> Maps:
    """Convert the counts to a map keyed by line."""
    maps = Maps()
    codes, different = labels(_counted_text(rows))
    sums = np.zeros(len(different), np.int64)
    np.add.at(sums, codes, integers(column(rows, "sec"), np.int64))
    for line, count in zip(different, sums.tolist(), strict=True):
        maps.put("", tuple(filter(None, line.split("\0"))), count)
    return maps


def _hits(rows: pa.Table, given: Units, clocks: tuple[str, ...]) -> tuple[Hits, tuple[str, ...]]:
    codes, probes = labels(column(rows, "probe"))
    time, notes = _times(rows, given, clocks)
    tid = integers(column(rows, "tid"), np.int32)
    if (tid != UNKNOWN).any():
        notes = (*notes, "pid and tid are both the number before the probe")
    columns, left_out = event_lines.columns(column(rows, "text"), codes)
    if left_out:
        notes = (*notes, event_lines.about_left_out(left_out))
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


def _times(rows: pa.Table, given: Units, clocks: tuple[str, ...]) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
    """Times of the events in ns, or None if they are missing or unreliable, and notes about them."""
    has = {
        name: np.asarray(pc.greater(pc.binary_length(column(rows, name)), 0))
        for name in ("hour", "sec", "frac", "part")
    }
    stamped = has["hour"] | has["sec"]
    if not stamped.any():
        return None, ()
    if not stamped.all() or (has["hour"].any() and has["sec"].any()):
        return None, (f"only {int(stamped.sum()):,} of {len(rows):,} events have a time: only their order is used",)
    if has["hour"].any():
        return _clock(rows, has["part"])
    return _numbers(rows, has["frac"], given, clocks)


def _numbers(
    rows: pa.Table, fraction: NDArray[np.bool_], given: Units, clocks: tuple[str, ...]
) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
    """Times that are plain numbers, in a known or guessed unit."""
    unit = given.named.get(time_units.TIME, "")
    if not unit and len(clocks) > 1:
        return None, (f"headers name several time units ({', '.join(clocks)}): only the order is used",)
    unit = unit or next(iter(clocks), "") or given.general
    if unit:
        return _in_unit(rows, unit)
    if fraction.all():
        note = f"times are treated as seconds because they have a fraction; {_OVERRIDE}"
        return times(column(rows, "sec"), column(rows, "frac")), (note,)
    numbers = integers(column(rows, "sec"), np.int64)
    steps = np.diff(numbers)
    if fraction.any() or int(numbers.max()) < _LARGEST_PID or int((steps < 0).sum()) > 0.4 * len(numbers):
        why = "the numbers at the start of the lines are not times in ns"
        return None, (f"{why}: only the order is used; {_OVERRIDE}",)
    shared = int((steps == 0).sum())
    if shared > _MOST_SHARED * len(numbers):
        why = f"{shared:,} of {len(numbers):,} events have the same time as the previous one"
        return None, (f"{why}, so times are not in ns: only the order is used; {_OVERRIDE}",)
    return numbers, (f"times are treated as ns, the unit of nsecs; {_OVERRIDE}",)


def _in_unit(rows: pa.Table, unit: str) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
    """Times in a known unit."""
    largest = int(integers(column(rows, "sec"), np.int64).max())
    if largest >= (1 << 63) // NANOSECONDS[unit] - 1:
        return None, (f"times of up to {largest:,} {unit} do not fit into 64 bits of ns: only the order is used",)
    return times(column(rows, "sec"), column(rows, "frac"), NANOSECONDS[unit]), ()


def _clock(rows: pa.Table, fraction: NDArray[np.bool_]) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
    """Times of day. Whole seconds are too coarse to order or measure anything."""
    if not fraction.all():
        first, last = (
            ":".join(column(rows, name)[row].as_py().decode() for name in ("hour", "minute", "second"))
            for row in (0, -1)
        )
        return None, (f"times are whole seconds ({first} to {last}), which is too coarse: only the order is used",)
    hour, minute = (integers(column(rows, name), np.int64) for name in ("hour", "minute"))
    seconds = times(column(rows, "second"), column(rows, "part"))
    time = (hour * 60 + minute) * 60_000_000_000 + seconds
    days, names = labels(column(rows, "day"))
    if len(names) > 1 or (names and names[0]):
        try:
            dates = np.array([np.datetime64(name, "D").astype(np.int64) for name in names], np.int64)
        except ValueError:
            return None, ("dates are invalid: only the order is used",)
        return time + dates[days] * _DAY_NS, ()
    midnights = np.concatenate([[0], np.cumsum(np.diff(time) < -_DAY_NS // 2)])
    return time + midnights * _DAY_NS, ()

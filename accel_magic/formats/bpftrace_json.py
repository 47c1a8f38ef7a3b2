"""Output of `bpftrace -f json`: JSON objects with the same text and maps, one per line, or as `jq` arranges them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from accel_magic.formats import bpftrace
from accel_magic.formats.bpftrace_maps import Bar, Maps, read
from accel_magic.formats.event_lines import column, extract, split

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from accel_magic.formats.recording_builder import FileContent
    from accel_magic.formats.time_units import Units

LINE: Final = r'^\s*\{\s*"type"\s*:\s*"[a-z_]+"\s*,.*\}\s*$'
_TEXT: Final = frozenset({"printf", "time", "cat", "system", "join"})
_MAPS: Final = frozenset({"map", "hist", "lhist", "stats"})
OBJECT: Final = re.compile(
    rb'"type"\s*:\s*"(?:%b)"\s*[,}]'
    % b"|".join(name.encode() for name in sorted({*_TEXT, *_MAPS, "attached_probes", "lost_events"}))
)
"""The type of an object."""
_COMPLETE: Final = re.compile(rb'\{\s*"(?:type|data)"\s*:.*\}\s*$', re.DOTALL)
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')
_PIECE: Final = 10_000
_LARGEST: Final = 1 << 62


def parse(blocks: Iterable[pa.BinaryArray], given: Units) -> FileContent:
    """Read the objects; other lines are counted as not understood. `given` are the user's units."""
    printed, maps, tally, title = [], Maps(), {"lost": 0, "malformed": 0}, ""
    for entry in _objects(blocks, tally):
        above, title = title, ""
        kind, data = entry.get("type"), entry.get("data")
        if kind in _TEXT and isinstance(data, str):
            printed.append(data)
            title = data.strip().rpartition("\n")[2]
        elif kind == "lost_events" and isinstance(data, dict) and _is_count(data.get("events")):
            tally["lost"] += data["events"]
        elif isinstance(data, dict) and kind in _MAPS:
            for name, value in data.items():
                _put(maps, name.lstrip("@"), (), value, above)
        elif kind != "attached_probes":
            tally["malformed"] += 1
    text = "".join(printed).encode("utf-8", "replace")
    rows, others = extract([split(text)] if text else [], bpftrace.LINE)
    understood = read(column(others, "text")).lines
    return bpftrace.found(
        rows, others, maps, given, lost=tally["lost"], malformed=tally["malformed"], understood=understood
    )


def _objects(blocks: Iterable[pa.BinaryArray], tally: dict[str, int]) -> Iterator[dict[str, Any]]:
    """Yield the objects; lines are parsed in bulk, or if that fails, as soon as their brackets are closed."""
    pending: list[bytes] = []
    depth = 0
    for lines in blocks:
        for start in range(0, len(lines), _PIECE):
            piece = [line for line in lines.slice(start, _PIECE).to_pylist() if line.strip()]
            entries = None if pending else _value(b"[" + b",".join(piece) + b"]")
            if isinstance(entries, list):
                yield from _known(entries, tally)
                continue
            for line in piece:
                if pending and _COMPLETE.match(line):  # what is pending was cut
                    yield from _known(_values(pending), tally)
                    pending, depth = [], 0
                pending.append(line)
                brackets = _STRING.sub(b"", line)
                depth += sum(map(brackets.count, (b"{", b"["))) - sum(map(brackets.count, (b"}", b"]")))
                if depth <= 0:
                    yield from _known(_values(pending), tally)
                    pending, depth = [], 0
    yield from _known(_values(pending), tally)


def _known(entries: list[Any], tally: dict[str, int]) -> Iterator[dict[str, Any]]:
    """Yield the objects, and those of lists; count everything else."""
    for entry in entries:
        if isinstance(entry, dict):
            yield entry
        elif isinstance(entry, list) and all(isinstance(each, dict) for each in entry):
            yield from entry
        else:
            tally["malformed"] += 1


def _values(lines: list[bytes]) -> list[Any]:
    """Parse lines that together are one value; if they are not, each is one, or None."""
    whole = _value(b"".join(lines)) if lines else []
    return [whole] if whole is not None else [_value(line) for line in lines]


def _value(text: bytes) -> Any:
    """Parse JSON; None if it is not."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _put(maps: Maps, name: str, key: tuple[str, ...], value: Any, title: str) -> None:
    """Add a map's value: a number, a histogram's bars, or the values under a key; `title` is the line above it."""
    if _is_count(value):
        maps.put(name, key, value)
    elif isinstance(value, list) and all(isinstance(bar, dict) and _is_count(bar.get("count")) for bar in value):
        bars = [bar for entry in value if (bar := _bar(entry)) is not None]
        if bars:
            maps.draw(name, key, bars, title)
    elif isinstance(value, dict) and not {"count", "average", "total"} <= set(value):
        for part, inner in value.items():
            _put(maps, name, (*key, *(piece.strip() for piece in part.split(","))), inner, title)
    else:
        maps.others[name] += 1


def _bar(entry: dict[str, Any]) -> Bar | None:
    """Convert a bucket; `max` is its largest value, and the outermost buckets have only one bound."""
    low, high = entry.get("min", -1), entry.get("max")
    ends = [end for end in (low, high) if end is not None]
    if any(type(end) is not int or abs(end) > _LARGEST for end in ends):
        return None
    return low, None if high is None else high + 1, entry["count"]


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _LARGEST

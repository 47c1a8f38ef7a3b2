"""Maps printed by bpftrace: counts, and histograms of durations."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow.compute as pc

from accel_magic.formats import time_units
from accel_magic.formats.event_lines import text
from accel_magic.formats.recording_builder import PointName, PrintedHistogram, is_probe, of_bpftrace
from accel_magic.formats.time_units import NANOSECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from accel_magic.formats.time_units import Units

Key = tuple[str, ...]
Bar = tuple[int, int | None, int]

_ENTRY: Final = re.compile(r"@(\w*)(?:\[(.*)\])?:[ \t]*(.*?)\s*$")
_STACK: Final = re.compile(r"@(\w*)\[\s*$")
_STACK_END: Final = re.compile(r"\s*(?:(\S.*?)[ \t]*)?\]:[ \t]*(\d{1,19})\s*$")
_COUNT: Final = re.compile(r"\d{1,18}")
_BAR: Final = re.compile(
    r"\s*(?:\[(?P<low>-?\d{1,18}[kKMGTPE]?)(?:, ?(?P<high>-?\d{1,18}[kKMGTPE]?|\.\.\.)[)\]]|\])|\((?:\.\.\.), ?"
    r"(?P<below>-?\d{1,18}[kKMGTPE]?)[)\]])\s+(?P<count>\d{1,18})\s*\|.*"
)
_UNITS: Final = {"k": 1 << 10, **{unit: 1 << (10 * power) for power, unit in enumerate("KMGTPE", 1)}}
_MAP_LINE: Final = r"^(?:@|\s*\[-?\d|\s*\(\.\.\.|\s+\S|\]: \d|, .*\]: \d)"

_DURATION_WORDS: Final = {
    **{word: unit for word, unit in time_units.WORDS.items() if word != "s"},
    **dict.fromkeys(("latency", "lat", "duration", "dur", "delay", "elapsed", "took", "time"), ""),
}
"""Words in a map's name that mark its values as durations, and the unit; '' if the word implies none."""

_COUNTS: Final = frozenset(("call", "calls", "count", "counts", "hit", "hits", "num", "n", "cnt", "events", "freq"))
"""Words in a map's name that mark it as a count."""

_NO_COUNTS: Final = frozenset(
    ("start", "ts", "begin", "entry", "last", "time", "bytes", "size", "sum", "total", "avg", "min", "max", "stats")
) | frozenset(_DURATION_WORDS)
"""Words in a map's name that mark its values as something other than counts."""


@dataclass
class Maps:
    """Printed maps, in order.

    Attributes:
        values: Values by (map name, key).
        bars: Histogram bars by (map name, key).
        others: Entries whose value is neither a count nor a histogram, by map name.
        titles: Unit named by the line directly above a histogram, by map name.
        lines: Number of lines that belong to maps.

    """

    values: dict[tuple[str, Key], list[int]] = field(default_factory=dict)
    bars: dict[tuple[str, Key], list[list[Bar]]] = field(default_factory=dict)
    others: Counter[str] = field(default_factory=Counter)
    titles: dict[str, str] = field(default_factory=dict)
    lines: int = 0

    @property
    def names_probes(self) -> bool:
        """Whether any value has a probe in its key."""
        return any(any(map(is_probe, key)) for _, key in self.values)

    def put(self, name: str, key: Key, value: int) -> None:
        """Add one printed value."""
        self.values.setdefault((name, key), []).append(value)

    def draw(self, name: str, key: Key, bars: list[Bar], title: str = "") -> None:
        """Add one printed histogram; `title` is the line above it."""
        self.bars.setdefault((name, key), []).append(bars)
        if unit := time_units.of_title(title):
            self.titles.setdefault(name, unit)


def read(lines: pa.Array) -> Maps:
    """Read the maps among lines that are not events."""
    maps = Maps()
    chosen = np.flatnonzero(np.asarray(pc.match_substring_regex(lines, _MAP_LINE)))
    stack: tuple[str, list[str]] | None = None
    drawing: tuple[str, Key, list[Bar]] | None = None
    for place in chosen.tolist():
        line = text(lines[place].as_py())
        if stack is not None and (end := _STACK_END.match(line)):
            frames = [*stack[1], *([end[1].lstrip(", ")] if end[1] else [])]
            maps.put(stack[0], ("; ".join(frames),), int(end[2]))
            maps.lines += 1
            stack = None
        elif drawing is not None and (bar := _BAR.match(line)):
            drawing[2].append(_bar(bar))
            maps.lines += 1
        elif found := _STACK.match(line):
            stack, drawing = (found[1], []), None
            maps.lines += 1
        elif found := _ENTRY.match(line):
            stack = drawing = None
            maps.lines += 1
            name, key = found[1], _key(found[2])
            if _COUNT.fullmatch(found[3]):
                maps.put(name, key, int(found[3]))
            elif found[3]:
                maps.others[name] += 1
            else:
                drawing = (name, key, [])
                maps.draw(*drawing, title=text(lines[place - 1].as_py()).strip() if place else "")
        elif stack is not None and line[:1].isspace() and line.strip():
            stack[1].append(line.strip().rstrip(","))
            maps.lines += 1
    maps.bars = {where: kept for where, drawn in maps.bars.items() if (kept := [bars for bars in drawn if bars])}
    return maps


def _key(inside: str | None) -> Key:
    return tuple(part.strip() for part in inside.split(", ")) if inside else ()


def _bar(found: re.Match[str]) -> Bar:
    count = int(found["count"])
    if found["below"] is not None:
        return -1, _number(found["below"]), count
    low = _number(found["low"])
    if found["high"] is None:
        return low, low + 1, count
    return low, None if found["high"] == "..." else _number(found["high"]), count


def _number(label: str) -> int:
    return int(label[:-1]) * _UNITS[label[-1]] if label[-1] in _UNITS else int(label)


def counted(
    maps: Maps, names: Sequence[PointName], hits: Iterable[int], lost: int, given: Units, *, others_count: bool
) -> tuple[dict[PointName, int], tuple[PrintedHistogram, ...], tuple[str, ...]]:
    """Convert maps to counts and histograms.

    A map with a probe in its key counts that probe's hits. If event lines name the probe too, they must agree: a map
    with more hits than were printed and lost contains something else (`max()` looks like `count()`). If two maps name
    the same probes, the one whose name suggests a count is used, else the first. Maps with other keys are used only if
    nothing else counts hits, because they count the same hits by task or similar.

    Args:
        maps: The printed maps.
        names: Probes named by event lines.
        hits: Number of lines of each.
        lost: Events that were not printed.
        given: The user's units.
        others_count: Whether anything besides event lines and maps counts hits.

    Returns:
        Counts, histograms, and notes on what was left out and why.

    """
    notes: list[str] = []
    by_map: dict[str, dict[Key, int]] = {}
    for (name, key), values in maps.values.items():
        by_map.setdefault(name, {})[key] = _settled(values)
    notes += _repeated(maps)
    lines = dict(zip((name.probe for name in names), map(int, hits), strict=True))
    counts: dict[PointName, int] = {}
    left_out: list[str] = list(maps.others)
    taken: set[str] = set()
    with_probe = {name: keys for name, keys in by_map.items() if all(any(map(is_probe, key)) for key in keys)}
    for name, keys in sorted(with_probe.items(), key=lambda item: not _counts_hits(item[0])):
        mine = Counter[str]()
        for key, count in keys.items():
            mine[next(filter(is_probe, key))] += count
        if _counts_nothing(name) or not taken.isdisjoint(mine) or not _agrees(mine, lines, lost):
            left_out.append(name)
            continue
        taken |= set(mine)
        counts |= _named(name, keys, mine, lines)
    bars, more = _durations(maps, given)
    notes += more
    for name, keys in by_map.items():
        if name in with_probe:
            continue
        if lines or with_probe or others_count or _counts_nothing(name):
            left_out.append(name)
        else:
            counts |= {_name(name, key): count for key, count in keys.items()}
    if left_out:
        shown = ", ".join(f"@{name}" for name in dict.fromkeys(left_out))
        notes.append(f"maps left out because they do not count hits, or count them again: {shown}")
    return counts, bars, tuple(notes)


def _settled(values: list[int]) -> int:
    """Combine values printed several times: the last of a running total, or the sum if it was reset in between."""
    running = all(before <= after for before, after in pairwise(values))
    return values[-1] if running else sum(values)


def _repeated(maps: Maps) -> list[str]:
    printed: dict[str, int] = {}
    for (name, _), values in maps.values.items():
        printed[name] = max(printed.get(name, 0), len(values))
    return [
        f"@{name} was printed {times} times: values that only grew are treated as running totals, others are summed"
        for name, times in printed.items()
        if times > 1
    ]


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[_\d]+", name.lower()) if word]


def _counts_nothing(name: str) -> bool:
    return not _NO_COUNTS.isdisjoint(_words(name))


def _counts_hits(name: str) -> bool:
    return not name or not _COUNTS.isdisjoint(_words(name))


def _agrees(mine: Mapping[str, int], lines: Mapping[str, int], lost: int) -> bool:
    """Whether a map's counts match the printed lines: not fewer, and at most as many more as were lost."""
    more = [count - lines[probe] for probe, count in mine.items() if probe in lines]
    return all(missing >= 0 for missing in more) and sum(more) <= lost


def _named(
    name: str, keys: Mapping[Key, int], mine: Mapping[str, int], lines: Mapping[str, int]
) -> dict[PointName, int]:
    """Counts by point; the rest of the key distinguishes points of one probe, unless event lines name the probe."""
    counts = {_name(name, (probe,)): count for probe, count in mine.items() if probe in lines}
    for key, count in keys.items():
        if not any(part in lines for part in key):
            counts[_name(name, key)] = count
    return counts


def _name(name: str, key: Key, *, latency: bool = False) -> PointName:
    """Name the point of a map entry: after its probe if the key has one, else after the map."""
    probe = next(filter(is_probe, key), None)
    if probe is None:
        function = ", ".join(key) or name or "@"
        return PointName(f"@{name}", "tracepoint", f"@{name}", function, latency)
    made = of_bpftrace(probe)
    others = [part for part in key if part != probe]
    shown = f"{probe} [{', '.join(others)}]" if others else probe
    return PointName(shown, made.kind, made.target, made.function, latency)


def _durations(maps: Maps, given: Units) -> tuple[tuple[PrintedHistogram, ...], list[str]]:
    bars, notes, unknown = [], [], []
    for (name, key), printed in maps.bars.items():
        unit, about = _unit(name, maps.titles.get(name, ""), given)
        notes += about
        if not unit:
            unknown.append(f"@{name}")
            continue
        scale = NANOSECONDS[unit]
        drawn = [(low * scale, None if high is None else high * scale, count) for low, high, count in printed[-1]]
        if any(low < 0 and count for low, _, count in drawn):
            notes.append(f"negative values of @{name} are left out")
        bars.append(PrintedHistogram(_name(name, key, latency=True), tuple(bar for bar in drawn if bar[0] >= 0)))
        notes.append(_precision(name, drawn))
    if unknown:
        shown = ", ".join(dict.fromkeys(unknown))
        notes.append(
            f"histograms left out because neither a name (@ns, @us, @ms) nor a title gives a time unit: {shown}; "
            f"to set one, use accel_magic.open(path, units={{'{unknown[0]}': 'us'}})"
        )
    return tuple(bars), list(dict.fromkeys(notes))


def _unit(name: str, title: str, given: Units) -> tuple[str, list[str]]:
    """Unit of a histogram's values, '' if they are not known to be durations; and notes about it."""
    if named := given.named.get(f"@{name}"):
        return named, []
    words = [_DURATION_WORDS[word] for word in reversed(_words(name)) if word in _DURATION_WORDS]
    own = next(filter(None, words), "")
    if own:
        note = f"@{name} is treated as {own} because of its name, although the line above it names {title}"
        return own, [note] if title not in ("", own) else []
    if title or not words:
        return title, []
    if given.general:
        return given.general, []
    return "ns", [
        f"@{name} is treated as ns; to set another unit, use accel_magic.open(path, units={{'@{name}': 'us'}})"
    ]


def _precision(name: str, bars: list[Bar]) -> str:
    """Describe the precision that the buckets allow: durations are read at the upper bounds, so never too short."""
    above = [bar for bar in bars if bar[1] is None and bar[2]]
    more = f"; {sum(bar[2] for bar in above):,} are beyond the last bucket's bound" if above else ""
    wide = {(high or low) - low for low, high, _ in bars if high is not None and low >= 0}
    how = f"at most {wide.pop():,} ns too long" if len(wide) == 1 else "up to twice too long"
    return f"latencies of @{name} are read from its printed buckets: {how}, never too short{more}"

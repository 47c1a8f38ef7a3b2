r"""Grammar of `perf script`: lines of a sample with any set of fields (`-F`), in the order in which perf prints them.

A sample is one line of fields, followed by its frames if it has a call chain:

    COMM PID/TID [CPU] MISC TIME: PERIOD EVENT: TEXT IP SYMBOL (DSO)
    \tIP SYMBOL (DSO)

Each field may be missing. A thread's name can be anything, so that a single line is ambiguous: which fields there are
is decided once, by the lines of the whole file. CPU, MISC, PERIOD and TEXT depend on the event.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accel_magic.formats.event_lines import FRACTION, SECONDS, integers, labels, text

if TYPE_CHECKING:
    from numpy.typing import NDArray

RECORD: Final = r"(?:^|\s)PERF_RECORD_[A-Z]"
"""Lines of `--show-task-events`, `--show-mmap-events` and others, which are not samples."""
CONTINUED: Final = r"^\t\t[\[ ]"
"""Further lines of such a record."""
FRAME: Final = r"^\t *[0-9a-f]{1,16}(?: .*)?\s*$"
SOURCE: Final = r"^  (?:\S.*(?::\d+|\[[0-9a-f]+\])(?: \(discriminator \d+\))?|\?\?:.*)\s*$"
"""The source line of the frame above (`-F srcline`)."""
DETAILS: Final = r"^(?:\|\s*\d|\s*(?:ABI:\d|0x[0-9a-f]+(?:\(.*\))?/0x|insn:|ilen:|IPC:|[0-9a-f]{16}\s*$))"
"""Registers, branches, instructions and source code below a call chain."""


def _aligned(digit: str, width: int, longest: int) -> str:
    """Pattern of a number that is padded with spaces to `width`."""
    padded = [f" {{{width - length}}}{digit}{{{length}}}" for length in range(1, width)]
    return f"(?:{'|'.join(padded)}|{digit}{{{width},{longest}}})"


_SPACED: Final = (
    rf"^(?:{'|'.join(f' {{{max(17 - length, 8)},}}[0-9a-f]{{{length}}}' for length in range(1, 17))})(?: .*)?\s*$"
)
"""A frame whose tab was replaced: it ends behind the 16 columns of a thread's name that looks like an address."""


class PerfLine(IntEnum):
    """Kind of a line."""

    OTHER = 0
    BLANK = 1
    FRAME = 2
    SPACED = 3
    """A frame, unless it is a line of fields."""
    RECORD = 4


def kinds(lines: pa.Array) -> NDArray[np.uint8]:
    """Kind of each line, as far as it is known without the layout: values of `Line`."""
    found = np.full(len(lines), PerfLine.OTHER, np.uint8)
    for kind, pattern in (
        (PerfLine.SPACED, _SPACED),
        (PerfLine.FRAME, FRAME),
        (PerfLine.BLANK, r"^\s*$"),
        (PerfLine.RECORD, f"{RECORD}|{CONTINUED}"),
    ):
        found[np.asarray(pc.match_substring_regex(lines, pattern))] = kind
    return found


_ADDRESS: Final = _aligned("[0-9a-f]", 16, 16)
_ALIGNED_PERIOD: Final = _aligned(r"\d", 10, 20)
_NUMBER: Final = r"(?:\d{1,9}|-1)"
TAIL: Final = rf"^(?P<before>|.* )(?P<frame>{_ADDRESS}(?: .*)?)$"
"""Address, symbol and file at the end of a line of fields."""
LOOSE_TAIL: Final = r"^(?P<before>)[ \t]*(?P<frame>[0-9a-f]{4,16}(?: .*)?)$"
"""The same with other widths, which can be told from TEXT only if there is no other TEXT."""

_COMM: Final = r"[ \t]*(?P<comm>\S.{0,79}?)[ \t]+"
_COMM_OR_NONE: Final = r"[ \t]*(?:(?P<comm>\S.{0,79}?)[ \t]+)??"
_TASK: Final = {
    "": "",
    "tid": rf"[ \t]*(?P<first>{_NUMBER})[ \t]+",
    "pid/tid": rf"[ \t]*(?P<first>{_NUMBER})/(?P<second>{_NUMBER})[ \t]+",
}
_GUEST: Final = r"(?:[ \t]*VM:[ \t]*\d+[ \t]+)?(?:[ \t]*VCPU:\d+[ \t]+)?"
_CPU: Final = r"(?:[ \t]*\[(?P<cpu>\d{1,5})\][ \t]+)?"
_FLAG: Final = "[nNpPlLbBhHsSzZ0-9a-f.]"
_MISC: Final = (
    rf"(?:[ \t]*(?:[KUHGg][MESp]{{0,2}}|\.{_FLAG}{{3,5}}"
    rf"|[dDbBX](?:\.{_FLAG}{{2,4}}|{_FLAG}\.{_FLAG}{{1,3}}|{_FLAG}{{2}}\.{_FLAG}{{0,2}}|{_FLAG}{{3,4}}\.))[ \t]+)?"
)
"""`-F misc`, or the flags of interrupts and preemption, of which one is not set."""
_DATE: Final = r"(?:[ \t]*\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{1,9}[ \t]+)?"
_TIME: Final = {
    "": "",
    "exact": rf"{_DATE}[ \t]*(?P<sec>{SECONDS})\.(?P<frac>\d{{6}}|\d{{9}}):(?:[ \t]|\s*$)",
    "any": rf"{_DATE}[ \t]*(?P<sec>{SECONDS})\.(?P<frac>{FRACTION}):(?:[ \t]|\s*$)",
}
"""perf prints microseconds or nanoseconds; other tools print other digits."""
_STAMP: Final = r"(?:^|\s)\d{1,10}\.(?:\d{6}|\d{9}):(?:\s|$)"
_EVENT: Final = r"[ \t]*(?P<event>[^\s:A-Za-z]*[A-Za-z][^\s]*?):(?:[ \t]|\s*$)"
_PERIOD: Final = {
    "": "",
    "aligned": rf"(?P<period>{_ALIGNED_PERIOD})(?: |\s*$)",
    "before event": r"[ \t]*(?:(?P<period>\d{1,20})[ \t]+)?",
    "without event": rf"(?:(?P<period>{_ALIGNED_PERIOD} |[ \t]*\d{{1,20}}\s*$))?",
}
_GROUPS: Final = ("comm", "first", "second", "cpu", "sec", "frac", "period", "event", "text")
_MOST: Final = 2_000
"""Lines that decide the layout."""
_FEW: Final = 0.02
"""Share of lines before frames up to which these are not call chains."""
_ENOUGH: Final = 0.98
"""Share of the lines that the best layout reads; one with more fields that reads as many is preferred."""


_TEXT: Final = {
    "": r"(?P<text>)",
    "tail": rf"[ \t]?(?P<text>{_ADDRESS}(?: .*?)?)",
    "any": r"(?P<text>.*?)",
}


@dataclass(frozen=True)
class PerfLayout:
    """The fields of a file.

    Attributes:
        comm: The thread's name.
        task: `tid` for a single number, `pid/tid` or ''.
        time: Key of `_TIME`.
        period: Key of `_PERIOD`.
        event: The event's name.
        text: Key of `_TEXT`: nothing, an address and its symbol, or also what tracepoints print.

    """

    comm: bool = False
    task: str = ""
    time: str = ""
    period: str = ""
    event: bool = False
    text: str = "any"

    @property
    def distinct(self) -> bool:
        """Whether a line of fields can be recognized by itself."""
        return bool(self.time) or self.event

    @cached_property
    def strict(self) -> str:
        """Pattern of lines that have all the fields."""
        return self._pattern(_COMM)

    @cached_property
    def pattern(self) -> str:
        """Pattern of lines with these fields, whose thread may have an empty name; has every group."""
        pattern = self._pattern(_COMM_OR_NONE)
        missing = "".join(f"(?P<{name}>)" for name in _GROUPS if f"(?P<{name}>" not in pattern)
        return f"{pattern.removesuffix('$')}{missing}$"

    def _pattern(self, comm: str) -> str:
        parts = [
            _GUEST,
            comm if self.comm else "",
            _TASK[self.task],
            _CPU,
            _MISC,
            _TIME[self.time],
            _PERIOD[self.period],
            _EVENT if self.event else "",
            _TEXT[self.text],
        ]
        return rf"^{''.join(parts)}\s*$"


_WHO: Final = ((True, "pid/tid"), (True, "tid"), (False, "pid/tid"), (False, "tid"), (True, ""), (False, ""))


def _with_who(**fields: Any) -> tuple[PerfLayout, ...]:
    return tuple(PerfLayout(comm, task, **fields) for comm, task in _WHO)


def _distinct(**more: str) -> tuple[PerfLayout, ...]:
    """Layouts that are recognized by themselves; of those that read the same lines, the first is right."""
    return (
        *_with_who(time="exact", period="before event", event=True, **more),
        *_with_who(time="exact", period="without event", **more),
        *_with_who(time="any", period="before event", event=True, **more),
        *_with_who(time="any", period="without event", **more),
        *_with_who(period="aligned", event=True, **more),
        *_with_who(event=True, **more),
    )


def _indistinct(text: str) -> tuple[PerfLayout, ...]:
    """Layouts whose lines are known only by what follows: frames, or address and symbol at the end of the line."""
    return (*_with_who(period="aligned", text=text), *_with_who(text=text))


DEFAULT: Final = PerfLayout(comm=True, task="tid", time="any", period="before event", event=True)


def layout_of(lines: pa.Array, *, chains: bool) -> PerfLayout | None:
    """Decide the fields of a file by its lines of fields.

    Args:
        lines: (lines,) binary, which may include a few other lines.
        chains: Whether each of these lines is followed by frames.

    Returns:
        None if hardly any line can be read.

    """
    rows = np.linspace(0, max(len(lines) - 1, 0), min(len(lines), _MOST)).astype(np.int64)
    some = lines.take(pa.array(rows))
    text = "" if chains else "tail"
    timed = _matching(some, _STAMP) * 2 > len(some)
    for layouts, share in ((_distinct(text=text), _ENOUGH), (_distinct(), 0.5), (_indistinct(text), 0.5)):
        best = _best(some, layouts, share)
        if best is not None:
            return best if best.time or not timed else None  # a time would be read as part of a name
    return None


def _best(lines: pa.Array, layouts: tuple[PerfLayout, ...], share: float) -> PerfLayout | None:
    """Return the first layout that reads as many lines as any other; None if none reads more than `share` of them."""
    read: list[int] = []
    for layout in layouts:
        read.append(_matching(lines, layout.strict))
        if read[-1] >= _ENOUGH * len(lines) > 0:  # no other layout can read more than all lines
            break
    if not max(read) >= share * len(lines) > 0:
        return None
    return next(layout for layout, count in zip(layouts, read, strict=False) if count >= _ENOUGH * max(read))


def _matching(lines: pa.Array, pattern: str) -> int:
    return int(pc.sum(pc.match_substring_regex(lines, pattern)).as_py() or 0)


def chained(found: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Lines of unknown kind that precede frames but do not follow any; also those that do, if no line is blank."""
    frame = (found == PerfLine.FRAME) | (found == PerfLine.SPACED)
    before = np.append(frame[1:], False) & ~frame & (found != PerfLine.BLANK) & (found != PerfLine.RECORD)
    inside = np.concatenate([[False], frame[:-1]])
    chains: NDArray[np.bool_] = before & ~inside if (found == PerfLine.BLANK).any() else before
    return chains


def of_lines(lines: pa.Array, skipped: NDArray[np.bool_] | None = None) -> tuple[NDArray[np.uint8], Fields | None]:
    """Kinds of lines, and the lines of fields among them; those in `skipped` are not perf's."""
    found = kinds(lines)
    possible = (found == PerfLine.OTHER) | (found == PerfLine.SPACED)
    if skipped is not None:
        possible &= ~skipped | chained(found)
    candidates = np.flatnonzero(possible)
    return found, fields(found, lines.take(pa.array(candidates)), candidates)


@dataclass(frozen=True)
class Fields:
    """The lines of fields of a file, or of its beginning.

    Attributes:
        layout: Their layout.
        rows: (lines,) bool, which lines they are.
        groups: (lines of fields,) binary by name: `comm`, `first`, `second`, `cpu`, `sec`, `frac`, `period`, `event`,
            `text`; empty or null if missing.

    """

    layout: PerfLayout
    rows: NDArray[np.bool_]
    groups: dict[str, Any]


def fields(found: NDArray[np.uint8], lines: pa.Array, candidates: NDArray[np.intp]) -> Fields | None:
    """Find and read the lines of fields.

    Args:
        found: (lines,) kinds of all lines.
        lines: (candidates,) binary, the lines of the kinds OTHER and SPACED.
        candidates: (candidates,) their numbers, ascending.

    Returns:
        None if no layout was found.

    """
    followed = chained(found)
    chains = int(followed.sum()) > _FEW * int((found == PerfLine.OTHER).sum())
    rows = np.zeros(len(found), np.bool_)
    if not len(candidates) or (
        not chains and not (found[candidates] == PerfLine.OTHER).any() and _paragraphs(found).any()
    ):
        return _without_fields(found)
    layout = layout_of(
        lines.filter(pa.array(_deciding(found, followed if chains else None, candidates, lines))), chains=chains
    )
    if layout is None:
        return _without_fields(found)
    valid, groups = _read(lines, layout)
    if not layout.distinct and not layout.text:
        valid &= followed[candidates]
    rows[candidates[valid]] = True
    return Fields(layout, rows, {name: group.filter(pa.array(valid)) for name, group in groups.items()})


def _read(lines: pa.Array, layout: PerfLayout) -> tuple[NDArray[np.bool_], dict[str, pa.Array]]:
    """Which lines have the layout, (lines,) bool, and their groups, null for the others."""
    valid = np.zeros(len(lines), np.bool_)
    groups = dict.fromkeys(_GROUPS, pa.nulls(len(lines), pa.binary()))
    for each in _variants(layout):
        found = pc.extract_regex(lines, each.pattern)
        new = pa.array(np.asarray(found.is_valid()) & ~valid)
        groups = {name: pc.if_else(new, pc.struct_field(found, name), group) for name, group in groups.items()}
        valid |= np.asarray(new)
        if valid.all():
            break
    return valid, groups


def _variants(layout: PerfLayout) -> tuple[PerfLayout, ...]:
    """The layouts of a file's lines: those of tracepoints may have more text, and no period."""
    if not layout.distinct:
        return (layout,)
    more = replace(layout, text="any")
    return (layout, more, replace(more, period="")) if layout.period == "aligned" else (layout, more)


def _deciding(
    found: NDArray[np.uint8], followed: NDArray[np.bool_] | None, candidates: NDArray[np.intp], lines: pa.Array
) -> NDArray[np.bool_]:
    """Which candidates decide the layout: those with a call chain if there are any, else all but comments."""
    if followed is not None:
        kept = followed[candidates]
    else:
        comments = np.asarray(pc.starts_with(lines, "#"))
        first = int(np.argmin(comments)) if not comments.all() else len(comments)
        kept = (np.arange(len(comments)) >= first) & ~np.asarray(pc.match_substring_regex(lines, SOURCE))
    certain: NDArray[np.bool_] = kept & (found[candidates] == PerfLine.OTHER)
    return certain if certain.any() else kept


def _paragraphs(found: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Blank lines that precede frames: with `-F ip`, the line of fields is empty."""
    frame = (found == PerfLine.FRAME) | (found == PerfLine.SPACED)
    paragraphs: NDArray[np.bool_] = (found == PerfLine.BLANK) & np.append(frame[1:], False)
    return paragraphs


def _without_fields(found: NDArray[np.uint8]) -> Fields | None:
    rows = _paragraphs(found)
    if not rows.any() or chained(found).any():
        return None
    empty = pa.array([b""] * int(rows.sum()), pa.binary())
    return Fields(PerfLayout(), rows, dict.fromkeys(_GROUPS, empty))


def tails(text: pa.Array, *, loose: NDArray[np.bool_]) -> tuple[pa.Array, pa.Array]:
    """Split the texts of lines of fields: what precedes address and symbol, and these, null if there are none.

    Args:
        text: (lines,) binary.
        loose: (lines,) bool, whether the text can only be an address.

    """
    exact = pc.extract_regex(text, TAIL)
    other = pc.extract_regex(text, LOOSE_TAIL)
    hand = pa.array(loose & ~np.asarray(exact.is_valid()))
    before = pc.if_else(hand, pc.struct_field(other, "before"), pc.struct_field(exact, "before"))
    frame = pc.if_else(hand, pc.struct_field(other, "frame"), pc.struct_field(exact, "frame"))
    return pc.coalesce(before, text), frame


_MODIFIERS: Final = "[ukhHGSDpPIWebR]+"
_TRACEPOINT: Final = re.compile(rf"[\w-]+:(?!{_MODIFIERS}$)[\w.-]*\w(?::{_MODIFIERS})?")


def is_tracepoint(event: str) -> bool:
    """Whether an event is a tracepoint (`sched:sched_switch`), not a counter with modifiers (`cycles:u`)."""
    return _TRACEPOINT.fullmatch(event) is not None


def periods(group: pa.Array) -> NDArray[np.int64]:
    """Convert the group `period` to numbers; UNKNOWN if it was not printed, or is not below 10^18."""
    digits = pc.utf8_trim_whitespace(pc.fill_null(group, b"").cast(pa.string())).cast(pa.binary())
    digits = pc.if_else(pc.greater(pc.binary_length(digits), 18), b"", digits)
    numbers: NDArray[np.int64] = integers(digits, np.int64)
    return numbers


ADDRESS_AND_PLACE: Final = re.compile(r"\s*(?P<address>[0-9a-f]{1,16})(?: (?P<place>.*))?")
"""A frame's text."""
INLINED: Final = " (inlined)"
_AFTER_OFFSET: Final = re.compile(r"(.*?\+0x[0-9a-f]+) \((.*)\)")


def parted(place: str) -> tuple[str, str] | None:
    """Split `SYMBOL (FILE)`; None if there is no file."""
    if found := _AFTER_OFFSET.fullmatch(place):
        return found[1], found[2]
    depth = 0
    for at in range(len(place) - 1, -1, -1) if place.endswith(")") else ():
        depth += {")": 1, "(": -1}.get(place[at], 0)
        if not depth:
            return (place[: max(at - 1, 0)], place[at + 1 : -1]) if not at or place[at - 1] == " " else None
    return None


def places(frames: pa.Array) -> dict[str, list[str]]:
    """Symbol and file of frames, (frames,) binary, by the names of perf's fields."""
    found = [ADDRESS_AND_PLACE.fullmatch(text(raw)) for raw in frames.to_pylist()]
    split = [parted(match["place"] or "") or (match["place"] or "", "") if match else ("", "") for match in found]
    return {"symbol": [symbol for symbol, _ in split], "dso": [file for _, file in split]}


@dataclass(frozen=True)
class Losses:
    """The beginning of a file as output of perf script.

    Attributes:
        lines: (lines,) bool, the lines that are.
        in_trace: Samples whose stack, symbol or weight a trace would lose.
        in_profile: Events whose fields a profile would lose, unless they have a stack.

    """

    lines: NDArray[np.bool_]
    in_trace: int = 0
    in_profile: int = 0


_KNOWN_EVENTS: Final = (
    r"(?:(?:cpu|task)-clock|(?:bus-|ref-)?cycles|instructions|branches|(?:cache|branch)-(?:misses|references)|"
    r"(?:page|minor|major|alignment|emulation)-faults|faults|(?:context|cgroup)-switches|cs|(?:cpu-)?migrations)(?:[:/]|$)"
)
_POSSIBLE: Final = rf"{FRAME}|{_SPACED}|\d\.\d{{1,9}}:\s|(?:^| ){_ADDRESS}(?: |\s*$)|(?:^|\s){_KNOWN_EVENTS}"
"""Part of any output of perf script that can be recognized."""


def losses(lines: pa.Array, foreign: NDArray[np.bool_]) -> Losses:
    """Decide which lines are perf script's, and what each reader would lose; `foreign` lines may be another tool's."""
    nothing = Losses(np.zeros(len(lines), np.bool_))
    if not _matching(lines, _POSSIBLE):
        return nothing
    found, fields_ = of_lines(lines, foreign)
    if fields_ is None or not fields_.rows.any():
        return nothing
    codes, names = labels(fields_.groups["event"])
    traced = np.array([is_tracepoint(name) for name in names] or [False])[codes]
    before, tail = tails(pc.fill_null(fields_.groups["text"], b""), loose=~traced)
    chains = int((chained(found) & fields_.rows).sum()) or int(_paragraphs(found)[fields_.rows].sum())
    symbols = np.asarray(tail.is_valid())
    if not (chains or _recognizable(fields_, symbols)):
        return nothing
    frames = ((found == PerfLine.FRAME) | (found == PerfLine.SPACED)) & ~fields_.rows
    other = (found == PerfLine.OTHER) & ~fields_.rows
    if not fields_.layout.distinct and int(other.sum()) > (1 - _ENOUGH) * int(fields_.rows.sum()):
        return nothing
    weighed = ~traced & (periods(fields_.groups["period"]) >= 0)
    with_fields = traced & ~symbols & np.asarray(pc.match_substring_regex(before, r"\S"))
    claimed = fields_.rows | (found == PerfLine.RECORD) | (frames if chains else False)
    if chains:
        return Losses(claimed, chains)
    return Losses(claimed, int((symbols | weighed).sum()), int(with_fields.sum()))


def _recognizable(found: Fields, symbols: NDArray[np.bool_]) -> bool:
    """Whether lines without call chains are perf's, and not prose that happens to fit."""
    if found.layout.time and found.layout.event:
        return True
    known = np.asarray(pc.match_substring_regex(pc.fill_null(found.groups["event"], b""), rf"^{_KNOWN_EVENTS}"))
    return bool(known.all() or symbols.mean() >= _ENOUGH)

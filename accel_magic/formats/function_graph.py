"""Calls in function_graph output: `name() {` with its `}`, or `name();`, each preceded by its duration."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accel_magic.formats import event_lines
from accel_magic.formats.event_lines import (
    FRACTION,
    SECONDS,
    UNKNOWN,
    Rest,
    column,
    extract,
    groups_of,
    integers,
    labels,
    rest_of,
    texts,
    times,
    unknown,
)
from accel_magic.formats.recording_builder import FileContent, Hits, PointName, of_event, of_function
from accel_magic.recording.recording import EventColumn

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

MEASURED: Final = r"(?:[+!#*@$][ \t]*)?(?:(?P<us>\d{1,12})(?:\.(?P<part>\d{1,3}))? us)?[ \t]*\|(?P<call>.*?)"
"""An optional duration and the call; trace-cmd prints the same after `funcgraph_entry:`."""

_TIME: Final = rf"(?:(?P<sec>{SECONDS})\.(?P<frac>{FRACTION})[ \t]+\|[ \t]+)?"
_CPU: Final = r"(?P<cpu>\d{1,4})\)"
_TASK: Final = r"(?:[ \t]*(?P<comm>\S[^|]*?)-(?P<tid>\d{1,9})[ \t]+\|)?(?:[ \t]*[^|\d\s+!#*@$][^|]*\|)?"
_DURATION: Final = r"[ \t]*(?:[+!#*@$][ \t]*)?(?:(?P<us>\d{1,12})(?:\.(?P<part>\d{1,3}))? us)?[ \t]*\|"
_SYNTAX: Final = r"(?P<call>[ \t]*(?:\}|[A-Za-z_0-9.$]+(?:[ \t]\[[\w.-]+\])?\(.*?\)(?:;|[ \t]\{)|/\*[ \t]).*?)"
LINE: Final = rf"^[ \t]*{_TIME}(?:{_CPU})?{_TASK}(?:{_DURATION})?{_SYNTAX}\s*$"
"""A line of the trace file under function_graph; each of the columns TIME, CPU, TASK/PID and DURATION may be off."""

_UNNAMED: Final = re.compile(r"\?P<\w+>")
CLAIM: Final = _UNNAMED.sub(
    "?:",
    rf"^[ \t]*{_TIME}(?:{_CPU}{_TASK}(?:{_DURATION})?|{_TASK}{_DURATION}){_SYNTAX}\s*$|^[ \t]*{_TIME}{_CPU}[^|]*\|",
)
"""A line that no other tool prints: it has a column CPU or DURATION."""

_CALL: Final = (
    r"^(?P<indent>[ \t]*)(?:(?P<close>\})|(?P<name>[A-Za-z_0-9.$]+)(?:[ \t]\[(?P<module>[\w.-]+)\])?\(.*?\)"
    r"(?:;|[ \t](?P<open>\{))|/\*[ \t](?P<event>[A-Za-z_]\w*):[ \t]*(?P<text>.*?)[ \t]*\*/)"
    r"(?:[ \t]*/\*(?P<comment>.*)\*/)?[ \t]*$"
)
_RETVAL: Final = r"(?:\bret(?:val)?[ \t]*=|=)[ \t]*(?:0x(?P<hex>[0-9a-fA-F]{1,16})|(?P<number>-?\d{1,18}))\b"
_TAIL: Final = (
    r"^[ \t]*(?P<name>[A-Za-z_][\w.$]*)(?:[ \t]\[(?P<module>[\w.-]+)\])?[ \t]*"
    r"(?:$|[ \t](?:ret(?:val)?[ \t]*)?=|[ \t]<-)"
)
"""Name of the function that ends: `} /* NAME */`."""
_ARROW: Final = r"^[ \t]*(?:=+>|<=+)[ \t]*\|?[ \t]*$"
_BETWEEN: Final = r"^[ \t]*(?:[\d.]+[ \t]*\|)?[ \t]*\d{1,4}\)[^|]*(?:\|[^|]*)?(?:=+>|<=+)[ \t]*\|?\s*$"
"""Start or end of an interrupt."""
_SWITCH: Final = (
    r"^[ \t]*(?:[\d.]+[ \t]*\|)?[ \t]*(?P<cpu>\d{1,4})\)[ \t]*(?P<old_comm>\S.*?)-(?P<old_tid>\d{1,9})[ \t]+=>"
    r"[ \t]+(?P<comm>\S.*?)-(?P<tid>\d{1,9})\s*$"
)


@dataclass(frozen=True)
class Calls:
    """The calls. All arrays have the shape (lines,).

    Attributes:
        kept: bool, the line is an event (neither malformed, nor the end of a call that began in the file).
        ended: bool, the line is the end of a call whose beginning is not in the file.
        notes: What is missing of calls, for the user.
        malformed: bool.
        names: As in `Hits`.
        name: As in `Hits`.
        duration_ns: int64.
        retval: Return values; None if none are printed.
        text: Fields of trace events among the calls.

    """

    kept: NDArray[np.bool_]
    ended: NDArray[np.bool_]
    malformed: NDArray[np.bool_]
    names: tuple[PointName, ...]
    name: NDArray[np.int32]
    duration_ns: NDArray[np.int64]
    retval: EventColumn | None
    text: pa.Array
    notes: tuple[str, ...]


def parse(blocks: Iterable[pa.BinaryArray]) -> FileContent:
    """Read the trace file of the function_graph tracer."""
    rows, others = extract(blocks, LINE)
    rest = rest_of(others, known=f"{_SWITCH}|{_BETWEEN}")
    tid, comm = _tasks(rows, others)
    cpu = integers(column(rows, "cpu"), np.int16)
    stamped = np.asarray(pc.greater(pc.binary_length(column(rows, "sec")), 0))
    timed = bool(len(rows)) and bool(stamped.all())
    time = times(column(rows, "sec"), column(rows, "frac")) if timed else None
    calls = drawn(column(rows, "call"), durations(column(rows, "us"), column(rows, "part")), tid, cpu)
    hits = Hits(
        names=calls.names,
        name=calls.name,
        time_ns=None if time is None else begun(time, calls),
        pid=tid,
        tid=tid,
        cpu=cpu,
        comm=comm,
        duration_ns=calls.duration_ns,
        columns={} if calls.retval is None else {"retval": calls.retval},
    ).rows(calls.kept)
    more, left_out = event_lines.columns(calls.text.filter(pa.array(calls.kept)), hits.name)
    hits = replace(hits, columns={**hits.columns, **more})
    rest = replace(rest, malformed=rest.malformed + int(calls.malformed.sum()))
    return found("ftrace function_graph output", hits, rest, left_out, calls.notes)


def found(format_: str, hits: Hits, rest: Rest, left_out: tuple[str, ...], notes: tuple[str, ...] = ()) -> FileContent:
    """Combine the parts that all ftrace formats share."""
    if len(hits) and (hits.pid == hits.tid).all() and (hits.tid != UNKNOWN).any():
        notes = (*notes, "pid is the thread id: this output has no process ids")
    if left_out:
        notes = (*notes, event_lines.about_left_out(left_out))
    return FileContent(
        format_, hits, lost=rest.lost, malformed=rest.malformed, notes=(*notes, *rest.notes), machine=rest.machine
    )


def durations(us: pa.Array, part: pa.Array) -> NDArray[np.int64]:
    """Convert printed microseconds to ns; UNKNOWN if none are printed."""
    there = np.asarray(pc.fill_null(pc.greater(pc.binary_length(us), 0), False))
    thousandths = integers(pc.utf8_rpad(part.cast(pa.string()), 3, "0"), np.int64, 0)
    return np.where(there, integers(us, np.int64, 0) * 1000 + thousandths, UNKNOWN)


def drawn(
    calls: pa.Array,
    duration_ns: NDArray[np.int64],
    tid: NDArray[np.int32],
    cpu: NDArray[np.int16],
) -> Calls:
    """Read the calls of all lines and assign each its duration, which is printed at its end."""
    valid, groups = groups_of(calls, _CALL)
    closes, opens, events = (_has(groups[name]) for name in ("close", "open", "event"))
    arrows = np.asarray(pc.fill_null(pc.match_substring_regex(calls, _ARROW), False))
    depth = np.asarray(pc.fill_null(pc.binary_length(groups["indent"]), 0)).astype(np.int64)
    # Idle tasks all have the id 0, and tasks may be unnamed: then the CPU identifies the task.
    thread = np.where(tid > 0, tid.astype(np.int64), -1 - cpu.astype(np.int64))
    functions = _functions(groups, closes)
    opened, closed = _pairs(thread, depth, opens, closes, functions)
    duration = duration_ns.copy()
    duration[opens | events] = UNKNOWN
    duration[opened] = duration_ns[closed]
    paired = np.zeros(len(calls), np.bool_)
    paired[opened] = paired[closed] = True
    named = functions.is_valid()
    ended = closes & ~paired & np.asarray(named)
    kept = valid & (~closes | ended)
    names, name = _names(functions, groups["event"], kept, events)
    return Calls(
        kept=kept,
        ended=ended,
        malformed=~valid & ~arrows,
        names=names,
        name=name,
        duration_ns=duration,
        retval=_retval(groups["comment"], opened, closed),
        text=pc.if_else(pa.array(events), groups["text"], pa.scalar(None, pa.binary())),
        notes=_notes(
            ended=ended,
            unnamed=closes & ~paired & ~ended,
            unended=opens & ~paired,
            without=kept & ~opens & ~events,
            duration=duration,
        ),
    )


def begun(time_ns: NDArray[np.int64], calls: Calls) -> NDArray[np.int64]:
    """Times of the lines, those of ends without a beginning moved back by the duration, (lines,) int64."""
    return np.where(calls.ended, np.maximum(time_ns - np.maximum(calls.duration_ns, 0), 0), time_ns)


def _notes(
    *,
    ended: NDArray[np.bool_],
    unnamed: NDArray[np.bool_],
    unended: NDArray[np.bool_],
    without: NDArray[np.bool_],
    duration: NDArray[np.int64],
) -> tuple[str, ...]:
    """Notes on incomplete calls; each argument has the shape (lines,)."""
    found = (
        (
            "calls without a beginning in the file",
            ended,
            "each begins at its end minus its duration, if one is printed",
        ),
        ("ends of calls without a beginning and a name", unnamed, "not counted; options/funcgraph-tail prints names"),
        ("calls without an end in the file", unended, "they have no duration"),
        ("calls without a duration", without & (duration == UNKNOWN), "options/funcgraph-duration prints it"),
    )
    return tuple(f"{what}: {int(rows.sum()):,} ({why})" for what, rows, why in found if rows.any())


def _functions(groups: dict[str, Any], closes: NDArray[np.bool_]) -> pa.Array:
    """Function and module of each line, separated by a NUL; null for events and for ends without a name."""
    _, tails = groups_of(groups["comment"], _TAIL)
    ends = pa.array(closes)
    parts = [pc.if_else(ends, tails[name], groups[name]) for name in ("name", "module")]
    named = pc.if_else(pc.equal(pc.binary_length(parts[0]), 0), None, parts[0])
    return pc.binary_join_element_wise(named, pc.fill_null(parts[1], b""), pa.scalar(b"\0", pa.binary()))


def _has(group: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(pc.fill_null(pc.greater(pc.binary_length(group), 0), False))


def _pairs(
    thread: NDArray[np.int64],
    depth: NDArray[np.int64],
    opens: NDArray[np.bool_],
    closes: NDArray[np.bool_],
    functions: pa.Array,
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Lines where calls begin and end.

    An end belongs to the previous beginning of the same thread and depth, unless it names another function.
    """
    rows = np.flatnonzero(opens | closes)
    rows = rows[np.lexsort((rows, depth[rows], thread[rows]))]
    first, second = rows[:-1], rows[1:]
    paired = opens[first] & closes[second] & (thread[first] == thread[second]) & (depth[first] == depth[second])
    first, second = first[paired], second[paired]
    other = np.asarray(
        pc.fill_null(pc.not_equal(functions.take(pa.array(first)), functions.take(pa.array(second))), False)
    )
    return first[~other], second[~other]


def _names(
    functions: pa.Array, events: pa.Array, kept: NDArray[np.bool_], is_event: NDArray[np.bool_]
) -> tuple[tuple[PointName, ...], NDArray[np.int32]]:
    codes, known = labels(functions)
    event_codes, event_names = labels(events)
    names = (
        *(of_function(*name.split("\0", 1), latency=True) for name in known),
        *(of_event(name) for name in event_names),
    )
    return names, np.where(kept, np.where(is_event, event_codes + len(known), codes), 0).astype(np.int32)


def _retval(comments: pa.Array, opened: NDArray[np.intp], closed: NDArray[np.intp]) -> EventColumn | None:
    """Return values printed by funcgraph-retval, moved to the line where the call begins."""
    found = pc.extract_regex(comments, _RETVAL)
    valid = np.asarray(found.is_valid())
    if not valid.any():
        return None
    coded = comments.filter(pa.array(valid)).dictionary_encode()
    unique = pc.extract_regex(coded.dictionary, _RETVAL).to_pylist()
    read = [int(one["hex"], 16) if one["hex"] else int(one["number"]) for one in unique]
    signed = np.array([number - (1 << 64) if number >= 1 << 63 else number for number in read], np.int64)
    values = np.zeros(len(valid), np.int64)
    values[valid] = signed[np.asarray(coded.indices)]
    values[opened], valid[opened] = values[closed], valid[closed]
    return EventColumn(values, valid)


def _tasks(rows: pa.Table, others: pa.Table) -> tuple[NDArray[np.int32], EventColumn]:
    """Thread and task of each line: from its own column, or from the task switches on its CPU."""
    valid, groups = groups_of(column(others, "text"), _SWITCH)
    own = _has(column(rows, "tid"))
    if own.any() or not valid.any():
        comm = texts(column(rows, "comm")) if own.any() else EventColumn(unknown(len(rows), np.int32), categories=())
        return integers(column(rows, "tid"), np.int32), comm
    kept = pa.array(np.flatnonzero(valid))
    chosen = {name: group.take(kept) for name, group in groups.items()}
    return _switched(rows, chosen, np.asarray(column(others, "line"))[np.asarray(kept)])


def _switched(
    rows: pa.Table, switches: dict[str, pa.Array], lines: NDArray[np.int64]
) -> tuple[NDArray[np.int32], EventColumn]:
    """Thread and task of each line: the target of the last switch on its CPU, or the source of the first switch."""
    cpus = integers(switches["cpu"], np.int64)
    order = np.lexsort((lines, cpus))
    keys = (cpus << 40 | lines)[order]
    requested = integers(column(rows, "cpu"), np.int64) << 40 | np.asarray(column(rows, "line"))
    last = np.searchsorted(keys, requested, side="right") - 1
    following = np.minimum(last + 1, len(keys) - 1)
    after = (last >= 0) & (keys[last] >> 40 == requested >> 40)
    before = ~after & (keys[following] >> 40 == requested >> 40)
    codes, names = labels(pa.concat_arrays([switches["comm"], switches["old_comm"]]))
    numbers = np.concatenate([integers(switches[name], np.int32) for name in ("tid", "old_tid")])
    # The first half has the tasks switched to, the second those switched from.
    place = np.where(after, order[last], order[following] + len(order))
    known = after | before
    comm = np.where(known, codes[place], -1).astype(np.int32)
    return np.where(known, numbers[place], UNKNOWN).astype(np.int32), EventColumn(comm, categories=names)

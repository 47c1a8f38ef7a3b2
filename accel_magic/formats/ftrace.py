"""Output of ftrace: the files `trace` and `trace_pipe`, and `trace-cmd report`.

Functions of the function tracer become kernel functions, function_graph calls become latency points, and trace events
become tracepoints with their fields as columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accel_magic.formats import event_lines, function_graph
from accel_magic.formats.event_lines import (
    FRACTION,
    SECONDS,
    UNKNOWN,
    column,
    extract,
    groups_of,
    integers,
    labels,
    rest_of,
    texts,
    times,
)
from accel_magic.formats.recording_builder import FileContent, Hits, PointName, of_event, of_function
from accel_magic.recording.recording import EventColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

LINE: Final = (
    r"^[ \t]*(?P<comm>\S.{0,24}?)-(?P<tid>\d{1,9})[ \t]+(?:\([ \t]*(?P<pid>\d{1,9}|-+)\)[ \t]+)?"
    r"(?:\[(?P<cpu>\d{1,4})\][ \t]+(?:[^\s\d:]\S{2,9}[ \t]+)?|(?P<latency_cpu>\d{1,4})[^\s\d:]\S{2,9}[ \t]+)"
    rf"(?P<sec>{SECONDS})\.(?P<frac>{FRACTION}):[ \t]+(?P<what>[^\r\n]*)\s*$"
)
_EVENT: Final = r"^(?:(?P<system>[\w-]+):)?(?P<event>[A-Za-z_][\w.]*):(?:[ \t]+(?P<text>.*))?$"
_FUNCTION: Final = (
    r"^(?P<function>[A-Za-z_0-9.$]+)(?:\+0x[0-9a-f]+(?:/0x[0-9a-f]+)?)?(?:[ \t]\[(?P<module>[\w.-]+)\])?(?:\(.*\))?"
    r"(?:[ \t]+<-+[ \t]*(?P<caller>[^\s+]+).*)?$"
)
_ENTER: Final = r"^sys_(?P<call>\w+)\((?P<text>.*)\)$"
_EXIT: Final = r"^sys_(?P<call>\w+)[ \t]+->[ \t]+(?P<text>\S+)$"
_STACK: Final = r"^(?:(?:kernel|user)_stack:[ \t]+)?<(?:user )?stack trace ?>\s*$"
_STACK_FRAME: Final = r"^[ \t]*=>[ \t]"
_GRAPH: Final = ("funcgraph_entry", "funcgraph_exit")
_NONE: Final = pa.scalar(None, pa.binary())


@dataclass(frozen=True)
class _Content:
    """Content of the lines after their time, (lines,) each; `name` is a code into `names`, -1 if not understood."""

    names: tuple[PointName, ...]
    name: NDArray[np.int32]
    text: pa.Array
    caller: pa.Array
    drawn: NDArray[np.bool_]


def parse(blocks: Iterable[pa.BinaryArray]) -> FileContent:
    """Read the lines; times are on the trace's clock, by default close to CLOCK_MONOTONIC."""
    rows, others = extract(blocks, LINE)
    content = _content(column(rows, "what"))
    stacks = np.asarray(pc.match_substring_regex(column(rows, "what"), _STACK))
    time = times(column(rows, "sec"), column(rows, "frac"))
    tid = integers(column(rows, "tid"), np.int32)
    cpu = np.maximum(integers(column(rows, "cpu"), np.int16), integers(column(rows, "latency_cpu"), np.int16))
    named = pc.if_else(pc.match_substring_regex(column(rows, "pid"), "^-"), _NONE, column(rows, "pid"))
    process = integers(named, np.int32)
    hits = Hits(
        names=content.names,
        name=content.name,
        time_ns=time,
        pid=np.where(process == UNKNOWN, tid, process).astype(np.int32),
        tid=tid,
        cpu=cpu,
        comm=texts(pc.if_else(pc.equal(column(rows, "comm"), b"<...>"), _NONE, column(rows, "comm"))),
    )
    kept, hits, text, notes = _with_calls(hits, content)
    kept = kept & ~stacks
    ends = int(content.drawn.sum()) - int(kept[content.drawn].sum())
    hits, caller = hits.rows(kept), content.caller.filter(pa.array(kept))
    more, left_out = event_lines.columns(text.filter(pa.array(kept)), hits.name)
    if len(caller) > caller.null_count:
        more = {"caller": texts(caller), **more}
    rest = rest_of(others, known=_STACK_FRAME)
    rest = replace(rest, malformed=rest.malformed + int((~kept & ~stacks).sum()) - ends)
    notes = (*notes, *_about_stacks(int(stacks.sum())))
    return function_graph.found("ftrace output", replace(hits, columns={**hits.columns, **more}), rest, left_out, notes)


def _about_stacks(count: int) -> tuple[str, ...]:
    how = "perf record -g ... and perf script record events with their stacks"
    return (f"stack traces left out: {count:,}; {how}",) if count else ()


def with_returns(text: pa.Array, exits: NDArray[np.bool_]) -> pa.Array:
    """Add the field name `ret` to system call return values that are printed without one."""
    bare = exits & np.asarray(pc.fill_null(pc.match_substring_regex(text, r"^(?:0x[0-9a-f]+|-?\d+)\s*$"), False))
    return pc.if_else(pa.array(bare), pc.binary_join_element_wise(b"ret=", text, pa.scalar(b"", pa.binary())), text)


def _content(what: pa.Array) -> _Content:
    """Match events, then system calls, then functions, each among the remaining lines."""
    parts = _Parts(len(what))
    rows, event = _matches(what, np.arange(len(what)), _EVENT)
    kinds = event["event"]
    drawn = np.asarray(pc.is_in(kinds, pa.array(_GRAPH).cast(pa.binary())))
    functions = np.asarray(pc.equal(kinds, b"function"))
    plain = ~drawn & ~functions
    parts.take(rows, event, plain, ("event", "system"), of_event)
    parts.text.append((rows[drawn], event["text"].filter(pa.array(drawn))))
    left = np.setdiff1d(np.arange(len(what)), rows, assume_unique=True)
    for pattern, prefix in ((_ENTER, "sys_enter_"), (_EXIT, "sys_exit_")):
        found, call = _matches(what, left, pattern)
        every = np.ones(len(found), np.bool_)
        parts.take(found, call, every, ("call",), lambda name, prefix=prefix: of_event(prefix + name, "syscalls"))
        left = np.setdiff1d(left, found, assume_unique=True)
    found, function = _matches(what, left, _FUNCTION)
    called = np.asarray(pc.greater(pc.binary_length(function["caller"]), 0))
    parts.take(found, function, called, ("function", "module"), of_function)
    # trace-cmd indents names by call depth.
    inner = pc.ascii_ltrim_whitespace(event["text"].filter(pa.array(functions)).cast(pa.string(), safe=False))
    found, function = _matches(inner.cast(pa.binary()), np.arange(len(inner)), _FUNCTION)
    every = np.ones(len(found), np.bool_)
    parts.take(rows[functions][found], function, every, ("function", "module"), of_function)
    exits = np.array([name.function.startswith("sys_exit_") for name in parts.names] or [False])[parts.name]
    text = with_returns(_scattered(parts.text, len(what)), exits & (parts.name != UNKNOWN))
    mask = np.zeros(len(what), np.bool_)
    mask[rows[drawn]] = True
    return _Content(tuple(parts.names), parts.name, text, _scattered(parts.caller, len(what)), mask)


class _Parts:
    """Parts of the lines recognized so far."""

    def __init__(self, lines: int) -> None:
        self.names: list[PointName] = []
        self.name = np.full(lines, UNKNOWN, np.int32)
        self.text: list[tuple[NDArray[np.intp], pa.Array]] = []
        self.caller: list[tuple[NDArray[np.intp], pa.Array]] = []

    def take(
        self,
        rows: NDArray[np.intp],
        groups: dict[str, pa.Array],
        chosen: NDArray[np.bool_],
        key: tuple[str, ...],
        make: Callable[..., PointName],
    ) -> None:
        """Name the `chosen` rows after their groups in `key`."""
        parts = [groups[name].filter(pa.array(chosen)) for name in key]
        codes, known = labels(pc.binary_join_element_wise(*parts, pa.scalar(b"\0", pa.binary())))
        self.name[rows[chosen]] = codes + len(self.names)
        self.names += [make(*label.split("\0")) for label in known]
        for name, column_ in (("text", self.text), ("caller", self.caller)):
            if name in groups:
                column_.append((rows[chosen], groups[name].filter(pa.array(chosen))))


def _matches(what: pa.Array, rows: NDArray[np.intp], pattern: str) -> tuple[NDArray[np.intp], dict[str, pa.Array]]:
    """Return the rows that match, and their groups."""
    found = pc.extract_regex(what.take(pa.array(rows)), pattern)
    valid = np.asarray(found.is_valid())
    kept = found.filter(pa.array(valid))
    return rows[valid], {field.name: kept.field(field.name) for field in found.type}


def _scattered(parts: list[tuple[NDArray[np.intp], pa.Array]], rows: int) -> pa.Array:
    """Place values at their rows; other rows are null."""
    place = np.full(rows, -1, np.int64)
    if parts:
        every = np.concatenate([found for found, _ in parts])
        place[every] = np.arange(len(every))
    values = pa.concat_arrays([values for _, values in parts]) if parts else pa.array([], pa.binary())
    return values.take(pa.array(place, mask=place < 0))


def _with_calls(hits: Hits, content: _Content) -> tuple[NDArray[np.bool_], Hits, pa.Array, tuple[str, ...]]:
    """Read the function_graph calls among the events; returns which lines are hits, the hits, their fields, notes."""
    if not content.drawn.any():
        return content.name != UNKNOWN, hits, content.text, ()
    places = np.flatnonzero(content.drawn)
    _, groups = groups_of(content.text.take(pa.array(places)), f"^{function_graph.MEASURED}$")
    measured = function_graph.durations(groups["us"], groups["part"])
    calls = function_graph.drawn(pc.fill_null(groups["call"], b"?"), measured, hits.tid[places], hits.cpu[places])
    name, duration = hits.name.copy(), np.full(len(hits), UNKNOWN, np.int64)
    name[places] = np.where(calls.kept, calls.name + len(hits.names), UNKNOWN)
    duration[places] = calls.duration_ns
    kept = name != UNKNOWN
    kept[places[~calls.kept]] = False
    columns = {}
    if calls.retval is not None and calls.retval.valid is not None:
        values, valid = np.zeros(len(hits), np.int64), np.zeros(len(hits), np.bool_)
        values[places], valid[places] = calls.retval.values, calls.retval.valid
        columns = {"retval": EventColumn(values, valid)}
    text = pc.if_else(pa.array(content.drawn), _NONE, content.text)
    time = hits.time_ns
    if time is not None:
        time[places] = function_graph.begun(time[places], calls)
    made = replace(hits, names=hits.names + calls.names, time_ns=time, name=name, duration_ns=duration, columns=columns)
    return kept, made, text, calls.notes

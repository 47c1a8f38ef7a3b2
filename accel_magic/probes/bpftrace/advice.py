"""Translate a bpftrace script to a `%%ktrace` line, and to parts of the result that show what the script outputs."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from accel_magic.probes import presets
from accel_magic.probes.bpftrace import map_expressions
from accel_magic.probes.bpftrace.expressions import (
    BEGAN,
    CLOCKS,
    LackingError,
    RequestedColumns,
    Scene,
    as_written,
    column,
    condition,
    conditions,
    is_stored,
    leaves,
    resolve,
)
from accel_magic.probes.bpftrace.probe_names import ScriptProbe, place_of
from accel_magic.probes.bpftrace.script_parser import (
    Assign,
    Expression,
    If,
    Map,
    ScriptBlock,
    ScriptCall,
    ScriptNumber,
    ScriptVariable,
    Statement,
    String,
    Unread,
    Word,
    read,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_SILENT: Final = frozenset(("delete", "clear", "zero", "time", "strftime", "errorf", "warnf", "exit"))
_OTHERS: Final = {
    **dict.fromkeys(("system", "cat"), "run it in the cell"),
    **dict.fromkeys(("signal", "override", "unwatch"), "traces are read-only; use `--program` with BPF C"),
    "join": "string arrays are not supported; use `--program` with BPF C",
    "skboutput": "writing packets is not supported",
}
_SCHEDULER: Final = ("tracepoint:sched:sched_wakeup", "tracepoint:sched:sched_switch")
_CONVERSION: Final = re.compile(r"(?:(\w+)[=:][ ]*)?%(?!%)[-+ 0#]*[\d*]*(?:\.[\d*]+)?(?:ll|l|hh|h|z|j)?[a-zA-Z]")
"""A printf conversion, and the key before it: `size=%lu`."""


@dataclass(frozen=True)
class Advice:
    """The replacement for a script.

    Attributes:
        line: `%%ktrace ...`; '' if none of the script's probes can be traced here.
        instead: Parts of the script, and the Python expressions on the result `t` that show the same.
        notes: Differences.
        lacking: Parts that have no equivalent, with the closest alternative.

    """

    line: str
    instead: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Group:
    """Blocks that become one probe: a single block, or those at a call's entry and return."""

    places: tuple[ScriptProbe, ...]
    scene: Scene
    filters: tuple[Expression | Unread, ...]
    statements: tuple[Statement, ...]
    at_entry: tuple[Statement, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """Probes of `%%ktrace`."""
        if self.scene.measured:
            return tuple(f"latency:{place.entry}" for place in self.places)
        return tuple(place.word for place in self.places if place.word)


_Placed: TypeAlias = tuple[ScriptBlock, tuple[ScriptProbe, ...]]
"""A block and the equivalents of its probes."""


@dataclass
class _Findings:
    """Results so far; the dictionaries are ordered sets."""

    requested: RequestedColumns = field(default_factory=RequestedColumns)
    instead: dict[tuple[str, str], None] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    lacking: dict[str, None] = field(default_factory=dict)
    needs_events: bool = False
    duration: float = 0.0
    rows: str = ""

    def show(self, theirs: str, ours: str) -> None:
        """Add the equivalent of a part of the script; if there are several groups, each has its own rows."""
        self.instead[theirs, ours.replace("t.events", self.rows or "t.events")] = None


def advise(code: str, *, pid: str = "", program: str = "", lists: bool = False) -> Advice:
    """Translate a script.

    Args:
        code: The script.
        pid: Process given by bpftrace's `-p`.
        program: Command given by bpftrace's `-c`.
        lists: Whether probes are only listed (`-l`).

    """
    blocks = [(block, tuple(place_of(probe) for probe in block.probes)) for block in read(code)]
    found = _Findings()
    for place in (place for _, places in blocks for place in places if place.note):
        (found.notes if place.word else found.lacking)[f"{place.text}: {place.note}"] = None
    groups = list(_groups([(block, places) for block, places in blocks if any(place.word for place in places)]))
    for group in groups:
        found.rows = _rows(group) if len(groups) > 1 else ""
        _actions(group, found)
    for block, places in blocks:
        if any(place.role == "timer" for place in places):
            _timer(block, places, found)
    if program:
        found.notes[f"run the program in the cell: !{program}"] = None
    line = _line(groups, found, pid=pid, lists=lists)
    return Advice(line, tuple(found.instead), tuple(found.notes), tuple(found.lacking))


def _groups(blocks: Sequence[_Placed]) -> Iterator[_Group]:
    """Group the blocks at entries and returns of the same calls; other blocks form their own groups."""
    entries_of = {at: entries for at, each in enumerate(blocks) if (entries := _entries_of(each, blocks))}
    used = {at for entries in entries_of.values() for at in entries}
    for at, (block, places) in enumerate(blocks):
        filters = tuple(conditions(block.filter))
        if at in entries_of:
            before = [blocks[each] for each in entries_of[at]]
            stored: dict[str, Expression] = {}
            for entry, entry_places in reversed(before):
                stored |= _stored(entry, _scene(entry_places))
            at_entry = tuple(each for entry, _ in before for each in entry.statements)
            tests = tuple(part for entry, _ in before for part in conditions(entry.filter))
            yield _Group(places, _scene(places, stored=stored), (*tests, *filters), block.statements, at_entry)
        elif at not in used:
            yield _Group(places, _scene(places), filters, block.statements)


def _entries_of(returning: _Placed, blocks: Sequence[_Placed]) -> tuple[int, ...]:
    """Indices of the blocks at the entries of this return block's calls that store values which it reads."""
    block, places = returning
    if {place.role for place in places} != {"return"}:
        return ()
    requested, maps = {place.entry for place in places}, _maps(block)
    found, covered = [], set()
    for at, (entry, entry_places) in enumerate(blocks):
        entries = {place.entry for place in entry_places if place.role == "entry"} & requested
        if entries and not _stored(entry, _scene(entry_places)).keys().isdisjoint(maps):
            found.append(at)
            covered |= entries
    return tuple(found) if covered == requested else ()


def _scene(places: Iterable[ScriptProbe], *, stored: Mapping[str, Expression] | None = None) -> Scene:
    """Meaning of names in a block; `stored` has the maps that the call's entry filled for this return."""
    known = [place for place in places if place.word]
    return Scene(
        stored=stored or {},
        measured=stored is not None,
        syscall=next((place.syscall for place in known if place.syscall), ""),
        is_tracepoint=all(place.word.startswith("tracepoint:") for place in known),
    )


def _stored(block: ScriptBlock, scene: Scene) -> dict[str, Expression]:
    """Maps that a block fills for the call's return: those keyed by thread, or without keys."""
    found: dict[str, Expression] = {}
    for statement in _all(block.statements):
        if not isinstance(statement, Assign) or statement.sign != "=":
            continue
        value = resolve(statement.value, scene)
        if isinstance(statement.to, ScriptVariable):
            scene = _with(scene, statement.to.name, value)
        elif all(isinstance(key, Word) and key.name in ("tid", "pid", "cpu") for key in statement.to.keys):
            found[statement.to.name] = BEGAN if isinstance(value, Word) and value.name in CLOCKS else value
    return {name: value for name, value in found.items() if not isinstance(value, ScriptCall) or value.name == "str"}


def _with(scene: Scene, name: str, value: Expression) -> Scene:
    return replace(scene, variables={**scene.variables, name: value})


def _all(statements: Iterable[Statement]) -> Iterator[Statement]:
    for statement in statements:
        yield statement
        if isinstance(statement, If):
            yield from _all(statement.then)
            yield from _all(statement.otherwise)


def _maps(block: ScriptBlock) -> set[str]:
    """Names of the maps used in a block."""
    found = set()
    waiting: list[object] = [block.filter, *block.statements]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Map):
            found.add(part.name)
        if isinstance(part, tuple):
            waiting += part
        elif hasattr(part, "__dict__"):
            waiting += vars(part).values()
    return found


def _rows(group: _Group) -> str:
    """Expression for the events of one of several groups."""
    words = [f'"{word}"' for word in group.words]
    test = f"probe == {words[0]}" if len(words) == 1 else f"probe in [{', '.join(words)}]"
    return f"t.events.query('{test}')"


def _actions(group: _Group, found: _Findings) -> None:
    """Translate a group's statements; an `if` that contains all of them becomes a filter."""
    only = _only_if(group.statements)
    _walk(group.statements, group.scene, found, only)
    if group.scene.measured:
        own = tuple(
            each
            for each in group.at_entry
            if not (isinstance(each, Assign) and isinstance(each.to, Map) and each.to.name in group.scene.stored)
        )
        _walk(own, replace(group.scene, stored={}, measured=False), found, _only_if(own))


def _only_if(statements: Iterable[Statement]) -> If | None:
    """The `if` without `else` that makes up a whole block, apart from variables and irrelevant statements."""
    others = [
        each
        for each in statements
        if not (isinstance(each, Assign) and isinstance(each.to, ScriptVariable))
        and not (isinstance(each, ScriptCall) and each.name in _SILENT)
    ]
    return others[0] if len(others) == 1 and isinstance(others[0], If) and not others[0].otherwise else None


def _walk(statements: Iterable[Statement], scene: Scene, found: _Findings, only: If | None = None) -> Scene:
    for statement in statements:
        match statement:
            case Assign(ScriptVariable(name), "=", value):
                scene = _with(scene, name, resolve(value, scene))
            case Assign(Map() as table, _, _):
                _assigned(table, statement, scene, found)
            case If(test, then, otherwise):
                if statement is not only and not is_stored(test, scene):
                    _about_if(test, scene, found)
                scene = _walk(otherwise, _walk(then, scene, found), found)
            case ScriptCall():
                _called(statement, scene, found)
            case Unread(text):
                found.lacking[f"{_short(text)}: `--program` with BPF C"] = None
    return scene


def _about_if(test: Expression, scene: Scene, found: _Findings) -> None:
    try:
        how = f"--filter {quoted(condition(resolve(test, scene), scene))} keeps only those hits"
    except LackingError:
        how = "select rows of t.events afterwards"
    found.lacking[f"if ({as_written(test)}): a line has only one filter, for all hits; {how}"] = None


def _called(call: ScriptCall, scene: Scene, found: _Findings) -> None:
    if call.name in ("printf", "print"):
        _printed(call, scene, found)
    elif call.name == "exit":
        found.lacking["exit(): tracing ends with the cell; --max-events N keeps the first N events"] = None
    elif call.name in _OTHERS:
        found.lacking[f"{as_written(call)}: {_OTHERS[call.name]}"] = None


def _printed(call: ScriptCall, scene: Scene, found: _Findings) -> None:
    values, hints = call.arguments, ()
    if call.name == "print" and all(isinstance(each, Map | ScriptNumber) for each in values):
        return  # results always show maps
    found.needs_events = True
    if values and isinstance(values[0], String):
        hints = tuple(_CONVERSION.findall(values[0].value))
        values = values[1:]
    names: dict[str, None] = {}
    for at, value in enumerate(values):
        hint = value.name if isinstance(value, ScriptVariable) else next(iter(hints[at : at + 1]), "")
        for leaf in leaves(resolve(value, scene)):
            try:
                names[column(leaf, scene, found.requested, hint).name] = None
            except LackingError as error:
                found.lacking[str(error)] = None
    shown = ", ".join(f'"{name}"' for name in names if name)
    found.show(call.name, f"t.events[[{shown}]]" if shown else "t.events")


def _assigned(table: Map, statement: Assign, scene: Scene, found: _Findings) -> None:
    """Find the equivalent of a map."""
    value = resolve(statement.value, scene)
    counts = statement.sign == "+=" and value == ScriptNumber(1)
    is_time = isinstance(value, Word) and value.name in CLOCKS and statement.sign == "="
    if is_time or (isinstance(value, ScriptNumber) and not counts):
        return  # t.events has timestamps; constants are flags and resets
    try:
        keys = [column(resolve(key, scene), scene, found.requested) for key in table.keys]
        shown = map_expressions.of_map(statement.sign, value, keys, lambda of: column(of, scene, found.requested))
    except LackingError as error:
        found.needs_events = True
        found.lacking[str(error)] = None
        return
    found.needs_events |= shown.needs_events
    theirs = f"{as_written(table)}{'++' if counts else f' {statement.sign} {as_written(statement.value)}'}"
    found.show(theirs, shown.text)


def _timer(block: ScriptBlock, places: Iterable[ScriptProbe], found: _Findings) -> None:
    """Translate a timer: it ends the script, or prints intermediate results."""
    seconds = max(place.seconds for place in places)
    if any(isinstance(each, ScriptCall) and each.name == "exit" for each in block.statements):
        found.duration = seconds
        return
    every = f"{seconds:g}s" if seconds >= 1 else f"{max(round(seconds * 1000), 1)}ms"
    found.rows = ""
    found.show(", ".join(block.probes), f't.rates("{every}"), and the live row while the cell runs')


def _filter(groups: Iterable[_Group], found: _Findings) -> str:
    """The line's filter, if all groups have the same one."""
    texts = dict.fromkeys(" and ".join(_filters(group, found)) for group in groups)
    if len(texts) <= 1:
        return next(iter(texts), "")
    for text in filter(None, texts):
        why = "a line has only one filter, for all probes"
        found.lacking[f"/{text}/: {why}; trace those probes alone, or select rows of t.events afterwards"] = None
    return ""


def _filters(group: _Group, found: _Findings) -> Iterator[str]:
    """Yield the conditions that a group's hits must meet, each once."""
    scene, parts = group.scene, [(part, group.scene) for part in group.filters]
    if only := _only_if(group.statements):
        for statement in group.statements:
            if isinstance(statement, Assign) and isinstance(statement.to, ScriptVariable):
                scene = _with(scene, statement.to.name, resolve(statement.value, scene))
        parts += [(part, scene) for part in conditions(only.condition)]
    seen = set()
    for part, there in parts:
        if isinstance(part, Unread):
            found.lacking[f"/{_short(part.text)}/ could not be parsed"] = None
        elif not is_stored(part, there):
            try:
                text = condition(resolve(part, there), there)
            except LackingError as error:
                found.lacking[str(error)] = None
                continue
            if text not in seen:
                seen.add(text)
                yield text


def _line(groups: Sequence[_Group], found: _Findings, *, pid: str, lists: bool) -> str:
    words = list(dict.fromkeys(word for group in groups for word in group.words))
    if not words:
        return ""
    places = " ".join(map(quoted, words))
    if lists:
        return f"%ktrace --dry-run {places}"
    filter_ = _filter(groups, found)
    everybody = any(place.own for group in groups for place in group.places) and not pid
    counts = found.instead and not (found.needs_events or found.requested.captures or found.requested.stacks)
    columns = ",".join(f"{name}={source}" for name, source in found.requested.captures.items())
    if everybody:
        found.notes["without --scope all, only hits of this notebook's processes count"] = None
    if set(_SCHEDULER) <= set(words):
        found.notes["%%ktrace offcpu measures how long threads wait, and why"] = None
    found.notes.update(dict.fromkeys(presets.advice(words)))
    parts = (
        f"--scope {quoted(pid)}" if pid else "--scope all" if everybody else "",
        "--mode count" if counts else "",
        f"--filter{'=' if filter_.startswith('-') else ' '}{quoted(filter_)}" if filter_ else "",
        f"--args {quoted(columns)}" if columns else "",
        f"--stacks={','.join(found.requested.stacks)}" if found.requested.stacks else "",
        f"--duration {found.duration:g}" if found.duration else "",
    )
    return " ".join(["%%ktrace", places, *filter(None, parts), "-o t"])


def quoted(text: str) -> str:
    """Quote a word for the line if needed."""
    try:
        return text if shlex.split(text) == [text] else shlex.quote(text)
    except ValueError:
        return shlex.quote(text)


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."

"""Match the requested probes against this machine and build a Plan: every place, its scope, its filter."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, get_args

from accel_magic.errors import AccelMagicError, MachineError, ProbeError
from accel_magic.probes import (
    captures,
    grammar,
    kernel_functions,
    presets,
    return_probes,
    suggestions,
    tracefs,
)
from accel_magic.probes.filters import argument_sources, compile_filter
from accel_magic.probes.globs import is_glob, matcher, suggestion
from accel_magic.probes.plan import (
    KERNEL_KINDS,
    THREAD_KINDS,
    UNREADABLE,
    USER_KINDS,
    Mode,
    Plan,
    ProbePoint,
    ProbeSpec,
    Scope,
    Skipped,
    TaskPattern,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from accel_magic.probes.file_functions import Function, Symbols
    from accel_magic.probes.plan import Capture, StackKind, TraceRequest
    from accel_magic.probes.tracefs import EventFormat


MOST_POINTS = 10_000
MOST_USER_POINTS = 2_000
SMALLEST_BUFFER_MIB = 0.00390625  # one page
LARGEST_BUFFER_MIB = 4096
_OWN_CATEGORIES = ("syscalls", "raw_syscalls")
_ANY = ("offcpu",)
"""A valid probe, without which an exclusion is an error."""
_ROOT = Path("/")


def no_stacks(_request: TraceRequest, _points: tuple[ProbePoint, ...]) -> tuple[tuple[StackKind, ...], tuple[str, ...]]:
    """Choose none."""
    return (), ()


def make_plan(
    request: TraceRequest,
    *,
    pid: int | None = None,
    root: Path = _ROOT,
    places: UserPlaces | None = None,
    stacks: ChooseStacks = no_stacks,
    notes: tuple[str, ...] = (),
) -> Plan:
    """Match probes against this machine.

    Args:
        request: What to trace.
        pid: The process that `self` means; by default this one.
        root: Folder used as `/` when reading the kernel's lists.
        places: Finds what a probe in a program or library matches, by the probe's number; None: look into the file.
        stacks: Chooses the stacks of the events.
        notes: More of them, for the user.

    Returns:
        The plan. Ids are dense, in the order of the specs and of the names within each spec.

    Raises:
        ProbeError: A text is invalid, a spec matches nothing, or the specs match more places than can be traced.
        MachineError: This kernel or user cannot trace it, or the module is not loaded.

    """
    own, places_given = os.getpid() if pid is None else pid, places is not None
    check_limits(request)
    columns = captures.parse(request.args)
    chosen = parse_scope(request.scope, own)
    library_pid = chosen.pid if chosen and chosen.name == "pid" else own
    matches = partial(_matches, places=_InFiles(library_pid) if places is None else None, root=root)
    parsed = _parsed(request.specs, matches)
    # Exclusions from places that somebody else found were applied there.
    left_out = [spec for spec in parsed if places is None or spec.kind not in USER_KINDS]
    reads_files = places is None
    if places is None:
        places = _InFiles(library_pid)
    numbered = [(number, spec) for number, spec in enumerate(parsed) if not spec.exclude]
    expansions, missing = _expanded(numbered, places, root, matches)
    points, remarks = _left(left_out, _distinct(expansions), library_pid)
    points.sort(key=lambda point: point.kind == "itt")
    _check_count(points)
    if places_given or request.uprobes == "kernel":
        check_breakpoints(points)
    _check_tasks(points, request.filter, chosen, own)
    _check_captures(columns, points)
    remarks += return_probes.about_exceptions(points)
    if reads_files:
        remarks += _about_loaded(points, library_pid)
    if columns and request.mode == "count":
        remarks.append("--args has no effect with --mode count: no events are recorded")
    numbered_points = tuple(
        replace(
            point,
            id=number,
            scope=chosen or default_scope(point, own),
            filter=compile_filter(request.filter, point),
            captures=_captures(point, columns),
        )
        for number, point in enumerate(points)
    )
    kinds, about_stacks = stacks(request, numbered_points)
    of_probes = [note for expansion in expansions for note in expansion.notes]
    return Plan(
        points=numbered_points,
        request=request,
        stacks=kinds,
        skipped=(
            *dict.fromkeys(skipped for expansion in expansions for skipped in expansion.skipped),
            *missing,
        ),
        notes=tuple(dict.fromkeys((*of_probes, *remarks, *about_stacks, *notes))),
        exclusions=tuple(TaskPattern(spec.target, spec.name) for spec in parsed if spec.exclude and spec.kind == "itt"),
    )


def parse_scope(scope: str | int | None, own: int) -> Scope | None:
    """Parse `self`, `all` or a process id; None or '' selects each point's default scope.

    Raises:
        ProbeError: It is none of these, or there is no such process.

    """
    text = "" if scope is None else str(scope).strip()
    if not text:
        return None
    if text == "all":
        return Scope("all")
    if text == "self":
        return Scope("self", own)
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise ProbeError(
            f"--scope {text!r} is not valid", fix="write --scope self, all or a process id", code="scope.unknown"
        )
    if not Path(f"/proc/{int(text)}").is_dir():
        raise ProbeError(
            f"--scope {text}: there is no such process", fix="ps -e lists process ids", code="scope.no-process"
        )
    return Scope("pid", int(text))


def default_scope(point: ProbePoint, own: int) -> Scope:
    """Scope if the user named none: `self` for calls made by a process, `all` for kernel activity."""
    is_call = point.kind == "tracepoint" and point.target in _OWN_CATEGORIES
    is_own = is_call or point.counted or point.kind in (*USER_KINDS, *THREAD_KINDS, "itt")
    return Scope("self", own) if is_own else Scope("all")


def _parsed(specs: Sequence[str | ProbeSpec], matches: suggestions.Matches) -> tuple[ProbeSpec, ...]:
    """Parse the probes; the error of one that is invalid shows what it may mean."""
    try:
        return grammar.parse_all(specs)
    except ProbeError as error:
        wrong = (word for word in specs if isinstance(word, str) and _is_invalid(word))
        raise suggestions.improved(error, next(wrong, ""), matches) from None


def _is_invalid(word: str) -> bool:
    try:
        grammar.parse_all([word, *_ANY])
    except ProbeError:
        return True
    return False


def _matches(text: str, places: UserPlaces | None, root: Path) -> Sequence[ProbePoint]:
    """What a suggested probe matches; no places: files are not looked into."""
    try:
        spec = grammar.parse(text)
        if spec.kind in USER_KINDS and places is None:
            return ()
        return expand(0, spec, places or _InFiles(0), root=root).points
    except AccelMagicError:
        return ()


def _expanded(
    specs: list[tuple[int, ProbeSpec]], places: UserPlaces, root: Path, matches: suggestions.Matches
) -> tuple[list[Expansion], list[Skipped]]:
    """Find the places of every spec, and the preset probes that this kernel lacks.

    If a preset's device or a privilege for it is missing, the preset is skipped, except for its ITT tasks, provided
    that other probes remain.
    """
    expansions: list[Expansion] = []
    served = set()
    missing: list[tuple[ProbeSpec, ProbeError]] = []
    for number, spec in specs:
        try:
            found = expand(number, spec, places, root=root)
        except ProbeError as error:
            if not spec.optional:
                raise suggestions.improved(error, spec.text, matches) from None
            # A traceback would keep this frame and its callers alive until garbage collection.
            missing.append((spec, error.with_traceback(None)))
            continue
        except MachineError as error:
            preset = _preset(spec)
            others = [(at, other) for at, other in specs if other.kind == "itt" or _preset(other) != preset]
            if not spec.optional:
                raise suggestions.improved(error, spec.text, matches) from None
            if not others:
                raise
            # One line should work on machines with and without the device: trace the other probes.
            expansions, without = _expanded(others, places, root, matches)
            why = f"{error.what}: {error.why}" if error.why else error.what
            left = any(_preset(other) == preset for _, other in others)
            note = f"{preset}: its kernel probes are skipped: {why}" if left else f"{preset} is skipped: {why}"
            return [*expansions, Expansion([], notes=[note])], without
        own = [
            replace(
                point,
                captures=spec.captures,
                total=spec.total,
                counted=spec.counted,
                page_faults=spec.page_faults,
                nesting=spec.nesting,
            )
            for point in found.points
        ]
        expansions.append(replace(found, points=own))
        served.add(spec.group)
    if missing and not expansions:
        raise missing[0][1]
    lacking = [(spec, error) for spec, error in missing if not spec.group or spec.group not in served]
    return expansions, _skipped(lacking)


def _preset(spec: ProbeSpec) -> str:
    """Name of the preset that a spec belongs to; '' if it was given on its own."""
    return spec.text.partition(":")[0] if spec.optional else ""


def _located(spec: ProbeSpec, pid: int, known: dict[str, str | ProbeError]) -> ProbeSpec:
    """Replace a library's name by its path. A preset has many functions of one library, which is looked up once.

    Args:
        spec: A probe of a preset.
        pid: Process whose libraries are searched first.
        known: Earlier results; updated here.

    Raises:
        ProbeError: There is no such library.

    """
    if spec.kind not in USER_KINDS:
        return spec
    if spec.target not in known:
        from accel_magic.probes.libraries import resolve  # imports an ELF reader and numpy

        try:
            known[spec.target] = str(resolve(spec.target, pid))
        except ProbeError as error:
            place = presets.place_of(spec.target)
            known[spec.target] = (
                ProbeError(
                    error.what, why=error.why, fix=presets.how_to_install(spec.target) or error.fix, code=error.code
                )
                if place is None
                else str(place)
            )
    found = known[spec.target]
    if isinstance(found, ProbeError):
        raise found
    return replace(spec, target=found)


def _skipped(missing: list[tuple[ProbeSpec, ProbeError]]) -> list[Skipped]:
    """Report missing probes; those of one group with the same reason are reported once."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for spec, error in missing:
        name = f"{spec.target}:{spec.name}"
        why = f"{spec.kernels} have it" if spec.kernels else error.why or error.what
        by_reason.setdefault((spec.group or name, why), []).append(name)
    return [
        Skipped(names[0] + (f" and {len(set(names)) - 1} more" if len(set(names)) > 1 else ""), why)
        for (_, why), names in by_reason.items()
    ]


def _captures(point: ProbePoint, columns: tuple[Capture, ...]) -> tuple[Capture, ...]:
    """Columns of a point: the preset's, then the user's that can be read here. The preset's names take precedence."""
    own = tuple(column for column in point.captures if _can_give(point, column))
    taken = {column.name for column in own}
    return own + tuple(column for column in columns if column.name not in taken and _can_give(point, column))


def _can_give(point: ProbePoint, column: Capture) -> bool:
    is_function = point.kind not in ("tracepoint", "itt", *THREAD_KINDS)
    in_time = point.latency or column.source == "retval" or not column.at_return
    return is_function and in_time and column.source in argument_sources(point)


def _distinct(expansions: list[Expansion]) -> list[ProbePoint]:
    """Keep one point per place: the first that has events, unless a later one also measures latency.

    A latency point counts hits too. The one that is kept has events, or page faults, if another of the place has them.
    """
    places: dict[tuple[str, str, str | int], ProbePoint] = {}
    for point in (point for expansion in expansions for point in expansion.points):
        place = (point.kind, point.target, point.offset if point.kind in USER_KINDS else point.function)
        taken = places.get(place)
        if taken is None:
            places[place] = point
            continue
        kept = point if (point.latency, taken.counted) > (taken.latency, point.counted) else taken
        places[place] = replace(
            kept,
            counted=point.counted and taken.counted,
            page_faults=point.page_faults or taken.page_faults,
            nesting=kept.nesting if point.nesting == taken.nesting else "",
        )
    return list(places.values())


def _left(specs: Sequence[ProbeSpec], points: list[ProbePoint], pid: int) -> tuple[list[ProbePoint], list[str]]:
    """Apply the exclusions; also return notes on exclusions that matched nothing."""
    notes = []
    for spec in (spec for spec in specs if spec.exclude and spec.kind != "itt"):
        parts = presets.excluded(spec.text)
        is_excluded = excluded(spec, pid=pid) if parts is None else partial(_is_requested_by, parts)
        left = [point for point in points if not is_excluded(point)]
        if len(left) == len(points):
            names = (point.function for point in points)
            notes.append(f"{spec.text} excludes nothing. {suggestion(spec.name, names)}".strip())
        points = left
    if not points:
        raise ProbeError(
            "nothing is left to trace",
            why="the exclusions remove everything that matched",
            fix="narrow the patterns after `!`",
            code="probe.all-excluded",
        )
    return points, notes


def _is_requested_by(parts: frozenset[str], point: ProbePoint) -> bool:
    return point.probe in parts


def _check_count(points: list[ProbePoint]) -> None:
    if len(points) > MOST_POINTS:
        raise ProbeError(
            f"the probes match {len(points):,} places",
            why=f"at most {MOST_POINTS:,} can be traced at once",
            fix="narrow the globs, or exclude places with !SPEC",
            code="probe.too-many",
        )


def check_breakpoints(points: Iterable[ProbePoint]) -> None:
    """Raise ProbeError if the kernel would have to set too many breakpoints in programs and libraries."""
    user = sum(point.kind in USER_KINDS and point.way != "patched" for point in points)
    if user > MOST_USER_POINTS:
        raise ProbeError(
            f"the probes match {user:,} places in programs and libraries that need a breakpoint",
            why=f"at most {MOST_USER_POINTS:,} can be traced at once: each is a breakpoint, set one by one, that costs "
            "some microseconds per hit",
            fix="narrow the globs, or exclude places with !SPEC",
            code="probe.too-many-user",
        )


def _about_loaded(points: list[ProbePoint], pid: int) -> list[str]:
    """Notes on what a process has loaded when the trace begins; none if that cannot be read."""
    if not any(map(return_probes.at_return, points)):
        return []
    from accel_magic.probes.libraries import mapped_files

    try:
        return return_probes.about_loaded(points, map(str, mapped_files(pid)))
    except AccelMagicError:
        return []


def _check_tasks(points: list[ProbePoint], filter_: str, scope: Scope | None, own: int) -> None:
    """ITT tasks are counted by the traced processes themselves, not by BPF programs."""
    if not any(point.kind == "itt" for point in points):
        return
    if filter_.strip():
        raise ProbeError(
            "--filter cannot be used with itt probes",
            why="they are counted by a library in the traced process, which selects tasks by name",
            fix="use globs: itt:DOMAIN:TASK and !itt:DOMAIN:TASK, or filter result.events",
            code="filter.itt",
        )
    if scope is not None and scope.name == "pid" and scope.pid != own:
        raise ProbeError(
            f"--scope {scope.pid} cannot be used with itt probes",
            why="only this process and the processes that it starts report their tasks",
            fix="start the program from this notebook, and use --scope self",
            code="scope.itt",
        )


def _check_captures(columns: tuple[Capture, ...], points: list[ProbePoint]) -> None:
    sources = {source for point in points for source in argument_sources(point)}
    for column in columns:
        if column.source in sources and not any(_can_give(point, column) for point in points):
            raise ProbeError(
                f"--args {column.name}: @return needs a latency probe",
                why="the other probes do not wait for the call to return",
                fix=f"write {_measuring(points)}, or remove @return",
                code="capture.no-return",
            )
        if column.source not in sources:
            raise ProbeError(
                f"--args {column.name}={column.source}:{column.type}: none of the probes has {column.source}",
                why="function entries have arg0..arg11, returns have retval, latency probes have both, and USDT probes "
                "have their readable arguments",
                fix=_column_fix(column, sources, points),
                code="capture.not-here",
            )


def _measuring(points: Sequence[ProbePoint]) -> str:
    """What to write so that the first point is measured until the return; '' if it has none."""
    word = next((point.probe for point in points if point.kind in ("kprobe", "uprobe") and not point.latency), "")
    return f"latency:{word} instead of {word}" if word else ""


def _column_fix(column: Capture, sources: set[str], points: Sequence[ProbePoint]) -> str:
    measuring = _measuring(points) if column.source == "retval" else ""
    if measuring:
        return f"write {measuring}"
    if not sources:
        return "remove --args: tracepoint fields are always recorded"
    ordered = sorted(sources, key=captures.SOURCES.index)
    wrong, right = (f"{column.name}={source}:{column.type}" for source in (column.source, ordered[-1]))
    return f"write {right} instead of {wrong}; there are {', '.join(ordered)}"


def check_limits(request: TraceRequest) -> None:
    """Check the numbers of a request, and its mode. Raises ProbeError."""
    if request.mode not in get_args(Mode):
        raise ProbeError(
            f"--mode {request.mode!r} is not valid",
            fix=f"use one of {', '.join(get_args(Mode))}",
            code="option.unknown-value",
        )
    if request.max_events is not None and request.max_events < 1:
        raise ProbeError(
            f"--max-events {request.max_events} is less than 1",
            fix="use 1 or more, or --mode count",
            code="option.max-events",
        )
    if request.duration_s is not None and not 0 < request.duration_s < float("inf"):
        raise ProbeError(
            f"--duration {request.duration_s} is not positive",
            fix="give a number of seconds above 0",
            code="option.duration",
        )
    if not SMALLEST_BUFFER_MIB <= request.buffer_mib <= LARGEST_BUFFER_MIB:
        raise ProbeError(
            f"--buffer {request.buffer_mib} is out of range",
            fix=f"use {SMALLEST_BUFFER_MIB} to {LARGEST_BUFFER_MIB} MiB",
            code="option.buffer",
        )


_ENTER, _EXIT = "sys_enter_", "sys_exit_"
_COLD = ".cold"


@dataclass(frozen=True)
class Expansion:
    """What a spec matched: points (ids all 0, no scope or filter yet), skipped places, and notes for the user."""

    points: list[ProbePoint]
    skipped: list[Skipped] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


UserPlaces: TypeAlias = "Callable[[int, ProbeSpec], Expansion]"
ChooseStacks: TypeAlias = (
    "Callable[[TraceRequest, tuple[ProbePoint, ...]], tuple[tuple[StackKind, ...], tuple[str, ...]]]"
)
"""Returns the kinds of stacks that events at these points have, and notes for the user."""
"""Finds what a probe in a program or library matches, given its number and itself."""


class _InFiles:
    """Looks into programs and libraries, as this process may read them.

    Args:
        pid: Process whose libraries are searched first.
        instead: Files to look into instead of the library with a name, in a preset's probes.

    """

    def __init__(self, pid: int, instead: Mapping[str, Sequence[Path]] | None = None) -> None:
        self._pid, self._instead = pid, instead or {}
        self._libraries: dict[str, str | ProbeError] = {}

    def __call__(self, number: int, spec: ProbeSpec) -> Expansion:
        if spec.optional and spec.target in self._instead:
            return self._in_each(number, spec)
        if spec.optional:
            spec = _located(spec, self._pid, self._libraries)
        return _usdt(spec, self._pid) if spec.kind == "usdt" else _user_functions(spec, self._pid)

    def _in_each(self, number: int, spec: ProbeSpec) -> Expansion:
        """What a probe matches in several files; an error if it matches in none."""
        found, missing = [], None
        for path in self._instead[spec.target]:
            try:
                found.append(self(number, replace(spec, target=str(path))))
            except ProbeError as error:
                missing = error.with_traceback(None)
        if missing is not None and not found:
            raise missing
        points = [point for expansion in found for point in expansion.points]
        skipped = [skipped for expansion in found for skipped in expansion.skipped]
        return Expansion(points, skipped, [note for expansion in found for note in expansion.notes])


def user_places(
    specs: Sequence[str], pid: int, instead: Mapping[str, Sequence[Path]] | None = None
) -> dict[int, Expansion | ProbeError]:
    """Find what the probes in programs and libraries match, without those that the exclusions remove.

    Args:
        specs: As for `make_plan`.
        pid: Process whose libraries are searched first.
        instead: Files to look into instead of the library with a name, in a preset's probes.

    Returns:
        By the number of the parsed probe; an error for a preset's probe that matches nothing.

    Raises:
        ProbeError: A text is invalid, or a probe of its own matches nothing.

    """
    parsed, find = grammar.parse_all(specs), _InFiles(pid, instead)
    tests = [excluded(spec, pid=pid) for spec in parsed if spec.exclude and spec.kind in USER_KINDS]
    found: dict[int, Expansion | ProbeError] = {}
    for number, spec in enumerate(parsed):
        if spec.exclude or spec.kind not in USER_KINDS:
            continue
        try:
            expansion = expand(number, spec, find, root=_ROOT)
        except ProbeError as error:
            if not spec.optional:
                raise
            found[number] = error.with_traceback(None)
            continue
        points = [point for point in expansion.points if not any(test(point) for test in tests)]
        found[number] = replace(expansion, points=points)
    return found


def expand(number: int, spec: ProbeSpec, places: UserPlaces, *, root: Path) -> Expansion:
    """Find the places that `spec` matches.

    Args:
        number: Its number, for `places`.
        spec: A probe; exclusions are expanded with `excluded`.
        places: Finds those of probes in programs and libraries.
        root: Folder used as `/` when reading the kernel's lists.

    Raises:
        ProbeError: Nothing matches; similar names are suggested.
        MachineError: The kernel does not support it, or the module is not loaded.

    """
    if spec.kind in THREAD_KINDS:
        return Expansion([_of_threads(spec)])
    if spec.kind == "itt":
        return Expansion([ProbePoint(0, spec.text, spec.kind, spec.target, spec.name, latency=True)])
    if spec.kind in KERNEL_KINDS:
        expansion = _kernel(spec, root)
    elif spec.kind == "tracepoint":
        expansion = _tracepoints(spec, root)
    else:
        expansion = places(number, spec)
    if not expansion.points:
        reasons = list(dict.fromkeys(f"{skipped.function}: {skipped.why}" for skipped in expansion.skipped))
        raise ProbeError(f"{spec.text!r}: no match can be traced", why="; ".join(reasons[:3]), code="probe.untraceable")
    return expansion


def excluded(spec: ProbeSpec, *, pid: int | None) -> Callable[[ProbePoint], bool]:
    """Make the test for points that the exclusion `spec` removes; a function's entry and return are one place.

    Raises:
        ProbeError: Its library does not exist.

    """
    test = matcher(spec.name)
    offsets: frozenset[int] = frozenset()
    if spec.kind in KERNEL_KINDS:
        module = "" if spec.target == kernel_functions.KERNEL else spec.target
        kinds = KERNEL_KINDS
        in_target = (lambda point: point.target == module) if spec.target else (lambda _point: True)
    elif spec.kind == "tracepoint":
        category = matcher(spec.target)
        kinds = ("tracepoint",)
        in_target = lambda point: category(point.target)  # noqa: E731
    else:
        from accel_magic.probes import libraries

        path = str(libraries.resolve(spec.target, pid))
        kinds = ("usdt",) if spec.kind == "usdt" else ("uprobe", "uretprobe")
        in_target = lambda point: point.target == path  # noqa: E731
        offsets = frozenset() if spec.kind == "usdt" else _offsets(spec, path)
    if spec.kind == "usdt":
        provider, name = matcher(spec.provider), matcher(spec.name)
        test = lambda text: provider(text.partition(":")[0]) and name(text.partition(":")[2])  # noqa: E731

    def is_excluded(point: ProbePoint) -> bool:
        if point.kind not in kinds or not in_target(point):
            return False
        return point.offset in offsets or any(map(test, (point.function, *point.aliases)))

    return is_excluded


def _offsets(spec: ProbeSpec, path: str) -> frozenset[int]:
    """Offsets of the functions that an exclusion names as C++ code does."""
    from accel_magic.probes import file_functions

    return frozenset(
        function.offset for function in file_functions.by_signature(file_functions.functions(Path(path)), spec.name)
    )


def _of_threads(spec: ProbeSpec) -> ProbePoint:
    """Make the point for clock samples, or the single point for all waits."""
    number = int(spec.name)
    if spec.kind == "profile":
        return ProbePoint(0, spec.text, spec.kind, "cpu-clock", f"{number} Hz", rate_hz=number)
    return ProbePoint(0, spec.text, spec.kind, "sched", "wait", latency=True, shortest_ns=number * 1000)


def _kernel(spec: ProbeSpec, root: Path) -> Expansion:
    try:
        kernel_functions.check_supported(root)
    except MachineError as error:
        raise MachineError(
            error.what, why=error.why, fix=error.fix + presets.without_device(spec.target), code=error.code
        ) from None
    known = kernel_functions.load(root)
    module = spec.target
    if module and module != kernel_functions.KERNEL and module not in known.modules:
        if not (spec.optional and kernel_functions.is_built_in(module, root)):
            raise _no_module(spec, known.modules, root)
        module = kernel_functions.KERNEL
    found, skipped = known.match(module, spec.name)
    if not found and not skipped and spec.optional:  # a name used by other kernels
        raise ProbeError(f"{spec.text}: this kernel's {module} has no {spec.name}", code="probe.not-in-kernel")
    if not found and not skipped:
        table = kernel_functions.symbols(root)
        alias = kernel_functions.alias_of(known, module, spec.name, table)
        found = [alias] if alias is not None else []
        if not found and kernel_functions.exists(module, spec.name, table):
            raise ProbeError(
                f"{spec.text!r}: the kernel has this function, but it cannot be traced",
                why="it is on the kernel's blacklist, or its calls bypass ftrace",
                fix="trace one of its callers",
                code="probe.untraceable",
            )
        if not found:
            names = [item.name for item in known.inside(module)]
            raise _unmatched(spec, "kernel functions" + (f" of {module}" if module else ""), names)
    points = [
        ProbePoint(0, spec.text, spec.kind, item.module, item.name, spec.latency, aliases=item.aliases)
        for item in found
    ]
    return Expansion(points, skipped)


def _no_module(spec: ProbeSpec, modules: Iterable[str], root: Path) -> MachineError | ProbeError:
    module = spec.target
    if kernel_functions.is_built_in(module, root):
        return ProbeError(
            f"{spec.text!r}: {module} is built into this kernel, not loaded as a module",
            why="its functions are listed with the kernel's own",
            fix=f"write {spec.kind}:{spec.name}, with a name that only {module} uses",
            code="probe.module-built-in",
        )
    near = suggestions.similar(spec, modules, module)
    return MachineError(
        f"{spec.text!r}: the kernel module {module} is not loaded",
        why="its functions can be traced only while it is loaded",
        fix=f"modprobe {module}" + (f"  ({near})" if near else "") + presets.without_device(module),
        code="probe.module-not-loaded",
    )


def _tracepoints(spec: ProbeSpec, root: Path) -> Expansion:
    mounted = tracefs.find(root)
    if tracefs.has_event(mounted, spec.target, spec.name):
        categories, events = [spec.target], [(spec.target, spec.name)]
    else:
        all_categories = tracefs.categories(mounted)
        categories = list(filter(matcher(spec.target), all_categories))
        if not categories:
            raise _unmatched(spec, "categories of tracepoints", all_categories, spec.target)
        events = [(category, event) for category in categories for event in tracefs.events(mounted, category)]
    test = matcher(spec.name)
    points, skipped = [], []
    for category, event in events:
        if not test(event):
            continue
        point = _tracepoint(spec, category, event, partial(tracefs.read_format, mounted, category))
        if point:
            points.append(point)
        else:
            skipped.append(Skipped(event, "this kernel has no tracepoint for its return"))
    if not points and not skipped:
        raise _unmatched(spec, f"tracepoints of {', '.join(categories[:5])}", (event for _, event in events))
    return Expansion(points, skipped)


def _tracepoint(spec: ProbeSpec, category: str, event: str, read: Callable[[str], EventFormat]) -> ProbePoint | None:
    """Make the point of one event; None for a latency probe without an exit tracepoint."""
    described = read(event)
    exit_id = 0
    if spec.latency:
        try:
            exit_id = read(_EXIT + event.removeprefix(_ENTER)).id
        except ProbeError:
            return None
    return ProbePoint(
        0,
        spec.text,
        spec.kind,
        category,
        event,
        spec.latency,
        event_id=described.id,
        exit_event_id=exit_id,
        fields=described.fields,
        record_end=described.record_end,
    )


def _user_functions(spec: ProbeSpec, pid: int | None) -> Expansion:
    from accel_magic.probes import libraries  # imports an ELF reader and numpy

    try:
        path = libraries.resolve(spec.target, pid)
        found = _functions_of(spec, path)
    except ProbeError as error:
        if (functions := presets.hidden(spec.target, spec.name)) is not None:
            raise _in_another_library(spec, error, functions) from None
        raise
    points, skipped, resolvers = [], [], []
    for function in found:
        if _COLD in function.name:
            if not spec.optional:
                skipped.append(Skipped(function.name, "it is the cold part of a function, not a function"))
        elif function.ifunc and spec.latency:
            skipped.append(Skipped(function.name, "it is an IFUNC resolver; calls go to the function it selected"))
        else:
            resolvers += [function.name] if function.ifunc else []
            points.append(
                ProbePoint(
                    0,
                    spec.text,
                    spec.kind,
                    str(path),
                    function.name,
                    spec.latency,
                    offset=function.offset,
                    aliases=function.aliases,
                )
            )
    notes = [_about_resolvers(spec, resolvers)] if resolvers else []
    return Expansion(points, skipped, [*notes, *_about_replaced(spec, path), *return_probes.about_file(spec, path)])


def _functions_of(spec: ProbeSpec, path: Path) -> list[Function]:
    """Find the functions of a file that a probe means. Raises ProbeError."""
    from accel_magic.probes import file_functions

    known = file_functions.functions(path)
    if not known.names:
        raise file_functions.no_symbols(path)
    refused = return_probes.at_return(spec) and return_probes.has_go(path)
    allowed = return_probes.at_entry(spec) if refused else spec
    found = known.match(spec.name) or file_functions.by_signature(known, spec.name)
    if found and refused:
        raise return_probes.refused(spec, path)
    if not found and grammar.is_address(spec.name):
        raise _at_address(spec, allowed, path, known)
    if not found:
        others = file_functions.overloads(known, spec.name)
        fix = f"there are {others}" if others else suggestions.similar(allowed, known.names, spec.name)
        raise _unmatched(spec, f"functions of {path}", known.names, fix=fix)
    return found


def _about_replaced(spec: ProbeSpec, path: Path) -> list[str]:
    from accel_magic.probes import libraries

    if "/" in spec.target or not libraries.is_replaced(path):
        return []
    return [
        f"{spec.text}: {spec.target} was deleted or replaced after the process had loaded it: the old file is traced"
    ]


def _at_address(spec: ProbeSpec, allowed: ProbeSpec, path: Path, known: Symbols) -> ProbeError:
    """Error for an address; the fix is a probe as `allowed` in the function that contains it, or begins before it."""
    from accel_magic.probes import program_files

    with program_files.opened(path) as file:
        at = file.file_offset(int(spec.name, 16))
    name = None if at is None else known.before(at)
    return ProbeError(
        f"{spec.text!r} is not a probe",
        why="probes are at the entry or the return of a function, not at an address",
        fix=f"write {allowed.text.removesuffix(spec.name)}{name or '*'}",
        code="probe.offset",
    )


def _in_another_library(spec: ProbeSpec, error: ProbeError, functions: presets.HiddenFunctions) -> ProbeError:
    """Error for a function that programs call in another library."""
    name = functions.example if is_glob(spec.name) else spec.name
    return ProbeError(
        error.what,
        why=f"{error.why}; {functions.why}" if error.why else functions.why,
        fix=f"use {spec.kind}:{functions.instead}:{name}, {functions.more}",
        code=functions.code,
    )


def _about_resolvers(spec: ProbeSpec, names: list[str]) -> str:
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return (
        f"{spec.text}: for {shown} only the IFUNC resolver is traced, which runs once; calls go to the function "
        "it selected"
    )


def _usdt(spec: ProbeSpec, pid: int | None) -> Expansion:
    from accel_magic.probes import libraries, usdt

    path = libraries.resolve(spec.target, pid)
    known = usdt.probes(path)
    if not known:
        raise ProbeError(
            f"{spec.text!r}: {path} has no USDT probes",
            fix=f"write uprobe:{spec.target}:{spec.name} instead of {spec.text} for the function of that name",
            code="probe.no-usdt",
        )
    provider, name = matcher(spec.provider), matcher(spec.name)
    points = []
    notes: dict[str, None] = {}
    for probe in known:
        if not (provider(probe.provider) and name(probe.name)):
            continue
        function = f"{probe.provider}:{probe.name}"
        unreadable = [f"arg{at}" for at, argument in enumerate(probe.arguments) if argument == UNREADABLE]
        if unreadable:
            notes[f"{function}: {', '.join(unreadable)} of {probe.argument_text!r} cannot be read (shown as 0)"] = None
        points.append(
            ProbePoint(
                0,
                spec.text,
                spec.kind,
                str(path),
                function,
                offset=probe.offset,
                usdt_arguments=probe.arguments,
                semaphore=probe.semaphore,
            )
        )
    if not points:
        names = {f"{probe.provider}:{probe.name}" for probe in known}
        raise _unmatched(spec, f"USDT probes of {path}", names, f"{spec.provider}:{spec.name}")
    found = sorted(points, key=lambda point: (point.function, point.offset))
    return Expansion(found, notes=[*notes, *_about_replaced(spec, path)])


def _unmatched(spec: ProbeSpec, among: str, names: Iterable[str], requested: str = "", *, fix: str = "") -> ProbeError:
    names = list(names)
    return ProbeError(
        f"{spec.text!r} matches nothing",
        why=f"none of the {len(names)} {among} matches {requested or spec.name}",
        fix=fix or suggestions.similar(spec, names, requested or spec.name) or "use a wider glob; Tab completes names",
        code="probe.no-match",
    )

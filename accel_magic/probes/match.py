"""From what the user asked for to a Plan: every place, its scope, its filter."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from accel_magic.errors import MachineError, ProbeError
from accel_magic.probes import captures, grammar, presets
from accel_magic.probes.expand import Expansion, excluded, expand
from accel_magic.probes.filter_names import argument_sources
from accel_magic.probes.filters import compile_filter
from accel_magic.probes.globs import suggestion
from accel_magic.probes.plan import THREAD_KINDS, USER_KINDS, Mode, Plan, ProbePoint, ProbeSpec, Scope, Skipped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accel_magic.probes.plan import Capture

MOST_POINTS = 10_000
MOST_USER_POINTS = 2_000
SMALLEST_BUFFER_MIB = 0.00390625  # one page
LARGEST_BUFFER_MIB = 4096
_OWN_CATEGORIES = ("syscalls", "raw_syscalls")
_ROOT = Path("/")


def make_plan(
    specs: Sequence[str | ProbeSpec],
    *,
    mode: Mode = "auto",
    scope: str | int | None = None,
    filter: str = "",  # noqa: A002 - the option's name
    args: str = "",
    max_events: int | None = None,
    duration_s: float | None = None,
    buffer_mib: float = 64.0,
    pid: int | None = None,
    root: Path = _ROOT,
) -> Plan:
    """Match probes against this machine.

    Args:
        specs: Probes as text or parsed; a place goes to the first that matches it, or to one that measures its latency.
        mode: `auto`, `count` or `events`.
        scope: `self`, `all` or a process id. By default uprobes, USDT, system calls, samples and waits count for
            `self`, kernel functions and other tracepoints for all.
        filter: Expression that every point must understand.
        args: Extra columns, as in `--args`.
        max_events: Stop recording after so many events.
        duration_s: Stop tracing after so many seconds.
        buffer_mib: Size of the ring buffer.
        pid: The process that `self` means; by default this one.
        root: Folder that stands for `/` where the kernel's lists are read.

    Returns:
        The plan, ids dense in the order of the specs and of names within each.

    Raises:
        ProbeError: A text that cannot be understood, a spec that matches nothing, or more places than can be traced.
        MachineError: This kernel or user cannot trace that, or the module is not loaded.

    """
    own = os.getpid() if pid is None else pid
    _check_limits(mode, max_events, duration_s, buffer_mib)
    columns = captures.parse(args)
    chosen = parse_scope(scope, own)
    library_pid = chosen.pid if chosen and chosen.name == "pid" else own
    parsed = grammar.parse_all(specs)
    expansions, missing = _expanded([spec for spec in parsed if not spec.exclude], library_pid, root)
    points, notes = _left(parsed, _distinct(expansions), library_pid)
    _check_count(points)
    _check_captures(columns, points)
    if columns and mode == "count":
        notes.append("--args has no effect with --mode count: no events are recorded")
    return Plan(
        points=tuple(
            replace(
                point,
                id=number,
                scope=chosen or default_scope(point, own),
                filter=compile_filter(filter, point),
                captures=_captures(point, columns),
            )
            for number, point in enumerate(points)
        ),
        mode=mode,
        filter=filter.strip(),
        max_events=max_events,
        duration_s=duration_s,
        buffer_mib=buffer_mib,
        skipped=(
            *dict.fromkeys(skipped for expansion in expansions for skipped in expansion.skipped),
            *missing,
        ),
        notes=tuple(dict.fromkeys([note for expansion in expansions for note in expansion.notes] + notes)),
    )


def parse_scope(scope: str | int | None, own: int) -> Scope | None:
    """Read `self`, `all` or a process id; None or '' leaves it to each point.

    Raises:
        ProbeError: It is neither, or there is no such process.

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
            f"--scope {text!r} is not known", fix="use self, all or the number of a process", code="scope.unknown"
        )
    if not Path(f"/proc/{int(text)}").is_dir():
        raise ProbeError(
            f"--scope {text}: there is no such process", fix="ps -e lists processes", code="scope.no-process"
        )
    return Scope("pid", int(text))


def default_scope(point: ProbePoint, own: int) -> Scope:
    """Scope of a point where the user named none: a process's own calls, but all of the kernel's doings."""
    is_call = point.kind == "tracepoint" and point.target in _OWN_CATEGORIES
    is_own = is_call or point.kind in (*USER_KINDS, *THREAD_KINDS)
    return Scope("self", own) if is_own else Scope("all")


def _expanded(specs: list[ProbeSpec], pid: int, root: Path) -> tuple[list[Expansion], list[Skipped]]:
    """Find the places of every spec; also those that a preset names and this kernel does not have.

    A preset whose device is not there is left out whole where other probes stand beside it.
    """
    expansions: list[Expansion] = []
    served = set()
    missing: list[tuple[ProbeSpec, ProbeError]] = []
    libraries: dict[str, str | ProbeError] = {}
    for spec in specs:
        try:
            found = expand(_located(spec, pid, libraries) if spec.optional else spec, pid=pid, root=root)
        except ProbeError as error:
            if not spec.optional:
                raise
            # A traceback would keep this frame, and all that called it, until garbage is collected.
            missing.append((spec, error.with_traceback(None)))
            continue
        except MachineError as error:
            others = [other for other in specs if not other.optional]
            if not spec.optional or not others:
                raise
            # One line is to serve machines with and without the device: what else is asked for is traced.
            expansions, without = _expanded(others, pid, root)
            why = f"{error.what}: {error.why}" if error.why else error.what
            note = f"{spec.text.partition(':')[0]} is left out: {why}"
            return [*expansions, Expansion([], notes=[note])], without
        own = [replace(point, captures=spec.captures, total=spec.total) for point in found.points]
        expansions.append(replace(found, points=own))
        served.add(spec.group)
    if missing and not expansions:
        raise missing[0][1]
    return expansions, _told([(spec, error) for spec, error in missing if not spec.group or spec.group not in served])


def _located(spec: ProbeSpec, pid: int, known: dict[str, str | ProbeError]) -> ProbeSpec:
    """Put a library's path in the place of its name: a preset has many functions of one, looked for once.

    Args:
        spec: A probe of a preset.
        pid: Process whose libraries are asked first.
        known: What was found so far; is added to.

    Raises:
        ProbeError: It is not there.

    """
    if spec.kind not in USER_KINDS:
        return spec
    if spec.target not in known:
        from accel_magic.probes.libraries import resolve  # it brings an ELF reader and numpy

        try:
            known[spec.target] = str(resolve(spec.target, pid))
        except ProbeError as error:
            known[spec.target] = ProbeError(
                error.what, why=error.why, fix=presets.INSTALL.get(spec.target, error.fix), code=error.code
            )
    found = known[spec.target]
    if isinstance(found, ProbeError):
        raise found
    return replace(spec, target=found)


def _told(missing: list[tuple[ProbeSpec, ProbeError]]) -> list[Skipped]:
    """What to tell of probes that are not there; those of one group with one reason are told once."""
    told: dict[tuple[str, str], list[str]] = {}
    for spec, error in missing:
        name = f"{spec.target}:{spec.name}"
        told.setdefault((spec.group or name, error.why or error.what), []).append(name)
    return [
        Skipped(names[0] + (f" and {len(set(names)) - 1} more" if len(set(names)) > 1 else ""), why)
        for (_, why), names in told.items()
    ]


def _captures(point: ProbePoint, columns: tuple[Capture, ...]) -> tuple[Capture, ...]:
    """Columns of a point: a preset's own, and those of the user's that it can give; the preset's keep their names."""
    own = tuple(column for column in point.captures if _can_give(point, column))
    taken = {column.name for column in own}
    return own + tuple(column for column in columns if column.name not in taken and _can_give(point, column))


def _can_give(point: ProbePoint, column: Capture) -> bool:
    is_function = point.kind not in ("tracepoint", *THREAD_KINDS)
    in_time = point.latency or column.source == "retval" or not column.at_return
    return is_function and in_time and column.source in argument_sources(point)


def _distinct(expansions: list[Expansion]) -> list[ProbePoint]:
    """One point per place, first come first served; a latency point stands in for a plain one, as it counts too."""
    places: dict[tuple[str, str, str | int], ProbePoint] = {}
    for point in (point for expansion in expansions for point in expansion.points):
        place = (point.kind, point.target, point.offset if point.kind in USER_KINDS else point.function)
        taken = places.get(place)
        if taken is None or (point.latency and not taken.latency):
            places[place] = point
    return list(places.values())


def _left(specs: Sequence[ProbeSpec], points: list[ProbePoint], pid: int) -> tuple[list[ProbePoint], list[str]]:
    """Apply the exclusions; also notes on those that matched nothing."""
    notes = []
    for spec in (spec for spec in specs if spec.exclude):
        takes_out = presets.excluded(spec.text) or excluded(spec, pid=pid)
        left = [point for point in points if not takes_out(point)]
        if len(left) == len(points):
            names = (point.function for point in points)
            notes.append(f"{spec.text} leaves nothing out. {suggestion(spec.name, names)}".strip())
        points = left
    if not points:
        raise ProbeError(
            "nothing is left to trace",
            why="the exclusions take out everything that matched",
            fix="narrow what stands after `!`",
            code="probe.all-excluded",
        )
    return points, notes


def _check_count(points: list[ProbePoint]) -> None:
    user = sum(point.kind in USER_KINDS for point in points)
    if len(points) > MOST_POINTS:
        raise ProbeError(
            f"the probes match {len(points):,} places",
            why=f"at most {MOST_POINTS:,} can be traced at once",
            fix="narrow the globs, or leave out what is not needed with !SPEC",
            code="probe.too-many",
        )
    if user > MOST_USER_POINTS:
        raise ProbeError(
            f"the probes match {user:,} places in programs and libraries",
            why=f"each is a breakpoint that costs some microseconds whenever it is hit and is set one by one; at most "
            f"{MOST_USER_POINTS:,} are",
            fix="narrow the globs, or leave out what is not needed with !SPEC",
            code="probe.too-many-user",
        )


def _check_captures(columns: tuple[Capture, ...], points: list[ProbePoint]) -> None:
    sources = {source for point in points for source in argument_sources(point)}
    for column in columns:
        if column.source in sources and not any(_can_give(point, column) for point in points):
            raise ProbeError(
                f"--args {column.name}: no probe here waits for a call to return",
                fix="write latency: before the probe, or leave out @return",
                code="capture.no-return",
            )
        if column.source not in sources:
            raise ProbeError(
                f"--args {column.name}={column.source}:{column.type}: no probe here has {column.source}",
                why="function entries have arg0..arg11, returns have retval, latency probes both, and a USDT probe its "
                "own arguments as far as they can be read",
                fix=f"use one of {', '.join(sorted(sources))}"
                if sources
                else "leave out --args: fields are recorded anyway",
                code="capture.not-here",
            )


def _check_limits(mode: str, max_events: int | None, duration_s: float | None, buffer_mib: float) -> None:
    if mode not in get_args(Mode):
        raise ProbeError(
            f"--mode {mode!r} is not known", fix=f"use one of {', '.join(get_args(Mode))}", code="option.unknown-value"
        )
    if max_events is not None and max_events < 1:
        raise ProbeError(
            f"--max-events {max_events} keeps nothing", fix="give 1 or more, or --mode count", code="option.max-events"
        )
    if duration_s is not None and not 0 < duration_s < float("inf"):
        raise ProbeError(
            f"--duration {duration_s} is no time to trace", fix="give seconds, more than 0", code="option.duration"
        )
    if not SMALLEST_BUFFER_MIB <= buffer_mib <= LARGEST_BUFFER_MIB:
        raise ProbeError(
            f"--buffer {buffer_mib} cannot be made",
            fix=f"give {SMALLEST_BUFFER_MIB} to {LARGEST_BUFFER_MIB} MiB",
            code="option.buffer",
        )

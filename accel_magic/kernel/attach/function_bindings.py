"""Bind functions of a user's program to places: from words like `on_hit=uprobe:libc:malloc` to attached programs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProbeError
from accel_magic.kernel import bpf_syscalls, features
from accel_magic.probes import tracefs
from accel_magic.probes.globs import suggestion
from accel_magic.probes.matching import make_plan
from accel_magic.probes.plan import KERNEL_KINDS, RETURN_KINDS, THREAD_KINDS, ProbePoint, TraceRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accel_magic.kernel.load.bpf_links import Linker

RAW_TRACEPOINT: Final = "raw_tracepoint:"
_BINDING = re.compile(r"([A-Za-z_]\w*)=(.+)", re.DOTALL)


@dataclass(frozen=True)
class FunctionBinding:
    """Where one function of the program is attached: a raw tracepoint, or the points that its specs match."""

    function: str
    spec: str
    raw_tracepoint: str = ""
    points: tuple[ProbePoint, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Each place as text."""
        if self.raw_tracepoint:
            return (f"{RAW_TRACEPOINT}{self.raw_tracepoint}",)
        return tuple(":".join(filter(None, [point.kind, point.target, point.function])) for point in self.points)


def is_binding(word: str) -> bool:
    """Whether a word has the form FUNCTION=SPEC."""
    return _BINDING.fullmatch(word) is not None


def parse_bindings(words: Sequence[str]) -> dict[str, list[str]]:
    """Parse `FUNCTION=SPEC` words: specs by function.

    Raises:
        ProbeError: A word is not a binding.

    """
    found: dict[str, list[str]] = {}
    for word in words:
        match = _BINDING.fullmatch(word)
        if match is None:
            raise ProbeError(
                f"{word!r} does not name a function of the program",
                why="with --program, probes have the form FUNCTION=SPEC",
                fix=f"write e.g. on_hit={word.lstrip('=') or 'uprobe:libc:malloc'}",
                code="program.no-function-for-probe",
            )
        found.setdefault(match[1], []).append(match[2])
    return found


def find_place(function: str, specs: Sequence[str]) -> tuple[FunctionBinding, list[str]]:
    """Match a function's specs against this machine; also return notes for the user.

    Raises:
        ProbeError: A spec is invalid or matches nothing, or the specs cannot be combined.
        MachineError: This kernel or user cannot trace it.

    """
    written = " ".join(specs)
    if any(spec.startswith(RAW_TRACEPOINT) for spec in specs):
        if len(specs) > 1:
            raise ProbeError(
                f"{function} is bound to a raw tracepoint and other places: {written}",
                fix="write a separate function for each",
                code="program.mixed-places",
            )
        return FunctionBinding(function, written, raw_tracepoint=specs[0].removeprefix(RAW_TRACEPOINT)), []
    for spec in specs:
        if spec.startswith("latency:"):
            raise ProbeError(
                f"{function}={spec}: `latency:` cannot be used with --program",
                why="your program must measure latency itself, with separate functions for entry and return",
                fix="bind one function to the entry and one to the return, e.g. "
                "on_entry=uprobe:libc:malloc on_return=uretprobe:libc:malloc",
                code="program.measures-itself",
            )
    plan = make_plan(TraceRequest(tuple(specs), mode="count", scope="all"))
    if any(point.kind in THREAD_KINDS for point in plan.points):
        raise ProbeError(
            f"{function}={written}: samples and waits cannot run your own programs",
            why="they are not places in code",
            fix=f"use %%ktrace {written} without --program; for waits, bind raw_tracepoint:sched_switch",
            code="program.no-samples",
        )
    if len({point.kind == "tracepoint" for point in plan.points}) > 1:
        raise ProbeError(
            f"{function} is bound to tracepoints and to functions: {written}",
            why="their contexts differ: a tracepoint's record, and registers",
            fix="write a separate function for each",
            code="program.mixed-places",
        )
    notes = [*plan.notes, *(f"{skip.function} skipped: {skip.why}" for skip in plan.skipped)]
    return FunctionBinding(function, written, points=plan.points), notes


def load_place(linker: Linker, place: FunctionBinding) -> None:
    """Load a place's function. Raises ProgramError if the kernel's verifier rejects it."""
    if place.raw_tracepoint:
        linker.program(place.function, bpf_syscalls.PROG_RAW_TRACEPOINT)
    elif place.points[0].kind == "tracepoint":
        linker.program(place.function, bpf_syscalls.PROG_TRACEPOINT)
    else:
        for kernel in {point.kind in KERNEL_KINDS for point in place.points}:
            has_multi = features.has_kprobe_multi() if kernel else features.has_uprobe_multi()
            multi = bpf_syscalls.ATTACH_KPROBE_MULTI if kernel else bpf_syscalls.ATTACH_UPROBE_MULTI
            linker.program(place.function, bpf_syscalls.PROG_KPROBE, multi if has_multi else 0)


def attach_place(linker: Linker, place: FunctionBinding, file: str) -> None:
    """Attach a place's function, from the program `file`, to all its points.

    Raises:
        OSError: The kernel rejects the call; ENOENT for a missing raw tracepoint.
        ProbeError: None of the points can be probed.

    """
    if place.raw_tracepoint:
        linker.raw_tracepoint(place.function, place.raw_tracepoint)
        return
    groups: dict[tuple[str, str], list[ProbePoint]] = {}
    for point in place.points:
        if point.kind == "tracepoint":
            linker.tracepoint(place.function, point.event_id, point.id)
        else:
            target = "" if point.kind in KERNEL_KINDS else point.target
            groups.setdefault((point.kind, target), []).append(point)
    for (kind, _), members in groups.items():
        cookies = [point.id for point in members]
        linker.functions(place.function, members, cookies, on_return=kind in RETURN_KINDS)
    refused = [linker.skipped[point.id] for point in place.points if point.id in linker.skipped]
    if len(refused) == len(place.points):
        raise ProbeError(
            f"{file}: {place.function} cannot be attached to any of its places",
            why="; ".join(f"{skip.function}: {skip.why}" for skip in refused[:3]),
            fix=f"bind it to another place: {place.function}=SPEC",
            code="probe.nothing-attached",
        )


def no_raw_tracepoint(place: FunctionBinding) -> ProbeError:
    """Make the error for a missing raw tracepoint."""
    mounted = tracefs.find()
    names = {event for category in tracefs.categories(mounted) for event in tracefs.events(mounted, category)}
    return ProbeError(
        f"{place.function}: there is no raw tracepoint {place.raw_tracepoint}",
        why="raw tracepoints have the event's name without its category; system calls have only sys_enter and sys_exit",
        fix=suggestion(place.raw_tracepoint, names) or "ls /sys/kernel/tracing/events",
        code="probe.no-raw-tracepoint",
    )

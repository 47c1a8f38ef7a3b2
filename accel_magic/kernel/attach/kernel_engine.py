"""The live engine: compiles, loads and attaches a plan's programs. Everything is held by file descriptors."""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic import demangle
from accel_magic.errors import AccelMagicError, MachineError, ProbeError, too_many_files
from accel_magic.kernel import bpf_syscalls, btf, features, own_threads, scope
from accel_magic.kernel.attach import stack_maps, thread_counts, waits
from accel_magic.kernel.attach.plan_source import (
    MOST_CALLS,
    BpfProgram,
    BpfSource,
    calls_points,
    generate,
    measures_functions,
    started_size,
    syscall_number,
    waits_point,
)
from accel_magic.kernel.attachment import Attachment, RecordLayout
from accel_magic.kernel.bcc import compiler
from accel_magic.kernel.load import relocation
from accel_magic.kernel.load.bpf_links import Descriptors, Linker
from accel_magic.kernel.load.bpf_maps import create_value, power_of_two
from accel_magic.kernel.mapped_memory import map_value
from accel_magic.probes.plan import KERNEL_KINDS, RETURN_KINDS, Plan, ProbePoint

if TYPE_CHECKING:
    from collections.abc import Iterable

_SYSCALL_NUMBERS = 512
_CALLERS = np.dtype([("slots", "V24", (8192,)), ("swept", "<u8"), ("over", "<u8")])
"""`struct am_callers` of bpf/kernel/latency.h."""
_OBJECTS = 65536
_SECRET = np.dtype([("key", "<u8", (2,))])
"""`struct am_secret` of bpf/kernel/for_user.h."""
_SMALLEST_RING = 4096


@dataclass
class _Maps:
    """Descriptors of one attachment's maps, and the maps' numbers in the programs."""

    control: int
    counters: int
    histograms: int
    own_threads: int
    stacks: int
    waits: int
    thread_counts: int
    rings: tuple[int, ...]
    ring_sizes: tuple[int, ...]
    numbers: dict[int, int]


def _syscall_tables(count: int) -> np.dtype[np.void]:
    """`struct am_syscalls` of bpf/kernel/syscall.h."""
    return np.dtype([("cookies", "<u4", (count, _SYSCALL_NUMBERS))])


def _ring_sizes(layout: RecordLayout, buffer_mib: float) -> tuple[int, ...]:
    count = len(layout.record_sizes)
    if not count:
        return ()
    share = int(buffer_mib * (1 << 20)) // power_of_two(count)
    size = 1 << max(share, _SMALLEST_RING).bit_length() - 1
    return (size,) * count


def _create_maps(plan: Plan, layout: RecordLayout, tables: int, keep: Descriptors) -> _Maps:
    control = keep.add(create_value(layout.control, "am_control"))
    counters = keep.add(create_value(layout.counters, "am_counters", read_only=True))
    threads = keep.add(create_value(scope.IDS, "am_own_threads"))
    numbers = {relocation.CONTROL: control, relocation.COUNTERS: counters, relocation.OWN_THREADS: threads}
    if any(point.scope.name != "all" for point in plan.points):
        numbers[relocation.SCOPE] = keep.add(create_value(scope.IDS, "am_scope"))
    if tables:
        numbers[relocation.SYSCALLS] = keep.add(create_value(_syscall_tables(tables), "am_syscalls"))
    histograms = -1
    if layout.latencies:
        histograms = keep.add(create_value(layout.histograms, "am_histograms", read_only=True))
        numbers[relocation.HISTOGRAMS] = histograms
    if calls_points(plan):
        numbers[relocation.INFLIGHT] = keep.add(
            bpf_syscalls.map_create(
                bpf_syscalls.MAP_HASH, key=16, value=started_size(plan), entries=MOST_CALLS, name="am_inflight"
            )
        )
    if measures_functions(plan):
        numbers[relocation.CALLERS] = keep.add(create_value(_CALLERS, "am_callers"))
    stacks = -1
    if layout.stack_frames:
        stacks, numbers[relocation.SCRATCH] = stack_maps.create(keep, layout.stack_frames)
        numbers[relocation.STACKS] = stacks
    waiting = -1
    if waits_point(plan) is not None:
        numbers[relocation.WAITS] = waiting = waits.create(keep)
    by_thread = -1
    if any(point.counted for point in plan.points):
        numbers[relocation.THREAD_COUNTS] = by_thread = thread_counts.create(keep)
    sizes = _ring_sizes(layout, plan.request.buffer_mib)
    rings = tuple(
        keep.add(bpf_syscalls.map_create(bpf_syscalls.MAP_RINGBUF, key=0, value=0, entries=size, name="am_ring"))
        for size in sizes
    )
    numbers.update({relocation.RING + index: ring for index, ring in enumerate(rings)})
    return _Maps(control, counters, histograms, threads, stacks, waiting, by_thread, rings, sizes, numbers)


def _cookies(plan: Plan) -> dict[int, int]:
    """Cookies, by which a program identifies its point: the point's id, and above it the row of its histogram."""
    rows = {point.id: row for row, point in enumerate(plan.latency_points)}
    return {point.id: point.id | rows.get(point.id, 0) << 16 for point in plan.points}


def _attach_program(linker: Linker, program: BpfProgram, plan: Plan, cookies: dict[int, int]) -> None:
    points = [plan.points[index] for index in program.points]
    own = {index: cookies[index] | part << 32 for index, part in zip(program.points, program.parts, strict=True)}
    if program.table is not None:
        on_exit = program.role == "exit" or points[0].function.startswith("sys_exit_")
        linker.raw_tracepoint(program.name, "sys_exit" if on_exit else "sys_enter")
        return
    if program.role == "switch":
        linker.raw_tracepoint(program.name, "sched_switch")
        return
    groups: dict[tuple[str, str], list[ProbePoint]] = {}
    for point in points:
        if point.kind == "profile":
            linker.clock(program.name, point.rate_hz, cookies[point.id])
        elif point.kind == "tracepoint":
            event = point.exit_event_id if program.role == "exit" else point.event_id
            linker.tracepoint(program.name, event, cookies[point.id])
        else:
            file = "" if point.kind in KERNEL_KINDS else point.target
            groups.setdefault((point.kind, file), []).append(point)
    for (kind, _), members in groups.items():
        on_return = program.role == "exit" or kind in RETURN_KINDS
        linker.functions(program.name, members, [own[point.id] for point in members], on_return=on_return)


def _fill_syscall_tables(source: BpfSource, plan: Plan, cookies: dict[int, int], fd: int) -> None:
    programs = [program for program in source.programs if program.table is not None]
    table = map_value(fd, _syscall_tables(len(programs)), writable=True)["cookies"][0]
    for program in programs:
        for index in program.points:
            table[program.table, syscall_number(plan.points[index])] = cookies[index] + 1


@dataclass(frozen=True)
class Caller:
    """The user for whom a privileged process attaches: only that user's processes are traced.

    Attributes:
        uid: User id; processes with any other rights are not traced.
        pid: The process that asked; breakpoints in user space are set only there.
        python: Constants for its Python's stacks, from `python_layout.defines`.

    """

    uid: int
    pid: int
    python: tuple[str, ...] = ()


_RIGHTS: Final = {"UID": "uid", "GID": "gid", "SUID": "suid", "SGID": "sgid", "EUID": "euid", "EGID": "egid"}


def _scope_text(plan: Plan, caller: Caller | None) -> str:
    """The programs that update the scope, added to the text of the probes: one compilation instead of two."""
    if all(point.scope.name == "all" for point in plan.points):
        return ""
    constants = {"AM_TASK_PID": btf.member_offset("task_struct", "pid")}
    if caller is not None:
        constants |= {"AM_USER": caller.uid, "AM_TASK_CRED": btf.member_offset("task_struct", "cred")}
        constants |= {f"AM_CRED_{name}": btf.member_offset("cred", member) for name, member in _RIGHTS.items()}
        constants["AM_CRED_CAPABILITIES"] = btf.member_offset("cred", "cap_permitted")
    lines = [f"#define {name} {value}" for name, value in constants.items()]
    return "\n".join([*lines, '#include "scope.bpf.c"', ""])


def _follow_processes(linker: Linker, root: int, tracers: Iterable[int], caller: Caller | None) -> None:
    """Fill the scope with the root's tree and keep it up to date. Attach first, so that no child is missed."""
    linker.raw_tracepoint("am_scope_fork", "sched_process_fork")
    if caller is not None:
        linker.raw_tracepoint("am_scope_exec", "sched_process_exec")
    scope.fill(linker.numbers[relocation.SCOPE], root, tracers, uid=None if caller is None else caller.uid)


def _drop_ended_calls(linker: Linker) -> None:
    """Drop calls that can no longer return when their thread exits or their program is replaced."""
    linker.raw_tracepoint("am_thread_ends", "sched_process_exit")
    linker.raw_tracepoint("am_program_ends", "sched_process_exec")


@dataclass(frozen=True)
class KernelEngine:
    """Attaches plans to the running kernel.

    `tracers` are helper processes whose hits never count (the reader). `caller`: the user for whom this process
    attaches, if it is not this process's own.
    """

    tracers: tuple[int, ...] = ()
    caller: Caller | None = None

    def attach(self, plan: Plan) -> Attachment:
        """Attach every probe point, or raise and leave nothing attached.

        Raises:
            MachineError: A privilege, a kernel feature or BCC is missing.
            ProgramError: A program does not compile or is rejected.
            ProbeError: None of the places can be probed.

        """
        features.require_tracing()
        with contextlib.ExitStack() as undo:
            keep = Descriptors()
            undo.callback(keep.close)
            try:
                caller = self.caller
                source = generate(plan, None if caller is None else caller.python, for_user=caller is not None)
                text = source.text + _scope_text(plan, caller)
                # A privileged process writes nothing to its disk at another user's request.
                code = compiler.compile_own(text, keep=caller is None).functions
                linker = Linker(dict(code), {}, pid=0 if caller is None else caller.pid)
                undo.callback(linker.close)
                maps = self._attach(plan, source, linker, keep)
            except OSError as error:
                raise attach_error(error) from None
            close = undo.pop_all().close
        return Attachment(
            plan=plan,
            skipped=tuple(linker.skipped.values()),
            layout=source.layout,
            control_fd=maps.control,
            counters_fd=maps.counters,
            histograms_fd=maps.histograms,
            own_threads_fd=maps.own_threads,
            stacks_fd=maps.stacks,
            waits_fd=maps.waits,
            thread_counts_fd=maps.thread_counts,
            ring_fds=maps.rings,
            ring_sizes=maps.ring_sizes,
            misses=linker.misses,
            run_ns=linker.run_ns,
            notes=lambda: (*source.notes, *linker.notes()),
            detach=linker.detach,
            close=close,
        )

    def _attach(self, plan: Plan, source: BpfSource, linker: Linker, keep: Descriptors) -> _Maps:
        layout = source.layout
        tables = sum(program.table is not None for program in source.programs)
        maps = _create_maps(plan, layout, tables, keep)
        linker.numbers.update(maps.numbers)
        if self.caller is not None:  # never given to the user
            secret = linker.numbers[relocation.SECRET] = keep.add(create_value(_SECRET, "am_secret"))
            linker.numbers[relocation.OBJECTS] = keep.add(
                bpf_syscalls.map_create(bpf_syscalls.MAP_LRU_HASH, key=8, value=1, entries=_OBJECTS, name="am_objects")
            )
            map_value(secret, _SECRET, writable=True)["key"] = np.frombuffer(os.urandom(_SECRET.itemsize), "<u8")
        control = map_value(maps.control, layout.control, writable=True)
        compiler.start()
        helpers = (*self.tracers, *compiler.helper_pids(), demangle.helper_pid())
        tracers = tuple(pid for pid in helpers if pid is not None)
        visible = tracers if scope.in_initial_namespace() else ()
        nobody = own_threads.NOBODY
        control["starter"] = nobody
        control["ignored_tgid"] = (*visible, *[nobody] * 3)[:3]
        roots = {point.scope.pid for point in plan.points if point.scope.name != "all"}
        for root in roots:
            _follow_processes(linker, root, tracers, self.caller)
        if calls_points(plan):
            _drop_ended_calls(linker)
        cookies = _cookies(plan)
        if tables:
            _fill_syscall_tables(source, plan, cookies, maps.numbers[relocation.SYSCALLS])
        # Exits first: every call whose entry is seen then has its exit attached.
        for program in sorted(source.programs, key=lambda program: program.role != "exit"):
            _attach_program(linker, program, plan, cookies)
        if len(linker.skipped) == len(plan.points):
            raise ProbeError(
                "none of the matched places can be probed",
                why="; ".join(f"{skip.function}: {skip.why}" for skip in [*linker.skipped.values()][:3]),
                fix="choose other functions; --dry-run lists all matches",
                code="probe.nothing-attached",
            )
        return maps


def attach_error(error: OSError) -> AccelMagicError:
    """Translate a failed system call to an error for the user."""
    if error.errno in (errno.EPERM, errno.EACCES):
        return MachineError(
            "the kernel refused to attach the probes",
            why=f"{error.strerror}: this process may not trace, or kernel lockdown forbids it",
            fix="run `python -m accel_magic doctor` to see which privilege is missing",
            code="machine.no-privilege",
        )
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return too_many_files()
    if error.errno == errno.ENOMEM:
        return MachineError(
            "the kernel could not allocate the buffers",
            why=str(error.strerror),
            fix="use a smaller ring buffer: --buffer 8",
            code="machine.no-buffer-memory",
        )
    return MachineError(
        "the kernel refused to attach the probes",
        why=f"{error.strerror} (errno {error.errno})",
        fix="run `python -m accel_magic doctor`; --dry-run shows what would be attached",
        code="machine.attach-refused",
    )

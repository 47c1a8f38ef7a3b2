"""The live engine: compiles a plan's programs, loads them and attaches them. Everything is held by descriptors."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from accel_magic.errors import AccelMagicError, MachineError, ProbeError
from accel_magic.kernel import btf, compiler, features, link, scope, syscalls
from accel_magic.kernel.maps import create_value, power_of_two
from accel_magic.kernel.source import Program, Source, generate, started_size, syscall_number
from accel_magic.probes.plan import KERNEL_KINDS, RETURN_KINDS, Plan, ProbePoint, Skipped
from accel_magic.traces.attachment import Attachment, Layout
from accel_magic.traces.mapped import map_value

_INFLIGHT_CALLS = 16384
_SYSCALL_NUMBERS = 512
_SMALLEST_RING = 4096
# What the kernel says of a place it cannot probe, as against a call that went wrong altogether.
_UNPROBEABLE = {errno.EINVAL, errno.ENOENT, errno.ESRCH, errno.EILSEQ, errno.EADDRNOTAVAIL, errno.EOPNOTSUPP, 524}


class Descriptors:
    """Descriptors that die together; a forked child drops its copies, so it cannot keep probes alive."""

    _open: set[Descriptors] = set()  # noqa: RUF012 - shared on purpose

    def __init__(self) -> None:
        self._fds: list[int] = []
        Descriptors._open.add(self)

    def add(self, fd: int) -> int:
        """Take over a descriptor and return it."""
        self._fds.append(fd)
        return fd

    def close(self) -> None:
        """Close all of them, the latest first; again is harmless."""
        while self._fds:
            os.close(self._fds.pop())
        Descriptors._open.discard(self)

    @classmethod
    def close_in_child(cls) -> None:
        """Drop every descriptor after a fork."""
        for descriptors in list(cls._open):
            descriptors.close()


os.register_at_fork(after_in_child=Descriptors.close_in_child)


@dataclass
class _Maps:
    """Descriptors of one attachment's maps, and their numbers in the programs."""

    control: int
    counters: int
    histograms: int
    rings: tuple[int, ...]
    ring_sizes: tuple[int, ...]
    numbers: dict[int, int]


def _syscall_tables(count: int) -> np.dtype[np.void]:
    """`struct am_syscalls` of bpf/kernel/syscall.h."""
    return np.dtype([("cookies", "<u4", (count, _SYSCALL_NUMBERS))])


def _ring_sizes(layout: Layout, buffer_mib: float) -> tuple[int, ...]:
    count = len(layout.record_sizes)
    if not count:
        return ()
    share = int(buffer_mib * (1 << 20)) // power_of_two(count)
    size = 1 << max(share, _SMALLEST_RING).bit_length() - 1
    return (size,) * count


def _create_maps(plan: Plan, layout: Layout, tables: int, keep: Descriptors) -> _Maps:
    control = keep.add(create_value(layout.control, "am_control"))
    counters = keep.add(create_value(layout.counters, "am_counters"))
    numbers = {link.CONTROL: control, link.COUNTERS: counters}
    if any(point.scope.name != "all" for point in plan.points):
        numbers[link.SCOPE] = keep.add(create_value(scope.BITS, "am_scope"))
    if tables:
        numbers[link.SYSCALLS] = keep.add(create_value(_syscall_tables(tables), "am_syscalls"))
    histograms = -1
    if layout.latencies:
        histograms = keep.add(create_value(layout.histograms, "am_histograms"))
        numbers[link.HISTOGRAMS] = histograms
        numbers[link.INFLIGHT] = keep.add(
            syscalls.map_create(
                syscalls.MAP_HASH, key=16, value=started_size(plan), entries=_INFLIGHT_CALLS, name="am_inflight"
            )
        )
    sizes = _ring_sizes(layout, plan.buffer_mib)
    rings = tuple(
        keep.add(syscalls.map_create(syscalls.MAP_RINGBUF, key=0, value=0, entries=size, name="am_ring"))
        for size in sizes
    )
    numbers.update({link.RING + index: ring for index, ring in enumerate(rings)})
    return _Maps(control, counters, histograms, rings, sizes, numbers)


class _Linker:
    """Loads programs on demand and attaches points to them."""

    def __init__(self, code: dict[str, bytes], numbers: dict[int, int], programs: Descriptors, links: Descriptors):
        self.code = code
        self.numbers = numbers
        self.programs = programs
        self.links = links
        self.loaded: dict[tuple[str, int], int] = {}
        self.skipped: list[Skipped] = []

    def program(self, name: str, kind: int, attach_type: int = 0) -> int:
        key = (name, attach_type)
        if key not in self.loaded:
            fd = link.load(kind, self.code[name], self.numbers, name=name, attach_type=attach_type)
            self.loaded[key] = self.programs.add(fd)
        return self.loaded[key]

    def tracepoint(self, name: str, event_id: int, cookie: int) -> None:
        program = self.program(name, syscalls.PROG_TRACEPOINT)
        event = syscalls.perf_tracepoint(event_id)
        try:
            self.links.add(syscalls.link_perf_event(program, event, cookie))
        finally:
            os.close(event)

    def raw_tracepoint(self, name: str, event: str) -> None:
        program = self.program(name, syscalls.PROG_RAW_TRACEPOINT)
        self.links.add(syscalls.link_raw_tracepoint(program, event))

    def functions(self, name: str, points: Sequence[ProbePoint], cookies: Sequence[int], *, on_return: bool) -> None:
        """Attach one program to functions of one kind: with a single system call where the kernel has that."""
        kernel = points[0].kind in KERNEL_KINDS
        if features.has_kprobe_multi() if kernel else features.has_uprobe_multi():
            multi = syscalls.ATTACH_KPROBE_MULTI if kernel else syscalls.ATTACH_UPROBE_MULTI
            program = self.program(name, syscalls.PROG_KPROBE, multi)
            attach: Callable[[Sequence[ProbePoint], Sequence[int]], int]
            attach = partial(_link_kernel if kernel else _link_user, program, on_return=on_return)
            self._attach_or_split(attach, points, cookies)
            return
        program = self.program(name, syscalls.PROG_KPROBE)
        for point, cookie in zip(points, cookies, strict=True):
            self._attach_or_split(partial(_link_single, program, on_return=on_return), [point], [cookie])

    def _attach_or_split(
        self,
        attach: Callable[[Sequence[ProbePoint], Sequence[int]], int],
        points: Sequence[ProbePoint],
        cookies: Sequence[int],
    ) -> None:
        """Attach all at once; where the kernel refuses, halve until the places it cannot probe are found."""
        try:
            self.links.add(attach(points, cookies))
        except OSError as error:
            if error.errno not in _UNPROBEABLE:
                raise
            if len(points) == 1:
                self.skipped.append(Skipped(points[0].function, f"the kernel cannot probe it: {error.strerror}"))
                return
            half = len(points) // 2
            self._attach_or_split(attach, points[:half], cookies[:half])
            self._attach_or_split(attach, points[half:], cookies[half:])


def _link_kernel(program: int, points: Sequence[ProbePoint], cookies: Sequence[int], *, on_return: bool) -> int:
    return syscalls.link_kprobe_multi(program, [point.function for point in points], cookies, on_return=on_return)


def _link_user(program: int, points: Sequence[ProbePoint], cookies: Sequence[int], *, on_return: bool) -> int:
    return syscalls.link_uprobe_multi(
        program,
        points[0].target,
        [point.offset for point in points],
        cookies,
        on_return=on_return,
        semaphores=[point.semaphore for point in points],
    )


def _link_single(program: int, points: Sequence[ProbePoint], cookies: Sequence[int], *, on_return: bool) -> int:
    (point,), (cookie,) = points, cookies
    if point.kind in KERNEL_KINDS:
        name = f"{point.target}:{point.function}" if point.target else point.function
        event = syscalls.perf_kprobe(name, on_return=on_return)
    else:
        event = syscalls.perf_uprobe(point.target, point.offset, on_return=on_return, semaphore=point.semaphore)
    try:
        return syscalls.link_perf_event(program, event, cookie)
    finally:
        os.close(event)


def _cookies(plan: Plan) -> dict[int, int]:
    """What tells a program which point it runs for: the point's id, and above it the row of its histogram."""
    rows = {point.id: row for row, point in enumerate(plan.latency_points)}
    return {point.id: point.id | rows.get(point.id, 0) << 16 for point in plan.points}


def _attach_program(linker: _Linker, program: Program, plan: Plan, cookies: dict[int, int]) -> None:
    points = [plan.points[index] for index in program.points]
    if program.table is not None:
        on_exit = program.role == "exit" or points[0].function.startswith("sys_exit_")
        linker.raw_tracepoint(program.name, "sys_exit" if on_exit else "sys_enter")
        return
    groups: dict[tuple[str, str], list[ProbePoint]] = {}
    for point in points:
        if point.kind == "tracepoint":
            event = point.exit_event_id if program.role == "exit" else point.event_id
            linker.tracepoint(program.name, event, cookies[point.id])
        else:
            file = "" if point.kind in KERNEL_KINDS else point.target
            groups.setdefault((point.kind, file), []).append(point)
    for (kind, _), members in groups.items():
        on_return = program.role == "exit" or kind in RETURN_KINDS
        linker.functions(program.name, members, [cookies[point.id] for point in members], on_return=on_return)


def _fill_syscall_tables(source: Source, plan: Plan, cookies: dict[int, int], fd: int) -> None:
    programs = [program for program in source.programs if program.table is not None]
    table = map_value(fd, _syscall_tables(len(programs)), writable=True)["cookies"][0]
    for program in programs:
        for index in program.points:
            table[program.table, syscall_number(plan.points[index])] = cookies[index] + 1


def _follow_processes(linker: _Linker, layout: Layout, root: int, tracers: Iterable[int]) -> None:
    """Fill the scope with the root's tree and keep it in step: the programs first, so that no child slips through."""
    text = (
        f"#define AM_POINTS {layout.points}\n#define AM_CPUS {layout.cpus}\n"
        f'#define AM_TASK_PID {btf.member_offset("task_struct", "pid")}\n'
        '#include "common.h"\n#include "scope.bpf.c"\n'
    )
    linker.code.update(compiler.compile_own(text).functions)
    linker.raw_tracepoint("am_scope_fork", "sched_process_fork")
    linker.raw_tracepoint("am_scope_free", "sched_process_free")
    scope.fill(linker.numbers[link.SCOPE], root, tracers)


@dataclass(frozen=True)
class KernelEngine:
    """Attaches plans to the running kernel.

    `tracers` are processes of ours whose hits never count (the reader).
    """

    tracers: tuple[int, ...] = ()

    def attach(self, plan: Plan) -> Attachment:
        """Attach every probe point, or raise and leave nothing attached.

        Raises:
            MachineError: A privilege, a kernel feature or BCC is missing.
            ProgramError: A program does not compile or is refused.
            ProbeError: None of the places can be probed.

        """
        features.require_tracing()
        source = generate(plan)
        code = dict(compiler.compile_own(source.text).functions)
        maps, links, programs = Descriptors(), Descriptors(), Descriptors()

        def close() -> None:
            for descriptors in (links, programs, maps):
                descriptors.close()

        with contextlib.ExitStack() as undo:
            undo.callback(close)
            try:
                attachment = self._attach(plan, source, code, maps, links, programs, close)
            except OSError as error:
                raise _attach_error(error) from None
            undo.pop_all()
        return attachment

    def _attach(
        self,
        plan: Plan,
        source: Source,
        code: dict[str, bytes],
        keep: Descriptors,
        links: Descriptors,
        programs: Descriptors,
        close: Callable[[], None],
    ) -> Attachment:
        layout = source.layout
        tables = sum(program.table is not None for program in source.programs)
        maps = _create_maps(plan, layout, tables, keep)
        control = map_value(maps.control, layout.control, writable=True)
        tracers = (*self.tracers, compiler.start())
        if scope.in_initial_namespace():
            control["ignored_tgid"][0] = (*tracers, 0)[:2]
        linker = _Linker(code, maps.numbers, programs, links)
        roots = {point.scope.pid for point in plan.points if point.scope.name != "all"}
        for root in roots:
            _follow_processes(linker, layout, root, tracers)
        cookies = _cookies(plan)
        if tables:
            _fill_syscall_tables(source, plan, cookies, maps.numbers[link.SYSCALLS])
        # Exits first: a call that begins before its entry is attached is not seen at all, one that ends is.
        for program in sorted(source.programs, key=lambda program: program.role != "exit"):
            _attach_program(linker, program, plan, cookies)
        if linker.skipped and len({skip.function for skip in linker.skipped}) >= len(plan.points):
            raise ProbeError(
                "none of the matched places can be probed",
                why="; ".join(f"{skip.function}: {skip.why}" for skip in linker.skipped[:3]),
                fix="choose other functions; --dry-run lists what matches",
            )
        loaded = tuple(linker.loaded.values())
        return Attachment(
            plan=replace(plan, skipped=(*plan.skipped, *linker.skipped)),
            layout=layout,
            control_fd=maps.control,
            counters_fd=maps.counters,
            histograms_fd=maps.histograms,
            ring_fds=maps.rings,
            ring_sizes=maps.ring_sizes,
            misses=lambda: sum(syscalls.prog_misses(fd) for fd in loaded),
            detach=links.close,
            close=close,
        )


def _attach_error(error: OSError) -> AccelMagicError:
    if error.errno in (errno.EPERM, errno.EACCES):
        return MachineError(
            "the kernel refused to attach the probes",
            why=f"{error.strerror}: this process may not trace (or lockdown forbids it)",
            fix="run `python -m accel_magic doctor` to see which privilege is missing",
        )
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return MachineError(
            "too many open files",
            why="each tracepoint needs a descriptor while it is attached",
            fix="raise the limit (ulimit -n 65536) or match fewer tracepoints",
        )
    if error.errno == errno.ENOMEM:
        return MachineError(
            "the kernel has no memory for the buffers",
            why=str(error.strerror),
            fix="ask for a smaller ring buffer: --buffer 8",
        )
    return MachineError(
        "the kernel refused to attach the probes",
        why=f"{error.strerror} (errno {error.errno})",
        fix="run `python -m accel_magic doctor`; --dry-run shows what would be attached",
    )

"""Load programs and attach them. All links are held by descriptors, which the kernel closes when the process ends."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from accel_magic import foreign_files, forks
from accel_magic.errors import MachineError
from accel_magic.kernel import bpf_syscalls, features, own_threads
from accel_magic.kernel.load import held_links, relocation
from accel_magic.kernel.load.bpf_maps import online_cpus
from accel_magic.probes.plan import KERNEL_KINDS, ProbePoint, Skipped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_DETACH_WAIT_S = 0.2
_CLOSERS = 64
_LOCKED = re.compile(rb"[\x66\x67\xf2\xf3]*\xf0", re.DOTALL)
# Errors that mean that the kernel cannot probe a place; all others are failures of the call itself.
_UNPROBEABLE = {errno.EINVAL, errno.ENOENT, errno.ESRCH, errno.EILSEQ, errno.EADDRNOTAVAIL, errno.EOPNOTSUPP, 524}


class Descriptors:
    """Descriptors that are closed together. A forked child closes its copies, so it cannot keep probes alive.

    Each stays in the list until it is closed, so that a child forked meanwhile closes the remaining ones.
    """

    _open: set[Descriptors] = set()  # noqa: RUF012 - shared on purpose

    def __init__(self) -> None:
        self._fds: list[int] = []
        Descriptors._open.add(self)

    def add(self, fd: int) -> int:
        """Take over a descriptor and return it."""
        self._fds.append(fd)
        return fd

    def __iter__(self) -> Iterator[int]:
        """Iterate over the open descriptors."""
        return iter(self._fds)

    def close(self) -> None:
        """Close all of them, latest first; repeated calls are harmless."""
        self._close_one_by_one()
        Descriptors._open.discard(self)

    def _close_one_by_one(self) -> None:
        while True:
            try:
                fd = self._fds.pop()
            except IndexError:
                return
            with contextlib.suppress(OSError):  # already closed elsewhere; go on with the others
                os.close(fd)

    def close_behind(self, wait_s: float) -> bool:
        """Close all of them in a thread, and wait at most `wait_s` for it; repeated calls are harmless.

        Returns:
            Whether all are closed.

        """
        if not self._fds:
            return True
        behind = Descriptors()
        behind._fds, self._fds = self._fds, []
        thread = own_threads.Thread(target=behind.close, name="accel_magic detach")
        try:
            thread.start()
        except RuntimeError:  # no more threads
            behind.close()
            return True
        thread.join(wait_s)
        return not thread.is_alive()

    def close_together(self) -> None:
        """Close all of them in parallel, so that the kernel's grace periods overlap, and wait for it."""
        threads = [
            own_threads.Thread(target=self._close_one_by_one, name="accel_magic detach")
            for _ in range(min(len(self._fds), _CLOSERS))
        ]
        with contextlib.suppress(RuntimeError):  # no more threads
            for thread in threads:
                thread.start()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        self.close()

    @classmethod
    def close_in_child(cls) -> None:
        """Drop every descriptor after a fork."""
        for descriptors in list(cls._open):
            descriptors.close()


forks.in_child(Descriptors.close_in_child)


class Linker:
    """Loads programs on demand and attaches points to them.

    Args:
        code: Bytecode by program name.
        numbers: Descriptors of the map numbers in the code (see `accel_magic.kernel.load.relocation.relocate`).
        licence: License of the code; some helpers are reserved for GPL-compatible licenses.
        pid: The only process in which to set breakpoints in user space; 0: all.

    """

    def __init__(self, code: dict[str, bytes], numbers: dict[int, int], licence: str = "GPL", *, pid: int = 0) -> None:
        self.code = code
        self.pid = pid
        self.numbers = numbers
        self.licence = licence
        self.programs = Descriptors()
        self.links = Descriptors()
        self.slow_links = Descriptors()
        self.loaded: dict[tuple[str, int], int] = {}
        self.skipped: dict[int, Skipped] = {}  # by ProbePoint.id
        self._sampled: frozenset[int] = frozenset()  # CPUs
        self._modules: dict[str, int] = {}  # modules that can be unloaded while probed, with their identity

    def detach(self, *, together: bool = False) -> tuple[str, ...]:
        """Close the links, so that no program runs any more. Repeated calls are harmless.

        Closing a perf tracepoint, kprobe or uprobe waits for the kernel's grace period, some 75 ms each. After a short
        wait this continues in a thread; the programs are already disabled and count nothing.

        Args:
            together: Close these in parallel instead, and wait for it.

        Returns:
            Notes for the user about links that still exist.

        """
        fast = [*self.links]
        one = next(iter((*fast, *self.slow_links)), None)
        number = 0 if one is None else bpf_syscalls.link_id(one)
        self.links.close()
        closed = True
        if together:
            self.slow_links.close_together()
        else:
            closed = self.slow_links.close_behind(_DETACH_WAIT_S)
        return held_links.notes(number) if number and (fast or closed) else ()

    def close(self) -> None:
        """Detach, and close the programs."""
        try:
            self.detach()
        finally:
            self.programs.close()

    def misses(self) -> int:
        """Number of hits since attaching for which no program ran, because one was already running on that CPU.

        Hits missed before the program was reached are known only while its link is open.
        """
        programs = sum(bpf_syscalls.prog_misses(fd) for fd in self.loaded.values())
        return programs + sum(bpf_syscalls.link_misses(fd) for fd in (*self.links, *self.slow_links))

    def run_ns(self) -> int:
        """Total CPU time of the programs, ns, while the kernel measures it (`syscalls.measure_programs`)."""
        return sum(bpf_syscalls.prog_run_ns(fd) for fd in self.loaded.values())

    def notes(self) -> tuple[str, ...]:
        """Notes on events that affect the counts: CPUs that came or went, modules unloaded while probed.

        Multi-kprobes hold their modules, as tracepoints do; single kprobes do not, and are not attached again when the
        module is reloaded.
        """
        unloaded = (
            f"{module} was unloaded during the trace: its hits were counted only until then"
            for module, identity in self._modules.items()
            if _module_identity(module) != identity
        )
        return (*_cpus_changed(self._sampled), *unloaded)

    def program(self, name: str, kind: int, attach_type: int = 0) -> int:
        """Descriptor of a program, which is loaded on first use."""
        key = (name, attach_type)
        if key not in self.loaded:
            fd = relocation.load(
                kind, self.code, self.numbers, name=name, attach_type=attach_type, licence=self.licence
            )
            self.loaded[key] = self.programs.add(fd)
        return self.loaded[key]

    def tracepoint(self, name: str, event_id: int, cookie: int) -> None:
        """Attach a program to one of perf's tracepoints."""
        program = self.program(name, bpf_syscalls.PROG_TRACEPOINT)
        event = bpf_syscalls.perf_tracepoint(event_id)
        try:
            self.slow_links.add(bpf_syscalls.link_perf_event(program, event, cookie))
        finally:
            os.close(event)

    def raw_tracepoint(self, name: str, event: str) -> None:
        """Attach a program to a raw tracepoint."""
        program = self.program(name, bpf_syscalls.PROG_RAW_TRACEPOINT)
        self.links.add(bpf_syscalls.link_raw_tracepoint(program, event))

    def clock(self, name: str, rate_hz: int, cookie: int) -> None:
        """Attach a program to a clock on every online CPU.

        Raises:
            MachineError: The rate exceeds this machine's limit.

        """
        program = self.program(name, bpf_syscalls.PROG_PERF_EVENT)
        for cpu in sorted(online_cpus()):
            try:
                event = bpf_syscalls.perf_cpu_clock(cpu, rate_hz)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    continue  # it went offline just now
                if error.errno == errno.EINVAL:
                    raise _too_fast(rate_hz) from None
                raise
            try:
                self.links.add(bpf_syscalls.link_perf_event(program, event, cookie))
            finally:
                os.close(event)
            self._sampled |= {cpu}

    def functions(self, name: str, points: Sequence[ProbePoint], cookies: Sequence[int], *, on_return: bool) -> None:
        """Attach one program to functions of one kind, with a single system call if the kernel supports it."""
        attach: Callable[[Sequence[ProbePoint], Sequence[int]], int]
        kernel = points[0].kind in KERNEL_KINDS
        if not kernel:
            points, cookies = self._without_locked(points, cookies)
            if not points:
                return
        if features.has_kprobe_multi() if kernel else features.has_uprobe_multi():
            multi = bpf_syscalls.ATTACH_KPROBE_MULTI if kernel else bpf_syscalls.ATTACH_UPROBE_MULTI
            program = self.program(name, bpf_syscalls.PROG_KPROBE, multi)
            link_all = _link_kernel if kernel else partial(_link_user, pid=self.pid)
            attach = partial(link_all, program, on_return=on_return)
            self._attach_or_split(attach, points, cookies, self.links)
            return
        if self.pid and not kernel:
            raise MachineError(
                "functions of programs and libraries cannot be traced through the broker on this kernel",
                why="before Linux 6.6, a breakpoint cannot be limited to one process, and would slow down others",
                fix="trace as root, or boot a newer kernel",
                code="broker.no-process-breakpoints",
            )
        program = self.program(name, bpf_syscalls.PROG_KPROBE)
        if kernel:
            self._modules.update({point.target: _module_identity(point.target) for point in points if point.target})
        for point, cookie in zip(points, cookies, strict=True):
            attach = partial(_link_single, program, on_return=on_return)
            self._attach_or_split(attach, [point], [cookie], self.slow_links)

    def _without_locked(
        self, points: Sequence[ProbePoint], cookies: Sequence[int]
    ) -> tuple[list[ProbePoint], list[int]]:
        """Skip places whose first instruction has a LOCK prefix.

        The kernel cannot probe them, but reports it only if a process has the file mapped; else they silently never
        fire.
        """
        with foreign_files.opened(Path(points[0].target)) as file:  # one file for all
            locked = {point.offset: _LOCKED.match(os.pread(file.fileno(), 4, point.offset)) for point in points}
        why = "the kernel cannot probe its first instruction, which has a LOCK prefix"
        self.skipped.update({point.id: Skipped(point.function, why) for point in points if locked[point.offset]})
        kept = [pair for pair in zip(points, cookies, strict=True) if not locked[pair[0].offset]]
        return [point for point, _ in kept], [cookie for _, cookie in kept]

    def _attach_or_split(
        self,
        attach: Callable[[Sequence[ProbePoint], Sequence[int]], int],
        points: Sequence[ProbePoint],
        cookies: Sequence[int],
        links: Descriptors,
    ) -> None:
        """Attach all at once; if the kernel refuses, bisect to find the places that it cannot probe."""
        try:
            links.add(attach(points, cookies))
        except OSError as error:
            if error.errno not in _UNPROBEABLE:
                raise
            if len(points) == 1:
                (point,) = points
                self.skipped[point.id] = Skipped(point.function, f"the kernel cannot probe it: {error.strerror}")
                return
            half = len(points) // 2
            self._attach_or_split(attach, points[:half], cookies[:half], links)
            self._attach_or_split(attach, points[half:], cookies[half:], links)


def _too_fast(rate_hz: int) -> MachineError:
    limit = "kernel.perf_event_max_sample_rate"
    return MachineError(
        f"this machine cannot sample at {rate_hz} Hz",
        why=f"{limit} is lower: the kernel reduces it if samples take too long",
        fix=f"use a lower rate, e.g. profile:hz:99, or raise the limit: sysctl {limit}={max(rate_hz, 100_000)}",
        code="machine.sample-rate",
    )


def _cpus_changed(sampled: frozenset[int]) -> tuple[str, ...]:
    """Notes on CPUs that came or went since sampling of the CPUs `sampled` started; none without samples."""
    now = online_cpus() if sampled else sampled
    changes = {
        "came online and was not sampled": now - sampled,
        "went offline and was sampled until then": sampled - now,
    }
    return tuple(f"CPU {cpu} {what}" for what, cpus in changes.items() for cpu in sorted(cpus))


def _module_identity(module: str) -> int:
    """Inode of a module's folder in sysfs, which changes if the module is reloaded; 0 if it is not loaded."""
    try:
        return os.stat(f"/sys/module/{module}").st_ino  # noqa: PTH116 - no path object for one number
    except OSError:
        return 0


def _link_kernel(program: int, points: Sequence[ProbePoint], cookies: Sequence[int], *, on_return: bool) -> int:
    return bpf_syscalls.link_kprobe_multi(program, [point.function for point in points], cookies, on_return=on_return)


def _link_user(program: int, points: Sequence[ProbePoint], cookies: Sequence[int], *, on_return: bool, pid: int) -> int:
    return bpf_syscalls.link_uprobe_multi(
        program,
        points[0].target,
        [point.offset for point in points],
        cookies,
        on_return=on_return,
        semaphores=[point.semaphore for point in points],
        pid=pid,
    )


def _link_single(program: int, points: Sequence[ProbePoint], cookies: Sequence[int], *, on_return: bool) -> int:
    (point,), (cookie,) = points, cookies
    if point.kind in KERNEL_KINDS:
        name = f"{point.target}:{point.function}" if point.target else point.function
        event = bpf_syscalls.perf_kprobe(name, on_return=on_return)
    else:
        event = bpf_syscalls.perf_uprobe(point.target, point.offset, on_return=on_return, semaphore=point.semaphore)
    try:
        return bpf_syscalls.link_perf_event(program, event, cookie)
    finally:
        os.close(event)

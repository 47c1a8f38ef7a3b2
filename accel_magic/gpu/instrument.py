"""Inserts the programs of a trace into kernels as they are compiled, and records kernels and launches."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from accel_magic.errors import AccelMagicError
from accel_magic.gpu.codegen.compile import compile_probes
from accel_magic.gpu.codegen.spirv import compile_spirv
from accel_magic.gpu.inject import inject
from accel_magic.gpu.inject.report import KernelReport
from accel_magic.gpu.inject.spirv import inject_spirv
from accel_magic.interrupts import uninterrupted
from accel_magic.kernel.own_threads import at_work, thread_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from accel_magic.devices.launches import Code, KernelSource, LaunchRequest
    from accel_magic.gpu.inject.report import Injection, Site
    from accel_magic.gpu.inject.spirv.spirv_probes import SpirvProbes
    from accel_magic.gpu.inject.template import ProbeCode
    from accel_magic.gpu.maps.map_layout import Placement
    from accel_magic.gpu.program.program_source import GpuSource
    from accel_magic.gpu.program.sections import Attach


@dataclass(frozen=True)
class SeenKernel:
    """A kernel that was compiled while the trace ran.

    Attributes:
        report: What was inserted into it.
        source: The original module.
        code: The module with programs in it.

    """

    report: KernelReport
    source: KernelSource[Any]
    code: str | bytes


@dataclass
class Seen:
    """Kernels and launches that an `Instrumenter` has recorded; grows while the trace runs."""

    kernels: list[SeenKernel] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)
    launches: list[LaunchRequest] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    left_alone: list[SeenKernel] = field(default_factory=list)
    """Kernels of native binaries that cannot be instrumented; they have no number."""
    notes: list[str] = field(default_factory=list)


class Instrumenter:
    """The `Observer` of a trace: compiles its programs for each architecture once, and injects them.

    Args:
        sources: The programs.
        placements: Addresses of each source's maps.
        wanted: Whether to trace a kernel, by its name in PTX.
        before: Called before each launch.
        after: Called after each launch, with its number in the trace.
        elsewhere: Returns why a kernel that is loaded now cannot access the maps; '' if it can.
        placed: Returns where kernels find what is at an address of `placements`, when programs are compiled.

    """

    def __init__(
        self,
        sources: Sequence[GpuSource],
        placements: Sequence[Placement],
        requested: Callable[[str], bool],
        *,
        before: Callable[[LaunchRequest], None],
        after: Callable[[LaunchRequest, int], None],
        elsewhere: Callable[[], str] = str,
        placed: Callable[[int], int] = int,
    ) -> None:
        self.seen = Seen()
        self.launch_words: list[int] = []
        """Addresses of 8 bytes where compiled programs read the launch's number, which the host writes there."""
        self._sources = tuple(zip(sources, placements, strict=True))
        self._requested = requested
        self._before = before
        self._after = after
        self._elsewhere = elsewhere
        self._placed = placed
        self._probes: dict[str, tuple[tuple[Attach, ProbeCode], ...]] = {}
        self._spirv: SpirvProbes | None = None
        self._lock = threading.Lock()
        self._counting = threading.Lock()

    def rewrite(self, kernel: KernelSource[Code]) -> Code:
        """Return the module with the programs in it; the same if nothing was inserted.

        Interrupts are deferred to the end: LLVM does not survive one in the middle of its work.
        """
        with self._lock, at_work(), uninterrupted():
            return self._rewritten(kernel)

    def _rewritten(self, kernel: KernelSource[Code]) -> Code:
        try:
            if reason := self._elsewhere():
                self.seen.skipped.update(dict.fromkeys(kernel.names, reason))
                return kernel.code
            done = self._injected(kernel)
        except AccelMagicError as error:
            # The user's kernel must run anyway.
            self.seen.skipped.update(dict.fromkeys(kernel.names, str(error).replace("\n", ";")))
            return kernel.code
        self.seen.kernels += [SeenKernel(report, kernel, done.code) for report in done.kernels]
        self.seen.sites += done.sites
        return done.code

    def _injected(self, kernel: KernelSource[Code]) -> Injection[Code]:
        first = {"first_site": len(self.seen.sites), "first_kernel": len(self.seen.kernels)}
        if isinstance(kernel.code, str):
            return inject(kernel.code, self._compiled(kernel.arch), requested=self._requested, **first)
        if self._spirv is None:
            self._spirv = compile_spirv([(source, each.moved(self._placed)) for source, each in self._sources])
            self.launch_words += self._spirv.launch_words
        done = inject_spirv(kernel.code, self._spirv, requested=self._requested, **first)
        for note in done.notes:
            self.noted(note)
        return done

    def launching(self, launch: LaunchRequest) -> None:
        """Prepare the device."""
        self._before(launch)

    def launched(self, launch: LaunchRequest) -> None:
        """Record a launch; for one of this process, called in the launching thread."""
        if not launch.pid and not launch.tid:
            launch = replace(launch, tid=thread_id() or 0)
        with self._counting:
            self.seen.launches.append(launch)
            number = len(self.seen.launches) - 1
        self._after(launch, number)

    def skipped(self, name: str, reason: str) -> None:
        """Record why a kernel was not instrumented."""
        self.seen.skipped[name] = reason

    def within(self, placements: Sequence[Placement]) -> Instrumenter:
        """Return an instrumenter for another process, with other map addresses; both record into the same `Seen`."""
        sources = [source for source, _ in self._sources]
        other = Instrumenter(sources, placements, self._requested, before=self._before, after=self._after)
        other.seen, other._lock, other._counting = self.seen, self._lock, self._counting
        return other

    def add_launch(self, launch: LaunchRequest) -> None:
        """Record a launch of another process, some time after it happened."""
        with self._counting:
            self.seen.launches.append(launch)

    def number(self, source: KernelSource[Any], name: str) -> int | None:
        """Return the number that programs read as `kernel`; None if the module has no recorded kernel of this name."""
        with self._lock:
            found = (kernel.report for kernel in self.seen.kernels if kernel.source is source)
            return next((report.number for report in found if report.name == name), None)

    def left_alone(self, source: KernelSource[Any], reason: str) -> None:
        """Record kernels that cannot be instrumented, and why."""
        with self._lock:
            self.seen.left_alone += [
                SeenKernel(KernelReport(name, -1, instrumented=False, reason=reason, sites=0), source, source.code)
                for name in source.names
                if self._requested(name)
            ]

    def withdrawn(self, source: KernelSource[Any], reason: str) -> None:
        """Mark a module as not instrumented after all: the device rejects it and runs the original."""
        with self._lock:
            for at, kernel in enumerate(self.seen.kernels):
                if kernel.source is source:
                    report = replace(kernel.report, instrumented=False, reason=reason, sites=0)
                    self.seen.kernels[at] = SeenKernel(report, source, source.code)

    def noted(self, note: str) -> None:
        """Record a note for the user, once."""
        if note not in self.seen.notes:
            self.seen.notes.append(note)

    def _compiled(self, arch: str) -> tuple[tuple[Attach, ProbeCode], ...]:
        if arch not in self._probes:
            self._probes[arch] = compile_probes(self._sources, arch)
        return self._probes[arch]

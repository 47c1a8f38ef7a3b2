"""Puts the programs of a trace into the kernels that come by, and remembers what came by."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from accel_magic.errors import AccelMagicError
from accel_magic.gpu.compiled import compile_probes
from accel_magic.gpu.ptx import inject

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from accel_magic.gpu.adapters import KernelSource, Launch
    from accel_magic.gpu.placement import Placement
    from accel_magic.gpu.places import Attach
    from accel_magic.gpu.programs import Source
    from accel_magic.gpu.ptx.probe import ProbeCode
    from accel_magic.gpu.ptx.report import KernelReport, Site


@dataclass(frozen=True)
class SeenKernel:
    """A kernel that was compiled while the trace ran.

    Attributes:
        report: What was put into it.
        source: Where it came from; its text is the original.
        text: The module with programs in it.

    """

    report: KernelReport
    source: KernelSource
    text: str


@dataclass
class Seen:
    """What an `Instrumenter` has seen so far; grows while the trace runs."""

    kernels: list[SeenKernel] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)


class Instrumenter:
    """The `Observer` of a trace: compiles its programs for each architecture once, and injects them.

    Args:
        sources: The programs.
        placements: Where each source's maps lie.
        wanted: Whether a kernel is to be traced, by its name in PTX.
        before: Called before each launch.

    """

    def __init__(
        self,
        sources: Sequence[Source],
        placements: Sequence[Placement],
        wanted: Callable[[str], bool],
        before: Callable[[Launch], None],
    ) -> None:
        self.seen = Seen()
        self._sources = tuple(zip(sources, placements, strict=True))
        self._wanted = wanted
        self._before = before
        self._probes: dict[str, tuple[tuple[Attach, ProbeCode], ...]] = {}
        self._lock = threading.Lock()

    def rewrite(self, kernel: KernelSource) -> str:
        """Give the PTX with the programs in it; the same text where nothing was put in."""
        with self._lock:
            try:
                probes = self._compiled(kernel.arch)
                done = inject(
                    kernel.ptx,
                    probes,
                    wanted=self._wanted,
                    first_site=len(self.seen.sites),
                    first_kernel=len(self.seen.kernels),
                )
            except AccelMagicError as error:
                # The user's kernel must run all the same.
                self.seen.skipped.update(dict.fromkeys(kernel.names, str(error).replace("\n", ";")))
                return kernel.ptx
            self.seen.kernels += [SeenKernel(report, kernel, done.text) for report in done.kernels]
            self.seen.sites += done.sites
            return done.text

    def launching(self, launch: Launch) -> None:
        """Let the device be made ready."""
        self._before(launch)

    def launched(self, launch: Launch) -> None:
        """Remember a launch."""
        self.seen.launches.append(launch)

    def skipped(self, name: str, reason: str) -> None:
        """Remember why a kernel was not instrumented."""
        self.seen.skipped[name] = reason

    def _compiled(self, arch: str) -> tuple[tuple[Attach, ProbeCode], ...]:
        if arch not in self._probes:
            self._probes[arch] = compile_probes(self._sources, arch)
        return self._probes[arch]

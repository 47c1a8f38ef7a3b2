"""A GPU trace around a block: verifies programs, injects them into every launched kernel, and removes them again."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from accel_magic.api.block import Block
from accel_magic.api.gpu_recording import recording_of
from accel_magic.demangle import means
from accel_magic.devices.launches import SIMULATED_DEVICE
from accel_magic.devices.opencl.opencl_memory import OpenClMemory
from accel_magic.devices.targets import opened, target
from accel_magic.errors import MachineError, ProbeError
from accel_magic.gpu import adapters, programs
from accel_magic.gpu.gpu_samples import Feed, GpuSample, sample_of, together
from accel_magic.gpu.host.attach_points import check_bindings
from accel_magic.gpu.host.host_programs import HostPrograms
from accel_magic.gpu.instrument import Instrumenter
from accel_magic.gpu.maps import live_maps
from accel_magic.gpu.maps.live_maps import LiveMaps
from accel_magic.gpu.maps.map_history import History
from accel_magic.gpu.maps.shared_memory import allocate_all
from accel_magic.gpu_tools import TOOLS
from accel_magic.interrupts import uninterrupted
from accel_magic.kernel import features
from accel_magic.kernel.attach.function_bindings import parse_bindings
from accel_magic.kernel.own_threads import at_work
from accel_magic.subsystems.host_api.host_trace import HostTrace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pandas as pd

    from accel_magic.api.gpu_options import GpuOptions
    from accel_magic.devices.device import DeviceClock, DeviceMemory
    from accel_magic.devices.launches import LaunchRequest
    from accel_magic.devices.targets import Target
    from accel_magic.gpu.dry_run import GpuDryRun
    from accel_magic.gpu.maps.shared_memory import SharedMaps
    from accel_magic.gpu.native.native_server import NativeServer
    from accel_magic.gpu.program.program_source import GpuSource
    from accel_magic.recording.recording import Outcome
    from accel_magic.results.gpu_result import GpuResult


@dataclass(frozen=True)
class _Launches:
    """What is done around each launch of this process."""

    memory: DeviceMemory
    history: History | None

    def before(self, launch: LaunchRequest) -> None:
        """Prepare the device."""
        self.memory.launching(launch)
        if self.history is not None:
            self.history.launching()

    def after(self, launch: LaunchRequest, number: int) -> None:
        """Read the maps if that is due."""
        if self.history is not None:
            with at_work():
                self.history.launched(number, launch.stream)


@dataclass(frozen=True)
class _Attached:
    """The programs in kernels, their maps, and the device.

    Attributes:
        memory: How the device is accessed.
        on_cpu: Programs on the CPU.
        shared: The programs' maps.
        live: Reads them meanwhile.
        instrumenter: Injects the programs into this process's kernels.
        natives: Serves processes with native kernels; None for the simulated device.
        clock: The device's clock compared with ours, before.
        attached_ns: CLOCK_MONOTONIC when all was attached.

    """

    memory: DeviceMemory
    on_cpu: HostPrograms
    shared: list[SharedMaps]
    live: LiveMaps
    instrumenter: Instrumenter
    natives: NativeServer | None
    clock: DeviceClock
    attached_ns: int

    def sample(self, start_ns: int, device: str) -> GpuSample:
        """The counters now; its time is since `start_ns`, or since attaching if that is 0."""
        elapsed_ns = time.monotonic_ns() - (start_ns or self.attached_ns)
        sample = sample_of(elapsed_ns, self.instrumenter.seen, self.shared, self.live)
        if self.natives is not None:
            sample = together(sample, self.natives.samples())
        return replace(sample, device=device)

    def compared(self, *, ended: bool) -> DeviceClock:
        """Compare the clocks again; if the device no longer responds, use the first comparison."""
        try:
            if ended:
                return self.clock.through(self.memory.clock())
        except MachineError:
            pass
        return self.clock.aged(time.monotonic_ns())


class GpuTrace(Block["GpuResult", _Attached]):
    """GPU programs around a block or a function.

    Args:
        names: Names of tools or of program files, and bindings of programs for the CPU.
        options: The options.
        save: Write the result to this Parquet file.

    """

    KIND = "gputrace"

    def __init__(self, names: tuple[str, ...], options: GpuOptions, *, save: str | Path | None = None) -> None:
        super().__init__(save)
        self._given = names
        self.names, bindings = programs.without_bindings(names)
        if not self.names:
            raise ProbeError(
                "no GPU program given",
                fix="name a tool or a file: threadhist, mine.bpf.c",
                code="gpu.no-program-given",
            )
        self._bindings = parse_bindings(bindings)
        self.options = options
        self._sources: tuple[GpuSource, ...] = ()
        self._host = HostTrace(options.host_api)
        self._started = ""
        self._end_ns = 0

    @property
    def machine(self) -> dict[str, str]:
        """Describe this machine as the result will."""
        described = super().machine
        if self.device.simulated:
            described["simulated"] = SIMULATED_DEVICE
        return described

    @cached_property
    def device(self) -> Target:
        """The device that the kernels run on. Raises MachineError if a GPU was requested and there is none."""
        return target(self.options.device, self.options.gpu)

    def again(self) -> GpuTrace:
        """Make another trace with the same arguments."""
        return GpuTrace(self._given, self.options, save=self._save)

    def prepare(self) -> tuple[GpuSource, ...]:
        """Compile and verify the programs; nothing is attached yet.

        Raises:
            ProbeError: There is no such tool or file, or a setting does not fit.
            ProgramError: A program does not compile, the verifier rejects it, or the device cannot run it.
            MachineError: clang, a package of the GPU extra, or the device is missing.

        """
        features.require_linux()
        self.device  # noqa: B018 - report a missing device before compiling anything
        found = self._load(refuse=True)
        programs.require_device(found, self.device)
        check_bindings(self._bindings, found)
        self._sources = tuple(_of_tool(programs.with_budget(source, self.options.threads)) for source in found)
        return self._sources

    def examine(self) -> GpuDryRun:
        """Compile the programs and report what the verifier found, even for rejected programs.

        Raises as `prepare` does, except for rejected programs.
        """
        from accel_magic.gpu.dry_run import GpuDryRun

        sources = self._load(refuse=False)
        programs.require_device(sources, self.device)
        check_bindings(self._bindings, sources)
        return GpuDryRun.of(sources, self.options.threads, self.device.architecture, self._bindings)

    def _load(self, *, refuse: bool) -> tuple[GpuSource, ...]:
        given = self.options
        return programs.load(
            self.names,
            per=given.per,
            verify_mode=given.verify,
            refuse=refuse,
            settings=given.settings,
            fill=given.fill,
        )

    def _attach(self, show: Callable[[list[GpuSample]], None] | None) -> _Attached:
        """Allocate the maps on the device and start watching the frameworks."""
        with uninterrupted():
            attached = self._attach_all()
            if show is not None:
                feed = Feed(lambda: attached.sample(self.start_ns, self.device.name), show)
                self._undo.callback(feed.stop)
                feed.start()
        return attached

    def _attach_all(self) -> _Attached:
        opened_memory, device = self._undo.enter_context(opened(self.device))
        memory = self._host.start(opened_memory, kind=self.device.kind, simulated=self.device.simulated)
        self._undo.callback(self._host.abort)
        clock = memory.clock()
        pid_tgid = os.getpid() << 32 | threading.get_native_id()
        on_cpu = HostPrograms.load(self._sources, self._bindings, simulated=self.device.simulated)
        self._undo.callback(on_cpu.close)
        self._sources = sources = on_cpu.settled(self._sources)
        maps = allocate_all(sources, memory, self.options.threads, pid_tgid, on_cpu.descriptors)
        for shared in maps:
            self._undo.callback(shared.free)
        timed = self.options.every is not None or self.options.by_launch
        history = History(maps, self.options.every) if timed else None
        live = LiveMaps(maps, history)
        self._undo.callback(live.close)
        live.start()
        launches = _Launches(memory, history)
        instrumenter = Instrumenter(
            sources,
            [shared.placement for shared in maps],
            self._matches,
            before=launches.before,
            after=launches.after,
            elsewhere=memory.elsewhere,
            placed=memory.placed if isinstance(memory, OpenClMemory) else int,
        )
        if isinstance(memory, OpenClMemory):
            memory.numbered = instrumenter.launch_words
        self._undo.enter_context(adapters.attached(instrumenter, device))
        server = None
        if self.device.kind != "cpu":
            from accel_magic.gpu.adapters.native import watched

            own = device.device if isinstance(device, OpenClMemory) else None
            server = self._undo.enter_context(
                watched(sources, self.options.threads, instrumenter, memory, on_cpu.descriptors, device=own)
            )
        on_cpu.attach()
        self.start_ns = 0
        return _Attached(memory, on_cpu, maps, live, instrumenter, server, clock, time.monotonic_ns())

    def _matches(self, name: str) -> bool:
        return means(self.options.kernel, name)

    def maps_now(self) -> dict[str, pd.DataFrame]:
        """Read the current maps without stopping kernels; call it inside the block, from any thread.

        Returns:
            Frames like those of `GpuResult.maps`, for this process's kernels; for a ring all records so far. Each entry
            is consistent; entries of one map may be from slightly different moments.

        Raises:
            TraceStateError: The trace is not running.
            MachineError: The device no longer responds.

        """
        attached = self._attached
        if attached is None:
            raise live_maps.ended() if self.has_result else live_maps.not_started()
        return attached.live.frames(attached.on_cpu.contents())

    def go(self) -> None:
        """The traced code starts here."""
        self._started = datetime.now().astimezone().isoformat(timespec="seconds")
        self.start_ns, self._end_ns = self._host.go(), 0
        self.attached.live.go()

    def halt(self) -> None:
        """Stop recording host calls. Running kernels count until they end; `stop` waits for them."""
        if not self._end_ns:
            self._end_ns = time.monotonic_ns()
            self._host.halt()

    def _finish(self, attached: _Attached, outcome: Outcome, value: object) -> GpuResult:
        from accel_magic.results.gpu_result import GpuResult

        calls = self._host.stop(outcome)  # before this tool waits for the device itself
        ended = attached.memory.wait()
        attached.on_cpu.detach()
        processes = attached.natives.finish() if attached.natives is not None else ()
        attached.live.stop()
        recording = recording_of(
            attached.instrumenter.seen,
            attached.shared,
            attached.live,
            attached.on_cpu,
            attached.memory,
            started=self._started,
            start_ns=self.start_ns,
            end_ns=self._end_ns,
            outcome=outcome,
            calls=calls,
            machine=self.machine,
            clock=attached.compared(ended=ended),
            notes=self._about_the_device(attached.memory, ended=ended),
            processes=processes,
        )
        return GpuResult(recording, value)

    def _about_the_device(self, memory: DeviceMemory, *, ended: bool) -> list[str]:
        running = "kernels were still running when the maps were read; their memory is kept until this process ends"
        overlapping = isinstance(memory, OpenClMemory) and memory.overlapping
        mixed = "launches overlapped: records of one may have the number of the next"
        notes = [*([] if ended else [running]), *([mixed] if overlapping else [])]
        return [*notes, *([self.device.note] if self.device.note else [])]

    def _warm_up(self) -> None:
        """Start nothing, because few GPU traces need the helpers of kernel traces."""


def _of_tool(source: GpuSource) -> GpuSource:
    """Add what the live row shows of a tool."""
    return replace(source, live=TOOLS[source.name].live) if source.name in TOOLS else source

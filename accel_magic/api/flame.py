"""A flame trace around a block: samples, waits, measured calls and launches, on one time base."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from accel_magic import subsystems
from accel_magic.analysis.flame import cell_names
from accel_magic.api.block import Block
from accel_magic.broker import client as broker
from accel_magic.errors import AccelMagicError, MachineError
from accel_magic.interrupts import uninterrupted
from accel_magic.kernel import features, scope
from accel_magic.recording.cost import Cost
from accel_magic.recording.flame import NOT_KNOWN, FlameFacts, Watched
from accel_magic.recording.session import LiveSession

if TYPE_CHECKING:
    from pathlib import Path

    from accel_magic.api.flame_options import FlameOptions
    from accel_magic.api.flame_sampled import ThreadEngine
    from accel_magic.api.launch_stacks import Launches
    from accel_magic.kernel.stacks.table import StackTable
    from accel_magic.probes.plan import Plan
    from accel_magic.recording.profile import Profile
    from accel_magic.recording.recording import Outcome, Recording
    from accel_magic.recording.session import Show
    from accel_magic.results.flame import FlameResult, SampledResult
    from accel_magic.subsystems.subsystem import CompanionRun


class FlameTrace(Block["FlameResult | SampledResult"]):
    """A profile of a block or a function; the thread sampler gives a SampledResult.

    Args:
        options: The options.
        save: Write the result to this Parquet file.

    """

    KIND = "flame"

    def __init__(self, options: FlameOptions, *, save: str | Path | None = None) -> None:
        super().__init__(save)
        self.options = options
        self._plan: Plan | None = None
        self._session: LiveSession | None = None
        self._threads: ThreadEngine | None = None
        self._launches: Launches | None = None
        self._companions: dict[str, CompanionRun] = {}
        self._cost = Cost()
        self._spent: dict[str, int] | None = None
        self._notes: tuple[str, ...] = ()
        self._cpu_ns = 0
        self._names: dict[int, str] = {}

    @property
    def machine(self) -> dict[str, str]:
        """Describe this machine as the result will."""
        described = super().machine
        if self._launches is not None and self._launches.target is not None and self._launches.target.simulated:
            described["simulated"] = self._launches.target.name
        return described

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes from `prepare` for the user."""
        return self._notes

    def again(self) -> FlameTrace:
        """Make another trace with the same arguments."""
        return FlameTrace(self.options, save=self._save)

    def prepare(self) -> Plan | None:
        """Match the probes and find the devices; nothing is attached yet.

        Returns:
            What will be traced; None if the thread sampler is used.

        Raises:
            ProbeError: A probe is invalid or matches nothing.
            MachineError: This machine lacks something that the options need.

        """
        self._plan, self._notes = None, ()
        if self.options.gpu_kernels:
            from accel_magic.api.launch_stacks import Launches

            self._launches = Launches(self.options.device)
            self._launches.prepare()
        runs = {name: companion.run(vars(self.options)) for name, companion in subsystems.companions().items()}
        self._companions = {name: run for name, run in runs.items() if run is not None}
        for run in self._companions.values():
            run.prepare()
        if self.options.sampler != "thread":
            try:
                if not broker.needed():
                    features.require_tracing()
                self._plan = self.options.plan()
            except MachineError as error:
                self._fall_back(error)
        return self._plan

    def _fall_back(self, error: MachineError) -> None:
        """Fall back to the thread sampler. Raises the error if the options need BPF."""
        if self.options.sampler == "bpf" or self.options.probes:
            raise error
        why = f" ({error.why})" if error.why else ""
        self._plan = None
        self._notes = (f"BPF is unavailable; using the in-process thread sampler: {error.what}{why}",)

    def _attach(self, show: Show | None) -> None:
        self._session = self._threads = None
        for run in self._companions.values():
            self._undo.callback(run.abort)
            run.start()
        with uninterrupted():
            if self._launches is not None:
                self._undo.callback(self._launches.close)
                self._launches.attach()
            if self._plan is not None:
                self._attach_kernel(self._plan, show)
            if self._plan is None:
                self._attach_thread()

    def _attach_kernel(self, plan: Plan, show: Show | None) -> None:
        live = LiveSession(plan, show, each_look=self._learn_names, native_tasks=False)
        self._undo.callback(live.abort)
        try:
            live.start()
        except MachineError as error:  # e.g. BCC is missing, or the kernel refuses a program
            self._fall_back(error)
        else:
            self._undo.enter_context(self._cost)
            self._session = live

    def _learn_names(self) -> None:
        """Remember the names of threads that may have ended at the end of the trace."""
        self._names |= names_of_threads()

    def _attach_thread(self) -> None:
        from accel_magic.api.flame_sampled import ThreadEngine

        self._threads = ThreadEngine(self.options)
        self._undo.callback(self._threads.abort)

    @property
    def start_ns(self) -> int:
        """CLOCK_MONOTONIC of `go`."""
        if self._threads is not None:
            return self._threads.start_ns
        assert self._session is not None  # noqa: S101 - after attach
        return self._session.start_ns

    def go(self) -> None:
        """Start sampling."""
        self._names, self._spent = names_of_threads(), None
        if self._launches is not None:
            self._launches.go()
        for run in self._companions.values():
            run.go()
        self._cpu_ns = _cpu_time_ns()
        if self._threads is not None:
            self._threads.go()
            return
        assert self._session is not None  # noqa: S101 - after attach
        self._cost.go(self._session)
        self._session.go()

    def halt(self) -> None:
        """Stop sampling in the kernel, and end the recordings of companions here."""
        if self._spent is None:
            self._spent = self._costs(self._session) if self._session is not None else {}
            for run in self._companions.values():
                run.halt()
            if self._session is not None:
                self._session.halt()

    def _finish(self, outcome: Outcome, value: object) -> FlameResult | SampledResult:
        live, engine = self._session, self._threads
        profile = engine.stop() if engine is not None else None
        recording = live.stop(outcome) if live is not None else None
        if self._launches is not None:
            self._launches.wait()
        stopped = {name: self._stopped(name, run) for name, run in self._companions.items()}
        companions = {name: recorded for name, recorded in stopped.items() if recorded is not None}
        if engine is not None and profile is not None:
            return self._sampled(engine, profile, companions, value)
        assert recording is not None  # noqa: S101 - after attach
        return self._recorded(self._completed(recording, self._spent or {}, companions), value)

    def _recorded(self, recording: Recording, value: object) -> FlameResult | SampledResult:
        """Make the result of the kernel's samples."""
        from accel_magic.results.flame import FlameResult  # importing it earlier would be in the profile

        return FlameResult(recording, value)

    def _stopped(self, name: str, run: CompanionRun) -> dict[str, Any] | None:
        """Return what a subsystem's companion recorded, as JSON values; None, and a note, if it failed."""
        companion = subsystems.companions()[name]
        try:
            return companion.stored(run.stop())
        except AccelMagicError as error:
            # The CPU profile is still useful.
            why = f" ({error.why})" if error.why else ""
            self._notes = (*self._notes, f"no {companion.samples}: {error.what}{why}")
            return None

    def _costs(self, live: LiveSession) -> dict[str, int]:
        """CPU time of the process and its ended children, and of the tracer, since `go`."""
        threads_ns, programs_ns = self._cost.threads_ns(), self._cost.programs_ns(live)
        cpu_ns = _cpu_time_ns() - self._cpu_ns - threads_ns
        tracer_ns = programs_ns + threads_ns + self._cost.reader_ns(live)
        return {"cpu_ns": cpu_ns, "tracer_ns": NOT_KNOWN if programs_ns == NOT_KNOWN else tracer_ns}

    def _completed(self, recording: Recording, cost: dict[str, int], companions: dict[str, Any]) -> Recording:
        """Add what only this process knows: names, launches, CPU time, and what companions recorded."""
        watched = self._watched(recording.start_ns, recording.stacks)
        stacks = watched.stacks
        if stacks is not None:
            named = cell_names.names()
            frames = tuple(frame._replace(module=named.get(frame.module, frame.module)) for frame in stacks.frames)
            stacks = replace(stacks, frames=frames)
        facts = FlameFacts(
            rate=self.options.rate,
            threads=self.options.by_thread,
            all_frames=self.options.all_frames,
            names=tuple((self._names | names_of_threads()).items()),
            device=watched.device,
            launches=watched.launches,
            more_launches=watched.more,
            notes=(*self._notes, *watched.notes),
            **cost,
        )
        return replace(recording, flame=facts, stacks=stacks, machine=self.machine, companions=companions)

    def _sampled(
        self, engine: ThreadEngine, profile: Profile, companions: dict[str, Any], value: object
    ) -> FlameResult | SampledResult:
        """Make the result of the thread sampler."""
        from accel_magic.api.flame_sampled import shown
        from accel_magic.results.flame import SampledResult

        watched = self._watched(engine.start_ns, None)
        made = shown(profile, self.options, cells=cell_names.names(), machine=self.machine, watched=watched)
        return SampledResult(replace(made, notes=(*self._notes, *made.notes)), value, companions)

    def _watched(self, start_ns: int, stacks: StackTable | None) -> Watched:
        return Watched(stacks=stacks) if self._launches is None else self._launches.seen(start_ns, stacks)


def _cpu_time_ns() -> int:
    """CPU time of this process and of its children that have ended."""
    times = os.times()
    return time.process_time_ns() + round((times.children_user + times.children_system) * 1e9)


def names_of_threads() -> dict[int, str]:
    """Python's thread names by the ids that BPF programs see; {} in another PID namespace, where the ids differ.

    Threads that have ended are included as long as their objects exist.
    """
    if not scope.in_initial_namespace():
        return {}
    ended: tuple[threading.Thread, ...] = ()
    with contextlib.suppress(RuntimeError):  # a starting thread may change the set
        ended = tuple(getattr(threading, "_dangling", ()))
    known = (*ended, *threading.enumerate())
    return {thread.native_id: thread.name for thread in known if thread.native_id is not None}

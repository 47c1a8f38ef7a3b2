"""A flame trace around a block: samples, waits, measured calls and launches, on one time base."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from accel_magic import subsystems
from accel_magic.analysis.flame import cell_names
from accel_magic.api.block import Block
from accel_magic.api.observations import SubsystemObservers
from accel_magic.broker import broker_socket
from accel_magic.engine import session
from accel_magic.engine.cost import Cost
from accel_magic.engine.session import Attached
from accel_magic.errors import AccelMagicError, MachineError
from accel_magic.interrupts import uninterrupted
from accel_magic.kernel import features, scope
from accel_magic.recording.flame_data import NOT_KNOWN, AcceleratorActivity, FlameFacts
from accel_magic.recording.recording import Recording

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from accel_magic.api.flame_options import FlameOptions
    from accel_magic.api.flame_sampled import ThreadEngine
    from accel_magic.api.launch_stacks import Launches
    from accel_magic.engine.session import Show
    from accel_magic.kernel.stacks.stack_table import StackTable
    from accel_magic.probes.plan import Plan
    from accel_magic.recording.profile import Profile
    from accel_magic.recording.recording import Outcome
    from accel_magic.results.flame_result import FlameResult, SampledResult
    from accel_magic.subsystems.subsystem import CompanionRun


@dataclass(frozen=True)
class _Prepared:
    """What will be traced.

    Attributes:
        plan: Of the kernel's samples; None if the thread sampler is used.
        launches: Watches the frameworks, if kernels of GPUs are recorded.
        companions: What subsystems record beside it, by subsystem.
        notes: Notes for the user.

    """

    plan: Plan | None
    launches: Launches | None = None
    companions: Mapping[str, CompanionRun] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Attached:
    """What samples: the kernel, or a thread of this process; and what was prepared with it."""

    prepared: _Prepared
    engine: Attached | ThreadEngine


class FlameTrace(Block["FlameResult | SampledResult", _Attached]):
    """A profile of a block or a function; the thread sampler gives a SampledResult.

    Args:
        options: The options.
        save: Write the result to this Parquet file.

    """

    KIND = "flame"

    def __init__(self, options: FlameOptions, *, save: str | Path | None = None) -> None:
        super().__init__(save)
        self.options = options
        self._prepared: _Prepared | None = None
        self._cost = Cost()
        self._spent: dict[str, int] | None = None
        self._cpu_ns = 0
        self._names: dict[int, str] = {}

    @property
    def machine(self) -> dict[str, str]:
        """Describe this machine as the result will."""
        described = super().machine
        launches = None if self._prepared is None else self._prepared.launches
        if launches is not None and launches.target.simulated:
            described["simulated"] = launches.target.name
        return described

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user from preparing, and from attaching while attached."""
        prepared = self._prepared if self._attached is None else self._attached.prepared
        return () if prepared is None else prepared.notes

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
        self._prepared = self._found()
        return self._prepared.plan

    def _found(self) -> _Prepared:
        """Match and find, as `prepare`."""
        features.require_linux()
        prepared = _Prepared(None, self._launches_found(), self._companions_found())
        if self.options.sampler == "thread":
            return prepared
        try:
            if not broker_socket.needed():
                features.require_tracing()
            return replace(prepared, plan=self.options.plan())
        except MachineError as error:
            return self._without_kernel(prepared, error)

    def _launches_found(self) -> Launches | None:
        if not self.options.gpu_kernels:
            return None
        from accel_magic.api.launch_stacks import Launches

        launches = Launches(self.options.device)
        launches.target  # noqa: B018 - report a missing device now
        return launches

    def _companions_found(self) -> dict[str, CompanionRun]:
        """What subsystems record beside the trace, as the options request, by subsystem."""
        runs = {name: companion.run(vars(self.options)) for name, companion in subsystems.companions().items()}
        found = {name: run for name, run in runs.items() if run is not None}
        for run in found.values():
            run.prepare()
        return found

    def _without_kernel(self, prepared: _Prepared, error: MachineError) -> _Prepared:
        """Use the thread sampler. Raises the error if the options need BPF."""
        if self.options.sampler == "bpf" or self.options.probes:
            raise error
        why = f" ({error.why})" if error.why else ""
        note = f"BPF is unavailable; using the in-process thread sampler: {error.what}{why}"
        return replace(prepared, plan=None, notes=(note,))

    def _attach(self, show: Show | None) -> _Attached:
        prepared = self._found() if self._prepared is None else self._prepared
        for run in prepared.companions.values():
            self._undo.callback(run.abort)
            run.start()
        with uninterrupted():
            if prepared.launches is not None:
                self._undo.callback(prepared.launches.close)
                prepared.launches.attach()
            if prepared.plan is not None:
                try:
                    return _Attached(prepared, self._attach_kernel(prepared.plan, show))
                except MachineError as error:  # e.g. BCC is missing, or the kernel refuses a program
                    prepared = self._without_kernel(prepared, error)
            return _Attached(prepared, self._attach_thread())

    def _attach_kernel(self, plan: Plan, show: Show | None) -> Attached:
        observers = SubsystemObservers(plan)
        attached = session.attach(plan, show, each_look=self._learn_names, native_tasks=False, observers=observers)
        self._undo.callback(attached.abort)
        self._undo.enter_context(self._cost)
        return attached

    def _learn_names(self) -> None:
        """Remember the names of threads that may have ended at the end of the trace."""
        self._names |= names_of_threads()

    def _attach_thread(self) -> ThreadEngine:
        from accel_magic.api.flame_sampled import ThreadEngine

        engine = ThreadEngine(self.options)
        self._undo.callback(engine.abort)
        return engine

    def go(self) -> None:
        """Start sampling."""
        prepared, engine = self.attached.prepared, self.attached.engine
        self._names, self._spent = names_of_threads(), None
        if prepared.launches is not None:
            prepared.launches.go()
        for run in prepared.companions.values():
            run.go()
        self._cpu_ns = _cpu_time_ns()
        if isinstance(engine, Attached):
            self._cost.go(engine)
        engine.go()
        self.start_ns = engine.start_ns

    def halt(self) -> None:
        """Stop sampling in the kernel, and end the recordings of companions here."""
        if self._spent is not None or self._attached is None:
            return
        prepared, engine = self._attached.prepared, self._attached.engine
        self._spent = self._costs(engine) if isinstance(engine, Attached) else {}
        for run in prepared.companions.values():
            run.halt()
        if isinstance(engine, Attached):
            engine.halt()

    def _finish(self, attached: _Attached, outcome: Outcome, value: object) -> FlameResult | SampledResult:
        prepared, engine = attached.prepared, attached.engine
        stopped = engine.stop(outcome) if isinstance(engine, Attached) else engine.stop()
        if prepared.launches is not None:
            prepared.launches.wait()
        companions, notes = _stopped(prepared.companions)
        prepared = replace(prepared, notes=(*prepared.notes, *notes))
        if isinstance(stopped, Recording):
            return self._recorded(self._completed(stopped, prepared, companions), value)
        return self._sampled(engine.start_ns, stopped, prepared, companions, value)

    def _recorded(self, recording: Recording, value: object) -> FlameResult | SampledResult:
        """Make the result of the kernel's samples."""
        from accel_magic.results.flame_result import FlameResult  # importing it earlier would be in the profile

        return FlameResult(recording, value)

    def _costs(self, live: Attached) -> dict[str, int]:
        """CPU time of the process and its ended children, and of the tracer, since `go`."""
        threads_ns, programs_ns = self._cost.threads_ns(), self._cost.programs_ns(live)
        cpu_ns = _cpu_time_ns() - self._cpu_ns - threads_ns
        tracer_ns = programs_ns + threads_ns + self._cost.reader_ns(live)
        return {"cpu_ns": cpu_ns, "tracer_ns": NOT_KNOWN if programs_ns == NOT_KNOWN else tracer_ns}

    def _completed(self, recording: Recording, prepared: _Prepared, companions: dict[str, Any]) -> Recording:
        """Add what only this process knows: names, launches, CPU time, and what companions recorded."""
        watched = _watched(prepared.launches, recording.start_ns, recording.stacks)
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
            notes=(*prepared.notes, *watched.notes),
            **(self._spent or {}),
        )
        return replace(recording, flame=facts, stacks=stacks, machine=self.machine, companions=companions)

    def _sampled(
        self, start_ns: int, profile: Profile, prepared: _Prepared, companions: dict[str, Any], value: object
    ) -> FlameResult | SampledResult:
        """Make the result of the thread sampler."""
        from accel_magic.api.flame_sampled import shown
        from accel_magic.results.flame_result import SampledResult

        watched = _watched(prepared.launches, start_ns, None)
        made = shown(profile, self.options, cells=cell_names.names(), machine=self.machine, watched=watched)
        return SampledResult(replace(made, notes=(*prepared.notes, *made.notes)), value, companions)


def _watched(launches: Launches | None, start_ns: int, stacks: StackTable | None) -> AcceleratorActivity:
    return AcceleratorActivity(stacks=stacks) if launches is None else launches.seen(start_ns, stacks)


def _stopped(runs: Mapping[str, CompanionRun]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return what companions recorded, as JSON values by subsystem, and notes about those that failed."""
    stopped, notes = {}, list[str]()
    for name, run in runs.items():
        companion = subsystems.companions()[name]
        try:
            stopped[name] = companion.stored(run.stop())
        except AccelMagicError as error:
            # The CPU profile is still useful.
            why = f" ({error.why})" if error.why else ""
            notes.append(f"no {companion.samples}: {error.what}{why}")
    return stopped, tuple(notes)


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

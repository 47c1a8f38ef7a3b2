"""Tracing without a notebook."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from accel_magic.api import plans
from accel_magic.api.block import Block, keep
from accel_magic.errors import RecordingError
from accel_magic.recording import files
from accel_magic.recording.session import LiveSession, Show

if TYPE_CHECKING:
    from pathlib import Path

    from accel_magic.kernel.stacks.choice import Asked
    from accel_magic.probes.plan import Mode, Plan, ProbePoint
    from accel_magic.recording.recording import Outcome, Recording
    from accel_magic.results.flame import FlameResult
    from accel_magic.results.trace import TraceResult

DEFAULT_MAX_EVENTS = 4_000_000
"""The number of events (about 200 MB) after which `auto` mode stops recording and only counts."""


@dataclass(frozen=True)
class Options:
    """The options of a trace besides its probes; each is also an option of `%%ktrace`.

    Attributes:
        mode: `auto` records events up to `max_events` and then only counts; `count` records none; `events` records all.
        scope: `self` (this process, its threads and descendants), `all`, or a process id. None: `self` for uprobes,
            USDT and system calls, `all` for kernel functions and other tracepoints.
        filter: Count only matching hits, e.g. `"arg0 > 4096 and comm == 'python3'"`.
        args: Extra columns, e.g. `"size=arg1:u64,path=arg0:str"`.
        max_events: Maximum number of events to record; counting continues.
        duration: Stop tracing after this many seconds; the code continues.
        buffer: Total size of the ring buffers in MiB.
        stacks: Record the stacks of each event: True for all kinds that this machine allows; or kinds, e.g. `("kernel",
            "user", "python")` or `"user,python"`.

    """

    mode: Mode = "auto"
    scope: str | int | None = None
    filter: str = ""
    args: str = ""
    max_events: int | None = None
    duration: float | None = None
    buffer: float = 64
    stacks: Asked = False

    def plan(self, probes: tuple[str, ...], pid: int | None = None, *, unlimited: bool = False) -> Plan:
        """Match the probes against this machine; nothing is attached.

        Args:
            probes: As on the `%%ktrace` line.
            pid: The process of the scope `self`; None for this one.
            unlimited: Whether `auto` records all events too, unless `max_events` is set.

        Raises:
            ProbeError: A probe or option is invalid, or a probe matches nothing.
            MachineError: This machine lacks something that the trace needs.

        """
        limit = self.max_events
        if limit is None and self.mode == "auto" and not unlimited:
            limit = DEFAULT_MAX_EVENTS
        return plans.make(
            probes,
            stacks=self.stacks,
            mode=self.mode,
            scope=self.scope,
            filter=self.filter,
            args=self.args,
            max_events=limit,
            duration_s=self.duration,
            buffer_mib=self.buffer,
            pid=pid,
        )


class Trace(Block["TraceResult"]):
    """One or more probes around a block or a function.

    Args:
        probes: As on the `%%ktrace` line.
        options: The other options.
        save: Write the result to this Parquet file; any path that does not end in `.parquet` is a folder, to which the
            events are written while the trace runs: see `accel_magic.recording.dataset`.
        pid: The process of the scope `self`; None for this one.

    """

    KIND = "ktrace"

    def __init__(
        self, probes: tuple[str, ...], options: Options, *, save: str | Path | None = None, pid: int | None = None
    ) -> None:
        super().__init__(save)
        self.probes = probes
        self.options = options
        self._pid = pid
        self._plan: Plan | None = None
        self._session: LiveSession | None = None

    def again(self) -> Trace:
        """Make another trace with the same arguments."""
        return Trace(self.probes, self.options, save=self._save, pid=self._pid)

    def prepare(self) -> Plan:
        """Match the probes. Raises ProbeError or MachineError; nothing is attached yet."""
        self._plan = self.options.plan(self.probes, self._pid, unlimited=self._streamed)
        if self._streamed and self._plan.task_points:  # their points are known at the end: the dataset is written then
            self._plan = self.options.plan(self.probes, self._pid)
        return self._plan

    @property
    def _streamed(self) -> bool:
        return self._save is not None and files.names_folder(self._save)

    def check(self) -> None:
        """Check that the result can be saved. Raises RecordingError."""
        if self._save is not None and self._streamed:
            from accel_magic.recording import dataset  # imports pyarrow

            dataset.check(self._save)
        else:
            super().check()

    def _attach(self, show: Show | None) -> None:
        plan = self._plan
        assert plan is not None  # noqa: S101 - after prepare
        into = None
        if self._save is not None and self._streamed and not plan.task_points:
            from accel_magic.recording import dataset

            into = dataset.check(self._save)
        self._session = session = LiveSession(plan, show, into=into)
        self._undo.callback(session.abort)
        session.start()

    @property
    def start_ns(self) -> int:
        """CLOCK_MONOTONIC of `go`."""
        assert self._session is not None  # noqa: S101 - after start
        return self._session.start_ns

    def go(self) -> None:
        """Start counting."""
        assert self._session is not None  # noqa: S101 - after start
        self._session.go()

    @property
    def points(self) -> tuple[ProbePoint, ...]:
        """What is traced; none before `prepare`."""
        return () if self._plan is None else self._plan.points

    def add_note(self, note: str) -> None:
        """Add a note to the result of the running trace."""
        assert self._session is not None  # noqa: S101 - after start
        self._session.plan = replace(self._session.plan, notes=(*self._session.plan.notes, note))

    def halt(self) -> None:
        """Stop counting."""
        if self._session is not None:
            self._session.halt()

    def _finish(self, outcome: Outcome, value: object) -> TraceResult:
        assert self._session is not None  # noqa: S101 - after start
        recording = self._session.stop(outcome)
        from accel_magic.results.trace import TraceResult  # importing it earlier would be traced

        return TraceResult(recording, value)

    def _save_result(self, result: TraceResult) -> None:
        if self._save is None or not self._streamed:
            super()._save_result(result)
            return
        from accel_magic.recording import dataset

        if dataset.files_of(result.recording) is None:
            dataset.write(result.recording, self._save)
        elif self._session is not None and self._session.unwritten:
            raise RecordingError(
                f"the dataset in {self._save} is incomplete",
                why=self._session.unwritten,
                fix="counts are complete, and what was written opens; accel_magic.last has the result",
                code="dataset.incomplete",
            )


def finish(recording: Recording, value: object = None, save: str | Path | None = None) -> TraceResult:
    """Make the result of a trace's recording, keep it as the newest one, and save it if asked."""
    from accel_magic.results.trace import TraceResult

    result = TraceResult(recording, value)
    keep(result)
    if save is not None:
        result.to_parquet(save)
    return result


def result_of(recording: Recording, value: object = None) -> TraceResult | FlameResult:
    """Make the result of any recording: a FlameResult for `%%flame`, else a TraceResult."""
    if recording.flame is not None:
        from accel_magic.results.flame import FlameResult

        return FlameResult(recording, value)
    from accel_magic.results.trace import TraceResult

    return TraceResult(recording, value)

"""Tracing without a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic.api.block import Block, keep
from accel_magic.api.observations import SubsystemObservers
from accel_magic.engine import session
from accel_magic.errors import RecordingError
from accel_magic.interrupts import uninterrupted
from accel_magic.kernel import features
from accel_magic.recording import result_files

if TYPE_CHECKING:
    from pathlib import Path

    from accel_magic.api.trace_options import Options
    from accel_magic.engine.session import Attached, Show
    from accel_magic.probes.plan import Plan, ProbePoint
    from accel_magic.recording.recording import Outcome, Recording
    from accel_magic.results.flame_result import FlameResult
    from accel_magic.results.trace_result import TraceResult


class Trace(Block["TraceResult", "Attached"]):
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
        self._unwritten = ""
        """Why the dataset is incomplete; '' if it is complete, or if there is none."""

    def again(self) -> Trace:
        """Make another trace with the same arguments."""
        return Trace(self.probes, self.options, save=self._save, pid=self._pid)

    def prepare(self) -> Plan:
        """Match the probes. Raises ProbeError or MachineError; nothing is attached yet."""
        features.require_linux()
        self._plan = self.options.plan(self.probes, self._pid, unlimited=self._streamed)
        if self._streamed and self._plan.task_points:  # their points are known at the end: the dataset is written then
            self._plan = self.options.plan(self.probes, self._pid)
        return self._plan

    @property
    def _streamed(self) -> bool:
        return self._save is not None and result_files.names_folder(self._save)

    def check(self) -> None:
        """Check that the result can be saved. Raises RecordingError."""
        if self._save is not None and self._streamed:
            from accel_magic.recording import dataset  # imports pyarrow

            dataset.check(self._save)
        else:
            super().check()

    def _attach(self, show: Show | None) -> Attached:
        plan = self.prepare() if self._plan is None else self._plan
        into = None
        if self._save is not None and self._streamed and not plan.task_points:
            from accel_magic.recording import dataset

            into = dataset.check(self._save)
        with uninterrupted():
            attached = session.attach(plan, show, into=into, observers=SubsystemObservers(plan))
            self._undo.callback(attached.abort)
        return attached

    def go(self) -> None:
        """Start counting."""
        self.attached.go()
        self.start_ns = self.attached.start_ns

    @property
    def points(self) -> tuple[ProbePoint, ...]:
        """What is traced; none before `prepare`."""
        return () if self._plan is None else self._plan.points

    def add_note(self, note: str) -> None:
        """Add a note to the result of the running trace."""
        self.attached.add_note(note)

    def halt(self) -> None:
        """Stop counting."""
        if self._attached is not None:
            self._attached.halt()

    def _finish(self, attached: Attached, outcome: Outcome, value: object) -> TraceResult:
        recording = attached.stop(outcome)
        self._unwritten = attached.unwritten
        from accel_magic.results.trace_result import TraceResult  # importing it earlier would be traced

        return TraceResult(recording, value)

    def _save_result(self, result: TraceResult) -> None:
        if self._save is None or not self._streamed:
            super()._save_result(result)
            return
        from accel_magic.recording import dataset

        if dataset.files_of(result.recording) is None:
            dataset.write(result.recording, self._save)
        elif self._unwritten:
            raise RecordingError(
                f"the dataset in {self._save} is incomplete",
                why=self._unwritten,
                fix="counts are complete, and what was written opens; accel_magic.last has the result",
                code="dataset.incomplete",
            )


def finish(recording: Recording, value: object = None, save: str | Path | None = None) -> TraceResult:
    """Make the result of a trace's recording, keep it as the newest one, and save it if asked."""
    from accel_magic.results.trace_result import TraceResult

    result = TraceResult(recording, value)
    keep(result)
    if save is not None:
        result.to_parquet(save)
    return result


def result_of(recording: Recording, value: object = None) -> TraceResult | FlameResult:
    """Make the result of any recording: a FlameResult for `%%flame`, else a TraceResult."""
    if recording.flame is not None:
        from accel_magic.results.flame_result import FlameResult

        return FlameResult(recording, value)
    from accel_magic.results.trace_result import TraceResult

    return TraceResult(recording, value)

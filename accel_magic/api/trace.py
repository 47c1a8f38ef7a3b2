"""Tracing without a notebook."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from accel_magic.api.block import Block, keep
from accel_magic.errors import RecordingError
from accel_magic.recording import files
from accel_magic.recording.session import LiveSession, Show

if TYPE_CHECKING:
    from pathlib import Path

    from accel_magic.api.trace_options import Options
    from accel_magic.probes.plan import Plan, ProbePoint
    from accel_magic.recording.recording import Outcome, Recording
    from accel_magic.results.flame import FlameResult
    from accel_magic.results.trace import TraceResult


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

"""Playing a GPU recording back: the same live row and the same result, at its own pace, and always labelled."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from accel_magic.gpu import store
from accel_magic.gpu.live import Feed, GpuSample
from accel_magic.interrupts import uninterrupted
from accel_magic.player import Player
from accel_magic.traces.recording import Replayed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from accel_magic.gpu.recording import GpuRecording
    from accel_magic.results.gpu import GpuResult
    from accel_magic.traces.recording import Outcome


class GpuReplay(Player["GpuRecording", "GpuResult"]):
    """One playback. Needs no GPU and nothing of the GPU extra.

    Args:
        path: A file written by `--save` or `GpuResult.to_parquet`.
        speed: Times the recorded pace.

    Raises:
        RecordingError: The file is damaged, foreign or of a newer version.

    """

    def __init__(self, path: str | Path, *, speed: float = 1.0) -> None:
        recording = store.load(path)
        parts = [recording.device, recording.started[:10]]
        super().__init__(recording, Replayed(str(path), ", ".join(filter(None, parts))), speed, "gputrace")

    def prepare(self) -> GpuRecording:
        """What was recorded."""
        return self.recording

    def _attach(self, show: Callable[[list[GpuSample]], None] | None) -> None:
        self._start_ns = time.monotonic_ns()
        if show is not None:
            with uninterrupted():
                feed = Feed(self._sample, show)
                self._undo.callback(feed.stop)
                feed.start()

    def _finish(self, outcome: Outcome, value: object) -> GpuResult:  # noqa: ARG002 - the recording's stays
        """Give the recording, also when it was not played to its end: maps have no past."""
        from accel_magic.results.gpu import GpuResult

        return GpuResult(replace(self.recording, replayed=self.replayed), value)

    def _sample(self) -> GpuSample:
        recording = self.recording
        now = min(int((time.monotonic_ns() - self._start_ns) * self._speed), recording.duration_ns)
        return GpuSample(
            time_ns=now,
            launches=int((recording.launches["time_ns"] <= now).sum()),
            kernels=len(recording.kernels),
            instrumented=int(recording.kernels["instrumented"].sum()),
            lost=recording.lost if now == recording.duration_ns else 0,
            device=recording.device,
        )

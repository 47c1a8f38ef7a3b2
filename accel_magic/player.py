"""Playing something recorded back at its own pace: what is the same for every kind of recording."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Generic, TypeVar

from accel_magic.block import Steps

if TYPE_CHECKING:
    from accel_magic.gpu.recording import GpuRecording
    from accel_magic.results.base import Result
    from accel_magic.session import Kind
    from accel_magic.traces.recording import Recording, Replayed

RecordingT = TypeVar("RecordingT", bound="Recording | GpuRecording")
ResultT = TypeVar("ResultT", bound="Result")


class Player(Steps[ResultT], Generic[RecordingT, ResultT]):
    """One playback: `attach`, `go`, then `wait`; or `rest` and `stop`, once the code that it plays to has ended.

    Args:
        recording: What is played.
        replayed: What labels its result.
        speed: Times the recorded pace.
        kind: What recorded it.

    """

    def __init__(self, recording: RecordingT, replayed: Replayed, speed: float, kind: Kind) -> None:
        super().__init__(kind)
        self.recording = recording
        self.replayed: Replayed = replayed
        self.imported = recording.imported
        self._speed = speed
        self._start_ns = 0

    @property
    def machine(self) -> dict[str, str]:
        """The machine that was traced."""
        return self.recording.machine

    @property
    def length_s(self) -> float:
        """How long it plays, in seconds."""
        return self.recording.duration_ns / self._speed / 1e9

    def go(self) -> None:
        """Start playing."""
        self._start_ns = time.monotonic_ns()

    def rest(self) -> None:
        """Wait until the recording's end."""
        end_ns = self._start_ns + int(self.length_s * 1e9)
        while (left := end_ns - time.monotonic_ns()) > 0:
            time.sleep(min(left / 1e9, 0.1))

    def wait(self) -> ResultT:
        """Wait until the recording's end and give the result; an interrupt ends it early, with what was played."""
        error: BaseException | None = None
        try:
            self.rest()
        except BaseException as interrupt:  # noqa: BLE001 - raised once the playback has ended
            error = interrupt
        came = self.end(error)
        for raised in (error, came):
            if raised is not None:
                raise raised
        return self.result

"""Playing something recorded back at its own pace: what is the same for every kind of recording."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from accel_magic import session

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.gpu.recording import GpuRecording
    from accel_magic.results.base import Result
    from accel_magic.traces.recording import Imported, Outcome, Recording, Replayed

RecordingT = TypeVar("RecordingT", bound="Recording | GpuRecording")
ResultT = TypeVar("ResultT", bound="Result")


class Feed(Protocol):
    """What shows live samples from a thread."""

    def stop(self) -> None:
        """Show nothing from now on."""


class Player(ABC, Generic[RecordingT, ResultT]):
    """One playback: `attach`, `go`, then `wait`, or `stop` once the code that it plays to has ended.

    Args:
        recording: What is played.
        replayed: What labels its result.
        speed: Times the recorded pace.
        kind: What recorded it.

    """

    def __init__(self, recording: RecordingT, replayed: Replayed, speed: float, kind: session.Kind) -> None:
        self.recording = recording
        self.replayed = replayed
        self.machine = recording.machine
        self.imported: Imported | None = recording.imported
        self._speed = speed
        self.kind: session.Kind = kind
        self._feed: Feed | None = None
        self._start_ns = 0
        self._claimed = False

    @property
    def length_s(self) -> float:
        """How long it plays, in seconds."""
        return self.recording.duration_ns / self._speed / 1e9

    @abstractmethod
    def prepare(self) -> object:
        """What was recorded, for the live row."""

    @abstractmethod
    def attach(self, show: Callable[[list[Any]], None] | None = None) -> None:
        """Get ready to play, `show` receives live samples from a thread; where that fails nothing is left."""

    def _claim(self) -> None:
        """Be the one running trace of its kind. Raises TraceStateError where there is another."""
        session.claim(self.kind)
        self._claimed = True

    def go(self) -> None:
        """Start playing."""
        self._start_ns = time.monotonic_ns()

    def wait(self) -> ResultT:
        """Wait for the end; an interrupt ends it early with what was played so far."""
        try:
            self.rest()
        except KeyboardInterrupt:
            self.stop("interrupted")
            raise
        return self.stop()

    def halt(self) -> None:
        """The code that it plays to has ended; `stop` follows."""

    @abstractmethod
    def stop(self, outcome: Outcome = "ok", value: object = None) -> ResultT:
        """Stop playing and keep the result. Raises KeyboardInterrupt if one came meanwhile."""

    def abort(self) -> None:
        """Stop without a result; harmless when nothing is playing."""
        if self._feed is not None:
            self._feed.stop()
            self._feed = None
        if self._claimed:
            self._claimed = False
            session.release(self.kind)

    def rest(self) -> None:
        """Wait until the recording's end."""
        end_ns = self._start_ns + int(self.length_s * 1e9)
        while (left := end_ns - time.monotonic_ns()) > 0:
            time.sleep(min(left / 1e9, 0.1))

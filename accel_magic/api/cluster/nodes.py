"""What a trace on a cluster recorded on each node."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from accel_magic import machine, scratch
from accel_magic.recording import store
from accel_magic.results.base import WORDS, Result
from accel_magic.results.trace import TraceResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from accel_magic.errors import AccelMagicError
    from accel_magic.recording.recording import Events, Recording


@dataclass(frozen=True)
class NodeRecording:
    """One node of a trace on a cluster.

    Attributes:
        name: Name of the worker in the cluster.
        host: Host name.
        pid: Process id of the worker there.
        kernel: Release of its kernel; "" if unknown.
        start_ns: CLOCK_MONOTONIC of that machine when counting started; 0 if nothing was recorded.
        path: The recording's file on the node; "" if there is none.
        bytes: Size of the file.
        recording: Counts, histograms and samples; its events are fetched on first use. None if nothing was recorded.
        error: Why it was not traced, or that the worker ended meanwhile.

    """

    name: str
    host: str
    pid: int
    kernel: str = ""
    start_ns: int = 0
    path: str = ""
    bytes: int = 0
    recording: Recording | None = field(default=None, repr=False)
    error: AccelMagicError | None = None

    @property
    def result(self) -> TraceResult | None:
        """The node's own result; None if nothing was recorded."""
        return None if self.recording is None else TraceResult(self.recording)

    @property
    def hits(self) -> int:
        """Number of hits, exact; 0 if nothing was recorded."""
        return 0 if self.recording is None else int(self.recording.hits.sum())


def recording_of(counts: bytes, event_count: int, read: Callable[[], Iterator[bytes]]) -> Recording:
    """Read a recording that came without its events.

    Args:
        counts: The content of its file, without events.
        event_count: Number of events in the complete file.
        read: Reads the complete file.

    Raises:
        RecordingError: The file is damaged.

    """
    with scratch.folder("cluster") as folder:
        path = folder / "counts.parquet"
        path.write_bytes(counts)
        recording = store.load(path)
        _ = recording.events  # closes the file

    def load_events() -> Events:
        with scratch.folder("cluster") as folder:
            path = folder / "events.parquet"
            _copy(read(), path)
            return store.load(path).events

    return replace(recording, event_count=event_count, load_events=load_events)


def _copy(parts: Iterator[bytes], path: Path) -> None:
    with path.open("wb") as file:
        for part in parts:
            file.write(part)


class ClusterRecordings(Result):
    """Result of a trace on a cluster: one recording per node."""

    KIND = "a trace on a cluster"
    LACKS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        dict.fromkeys(WORDS, ("each node has a recording of its own", "use the `result` of each of `nodes`"))
    )

    def __init__(self, nodes: list[NodeRecording], started: str, duration_s: float, value: object = None) -> None:
        super().__init__(value)
        self.nodes = nodes
        self._started, self._duration_s = started, duration_s

    @property
    def machine(self) -> dict[str, str]:
        """The client's machine."""
        return machine.describe()

    @property
    def started(self) -> str:
        """Wall-clock start on the client, ISO 8601 with time zone."""
        return self._started

    @property
    def duration_s(self) -> float:
        """Length of the block on the client, in seconds."""
        return self._duration_s

    def summary(self) -> str:
        """One line per node."""
        return "\n".join(
            f"{node.name} ({node.host}, pid {node.pid}): {node.hits:,} hits"
            + (f"; {node.error.what}" if node.error is not None else "")
            for node in self.nodes
        )

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        """The summary."""
        return {"text/plain": self.summary()}

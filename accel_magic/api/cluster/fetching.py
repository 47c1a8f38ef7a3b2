"""A recording that stays on its worker: counts come with the answer, events when they are first used."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from accel_magic import scratch
from accel_magic.recording import store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from accel_magic.recording.recording import Events, Recording


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

"""Hand a recording to another process as bytes: fast to write, neither decoded nor compressed.

For long-term storage use `recording_store.py`. The format is a line of JSON with the sizes of the parts, then the
description (as in a stored recording), the layout of the records, and the rings. Nothing read is executed, and
inconsistent files are rejected.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from accel_magic import codec
from accel_magic.errors import RecordingError
from accel_magic.kernel.attachment import RecordLayout  # noqa: TC001 - needed to decode it
from accel_magic.recording import memory_bounds, stored_layout
from accel_magic.recording.record_decoder import RawEvents

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from accel_magic.recording.recording import Recording

_LONGEST_LINE = 1 << 16
_ANY = 1 << 62


class _Events(codec.Message, frozen=True):
    """How the events' records are laid out, how many may be used, and the time 0 of the recording, ns."""

    layout: RecordLayout
    limit: int | None
    start_ns: int


def write(recording: Recording, path: Path) -> None:
    """Write a live recording whose events have not been decoded; errors as of `parts`."""
    with path.open("wb") as file:
        file.writelines(parts(recording))


def parts(recording: Recording) -> list[bytes]:
    """Return what `read` reads, piece by piece.

    Raises:
        TypeError: Its events are already decoded.

    """
    raw = recording.load_events
    if not isinstance(raw, RawEvents):
        raise TypeError("only a recording with raw events can be handed over")
    content = [
        stored_layout.encode(recording, (), recording.event_count),
        codec.encoded(_Events(layout=raw.layout, limit=raw.limit, start_ns=raw.start_ns)),
        *(ring.tobytes() for ring in raw.rings),
    ]
    return [json.dumps([len(part) for part in content]).encode() + b"\n", *content]


def read(path: Path) -> Recording:
    """Read a recording written by `write`; the file is not needed afterwards.

    Raises:
        RecordingError: The file is incomplete or inconsistent.

    """
    with _damaged(path):
        file = path.open("rb")
    with file:
        return read_from(file, _ANY)


def read_from(file: BinaryIO, largest: int) -> Recording:
    """Read a recording from an open file, which is not needed afterwards.

    Args:
        file: At its start.
        largest: Most bytes that the recording may have.

    Raises:
        RecordingError: The file is incomplete, inconsistent or too large.

    """
    with _damaged(file.name):
        return _read(file, largest)


@contextlib.contextmanager
def _damaged(path: object) -> Iterator[None]:
    try:
        yield
    except (OSError, RecursionError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise RecordingError(
            f"the recording in {path} cannot be used",
            why=f"{type(error).__name__}: {error}",
            fix="record again",
            code="recording.damaged",
        ) from error


def _read(file: BinaryIO, largest: int) -> Recording:
    sizes = json.loads(file.readline(_LONGEST_LINE))
    if not all(type(size) is int and size >= 0 for size in sizes):
        raise ValueError("invalid sizes")
    there = min(os.fstat(file.fileno()).st_size, largest)
    if file.tell() + sum(sizes) > there:
        raise ValueError(f"the file is truncated, or larger than {largest:,} bytes")
    content = [file.read(size) for size in sizes]
    if [len(part) for part in content] != sizes:
        raise ValueError("the file is truncated")
    text, shape, *rings = content
    with memory_bounds.bounded():
        recording, _ = stored_layout.decode(text)
    events = codec.decoded(shape, _Events)
    if events.start_ns.bit_length() > 63:
        raise ValueError(f"invalid start time {events.start_ns}")
    _check(events.layout, rings, len(recording.plan.points))
    arrays = tuple(np.frombuffer(ring, np.uint8) for ring in rings)
    return replace(recording, load_events=RawEvents(events.layout, arrays, events.start_ns, events.limit))


def _check(layout: RecordLayout, rings: list[bytes], points: int) -> None:
    """Raise ValueError unless the rings hold whole records of points that exist."""
    if len(rings) != len(layout.record_sizes):
        raise ValueError(f"{len(rings)} rings instead of {len(layout.record_sizes)}")
    if rings and len(layout.point_layouts) != points:
        raise ValueError(f"{len(layout.point_layouts)} kinds of records for {points} probe points")
    for index, ring in enumerate(rings):
        records = np.frombuffer(ring, layout.record(index))  # raises ValueError for a partial record
        if len(records) and int(records["head"]["point"].max()) >= points:
            raise ValueError("a record belongs to an unknown probe point")

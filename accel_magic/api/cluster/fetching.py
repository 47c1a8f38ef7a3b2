"""A dataset that stays on its worker: counts come with the answer, files of events when they are first used."""

from __future__ import annotations

import shutil
import threading
import weakref
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from accel_magic import directories, scratch
from accel_magic.errors import RecordingError
from accel_magic.recording import dataset, recording_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from accel_magic.recording.recording import Events, Recording
    from accel_magic.recording.stored_layout import StoredColumn

_MOST_MANIFEST: Final = 256 << 20


def recording_of(counts: bytes, event_count: int, read: Callable[[str], Iterator[bytes]]) -> Recording:
    """Read a recording that came without its events.

    Args:
        counts: The description of its dataset.
        event_count: Number of events in the dataset.
        read: Reads a file of the dataset, by its path in there.

    Raises:
        RecordingError: The description is damaged.

    """
    if not 0 <= event_count < 1 << 62:
        raise _damaged(f"it has {event_count} events")
    with scratch.folder("cluster") as folder:
        (folder / dataset.DESCRIPTION).write_bytes(counts)
        with directories.opened(folder.resolve()) as directory:
            recording, columns = recording_store.load_description(directory, dataset.DESCRIPTION)
    points = len(recording.plan.points), len(recording.plan.latency_points)
    return replace(recording, event_count=event_count, load_events=_Remote(read, columns, points, event_count))


@dataclass
class _Remote:
    """Events of a dataset elsewhere: its files are copied to a temporary folder when they are first used.

    Attributes:
        read: Reads a file of the dataset, by its path in there.
        columns: Its columns.
        points: Number of points, and of those with latencies.
        rows: Number of events.

    """

    read: Callable[[str], Iterator[bytes]]
    columns: tuple[StoredColumn, ...]
    points: tuple[int, int]
    rows: int
    _copied: dataset.Files | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __call__(self) -> Events:
        self.check()
        return self.files()()

    def check(self) -> None:
        """Check that all events can be loaded. Raises ResultError: they are too many."""
        dataset.check_rows(self.rows, dataset.bytes_per_row(self.columns))

    def batches(self, names: Sequence[str] | None = None) -> Iterator[Events]:
        """Read the events, or only columns of them, file by file."""
        return self.files().batches(names)

    def files(self) -> dataset.Files:
        """Copy the files, once. Raises AccelMagicError: they cannot be read, or are damaged."""
        with self._lock:
            if self._copied is None:
                self._copied = self._copy()
            return self._copied

    def _copy(self) -> dataset.Files:
        made = scratch.make("cluster")
        weakref.finalize(self, made.remove)
        (made.path / dataset.EVENTS).mkdir()
        self._copy_file(dataset.MANIFEST, made.path, _MOST_MANIFEST)
        with directories.opened(made.path.resolve()) as directory:
            manifest = dataset.read_manifest(directory, *self.points)
            if (size := sum(part.size for part in manifest.parts)) > (most := most_bytes(made.path)):
                raise _no_space(f"they have {size:,} bytes, and {most:,} may be used in {made.path.parent}")
            for part in manifest.parts:
                self._copy_file(f"{dataset.EVENTS}/{part.name}", made.path, part.size)
            parts, problems = dataset.usable(directory, manifest, self.columns)
        if problems:
            raise _damaged("; ".join(problems))
        return dataset.Files(directory.path / dataset.EVENTS, parts, self.columns, self.points[0])

    def _copy_file(self, name: str, folder: Path, most: int) -> None:
        copy(self.read(name), folder / name, most)


def most_bytes(folder: Path) -> int:
    """How much of a disk a node's files may take: half of what is free. What nodes send is not trusted."""
    return shutil.disk_usage(folder).free // 2


def copy(chunks: Iterator[bytes], path: Path, most: int) -> None:
    """Write what a node sends to a file.

    Raises:
        RecordingError: It is more than `most` bytes, or cannot be written.

    """
    size = 0
    try:
        with path.open("wb") as file:
            for chunk in chunks:
                size += file.write(chunk)
                if size > most:
                    raise _damaged(f"{path.name} is larger than {most:,} bytes")
    except OSError as error:
        raise _no_space(error.strerror or str(error)) from error


def _no_space(why: str) -> RecordingError:
    return RecordingError(
        "the files of a node do not fit here",
        why=why,
        fix="free some space, or set TMPDIR to a larger disk and restart; .counts and .latency need no files",
        code="cluster.no-space",
    )


def _damaged(why: str) -> RecordingError:
    return RecordingError("the dataset of a node is damaged", why=why, fix="trace again", code="recording.damaged")

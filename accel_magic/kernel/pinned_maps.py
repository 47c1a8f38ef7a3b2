"""Maps of traces that somebody has pinned in a BPF file system: they keep their memory until they are removed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic.kernel import bpf_syscalls

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOUNTS: Final = Path("/proc/self/mounts")
_MOST_FILES: Final = 10_000
_PREFIX: Final = "am_"
"""Of the names of our maps."""


@dataclass(frozen=True)
class PinnedMap:
    """A map that is pinned.

    Attributes:
        path: Where it is pinned.
        uid: Owner of that file, who pinned it.
        name: The map's.
        size: Memory in bytes.

    """

    path: Path
    uid: int
    name: str
    size: int


def maps() -> list[PinnedMap]:
    """Find our maps in all BPF file systems that this process sees and may read; the first 10,000 files."""
    return [found for path in islice(_files(), _MOST_FILES) if (found := _pinned(path)) is not None]


def _files() -> Iterator[Path]:
    for line in _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        _, folder, kind, *_ = line.split(" ")
        if kind == "bpf":
            for where, _, names in os.walk(folder.encode().decode("unicode_escape")):
                yield from (Path(where, name) for name in sorted(names))


def _pinned(path: Path) -> PinnedMap | None:
    try:
        descriptor = bpf_syscalls.pinned_object(path)
    except OSError:  # not a map, or this process may not read it
        return None
    try:
        described = dict(line.split(":\t") for line in _fdinfo(descriptor) if line.count(":\t") == 1)
        if "map_id" not in described:
            return None
        name = bpf_syscalls.map_name(descriptor)
        if not name.startswith(_PREFIX):
            return None
        return PinnedMap(path, path.stat().st_uid, name, int(described["memlock"]))
    except OSError:  # removed meanwhile
        return None
    finally:
        os.close(descriptor)


def _fdinfo(descriptor: int) -> list[str]:
    return Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii").splitlines()

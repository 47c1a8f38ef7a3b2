"""Profiles of pprof: known by how they begin, neither read nor written.

Its format is a protocol buffer. On PyPI no package that reads and writes it is kept up: `pypprof` had its one release
in 2019, and `google-cloud-profiler` (last released in 2023) is an agent that builds them for its service alone. The
errors name the ways around it.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from accel_magic.errors import MachineError, RecordingError

if TYPE_CHECKING:
    from pathlib import Path

WHY: Final = "no Python package that reads and writes its protocol buffers is kept up"
_GZIP: Final = b"\x1f\x8b"
_NAMES: Final = (".pb.gz", ".pprof", ".pb")


def is_pprof(head: bytes, path: Path) -> bool:
    """Whether a file that begins with `head` is one of pprof's: its first field is a type of its values."""
    if path.name.endswith(_NAMES) and (head.startswith(_GZIP) or head[:1] == b"\x0a"):
        return True
    if not head.startswith(_GZIP):
        return False
    try:
        start = zlib.decompressobj(wbits=31).decompress(head, 64)
    except zlib.error:
        return False
    return len(start) > 2 and start[0] == 0x0A and start[1] <= 16 and start[2] == 0x08


def refusal(path: Path) -> RecordingError:
    """Error for a file of pprof's that was to be opened."""
    return RecordingError(
        f"{path} is a profile of pprof",
        why=WHY,
        fix="open it in www.speedscope.app, export it from there as JSON, and open that",
    )


def unwritten(path: str | Path) -> MachineError:
    """Error for a profile that was to be written for pprof."""
    return MachineError(
        f"cannot write {path} for pprof",
        why=WHY,
        fix="to_folded(), to_speedscope() and to_perfetto() write what other viewers read",
    )

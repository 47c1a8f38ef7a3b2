"""A text file as blocks of lines, each an Arrow array over the bytes as they were read: nothing is copied or decoded.

Lines stay bytes until few of them are left: output of tracers holds names of tasks, which may be anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from accel_magic.errors import RecordingError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BLOCK = 16 << 20
_LONGEST_LINE = 64 << 20


def blocks(path: Path) -> Iterator[pa.BinaryArray]:
    """Yield the lines of `path` in order, each with its line end, in arrays of some `BLOCK` bytes.

    Raises:
        RecordingError: The file cannot be read, or a line is longer than any tracer writes.

    """
    try:
        with path.open("rb") as file:
            rest = b""
            while data := file.read(BLOCK):
                data = rest + data
                end = data.rfind(b"\n") + 1
                rest = data[end:]
                if len(rest) > _LONGEST_LINE:
                    raise RecordingError(
                        f"{path} is not a recording",
                        why=f"a line is over {_LONGEST_LINE >> 20} MiB long",
                        fix="record again",
                        code="recording.line-too-long",
                    )
                if end:
                    yield split(data[:end])
            if rest:
                yield split(rest)
    except OSError as error:
        raise RecordingError(
            f"cannot read {path}", why=error.strerror or str(error), fix="copy it again", code="recording.unreadable"
        ) from error


def split(data: bytes) -> pa.BinaryArray:
    """Lines of `data`, each with its line end; the array refers to the bytes."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 0x0A) + 1
    if data and not data.endswith(b"\n"):
        ends = np.append(ends, len(data))
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    return pa.BinaryArray.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def unended(path: Path) -> str:
    """Return the last line where its end is missing, so that it may be cut short; else nothing."""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - 4096, 0))
        return text(file.read().rpartition(b"\n")[2]).strip()


def text(raw: Any) -> str:
    """Bytes as text; what is no UTF-8 is replaced."""
    return bytes(raw).decode("utf-8", "replace")

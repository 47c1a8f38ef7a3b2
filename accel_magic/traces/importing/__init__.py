"""Output of other tracers as recordings: bpftrace, ftrace, trace-cmd and `perf script`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from accel_magic.errors import RecordingError
from accel_magic.traces.importing.build import build, without_cut
from accel_magic.traces.importing.lines import blocks, check, unended
from accel_magic.traces.importing.recognise import recognise

if TYPE_CHECKING:
    from pathlib import Path

    from accel_magic.traces.recording import Recording


def read(path: Path) -> Recording:
    """Recognise the text in `path` and make a recording of it.

    Lines that are not understood are counted in the plan's notes.

    Raises:
        RecordingError: It cannot be read, is no text, is no tracer's output or that of several, or holds nothing.

    """
    format_ = recognise(check(path), path)
    try:
        return build(without_cut(format_.parse(blocks(path)), unended(path)), path)
    except (pa.ArrowException, MemoryError, OverflowError) as error:
        raise RecordingError(
            f"{path} cannot be imported",
            why=str(error).partition("\n")[0] or type(error).__name__,
            fix=f"report it to accel_magic with the first lines of the file; it was taken for {format_.name}",
        ) from error

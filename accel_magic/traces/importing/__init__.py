"""Output of other tracers as recordings: bpftrace, ftrace, trace-cmd and `perf script`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from accel_magic.errors import RecordingError
from accel_magic.traces.importing.build import build, without_cut
from accel_magic.traces.importing.lines import blocks, unended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from accel_magic.traces.importing.found import Found
    from accel_magic.traces.recording import Recording


def read(path: Path, name: str, parse: Callable[[Iterable[pa.BinaryArray]], Found]) -> Recording:
    """Make a recording of a tracer's text output.

    Lines that are not understood are counted in the plan's notes.

    Args:
        path: The file.
        name: Its format, in words.
        parse: What reads blocks of its lines.

    Raises:
        RecordingError: It cannot be read, or holds nothing that can be counted.

    """
    try:
        return build(without_cut(parse(blocks(path)), unended(path)), path)
    except (pa.ArrowException, MemoryError, OverflowError) as error:
        raise RecordingError(
            f"{path} cannot be imported",
            why=str(error).partition("\n")[0] or type(error).__name__,
            fix=f"report it to accel_magic with the first lines of the file; it was taken for {name}",
            code="import.failed",
        ) from error

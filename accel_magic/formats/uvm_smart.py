r"""Output of UVM Smart, a simulator of GPUs with unified memory (DebashisGanguly/gpgpu-sim_UVMSmart).

| output | has |
|---|---|
| `access.txt` | every access: page, address, bytes, cycle, 1 for a read, multiprocessor, warp |
| | after them `K: START END`, the cycles of each launch |
| printed lines | `F: START----T: END \t St: ADDRESS Sz: BYTES \t Sm: STREAM \t T: memcpy_h2d(...)` |
| | pages that it moved to the device, by faults or by prefetching; launches have `Kl: NUMBER` |

Only managed memory moves; its addresses start at 0xc0000000.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accel_magic.errors import RecordingError
from accel_magic.formats import text_file
from accel_magic.formats.event_lines import split
from accel_magic.policies.page_trace import PAGE_BYTES, PageTrace
from accel_magic.recording import container, memory_bounds

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

ACCESS: Final = r"^\d{1,10} 0x[0-9a-f]{1,16} \d{1,10} \d{1,20} [01] \d{1,10} \d{1,10}\r?\n?$"
LAUNCH: Final = r"^K: \d{1,20} \d{1,20}\r?\n?$"
PRINTED: Final = b"GPGPU-Sim"
_ACCESS: Final = r"^(?P<page>\d{1,10}) 0x[0-9a-f]+ \d+ (?P<cycle>\d{1,18}) (?P<read>[01]) "
_LAUNCH: Final = r"^K: (?P<start>\d{1,18}) (?P<end>\d{1,18})\s*$"
_EVENT: Final = (
    r"^F: +(?P<start>\d{1,18})----T: +\d+ *\t St: (?P<address>[0-9a-f]{1,16}) Sz: (?P<size>\d{1,18}) "
    r"\t Sm: \d+ \t T: (?P<kind>\w+)\("
)
_LAUNCHED: Final = r"^F: +(?P<start>\d{1,18})----T: +(?P<end>\d{1,18}) [ \t]*Kl: (?P<number>\d{1,9}) "
_NAMED: Final = r"pushing kernel '(?P<name>[^']+)' to stream"
_MANAGED: Final = 0xC0000000
_COST: Final = 16
"""Bytes of arrays per byte of text, roughly."""


def read_accesses(path: Path) -> PageTrace:
    """Read every access of `access.txt` to managed memory.

    Raises:
        RecordingError: The file cannot be read or needs more memory than allowed.

    """
    lines = _lines(path)
    found = _fields(lines, _ACCESS)
    page = _numbers(found["page"], np.uint64)
    managed = page >= _MANAGED // PAGE_BYTES
    launches = _fields(lines, _LAUNCH)
    launch = None
    if len(launches["start"]):
        launch = _launched(_numbers(found["cycle"])[managed], *(_numbers(launches[name]) for name in ("start", "end")))
    return PageTrace.of(
        page[managed],
        write=(_numbers(found["read"]) == 0)[managed],
        launch=launch,
        source=f"imported from {path.name}: accesses on a GPU simulated by UVM Smart"
        + _left_out(int((~managed).sum()), "accesses to"),
    )


def read_printed(path: Path) -> PageTrace:
    """Read which pages of managed memory were moved to the device, and in whose launch.

    Raises:
        RecordingError: The file cannot be read, needs more memory than allowed, or names no moved page.

    """
    lines = _lines(path)
    moved = _fields(lines, _EVENT)
    copied = np.asarray(pc.equal(moved["kind"], "memcpy_h2d"))
    address = _numbers(moved["address"], np.uint64, base=16)
    here = copied & (address >= _MANAGED)
    first = address[here] // np.uint64(PAGE_BYTES)
    count = -(-_numbers(moved["size"])[here] // PAGE_BYTES)
    if not len(count):
        raise RecordingError(
            f"{path} contains no page trace",
            why="UVM Smart printed no copies of managed memory to the device",
            fix="run it with sim_prof_enable, or give its access.txt",
            code="pages.no-accesses",
        )
    try:
        with memory_bounds.bounded():
            memory_bounds.spend(_COST * sum(count.tolist()))
    except memory_bounds.TooLargeError as error:
        raise container.too_large(path, error) from error
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    runs = _fields(lines, _LAUNCHED)
    names = _fields(lines, _NAMED)["name"].to_pylist()
    launch = kernel = None
    kernels: tuple[str, ...] = ()
    if len(runs["start"]):
        index = _launched(_numbers(moved["start"])[here], _numbers(runs["start"]), _numbers(runs["end"]))
        number = np.append(_numbers(runs["number"]), -1)[index]
        launch = np.repeat(number, count)
        kernels = tuple(dict.fromkeys(names))
        codes = np.array([*(kernels.index(name) for name in names), -1])
        kernel = np.repeat(codes[np.where((number > 0) & (number <= len(names)), number - 1, -1)], count)
    return PageTrace.of(
        np.repeat(first, count) + within.astype(np.uint64),
        launch=launch,
        kernel=kernel,
        kernels=kernels,
        source=f"imported from {path.name}: pages moved to a GPU simulated by UVM Smart; accesses to pages that were "
        "there are missing" + _left_out(int(copied.sum() - here.sum()), "copies of"),
    )


def _left_out(count: int, what: str) -> str:
    return f"; {what} memory that is not managed: {count:,} left out" if count else ""


def _lines(path: Path) -> pa.StringArray:
    try:
        with memory_bounds.bounded():
            memory_bounds.spend(path.stat().st_size * _COST)
        return split(text_file.read(path)).cast(pa.string())
    except memory_bounds.TooLargeError as error:
        raise container.too_large(path, error) from error
    except (OSError, pa.ArrowException) as error:
        raise RecordingError(
            f"cannot read {path}",
            why=getattr(error, "strerror", None) or str(error),
            fix="check the path, its permissions, and that it is UVM Smart's output",
            code="recording.unreadable",
        ) from error


def _fields(lines: pa.StringArray, pattern: str) -> dict[str, pa.Array]:
    """Named groups of the lines that match."""
    found = pc.drop_null(pc.extract_regex(lines, pattern))
    return {each.name: found.field(each.name) for each in found.type}


def _numbers(texts: pa.Array, kind: type[np.integer[Any]] = np.int64, base: int = 10) -> NDArray[Any]:
    written = texts if base == 10 else pc.binary_join_element_wise("0x", texts, "")
    return np.asarray(pc.cast(written, pa.from_numpy_dtype(np.dtype(kind))))


def _launched(cycle: NDArray[Any], start: NDArray[Any], end: NDArray[Any]) -> NDArray[Any]:
    """Index of the launch in which each cycle is, of launches in order of their start; -1 outside of all."""
    index = np.searchsorted(start, cycle, side="right") - 1
    return np.where((index >= 0) & (cycle <= end[index]), index, -1)

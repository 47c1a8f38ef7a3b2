"""Debian 12's loader, made to work with OpenVINO.

OpenVINO's NPU plugin looks up `zeCommandListHostSynchronize` in the loader before anything else, and does without the
NPU if it is missing. Debian 12's loader (1.8) is older than this function, and newer ones need newer C++ libraries. So
a copy of the loader gets one more needed library, which has the function: `dlsym` searches those, too. The loader's
code, symbols and offsets stay as they are.

Source of the layouts: the ELF-64 specification.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Iterator

MISSING: Final = b"zeCommandListHostSynchronize"
_PAGE: Final = 4096
_FILE = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_ENTRY = struct.Struct("<QQ")
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NULL, _DT_NEEDED, _DT_STRTAB = 0, 1, 5


@dataclass(frozen=True)
class _Segment:
    kind: int
    offset: int
    address: int
    size: int


def lacks_function(loader: bytes) -> bool:
    """Whether a loader lacks the function that OpenVINO looks up."""
    return MISSING + b"\0" not in loader


def with_needed(library: bytes, needed: str) -> bytes:
    """Return a library with one more needed library.

    Args:
        library: The content of an x86-64 shared library.
        needed: Path of the other one, absolute or starting with $ORIGIN.

    Raises:
        MachineError: The library has no room for it, or is not a shared library.

    """
    try:
        return _with_needed(bytearray(library), needed.encode() + b"\0")
    except (struct.error, StopIteration, IndexError):
        raise _not_possible("it is not a shared library") from None


def _with_needed(content: bytearray, name: bytes) -> bytes:
    segments = [*_segments(content)]
    dynamic = next(each for each in segments if each.kind == _PT_DYNAMIC)
    entries = [
        _ENTRY.unpack_from(content, at) for at in range(dynamic.offset, dynamic.offset + dynamic.size, _ENTRY.size)
    ]
    end = entries.index((_DT_NULL, 0))
    if entries[end + 1 : end + 2] != [(_DT_NULL, 0)]:
        raise _not_possible("its dynamic section is full")
    names = next(value for tag, value in entries if tag == _DT_STRTAB)
    segment = next(
        each for each in segments if each.kind == _PT_LOAD and each.address <= names < each.address + each.size
    )
    at = segment.offset + segment.size
    # Whole pages are mapped, so what follows the segment in the file, up to the page's end, is in memory too.
    if at % _PAGE + len(name) > _PAGE or any(content[at : at + len(name)]):
        raise _not_possible("there is no room for a name")
    content[at : at + len(name)] = name
    place = segment.address + segment.size - names
    _ENTRY.pack_into(content, dynamic.offset + end * _ENTRY.size, _DT_NEEDED, place)
    return bytes(content)


def _segments(content: bytes | bytearray) -> Iterator[_Segment]:
    header = _FILE.unpack_from(content)
    start, size, count = header[5], header[9], header[10]
    if header[0][:4] != b"\x7fELF" or size != _SEGMENT.size:
        raise IndexError
    for index in range(count):
        kind, _, offset, address, _, in_file, _, _ = _SEGMENT.unpack_from(content, start + index * size)
        yield _Segment(kind, offset, address, in_file)


def _not_possible(why: str) -> MachineError:
    return MachineError(
        "cannot make the Level Zero loader work with OpenVINO",
        why=why,
        fix="build the lab with Debian 12's package: python -m accel_magic lab clean, then lab build --level-zero",
        code="lab.loader-not-usable",
    )

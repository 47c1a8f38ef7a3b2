"""What programs must know about the running kernel, from its type information (BTF): members and variables."""

from __future__ import annotations

import struct
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.errors import MachineError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PATH = Path("/sys/kernel/btf/vmlinux")
_MAGIC = 0xEB9F
_KIND_STRUCT, _KIND_UNION, _KIND_VAR = 4, 5, 14
_MOST_NESTING = 4
_IN_PCPU_HOT = 8
"""Offset of the count there, in a nameless struct, after the pointer to the current task."""
# Words of a record after the first three, by kind: a fixed number, and some for each member.
_SIZES = {
    1: (1, 0),
    3: (3, 0),
    4: (0, 3),
    5: (0, 3),
    6: (0, 2),
    13: (0, 2),
    14: (1, 0),
    15: (0, 3),
    17: (1, 0),
    19: (0, 3),
}
_MOST_MEMBERS = 4096


@lru_cache(maxsize=32)
def member_offset(structure: str, member: str, path: Path = _PATH) -> int:
    """Offset in bytes of a struct's member, which may be in a nameless struct or union there.

    BTF records have no index: the struct's record is found by its name offset, and verified by its members' names.

    Raises:
        MachineError: The kernel has no BTF, or no such struct or member.

    """
    section, text = _read(path)
    requested = struct.pack("<I", text.find(b"\0" + structure.encode() + b"\0") + 1)
    position = section.find(requested)
    while position >= 0:
        offset = _member_at(section, text, position, member.encode())
        if offset is not None:
            return offset
        position = section.find(requested, position + 1)
    raise MachineError(
        f"this kernel's struct {structure} has no member {member}",
        why=f"it is not in {path}",
        fix="trace with --scope all",
        code="kernel.no-member",
    )


@lru_cache(maxsize=1)
def preemption_count(path: Path = _PATH) -> tuple[int, int]:
    """Find the processor's preemption count: the type id of its per-CPU variable, and the offset in it.

    Raises:
        MachineError: The kernel has no BTF, or does not describe its per-CPU variables.

    """
    section, text = _read(path)
    found = _variable(section, text, "__preempt_count")
    if found:
        return found, 0
    found = _variable(section, text, "pcpu_hot")  # Linux 6.2 to 6.14
    if found:
        return found, _IN_PCPU_HOT
    raise MachineError(
        "this kernel does not describe its preemption count",
        why=f"there is no such variable in {path}",
        fix="trace as root",
        code="kernel.no-member",
    )


def _variable(section: bytes, text: bytes, name: str) -> int:
    """Type id of a variable; 0 if there is none."""
    place = text.find(b"\0" + name.encode() + b"\0") + 1
    records = _records(section)
    words = np.frombuffer(section, "<u4")
    found = np.flatnonzero((words[records] == place) & (words[records + 1] >> 24 & 0x1F == _KIND_VAR))
    return int(found[0]) + 1 if place and len(found) else 0


def _records(section: bytes) -> NDArray[np.int64]:
    """Return the index of the first word of each type, by its id - 1. Records differ in size, so all are counted."""
    words = np.frombuffer(section, "<u4")
    kinds, members = words[1:] >> 24 & 0x1F, (words[1:] & 0xFFFF).astype(np.int64)
    sizes = np.full(len(kinds), 3)
    for kind, (fixed, each) in _SIZES.items():
        sizes = np.where(kinds == kind, 3 + fixed + each * members, sizes)
    steps = sizes.tolist()
    found, at = [], 0
    while at < len(steps):
        found.append(at)
        at += steps[at]
    return np.array(found)


@lru_cache(maxsize=1)
def _read(path: Path) -> tuple[bytes, bytes]:
    """Return the sections of types and of names, some MB; kept, because a first trace asks for several members."""
    try:
        data = path.read_bytes()
        magic, header, types, types_size, strings, strings_size = struct.unpack_from("<H2xIIIII", data)
        if magic != _MAGIC:
            raise ValueError(f"magic {magic:#x}")  # noqa: TRY301
    except (OSError, ValueError, struct.error) as error:
        raise MachineError(
            "cannot read the kernel's type information",
            why=f"{path}: {error}",
            fix="use a kernel built with CONFIG_DEBUG_INFO_BTF, or trace with --scope all",
            code="kernel.no-btf",
        ) from None
    names = header + strings
    return data[header + types : header + types + types_size], data[names : names + strings_size]


def _member_at(section: bytes, text: bytes, position: int, member: bytes, *, nesting: int = 0) -> int | None:
    """Offset of the member if there is a struct's or union's record at `position`."""
    if position % 4 or position + 12 > len(section):
        return None
    _, info, _ = struct.unpack_from("<III", section, position)
    count, kind = info & 0xFFFF, info >> 24 & 0x1F
    fits = 0 < count <= _MOST_MEMBERS and position + 12 + 12 * count <= len(section)
    if kind not in (_KIND_STRUCT, *([_KIND_UNION] if nesting else [])) or not fits:
        return None
    nameless: list[tuple[int, int]] = []
    name: int
    type_id: int
    packed: int
    for index in range(count):
        name, type_id, packed = struct.unpack_from("<III", section, position + 12 + 12 * index)
        offset = (packed & 0xFFFFFF) // 8  # with bit-fields in the struct, their size is in the upper byte
        if not name:
            nameless.append((type_id, offset))
        elif text.startswith(member + b"\0", name):
            return offset
    if nesting == _MOST_NESTING:
        return None
    for type_id, offset in nameless:
        records = _records(section)
        if 0 < type_id <= len(records):
            place = int(records[type_id - 1]) * 4
            within = _member_at(section, text, place, member, nesting=nesting + 1)
            if within is not None:
                return offset + within
    return None

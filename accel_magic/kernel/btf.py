"""Offsets of struct members in the running kernel, from its type information (BTF)."""

from __future__ import annotations

import struct
from functools import lru_cache
from pathlib import Path

from accel_magic.errors import MachineError

_PATH = Path("/sys/kernel/btf/vmlinux")
_MAGIC = 0xEB9F
_KIND_STRUCT = 4
_MOST_MEMBERS = 4096


@lru_cache(maxsize=32)
def member_offset(structure: str, member: str, path: Path = _PATH) -> int:
    """Offset in bytes of a struct's member.

    BTF records have no index: the struct's record is found by its name offset, and verified by its members' names.

    Raises:
        MachineError: The kernel has no BTF, or no such struct or member.

    """
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
    section = data[header + types : header + types + types_size]
    text = data[header + strings : header + strings + strings_size]
    wanted = struct.pack("<I", text.find(b"\0" + structure.encode() + b"\0") + 1)
    position = section.find(wanted)
    while position >= 0:
        offset = _member_at(section, text, position, member)
        if offset is not None:
            return offset
        position = section.find(wanted, position + 1)
    raise MachineError(
        f"this kernel's struct {structure} has no member {member}",
        why=f"it is not in {path}",
        fix="trace with --scope all",
        code="kernel.no-member",
    )


def _member_at(section: bytes, text: bytes, position: int, member: str) -> int | None:
    """Offset of the member if there is a struct record at `position`."""
    if position % 4 or position + 12 > len(section):
        return None
    _, info, _ = struct.unpack_from("<III", section, position)
    count = info & 0xFFFF
    if info >> 24 & 0x1F != _KIND_STRUCT or not 0 < count <= _MOST_MEMBERS or position + 12 + 12 * count > len(section):
        return None
    for index in range(count):
        name, _, offset = struct.unpack_from("<III", section, position + 12 + 12 * index)
        if name < len(text) and text[name : text.find(b"\0", name)].decode("ascii", "replace") == member:
            return int(offset & 0xFFFFFF) // 8  # with bit-fields in the struct, their size is in the upper byte
    return None

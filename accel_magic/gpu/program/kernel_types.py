"""Types of the place where a program runs: those of a kernel, or of an interface that is modelled, from their BTF."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProgramError
from accel_magic.gpu.program import isa
from accel_magic.gpu.program.btf import FIXED_WORDS, MEMBER_WORDS, POINTER, BtfKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.gpu.program.isa import EbpfInstruction
    from accel_magic.gpu.program.object_model import KernelField

_DEEPEST: Final = 32
_ALIASES: Final = (BtfKind.TYPEDEF, BtfKind.VOLATILE, BtfKind.CONST, BtfKind.RESTRICT, BtfKind.TYPE_TAG)
_ROOTS: Final = (BtfKind.STRUCT, BtfKind.UNION, BtfKind.ENUM, BtfKind.ENUM64, BtfKind.TYPEDEF)


class RelocationKind(IntEnum):
    """The supported values of the kernel's enum bpf_core_relo_kind."""

    OFFSET = 0
    SIZE = 1
    EXISTS = 2
    TYPE_EXISTS = 8
    TYPE_SIZE = 9
    ENUMERATOR_EXISTS = 10
    ENUMERATOR = 11


@dataclass(frozen=True)
class _Type:
    kind: BtfKind
    name: int
    flag: bool
    number: int
    words: tuple[int, ...]


class _AbsentError(Exception):
    """The running kernel has no such type or member."""


class KernelTypes:
    """The types of a kernel, parsed on demand.

    Args:
        data: BTF: of a kernel, the content of /sys/kernel/btf/vmlinux.

    """

    def __init__(self, data: bytes) -> None:
        head, types, types_size, texts, texts_size = struct.unpack_from("<IIIII", data, 4)
        self._data = data
        self._texts = data[head + texts : head + texts + texts_size]
        self._places = [0, *_places(data, head + types, head + types + types_size)]

    def answer(self, field: KernelField) -> int:
        """Resolve a relocation: an offset, a size, a value, or whether something exists.

        Raises:
            ProgramError: The kernel has no such type or member, or the kind of relocation is not supported.

        """
        requested = next((known for known in RelocationKind if known == field.kind), None)
        if requested is None:
            raise ProgramError(
                f"the type relocation of {field} is not supported",
                why=f"its kind is {field.kind}: it concerns bit fields or type numbers",
                fix="read the field with bpf_probe_read_kernel and your own struct",
                code="gpu.unsupported-relocation",
            )
        try:
            return self._answered(field, requested)
        except _AbsentError as error:
            if requested in (RelocationKind.EXISTS, RelocationKind.TYPE_EXISTS, RelocationKind.ENUMERATOR_EXISTS):
                return 0
            raise ProgramError(
                f"this kernel has no {field}",
                why=str(error),
                fix="check with bpf_core_field_exists() or bpf_core_type_exists() before reading it",
                code="gpu.no-kernel-field",
            ) from None

    def read(self, name: str, offset: int, size: int) -> str:
        """Name what a load of a struct's bytes reads, by the rules of the kernel's verifier.

        Args:
            name: Name of the struct.
            offset: Of the first byte, which may be negative or beyond the end.
            size: Bytes.

        Returns:
            The struct that a pointer there points to; "" for a number.

        Raises:
            LookupError: Such a load is not possible; the message says why.

        """
        number = next(self._named(name), 0)
        if not number:
            raise LookupError(f"there is no struct {name}")
        if offset < 0 or offset + size > self._size(number):
            raise LookupError(f"it has {self._size(number)} bytes")
        return self._read(number, offset, size)

    def _read(self, number: int, offset: int, size: int) -> str:
        found = self._resolved(number)
        if found.kind is BtfKind.ARRAY:
            step = self._size(found.words[0])
            inner = self._resolved(found.words[0])
            if inner.kind in (BtfKind.STRUCT, BtfKind.UNION, BtfKind.ARRAY, BtfKind.PTR):
                return self._read(found.words[0], offset % step, size)
            return ""
        if found.kind is BtfKind.PTR:
            if offset or size != POINTER:
                raise LookupError("it would read a part of a pointer")
            pointee = self._resolved(found.number)
            return self._text(pointee.name) if pointee.kind in (BtfKind.STRUCT, BtfKind.UNION) else ""
        if found.kind not in (BtfKind.STRUCT, BtfKind.UNION):
            return ""
        for text, member, place in zip(found.words[::3], found.words[1::3], found.words[2::3], strict=True):
            at = (place & 0xFFFFFF if found.flag else place) // 8
            if at <= offset < at + self._size(member):
                if offset + size > at + self._size(member):
                    raise LookupError(f"it would read beyond the end of {self._text(text)}")
                return self._read(member, offset - at, size)
        raise LookupError("there is no member")

    def _answered(self, field: KernelField, requested: RelocationKind) -> int:
        absent = _AbsentError(f"{field.type} is not in the kernel's BTF")
        for root in self._named(field.type):
            try:
                return self._of(root, field, requested)
            except _AbsentError as error:
                absent = error
        raise absent

    def _of(self, root: int, field: KernelField, requested: RelocationKind) -> int:
        if requested in (RelocationKind.ENUMERATOR, RelocationKind.ENUMERATOR_EXISTS):
            value = self._enumerator(root, str(field.steps[0]))
            return value if requested is RelocationKind.ENUMERATOR else 1
        offset, found = self._walked(root, field.steps)
        if requested is RelocationKind.OFFSET:
            return offset
        return self._size(found) if requested in (RelocationKind.SIZE, RelocationKind.TYPE_SIZE) else 1

    def _walked(self, root: int, steps: tuple[str | int, ...]) -> tuple[int, int]:
        """Follow the steps to a member: its offset in bytes, and its type's number."""
        offset, number = 0, root
        for place, step in enumerate(steps):
            if isinstance(step, int):
                found = self._resolved(number)
                number = found.words[0] if found.kind is BtfKind.ARRAY and place else number
                offset += step * self._size(number)
            else:
                bits, number = self._member(number, step)
                if bits % 8:
                    raise _AbsentError(f"{step} is a bit field in this kernel")
                offset += bits // 8
        return offset, number

    def _member(self, number: int, name: str, depth: int = 0) -> tuple[int, int]:
        """Find a member, also within unnamed members: offset in bits, and type."""
        found = self._resolved(number)
        if found.kind in (BtfKind.STRUCT, BtfKind.UNION) and depth < _DEEPEST:
            members = list(zip(found.words[::3], found.words[1::3], found.words[2::3], strict=True))
            for text, inner, place in members:
                bits = place & 0xFFFFFF if found.flag else place
                if self._text(text) == name:
                    return bits, inner
                if not text:
                    try:
                        more, of = self._member(inner, name, depth + 1)
                    except _AbsentError:
                        continue
                    return bits + more, of
        raise _AbsentError(f"its {self._text(found.name) or 'type'} has no member {name}")

    def _enumerator(self, number: int, name: str) -> int:
        found = self._resolved(number)
        width = {BtfKind.ENUM: 2, BtfKind.ENUM64: 3}.get(found.kind)
        for at in range(0, len(found.words) if width else 0, width or 1):
            if self._text(found.words[at]) == name:
                high = found.words[at + 2] if width == 3 else 0
                return found.words[at + 1] | high << 32
        raise _AbsentError(f"{self._text(found.name)} has no value {name}")

    def _size(self, number: int) -> int:
        found = self._resolved(number)
        if found.kind is BtfKind.ARRAY:
            return found.words[2] * self._size(found.words[0])
        return POINTER if found.kind is BtfKind.PTR else found.number

    def _resolved(self, number: int) -> _Type:
        for _ in range(_DEEPEST):
            found = self._type(number)
            if found.kind not in _ALIASES:
                return found
            number = found.number
        raise _AbsentError(f"more than {_DEEPEST} typedefs and qualifiers are nested")

    def _type(self, number: int) -> _Type:
        if not 0 < number < len(self._places):
            return _Type(BtfKind.VOID, 0, flag=False, number=0, words=())
        place = self._places[number]
        name, info, size = struct.unpack_from("<III", self._data, place)
        kind = BtfKind(info >> 24 & 0x1F)
        count = FIXED_WORDS.get(kind, 0) + MEMBER_WORDS.get(kind, 0) * (info & 0xFFFF)
        return _Type(kind, name, bool(info >> 31), size, struct.unpack_from(f"<{count}I", self._data, place + 12))

    def _named(self, name: str) -> Iterator[int]:
        """Find structs, unions, enums and typedefs by name; several may share one name."""
        at = self._texts.find(b"\0" + name.encode() + b"\0") + 1
        if not name or not at:
            return
        requested = struct.pack("<I", at)
        for number, place in enumerate(self._places[1:], start=1):
            if self._data[place : place + 4] == requested and self._type(number).kind in _ROOTS:
                yield number

    def _text(self, offset: int) -> str:
        return self._texts[offset : self._texts.find(b"\0", offset)].decode(errors="replace") if offset else ""


def _places(data: bytes, start: int, end: int) -> Iterator[int]:
    """Offset of each type."""
    while start < end:
        yield start
        (info,) = struct.unpack_from("<I", data, start + 4)
        kind = info >> 24 & 0x1F
        start += 12 + 4 * (FIXED_WORDS.get(kind, 0) + MEMBER_WORDS.get(kind, 0) * (info & 0xFFFF))


def adapted(instruction: EbpfInstruction, answer: int) -> EbpfInstruction:
    """Replace the compiler's value in an instruction: its displacement, or its immediate."""
    if instruction.kind in (isa.LDX, isa.ST, isa.STX):
        return replace(instruction, offset=answer)
    return replace(instruction, imm=answer)

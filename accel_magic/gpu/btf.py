"""Reads BTF, what clang -g writes about types, maps, global variables and source lines into an eBPF object."""

from __future__ import annotations

import posixpath
import struct
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Final, TypeVar

from accel_magic.errors import ProgramError
from accel_magic.gpu.model import KernelField, SourceLine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from accel_magic.traces.c_layout import Field

POINTER: Final = 8
"""Bytes of a pointer."""
_Value = TypeVar("_Value")
_MAGIC = 0xEB9F
_MAGIC_BIG_ENDIAN = 0x9FEB
_LARGEST = (1 << 32) - 1


class Kind(IntEnum):
    """What a type is; numbers of the kernel's Documentation/bpf/btf.rst."""

    VOID = 0
    INT = 1
    PTR = 2
    ARRAY = 3
    STRUCT = 4
    UNION = 5
    ENUM = 6
    FWD = 7
    TYPEDEF = 8
    VOLATILE = 9
    CONST = 10
    RESTRICT = 11
    FUNC = 12
    FUNC_PROTO = 13
    VAR = 14
    DATASEC = 15
    FLOAT = 16
    DECL_TAG = 17
    TYPE_TAG = 18
    ENUM64 = 19


FIXED_WORDS: Final[Mapping[int, int]] = {
    Kind.INT: 1,
    Kind.ARRAY: 3,
    Kind.VAR: 1,
    Kind.DECL_TAG: 1,
}
"""32-bit words that follow a type's head."""
MEMBER_WORDS: Final[Mapping[int, int]] = {
    Kind.STRUCT: 3,
    Kind.UNION: 3,
    Kind.ENUM: 2,
    Kind.FUNC_PROTO: 2,
    Kind.DATASEC: 3,
    Kind.ENUM64: 3,
}
"""And of each of its members."""
_NAMED = {Kind.TYPEDEF, Kind.VOLATILE, Kind.CONST, Kind.RESTRICT, Kind.TYPE_TAG}  # other names of a type
_SIZED = {Kind.INT, Kind.STRUCT, Kind.UNION, Kind.ENUM, Kind.ENUM64, Kind.FLOAT, Kind.DATASEC}


@dataclass(frozen=True, slots=True)
class Type:
    """One type as it is written.

    Attributes:
        kind: What it is.
        name: '' where it has none.
        flag: The kind's flag: of structs that members have widths of bit fields, of enums that they are signed.
        number: Bytes, or the number of the type that this one refers to.
        words: What follows the head.

    """

    kind: Kind
    name: str
    flag: bool
    number: int
    words: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KernelType:
    """A place to adapt, as it is written: number of the type here, indexes of members on the way, what is asked."""

    number: int
    path: str
    asked: int


@dataclass(frozen=True)
class Btf:
    """Everything that an object says about itself; offsets are bytes within a section of code.

    Attributes:
        source: What messages call the object.
        types: By their numbers; 0 is void.
        lines: By section: (offset, line), in order of the offsets.
        functions: By section: (offset, name), likewise.
        kernel_types: By section: (offset, what is asked) of the places that a loader adapts to the kernel's structs
            (CO-RE); `kernel_field` says it in names.
        text: Gives the text at an offset of the string table.
        known: Columns of types that were laid out before.

    """

    source: str
    types: tuple[Type, ...]
    lines: Mapping[str, tuple[tuple[int, SourceLine], ...]]
    functions: Mapping[str, tuple[tuple[int, str], ...]]
    kernel_types: Mapping[str, tuple[tuple[int, KernelType], ...]]
    text: Callable[[int], str] = field(repr=False)
    known: dict[int, tuple[Field, ...]] = field(default_factory=dict, repr=False, compare=False)

    def type(self, number: int) -> Type:
        """Look up a type. Raises ProgramError where there is none of this number."""
        if number < len(self.types):
            return self.types[number]
        raise damaged(self.source, f"there is no type {number}")

    def resolved(self, number: int) -> Type:
        """Look up a type behind typedefs, const, volatile and tags."""
        for _ in self.types:
            found = self.type(number)
            if found.kind not in _NAMED:
                return found
            number = found.number
        raise damaged(self.source, f"type {number} is another name of itself")

    def kernel_field(self, wanted: KernelType) -> KernelField:
        """Say in names what a place asks of the kernel: members without a name are left out of the way to it."""
        found, steps = self.resolved(wanted.number), list[str | int]()
        root = found.name or self.type(wanted.number).name
        try:
            first, *indexes = [int(index) for index in wanted.path.split(":")]
            if found.kind in (Kind.ENUM, Kind.ENUM64):
                width = 2 if found.kind is Kind.ENUM else 3
                steps.append(self.text(found.words[width * first]))
            elif first:
                steps.append(first)
            for index in indexes:
                name, number = ("", found.words[0])
                if found.kind is not Kind.ARRAY:
                    name, number = self.text(found.words[3 * index]), found.words[3 * index + 1]
                steps += [index] if found.kind is Kind.ARRAY else [name] if name else []
                found = self.resolved(number)
        except (ValueError, IndexError):
            raise damaged(self.source, f"there is no {wanted.path} in type {wanted.number}") from None
        return KernelField(root.partition("___")[0], tuple(steps), wanted.asked)

    def size(self, number: int) -> int:
        """Bytes of a type."""
        count = 1
        for _ in self.types:
            found = self.resolved(number)
            if found.kind is not Kind.ARRAY:
                break
            number, _, items = found.words
            count = min(count * items, _LARGEST + 1)
        if found.kind not in _SIZED and found.kind is not Kind.PTR:
            raise damaged(self.source, f"type {number} ({found.kind.name.lower()}) has no size")
        size = count * (POINTER if found.kind is Kind.PTR else found.number)
        if size > _LARGEST:
            raise damaged(self.source, f"type {number} has {size} bytes")
        return size


class _DamageError(ValueError):
    pass


def damaged(source: str, why: object) -> ProgramError:
    """Make the error for BTF that contradicts itself."""
    return ProgramError(
        f"the BTF of {source} cannot be read",
        why=str(why),
        fix="compile it again: clang -target bpf -O2 -g",
        code="gpu.object-damaged",
    )


@contextmanager
def _reading(source: str) -> Iterator[None]:
    try:
        yield
    except (struct.error, _DamageError) as error:
        raise damaged(source, error) from None


def parse(data: bytes, extended: bytes = b"", *, source: str = "the object") -> Btf:
    """Take the sections .BTF and .BTF.ext apart.

    Args:
        data: Of .BTF, relocated: offsets of variables within their sections in place.
        extended: Of .BTF.ext, relocated; empty where there is none.
        source: What messages call the object.

    Raises:
        ProgramError: They are damaged, big-endian, or have kinds of types that are not known here.

    """
    with _reading(source):
        types, texts = _parts(data, 2)
        at = _strings(texts, source)
        read = tuple(_types(types, at))
        functions, lines, kernel_types = _parts(extended, 3) if extended else (b"", b"", b"")
        return Btf(
            source,
            read,
            lines=_by_section(_records(lines, 4, at), lambda words: _source_line(words, at)),
            functions=_by_section(_records(functions, 2, at), lambda words: _name(read, words[1])),
            kernel_types=_by_section(
                _records(kernel_types, 4, at), lambda words: KernelType(words[1], at(words[2]), words[3])
            ),
            text=at,
        )


def _parts(data: bytes, count: int) -> list[bytes]:
    """Areas that a header names by offset and length; those that an old header does not name are empty."""
    magic, version, _, head = struct.unpack_from("<HBBI", data)
    if magic != _MAGIC or version != 1:
        kind = "big-endian" if magic == _MAGIC_BIG_ENDIAN else "of an unknown format"
        raise _DamageError(f"it is {kind}")
    areas = []
    for at in range(8, 8 + 8 * count, 8):
        start, length = struct.unpack_from("<II", data, at) if at + 8 <= head else (0, 0)
        if head + start + length > len(data):
            raise _DamageError(f"{length} bytes at {head + start} reach beyond its end")
        areas.append(data[head + start : head + start + length])
    return areas


def _strings(texts: bytes, source: str) -> Callable[[int], str]:
    @cache
    def at(offset: int) -> str:
        end = texts.find(b"\0", offset)
        if end < 0:
            raise damaged(source, f"there is no text at {offset}")
        return texts[offset:end].decode(errors="replace")

    return at


def _types(data: bytes, at: Callable[[int], str]) -> Iterator[Type]:
    yield Type(Kind.VOID, "void", flag=False, number=0, words=())
    position = 0
    while position < len(data):
        name, info, number = struct.unpack_from("<III", data, position)
        code, members = info >> 24 & 0x1F, info & 0xFFFF
        if not Kind.INT <= code <= Kind.ENUM64:
            raise _DamageError(f"types of kind {code} are not known")
        count = FIXED_WORDS.get(code, 0) + MEMBER_WORDS.get(code, 0) * members
        words = struct.unpack_from(f"<{count}I", data, position + 12)
        position += 12 + 4 * count
        yield Type(Kind(code), at(name), bool(info >> 31), number, words)


def _records(area: bytes, words: int, at: Callable[[int], str]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Go through the records of an area of .BTF.ext: (section, first words of the record)."""
    if not area:
        return
    (size,) = struct.unpack_from("<I", area)
    if size < 4 * words:
        raise _DamageError(f"records have {size} bytes")
    position = 4
    while position < len(area):
        name, count = struct.unpack_from("<II", area, position)
        position += 8
        if count * size > len(area) - position:
            raise _DamageError(f"{count} records reach beyond its end")
        for _ in range(count):
            yield at(name), struct.unpack_from(f"<{words}I", area, position)
            position += size


def _by_section(
    records: Iterator[tuple[str, tuple[int, ...]]], read: Callable[[tuple[int, ...]], _Value]
) -> dict[str, tuple[tuple[int, _Value], ...]]:
    found: dict[str, list[tuple[int, _Value]]] = defaultdict(list)
    for section, words in records:
        found[section].append((words[0], read(words)))
    return {section: tuple(sorted(pairs, key=lambda pair: pair[0])) for section, pairs in found.items()}


def _source_line(words: tuple[int, ...], at: Callable[[int], str]) -> SourceLine:
    _, file, text, place = words
    return SourceLine(posixpath.normpath(at(file)), place >> 10, place & 0x3FF, at(text))


def _name(types: tuple[Type, ...], number: int) -> str:
    if number >= len(types):
        raise _DamageError(f"there is no type {number}")
    return types[number].name

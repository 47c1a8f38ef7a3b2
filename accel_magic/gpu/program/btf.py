"""Reads BTF: the types, maps, global variables and source lines that clang -g writes into an eBPF object."""

from __future__ import annotations

import posixpath
import struct
from collections import Counter, defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Final, TypeVar

from accel_magic.errors import ProgramError
from accel_magic.gpu.program.object_model import KernelField, MapSpec
from accel_magic.kernel.records.c_layout import MOST_ITEMS, CField, CLayout
from accel_magic.probes.globs import suggestion
from accel_magic.ptx.ptx_model import SourceLine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


POINTER: Final = 8
"""Bytes of a pointer."""
_Value = TypeVar("_Value")
_MAGIC = 0xEB9F
_MAGIC_BIG_ENDIAN = 0x9FEB
_HEAD = 24
_LARGEST = (1 << 32) - 1


class BtfKind(IntEnum):
    """The kind of a type; numbers from the kernel's Documentation/bpf/btf.rst."""

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
    BtfKind.INT: 1,
    BtfKind.ARRAY: 3,
    BtfKind.VAR: 1,
    BtfKind.DECL_TAG: 1,
}
"""Number of 32-bit words that follow a type's head."""
MEMBER_WORDS: Final[Mapping[int, int]] = {
    BtfKind.STRUCT: 3,
    BtfKind.UNION: 3,
    BtfKind.ENUM: 2,
    BtfKind.FUNC_PROTO: 2,
    BtfKind.DATASEC: 3,
    BtfKind.ENUM64: 3,
}
"""Number of 32-bit words of each of its members."""
_NAMED = {BtfKind.TYPEDEF, BtfKind.VOLATILE, BtfKind.CONST, BtfKind.RESTRICT, BtfKind.TYPE_TAG}  # other names of a type
_SIZED = {BtfKind.INT, BtfKind.STRUCT, BtfKind.UNION, BtfKind.ENUM, BtfKind.ENUM64, BtfKind.FLOAT, BtfKind.DATASEC}


@dataclass(frozen=True, slots=True)
class BtfType:
    """One type, in its encoded form.

    Attributes:
        kind: Its kind.
        name: Its name, '' if it has none.
        flag: The kind's flag: a struct's members have bit-field widths, or an enum is signed.
        number: Bytes, or the number of the type that this one refers to.
        words: The words after the head.

    """

    kind: BtfKind
    name: str
    flag: bool
    number: int
    words: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KernelType:
    """An encoded CO-RE relocation: number of the type in this object, path of member indexes, kind of relocation."""

    number: int
    path: str
    kind: int


@dataclass(frozen=True)
class Btf:
    """The BTF of an object; offsets are bytes within a section of code.

    Attributes:
        source: The object's name in messages.
        types: By their numbers; 0 is void.
        lines: By section: (offset, line), sorted by offset.
        functions: By section: (offset, name), likewise.
        kernel_types: By section: (offset, relocation) of instructions that a loader adapts to the kernel's structs
            (CO-RE); `kernel_field` resolves the names.
        text: Returns the text at an offset of the string table.
        known: Cache of the columns of types.

    """

    source: str
    types: tuple[BtfType, ...]
    lines: Mapping[str, tuple[tuple[int, SourceLine], ...]]
    functions: Mapping[str, tuple[tuple[int, str], ...]]
    kernel_types: Mapping[str, tuple[tuple[int, KernelType], ...]]
    text: Callable[[int], str] = field(repr=False)
    known: dict[int, tuple[CField, ...]] = field(default_factory=dict, repr=False, compare=False)

    def type(self, number: int) -> BtfType:
        """Return a type. Raises ProgramError if there is none with this number."""
        if number < len(self.types):
            return self.types[number]
        raise damaged(self.source, f"there is no type {number}")

    def resolved(self, number: int) -> BtfType:
        """Return a type without typedefs, const, volatile and tags."""
        for _ in self.types:
            found = self.type(number)
            if found.kind not in _NAMED:
                return found
            number = found.number
        raise damaged(self.source, f"type {number} is an alias of itself")

    def kernel_field(self, relocation: KernelType) -> KernelField:
        """Resolve the names of a relocation; unnamed members are left out of the path."""
        found, steps = self.resolved(relocation.number), list[str | int]()
        root = found.name or self.type(relocation.number).name
        try:
            first, *indexes = [int(index) for index in relocation.path.split(":")]
            if found.kind in (BtfKind.ENUM, BtfKind.ENUM64):
                width = 2 if found.kind is BtfKind.ENUM else 3
                steps.append(self.text(found.words[width * first]))
            elif first:
                steps.append(first)
            for index in indexes:
                name, number = ("", found.words[0])
                if found.kind is not BtfKind.ARRAY:
                    name, number = self.text(found.words[3 * index]), found.words[3 * index + 1]
                steps += [index] if found.kind is BtfKind.ARRAY else [name] if name else []
                found = self.resolved(number)
        except (ValueError, IndexError):
            raise damaged(self.source, f"there is no {relocation.path} in type {relocation.number}") from None
        return KernelField(root.partition("___")[0], tuple(steps), relocation.kind)

    def size(self, number: int) -> int:
        """Return the bytes of a type."""
        count = 1
        for _ in self.types:
            found = self.resolved(number)
            if found.kind is not BtfKind.ARRAY:
                break
            number, _, items = found.words
            count = min(count * items, _LARGEST + 1)
        if found.kind not in _SIZED and found.kind is not BtfKind.PTR:
            raise damaged(self.source, f"type {number} ({found.kind.name.lower()}) has no size")
        size = count * (POINTER if found.kind is BtfKind.PTR else found.number)
        if size > _LARGEST:
            raise damaged(self.source, f"type {number} has {size} bytes")
        return size


class _DamageError(ValueError):
    pass


def damaged(source: str, why: object) -> ProgramError:
    """Create the error for inconsistent BTF."""
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
    """Parse the sections .BTF and .BTF.ext.

    Args:
        data: Content of .BTF, relocated: with offsets of variables within their sections.
        extended: Content of .BTF.ext, relocated; empty if there is none.
        source: The object's name in messages.

    Raises:
        ProgramError: They are damaged, big-endian, or have unknown kinds of types.

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


def joined(base: bytes, data: bytes, *, source: str = "the module") -> bytes:
    """Return the BTF of a kernel module with the types of the kernel in front.

    Files in /sys/kernel/btf are split: numbers of types and offsets of texts go on where those of the kernel end.

    Args:
        base: The kernel's: /sys/kernel/btf/vmlinux.
        data: The module's; returned unchanged if it refers to no other BTF.
        source: The module's name in messages.

    Raises:
        ProgramError: One is damaged.

    """
    with _reading(source):
        types, texts = _parts(data, 2)
        if texts.startswith(b"\0"):  # only complete BTF has the empty text
            return data
        base_types, base_texts = _parts(base, 2)
    types, texts = base_types + types, base_texts + texts
    head = struct.pack("<HBBIIIII", _MAGIC, 1, 0, _HEAD, 0, len(types), len(types), len(texts))
    return head + types + texts


def _parts(data: bytes, count: int) -> list[bytes]:
    """Return the areas that a header names by offset and length; those that an older header lacks are empty."""
    magic, version, _, head = struct.unpack_from("<HBBI", data)
    if magic != _MAGIC or version != 1:
        raise _DamageError("it is big-endian" if magic == _MAGIC_BIG_ENDIAN else "it has an unknown format")
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


def _types(data: bytes, at: Callable[[int], str]) -> Iterator[BtfType]:
    yield BtfType(BtfKind.VOID, "void", flag=False, number=0, words=())
    position = 0
    while position < len(data):
        name, info, number = struct.unpack_from("<III", data, position)
        code, members = info >> 24 & 0x1F, info & 0xFFFF
        if not BtfKind.INT <= code <= BtfKind.ENUM64:
            raise _DamageError(f"kind {code} of types is not known")
        count = FIXED_WORDS.get(code, 0) + MEMBER_WORDS.get(code, 0) * members
        words = struct.unpack_from(f"<{count}I", data, position + 12)
        position += 12 + 4 * count
        yield BtfType(BtfKind(code), at(name), bool(info >> 31), number, words)


def _records(area: bytes, words: int, at: Callable[[int], str]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the records of an area of .BTF.ext: (section, first words of the record)."""
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


def _name(types: tuple[BtfType, ...], number: int) -> str:
    if number >= len(types):
        raise _DamageError(f"there is no type {number}")
    return types[number].name


MOST_COLUMNS: Final = 1024
"""Structs and sections with more columns are shown as bytes."""
_DEEPEST = 64  # nested types


def layout(btf: Btf, number: int, name: str) -> CLayout:
    """Lay a type out in columns.

    Args:
        btf: BTF of the object.
        number: The type.
        name: Name of the column if the type is not a struct.

    Returns:
        A column per member (members of members as `outer_inner`, array items as `name_0`); unions, long arrays and
        structs with more than 1024 columns become bytes, arrays of char text, pointers and enums integers.

    """
    prefix = "" if btf.resolved(number).kind is BtfKind.STRUCT else name
    return CLayout(_renamed(_fields(btf, number), prefix, name), btf.size(number))


def variables(btf: Btf, section: str, size: int) -> CLayout | None:
    """Lay a section of global variables out in columns, named as `layout` names a struct's members.

    Args:
        btf: BTF of the object.
        section: `.data`, `.bss`, `.rodata`...
        size: Bytes of the section.

    Returns:
        None if the section has no described variables (string literals), or more than MOST_COLUMNS columns.

    """
    columns: list[CField] = []
    for variable, offset, _ in _sections(btf, section):
        found = btf.type(variable)
        if offset + btf.size(found.number) > size:
            raise damaged(btf.source, f"{found.name} reaches beyond the end of {section}")
        columns += _moved(_fields(btf, found.number), found.name, offset)
    if not columns or len(columns) > MOST_COLUMNS:
        return None
    return CLayout(_renamed(columns, "", section), size)


def _sections(btf: Btf, name: str) -> Iterator[tuple[int, int, int]]:
    """Yield the variables of sections with this name, sorted by offset: (number, offset, size)."""
    found: list[tuple[int, int, int]] = []
    for one in btf.types:
        if one.kind is BtfKind.DATASEC and one.name == name:
            found += zip(one.words[::3], one.words[1::3], one.words[2::3], strict=True)
    yield from sorted(found, key=lambda entry: entry[1])


def _joined(prefix: str, name: str) -> str:
    return "_".join(filter(None, [prefix, name]))


def _moved(fields: tuple[CField, ...], prefix: str, by: int) -> list[CField]:
    return [replace(one, name=_joined(prefix, one.name), offset=one.offset + by) for one in fields]


def _renamed(fields: Iterable[CField], prefix: str, name: str) -> tuple[CField, ...]:
    """Return columns with full names; equal names, of unnamed unions, get numbers."""
    seen: Counter[str] = Counter()
    renamed = []
    for one in fields:
        whole = _joined(prefix, one.name) or name
        seen[whole] += 1
        renamed.append(replace(one, name=f"{whole}_{seen[whole]}" if seen[whole] > 1 else whole))
    return tuple(renamed)


def _fields(btf: Btf, number: int, depth: int = 0) -> tuple[CField, ...]:
    """Return the columns of a type, with names and offsets within it; a scalar's column has no name."""
    if depth > _DEEPEST:
        raise damaged(btf.source, f"type {number} has more than {_DEEPEST} levels of nested types")
    if number not in btf.known:
        found = btf.resolved(number)
        if found.kind not in _COLUMNS:
            raise damaged(btf.source, f"type {number} ({found.kind.name.lower()}) cannot be stored in memory")
        btf.known[number] = _COLUMNS[found.kind](btf, found, depth + 1)
    return btf.known[number]


def _bytes(size: int) -> tuple[CField, ...]:
    return (CField("", "bytes", f"V{size}", 0, size),) if size else ()


def _integer(btf: Btf, found: BtfType, _depth: int) -> tuple[CField, ...]:
    (word,) = found.words
    size, bits = found.number, word & 0xFF
    if size not in {1, 2, 4, 8, 16} or not 0 < bits <= 8 * size:
        raise damaged(btf.source, f"integer {found.name} has {bits} bits in {size} bytes")
    signed, boolean = word >> 24 & 1, word >> 24 & 4
    if size == 16:
        return (CField("", "wide", "i16" if signed else "u16", 0, size),)
    return (CField("", "boolean" if boolean else "integer", f"{'i' if signed else 'u'}{size}", 0, size),)


def _enum(btf: Btf, found: BtfType, _depth: int) -> tuple[CField, ...]:
    if found.number not in {1, 2, 4, 8}:
        raise damaged(btf.source, f"enum {found.name} has {found.number} bytes")
    return (CField("", "integer", f"{'i' if found.flag else 'u'}{found.number}", 0, found.number),)


def _float(_btf: Btf, found: BtfType, _depth: int) -> tuple[CField, ...]:
    # Two bytes may be IEEE half or bfloat16, sixteen any machine's long double.
    if found.number not in {4, 8}:
        return _bytes(found.number)
    return (CField("", "float", f"f{found.number}", 0, found.number),)


def _pointer(_btf: Btf, _found: BtfType, _depth: int) -> tuple[CField, ...]:
    return (CField("", "integer", "u8", 0, POINTER),)


def _union(_btf: Btf, found: BtfType, _depth: int) -> tuple[CField, ...]:
    return _bytes(found.number)


def _array(btf: Btf, found: BtfType, depth: int) -> tuple[CField, ...]:
    number, _, count = found.words
    item, size = _fields(btf, number, depth), btf.size(number)
    if not item or not count:
        return ()
    single_bytes = size == 1 and item[0].kind == "integer"
    if single_bytes and item[0].type == "i1":
        return (CField("", "text", f"S{count}", 0, count),)
    if single_bytes or count * len(item) > MOST_ITEMS:
        return _bytes(count * size)
    return tuple(one for index in range(count) for one in _moved(item, str(index), index * size))


def _struct(btf: Btf, found: BtfType, depth: int) -> tuple[CField, ...]:
    columns: list[CField] = []
    for name_offset, number, place in zip(found.words[::3], found.words[1::3], found.words[2::3], strict=True):
        name, inner = btf.text(name_offset), _fields(btf, number, depth)
        bits, bit = (place >> 24, place & 0xFFFFFF) if found.flag else (0, place)
        if bit + (bits or 8 * btf.size(number)) > 8 * found.number:
            raise damaged(btf.source, f"{name or 'a member'} reaches beyond the end of struct {found.name}")
        if bits:
            if len(inner) != 1:
                raise damaged(
                    btf.source, f"{name or 'a member'} of struct {found.name} cannot be a bit field of {bits} bits"
                )
            columns.append(_bit_field(btf, replace(inner[0], name=name), bit, bits, found.number))
        elif bit % 8:
            raise damaged(btf.source, f"{name or 'a member'} of struct {found.name} begins within a byte")
        else:
            union = btf.resolved(number).kind is BtfKind.UNION
            columns += _moved(inner, name or ("union" if union else ""), bit // 8)
        if len(columns) > MOST_COLUMNS:
            return _bytes(found.number)
    return tuple(columns)


def _bit_field(btf: Btf, unit: CField, bit: int, bits: int, size: int) -> CField:
    """Place a bit field in an integer: of its own type if possible, or else the smallest that fits, or else in bytes.

    Args:
        btf: For messages.
        unit: Column of the field's type.
        bit: Its offset in the struct, in bits.
        bits: Its width in bits.
        size: Bytes of the struct; packed ones may end within a unit.

    """
    if unit.kind not in {"integer", "boolean"} or bits > 8 * unit.size:
        raise damaged(btf.source, f"{unit.name} of type {unit.type} cannot be a bit field of {bits} bits")
    own = (bit // (8 * unit.size) * unit.size, unit.size)
    packed = [(min(bit // 8, max(size - width, 0)), width) for width in (1, 2, 4, 8)]
    for start, width in (own, *packed):
        shift = bit - 8 * start
        if shift + bits <= 8 * width and start + width <= size:
            return replace(unit, type=f"{unit.type[0]}{width}", offset=start, size=width, shift=shift, bits=bits)
    covered = -(-(bit + bits) // 8) - bit // 8
    return CField(unit.name, "bytes", f"V{covered}", bit // 8, covered)


_COLUMNS: dict[BtfKind, Callable[[Btf, BtfType, int], tuple[CField, ...]]] = {
    BtfKind.INT: _integer,
    BtfKind.ENUM: _enum,
    BtfKind.ENUM64: _enum,
    BtfKind.FLOAT: _float,
    BtfKind.PTR: _pointer,
    BtfKind.ARRAY: _array,
    BtfKind.STRUCT: _struct,
    BtfKind.UNION: _union,
}

_NUMBERS = {name: name for name in ("type", "key_size", "value_size", "max_entries")} | {"map_flags": "flags"}
_TYPES = ("key", "value")
_IGNORED = ("pinning", "numa_node", "map_extra", "values")  # for maps in the kernel


def declared_maps(btf: Btf) -> tuple[tuple[int, MapSpec], ...]:
    """Read the maps that a program declares with __uint and __type.

    Returns:
        (offset in the section `.maps`, map), in order of the declarations.

    Raises:
        ProgramError: A declaration has no type, is inconsistent, or has unknown attributes.

    """
    return tuple((offset, _map(btf, variable)) for variable, offset, _ in _sections(btf, ".maps"))


def _map(btf: Btf, variable: int) -> MapSpec:
    name = btf.type(variable).name
    declared = btf.resolved(btf.type(variable).number)
    if declared.kind is not BtfKind.STRUCT:
        raise _map_error(name, "it is not a struct")
    numbers: dict[str, int] = {}
    layouts: dict[str, CLayout] = {}
    for name_offset, number, _ in zip(declared.words[::3], declared.words[1::3], declared.words[2::3], strict=True):
        attribute = btf.text(name_offset)
        target = btf.resolved(number)
        if attribute in _NUMBERS:
            numbers[_NUMBERS[attribute]] = _number(btf, name, attribute, target)
        elif attribute in _TYPES:
            if target.kind is not BtfKind.PTR:
                raise _map_error(name, f"{attribute} is not declared with __type")
            layouts[attribute] = layout(btf, target.number, attribute)
        elif attribute not in _IGNORED:
            known = [*_NUMBERS, *_TYPES, *_IGNORED]
            raise _map_error(name, "; ".join(filter(None, [f"maps have no {attribute}", suggestion(attribute, known)])))
    if "type" not in numbers:
        raise _map_error(name, "it has no type")
    for part, described in layouts.items():
        if numbers.setdefault(f"{part}_size", described.size) != described.size:
            raise _map_error(name, f"{part}_size is {numbers[f'{part}_size']}, its type has {described.size} bytes")
    return MapSpec(
        name,
        type=numbers["type"],
        key_size=numbers.get("key_size", 0),
        value_size=numbers.get("value_size", 0),
        max_entries=numbers.get("max_entries", 0),
        flags=numbers.get("flags", 0),
        key=layouts.get("key"),
        value=layouts.get("value"),
    )


def _number(btf: Btf, name: str, attribute: str, target: BtfType) -> int:
    """Read a number declared with __uint: a pointer to an array with that many items."""
    array = btf.resolved(target.number) if target.kind is BtfKind.PTR else target
    if target.kind is not BtfKind.PTR or array.kind is not BtfKind.ARRAY:
        raise _map_error(name, f"{attribute} is not declared with __uint")
    return array.words[2]


def _map_error(name: str, why: str) -> ProgramError:
    return ProgramError(
        f"the declaration of map {name} is not valid",
        why=why,
        fix="declare it with __uint(type, ...), __uint(max_entries, ...), __type(key, ...) and __type(value, ...)",
        code="gpu.map.bad-declaration",
    )

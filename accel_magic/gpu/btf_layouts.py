"""Maps and global variables of an eBPF object as its BTF describes them: sizes, and columns of their values."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProgramError
from accel_magic.gpu.btf import POINTER, Kind, damaged
from accel_magic.gpu.model import MapSpec
from accel_magic.probes.globs import suggestion
from accel_magic.traces.c_layout import MOST_ITEMS, CLayout, Field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from accel_magic.gpu.btf import Btf, Type

MOST_COLUMNS: Final = 1024
"""Structs and sections of more columns are shown as bytes."""
_DEEPEST = 64  # types within types


def layout(btf: Btf, number: int, name: str) -> CLayout:
    """Lay a type out in columns.

    Args:
        btf: Of the object.
        number: The type.
        name: Column of a value that is no struct.

    Returns:
        A column per member (members of members as `outer_inner`, array items as `name_0`); unions, long arrays and
        structs of more than 1024 columns are bytes, arrays of char text, pointers and enums the integers they are.

    """
    prefix = "" if btf.resolved(number).kind is Kind.STRUCT else name
    return CLayout(_renamed(_fields(btf, number), prefix, name), btf.size(number))


def variables(btf: Btf, section: str, size: int) -> CLayout | None:
    """Lay a section of global variables out in columns, named as `layout` names a struct's members.

    Args:
        btf: Of the object.
        section: `.data`, `.bss`, `.rodata`...
        size: Bytes of the section.

    Returns:
        None where nothing is known of it (string literals).

    """
    columns: list[Field] = []
    for variable, offset, _ in _sections(btf, section):
        found = btf.type(variable)
        if offset + btf.size(found.number) > size:
            raise damaged(btf.source, f"{found.name} reaches beyond the end of {section}")
        columns += _moved(_fields(btf, found.number), found.name, offset)
    if not columns or len(columns) > MOST_COLUMNS:
        return None
    return CLayout(_renamed(columns, "", section), size)


def _sections(btf: Btf, name: str) -> Iterator[tuple[int, int, int]]:
    """Variables of the sections of this name, by their offsets: (number, offset, size)."""
    found: list[tuple[int, int, int]] = []
    for one in btf.types:
        if one.kind is Kind.DATASEC and one.name == name:
            found += zip(one.words[::3], one.words[1::3], one.words[2::3], strict=True)
    yield from sorted(found, key=lambda entry: entry[1])


def _joined(prefix: str, name: str) -> str:
    return "_".join(filter(None, [prefix, name]))


def _moved(fields: tuple[Field, ...], prefix: str, by: int) -> list[Field]:
    return [replace(one, name=_joined(prefix, one.name), offset=one.offset + by) for one in fields]


def _renamed(fields: Iterable[Field], prefix: str, name: str) -> tuple[Field, ...]:
    """Give columns their whole names; equal ones, of unions without a name, are told apart by numbers."""
    seen: Counter[str] = Counter()
    renamed = []
    for one in fields:
        whole = _joined(prefix, one.name) or name
        seen[whole] += 1
        renamed.append(replace(one, name=f"{whole}_{seen[whole]}" if seen[whole] > 1 else whole))
    return tuple(renamed)


def _fields(btf: Btf, number: int, depth: int = 0) -> tuple[Field, ...]:
    """Columns of a type, with names and offsets within it; a scalar's column has no name."""
    if depth > _DEEPEST:
        raise damaged(btf.source, f"type {number} holds more than {_DEEPEST} levels of types")
    if number not in btf.known:
        found = btf.resolved(number)
        if found.kind not in _COLUMNS:
            raise damaged(btf.source, f"type {number} ({found.kind.name.lower()}) is nothing that memory holds")
        btf.known[number] = _COLUMNS[found.kind](btf, found, depth + 1)
    return btf.known[number]


def _bytes(size: int) -> tuple[Field, ...]:
    return (Field("", "bytes", f"V{size}", 0, size),) if size else ()


def _integer(btf: Btf, found: Type, _depth: int) -> tuple[Field, ...]:
    (word,) = found.words
    size, bits = found.number, word & 0xFF
    if size not in {1, 2, 4, 8, 16} or not 0 < bits <= 8 * size:
        raise damaged(btf.source, f"integer {found.name} has {bits} bits in {size} bytes")
    signed, boolean = word >> 24 & 1, word >> 24 & 4
    if size == 16:
        return (Field("", "wide", "i16" if signed else "u16", 0, size),)
    return (Field("", "boolean" if boolean else "integer", f"{'i' if signed else 'u'}{size}", 0, size),)


def _enum(btf: Btf, found: Type, _depth: int) -> tuple[Field, ...]:
    if found.number not in {1, 2, 4, 8}:
        raise damaged(btf.source, f"enum {found.name} has {found.number} bytes")
    return (Field("", "integer", f"{'i' if found.flag else 'u'}{found.number}", 0, found.number),)


def _float(_btf: Btf, found: Type, _depth: int) -> tuple[Field, ...]:
    # Two bytes may be IEEE's half or bfloat16, sixteen a long double of any machine.
    if found.number not in {4, 8}:
        return _bytes(found.number)
    return (Field("", "float", f"f{found.number}", 0, found.number),)


def _pointer(_btf: Btf, _found: Type, _depth: int) -> tuple[Field, ...]:
    return (Field("", "integer", "u8", 0, POINTER),)


def _union(_btf: Btf, found: Type, _depth: int) -> tuple[Field, ...]:
    return _bytes(found.number)


def _array(btf: Btf, found: Type, depth: int) -> tuple[Field, ...]:
    number, _, count = found.words
    item, size = _fields(btf, number, depth), btf.size(number)
    if not item or not count:
        return ()
    single_bytes = size == 1 and item[0].kind == "integer"
    if single_bytes and item[0].type == "i1":
        return (Field("", "text", f"S{count}", 0, count),)
    if single_bytes or count * len(item) > MOST_ITEMS:
        return _bytes(count * size)
    return tuple(one for index in range(count) for one in _moved(item, str(index), index * size))


def _struct(btf: Btf, found: Type, depth: int) -> tuple[Field, ...]:
    columns: list[Field] = []
    for name_offset, number, place in zip(found.words[::3], found.words[1::3], found.words[2::3], strict=True):
        name, inner = btf.text(name_offset), _fields(btf, number, depth)
        bits, bit = (place >> 24, place & 0xFFFFFF) if found.flag else (0, place)
        if bit + (bits or 8 * btf.size(number)) > 8 * found.number:
            raise damaged(btf.source, f"{name or 'a member'} reaches beyond the end of struct {found.name}")
        if bits:
            if len(inner) != 1:
                raise damaged(btf.source, f"{name or 'a member'} of struct {found.name} is no field of {bits} bits")
            columns.append(_bit_field(btf, replace(inner[0], name=name), bit, bits, found.number))
        elif bit % 8:
            raise damaged(btf.source, f"{name or 'a member'} of struct {found.name} begins within a byte")
        else:
            union = btf.resolved(number).kind is Kind.UNION
            columns += _moved(inner, name or ("union" if union else ""), bit // 8)
        if len(columns) > MOST_COLUMNS:
            return _bytes(found.number)
    return tuple(columns)


def _bit_field(btf: Btf, unit: Field, bit: int, bits: int, size: int) -> Field:
    """Place a bit field in a whole number: one of its own type where that holds it, else what fits, else in bytes.

    Args:
        btf: For messages.
        unit: Column of the field's type.
        bit: Where it begins in its struct.
        bits: How many it has.
        size: Bytes of the struct: packed ones may end within a unit.

    """
    if unit.kind not in {"integer", "boolean"} or bits > 8 * unit.size:
        raise damaged(btf.source, f"{unit.name} of type {unit.type} is no field of {bits} bits")
    own = (bit // (8 * unit.size) * unit.size, unit.size)
    packed = [(min(bit // 8, max(size - width, 0)), width) for width in (1, 2, 4, 8)]
    for start, width in (own, *packed):
        shift = bit - 8 * start
        if shift + bits <= 8 * width and start + width <= size:
            return replace(unit, type=f"{unit.type[0]}{width}", offset=start, size=width, shift=shift, bits=bits)
    covered = -(-(bit + bits) // 8) - bit // 8
    return Field(unit.name, "bytes", f"V{covered}", bit // 8, covered)


_COLUMNS: dict[Kind, Callable[[Btf, Type, int], tuple[Field, ...]]] = {
    Kind.INT: _integer,
    Kind.ENUM: _enum,
    Kind.ENUM64: _enum,
    Kind.FLOAT: _float,
    Kind.PTR: _pointer,
    Kind.ARRAY: _array,
    Kind.STRUCT: _struct,
    Kind.UNION: _union,
}

_NUMBERS = {name: name for name in ("type", "key_size", "value_size", "max_entries")} | {"map_flags": "flags"}
_TYPES = ("key", "value")
_IGNORED = ("pinning", "numa_node", "map_extra", "values")  # of maps in the kernel


def declared_maps(btf: Btf) -> tuple[tuple[int, MapSpec], ...]:
    """Read the maps that a program declares with __uint and __type.

    Returns:
        (offset in the section `.maps`, map), in order of the declarations.

    Raises:
        ProgramError: A declaration has no type, contradicts itself, or has attributes that no map has.

    """
    return tuple((offset, _map(btf, variable)) for variable, offset, _ in _sections(btf, ".maps"))


def _map(btf: Btf, variable: int) -> MapSpec:
    name = btf.type(variable).name
    declared = btf.resolved(btf.type(variable).number)
    if declared.kind is not Kind.STRUCT:
        raise _map_error(name, "it is no struct")
    numbers: dict[str, int] = {}
    layouts: dict[str, CLayout] = {}
    for name_offset, number, _ in zip(declared.words[::3], declared.words[1::3], declared.words[2::3], strict=True):
        attribute = btf.text(name_offset)
        target = btf.resolved(number)
        if attribute in _NUMBERS:
            numbers[_NUMBERS[attribute]] = _number(btf, name, attribute, target)
        elif attribute in _TYPES:
            if target.kind is not Kind.PTR:
                raise _map_error(name, f"{attribute} is no pointer, as __type makes one")
            layouts[attribute] = layout(btf, target.number, attribute)
        elif attribute not in _IGNORED:
            known = [*_NUMBERS, *_TYPES, *_IGNORED]
            raise _map_error(name, "; ".join(filter(None, [f"maps have no {attribute}", suggestion(attribute, known)])))
    if "type" not in numbers:
        raise _map_error(name, "its declaration does not say its type")
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


def _number(btf: Btf, name: str, attribute: str, target: Type) -> int:
    """Read what __uint declares: a pointer to an array of so many items."""
    array = btf.resolved(target.number) if target.kind is Kind.PTR else target
    if target.kind is not Kind.PTR or array.kind is not Kind.ARRAY:
        raise _map_error(name, f"{attribute} is no number, as __uint makes one")
    return array.words[2]


def _map_error(name: str, why: str) -> ProgramError:
    return ProgramError(
        f"the declaration of map {name} is not understood",
        why=why,
        fix="declare it with __uint(type, ...), __uint(max_entries, ...), __type(key, ...) and __type(value, ...)",
        code="gpu.map.bad-declaration",
    )

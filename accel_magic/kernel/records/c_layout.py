"""Layouts of a user's C structs, from BCC's descriptions, as flat numpy columns."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

Kind = Literal["integer", "boolean", "wide", "float", "text", "bytes"]

_SCALARS = {
    "_Bool": ("boolean", "u1"),
    "char": ("integer", "i1"),
    "signed char": ("integer", "i1"),
    "unsigned char": ("integer", "u1"),
    "short": ("integer", "i2"),
    "unsigned short": ("integer", "u2"),
    "int": ("integer", "i4"),
    "unsigned int": ("integer", "u4"),
    "long": ("integer", "i8"),
    "unsigned long": ("integer", "u8"),
    "long long": ("integer", "i8"),
    "unsigned long long": ("integer", "u8"),
    "__int128": ("wide", "i16"),
    "unsigned __int128": ("wide", "u16"),
    "float": ("float", "f4"),
    "double": ("float", "f8"),
}
_ALIASES = {
    "bool": "_Bool",
    "size_t": "unsigned long",
    "ssize_t": "long",
    "uintptr_t": "unsigned long",
    "pid_t": "int",
    "uid_t": "unsigned int",
    "gid_t": "unsigned int",
    "dev_t": "unsigned int",
    "loff_t": "long long",
    "sector_t": "unsigned long",
    **{
        spelling.format(sign, bits): f"{name} {c_type}".strip()
        for sign, prefix, name in (("s", "", "signed"), ("u", "u", "unsigned"))
        for bits, c_type in ((8, "char"), (16, "short"), (32, "int"), (64, "long long"))
        for spelling in ("{0}{1}", "__{0}{1}", f"{prefix}int{{1}}_t")
    },
}
_SIGNED = {f"signed {name}": name for name in ("short", "int", "long long")}
_ARRAY = re.compile(r"(.+?) ?((?:\[\d+\])+)$")
_PAD = re.compile(r"__pad_(\d+|end)$")
MOST_ITEMS = 64
"""Arrays of numbers up to this length become one column per item; longer ones stay bytes."""


@dataclass(frozen=True)
class CField:
    """One column: `size` bytes at `offset`; a bit field has `bits` bits from bit `shift`."""

    name: str
    kind: Kind
    type: str
    offset: int
    size: int
    shift: int = 0
    bits: int = 0


@dataclass(frozen=True)
class CLayout:
    """Columns of a C value of `size` bytes."""

    fields: tuple[CField, ...]
    size: int

    def renamed(self, names: Iterable[str]) -> CLayout:
        """Rename the columns, in order."""
        return replace(
            self, fields=tuple(replace(field, name=name) for field, name in zip(self.fields, names, strict=True))
        )


class UnknownTypeError(ValueError):
    """A type whose size is not in BCC's description."""


@dataclass(frozen=True)
class _Placed:
    fields: tuple[CField, ...]
    size: int
    alignment: int


def value_layout(description: Any, size: int, name: str) -> CLayout:
    """Lay out a map's key or value.

    Args:
        description: From BCC: the name of a scalar type, or `[name, members, "struct" | "struct_packed" | "union"]`.
        size: Bytes of the value, as the map declares it.
        name: Column of a value that is not a struct.

    Returns:
        A column per member (nested members as `outer_inner`, array items as `name_0`), without padding; one column
        of bytes if the description cannot be parsed or does not add up to `size`.

    """
    try:
        placed = _placed(description, name if isinstance(description, str) else "")
    except UnknownTypeError:
        return raw_layout(size, name)
    return CLayout(placed.fields, size) if placed.size == size else raw_layout(size, name)


def raw_layout(size: int, name: str) -> CLayout:
    """One column of bytes."""
    return CLayout((CField(name, "bytes", f"V{size}", 0, size),), size)


def event_layout(members: Iterable[tuple[str, str]], size: int) -> CLayout | None:
    """Lay out a ring's records from the struct that the program passes to it.

    Args:
        members: (name, C type as written) of each member.
        size: Bytes of the record, which distinguish a packed struct from one with padding.

    Returns:
        The columns, or None if a type is unknown (a nested struct) or the sizes differ.

    """
    described = []
    for name, c_type in members:
        scalar, dimensions = _split(c_type)
        described.append([name, scalar, dimensions] if dimensions else [name, scalar])
    if not described:
        return None
    for form in ("struct", "struct_packed"):
        try:
            placed = _placed(["", described, form], "")
        except UnknownTypeError:
            return None
        if placed.size == size:
            return CLayout(placed.fields, size)
    return None


def _split(c_type: str) -> tuple[str, list[int]]:
    """`u16[2]` -> ("u16", [2]); enums and pointers become integers."""
    scalar, dimensions = c_type, []
    if match := _ARRAY.match(c_type):
        scalar = match[1]
        dimensions = [int(number) for number in re.findall(r"\d+", match[2])]
    scalar = re.sub(r"\b(const|volatile)\b ?", "", scalar).strip()
    if scalar.endswith("*"):
        scalar = "unsigned long"
    elif scalar.startswith("enum "):
        scalar = "unsigned int"
    return scalar, dimensions


def _placed(description: Any, name: str) -> _Placed:
    if isinstance(description, str):
        return _scalar(description, name)
    _, members, form = description
    packed, union = form == "struct_packed", form == "union"
    fields: list[CField] = []
    bit = end = 0
    alignment = 1
    for member_name, member_type, *extra in members:
        joined = "_".join(filter(None, [name, member_name]))
        one = _placed(member_type, joined)
        alignment = alignment if packed else max(alignment, one.alignment)
        if union:
            bit = 0
        if extra and isinstance(extra[0], int):
            bit, field = _bit_field(one.fields[0], bit, extra[0])
            fields.append(field)
        else:
            placed = _array(one, joined, extra[0]) if extra else one
            unit = 8 * (1 if packed else placed.alignment)
            bit = -(-bit // unit) * unit
            if not _PAD.match(member_name):
                fields += [replace(field, offset=field.offset + bit // 8) for field in placed.fields]
            bit += 8 * placed.size
        end = max(end, -(-bit // 8))
    return _Placed(tuple(fields), -(-end // alignment) * alignment, alignment)


def _scalar(c_type: str, name: str) -> _Placed:
    known = _ALIASES.get(c_type, c_type)
    known = _SIGNED.get(known, known)
    if known not in _SCALARS:
        raise UnknownTypeError(c_type)
    kind, code = _SCALARS[known]
    size = int(code[1:])
    return _Placed((CField(name, kind, code, 0, size),), size, size)  # type: ignore[arg-type]


def _bit_field(unit: CField, bit: int, bits: int) -> tuple[int, CField]:
    """Place a bit field as on x86-64: it never crosses a boundary of its type."""
    width = 8 * unit.size
    if bit % width + bits > width:
        bit = -(-bit // width) * width
    start = bit // width
    return bit + bits, replace(unit, offset=start * unit.size, shift=bit - start * width, bits=bits)


def _array(one: _Placed, name: str, dimensions: list[int]) -> _Placed:
    count = int(np.prod(dimensions))
    size = count * one.size
    scalar = one.fields[0] if len(one.fields) == 1 and one.fields[0].offset == 0 else None
    if scalar is not None and scalar.kind == "integer" and scalar.type == "i1" and len(dimensions) == 1:
        return _Placed((CField(name, "text", f"S{count}", 0, count),), size, one.alignment)
    too_long = count * len(one.fields) > MOST_ITEMS
    if too_long or (scalar is not None and scalar.kind == "integer" and scalar.size == 1):
        return _Placed((CField(name, "bytes", f"V{size}", 0, size),), size, one.alignment)
    fields = []
    for number, index in enumerate(np.ndindex(*dimensions)):
        suffix = "_".join(map(str, index))
        for field in one.fields:
            item = f"{name}_{suffix}{field.name.removeprefix(name)}"
            fields.append(replace(field, name=item, offset=field.offset + number * one.size))
    return _Placed(tuple(fields), size, one.alignment)


def columns(table: NDArray[np.uint8], layout: CLayout) -> Iterator[tuple[str, pd.Series[Any]]]:
    """Decode values in bulk.

    Args:
        table: (rows, layout.size) uint8; rows may have any stride, bytes within a row are contiguous.
        layout: Of each row.

    Yields:
        (name, column): integers in their own width, booleans, text as categories, 128-bit integers and bytes as
        objects.

    """
    for field in layout.fields:
        yield field.name, pd.Series(_decode(table[:, field.offset : field.offset + field.size], field))


def _decode(cells: NDArray[np.uint8], field: CField) -> Any:
    cells = np.ascontiguousarray(cells)
    rows = len(cells)
    if field.kind == "text":
        return _text(cells)
    if field.kind == "bytes":
        if not field.size:
            return _objects([b""] * rows)
        return _objects(cells.view(f"V{field.size}").reshape(rows).tolist())
    if field.kind == "wide":
        words = cells.view("<u8").reshape(rows, 2).astype(object)
        high = cells.view("<i8" if field.type[0] == "i" else "<u8").reshape(rows, 2)[:, 1].astype(object)
        return _objects(words[:, 0] + high * (1 << 64))
    values = cells.view(f"<{field.type}").reshape(rows)
    if field.bits:
        left = 8 * field.size - field.bits
        # Shifting the bits to the top first restores the sign.
        values = values << values.dtype.type(left - field.shift) >> values.dtype.type(left)
    return values != 0 if field.kind == "boolean" else values


def _objects(values: Iterable[object]) -> NDArray[np.object_]:
    listed = list(values)
    column = np.empty(len(listed), object)
    column[:] = listed
    return column


def _text(cells: NDArray[np.uint8]) -> Any:
    """Decode C strings: bytes after the first NUL are leftover memory."""
    cleared = cells * np.minimum.accumulate(cells != 0, axis=1)
    codes, kinds = pd.factorize(cleared.view(f"S{cells.shape[1]}").reshape(len(cells)).astype(object))
    texts = [kind.decode("utf-8", "replace") for kind in kinds]
    distinct = list(dict.fromkeys(texts))
    numbers = np.array([distinct.index(text) for text in texts], np.int32)
    return pd.Categorical.from_codes(numbers[codes], categories=pd.Index(distinct, dtype=object))

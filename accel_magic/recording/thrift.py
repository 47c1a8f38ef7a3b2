"""Thrift's compact protocol, as far as Parquet's footers and page headers use it."""

from __future__ import annotations

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
_DEEPEST = 8
Fields = dict[tuple[int, int], "int | Fields | list[Fields]"]
"""Members of a struct, by number and type: numbers, structs and lists of structs; 0 for anything else."""


def struct(data: bytes, at: int = 0, depth: int = 0) -> tuple[Fields, int]:
    """Parse a struct: its members and its end.

    Raises:
        IndexError: It extends beyond `data`.
        ValueError: It is not one of Parquet's.

    """
    if depth > _DEEPEST:
        raise ValueError("it is nested too deeply")
    fields: Fields = {}
    number = 0
    while kind := data[at] & 15:
        step = data[at] >> 4
        number, at = (number + step, at + 1) if step else _signed(data, at + 1)
        if any(number == known for known, _ in fields):
            raise ValueError("it has a duplicate member")
        fields[number, kind], at = _value(data, at, kind, depth)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[int | Fields | list[Fields], int]:
    if kind in (LIST, SET):
        return _list(data, at, depth)
    if kind in (TRUE, FALSE):
        return int(kind == TRUE), at
    if kind in (I16, I32, I64):
        return _signed(data, at)
    if kind == STRUCT:
        return struct(data, at, depth + 1)
    if kind == BINARY:
        length, at = _unsigned(data, at)
    elif kind in (BYTE, DOUBLE):
        length = 1 if kind == BYTE else 8
    else:
        raise ValueError("it has a map")
    if at + length > len(data):
        raise IndexError
    return 0, at + length


def _list(data: bytes, at: int, depth: int) -> tuple[list[Fields], int]:
    """Parse a list; only structs are kept."""
    kind, count, at = data[at] & 15, data[at] >> 4, at + 1
    if count == 15:
        count, at = _unsigned(data, at)
    if count > len(data) - at:  # each element has a byte at least
        raise IndexError
    kept: list[Fields] = []
    for _ in range(count):
        if kind in (TRUE, FALSE):
            at += 1
            continue
        found, at = _value(data, at, kind, depth + 1)
        if isinstance(found, dict):
            kept.append(found)
    return kept, at


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            break
    if shift > 70:
        raise ValueError("it has a number of more than 64 bits")
    return value, at


def _signed(data: bytes, at: int) -> tuple[int, int]:
    value, at = _unsigned(data, at)
    return value >> 1 ^ -(value & 1), at

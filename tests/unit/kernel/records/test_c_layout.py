"""Layouts of C structs from BCC's descriptions, checked against ctypes and struct."""

import ctypes
import struct

import numpy as np
import pytest

from accel_magic.kernel.records.c_layout import columns, event_layout, value_layout


def decoded(layout, *rows):
    table = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), -1)
    return {name: list(column) for name, column in columns(table, layout)}


def test_a_scalar_becomes_one_column_of_its_own_width():
    layout = value_layout("int", 4, "key")
    (name, column) = next(columns(np.frombuffer(struct.pack("<ii", -7, 9), np.uint8).reshape(2, 4), layout))
    assert (name, column.dtype, list(column)) == ("key", np.int32, [-7, 9])


def test_members_of_a_struct_become_columns_but_padding_does_not():
    description = [
        "event",
        [["pid", "unsigned int"], ["comm", "char", [5]], ["__pad_2", "char", [7]], ["total", "unsigned long long"]],
        "struct_packed",
    ]
    row = struct.pack("<I5s7xQ", 12, b"ab\0zz", 2**63)
    assert decoded(value_layout(description, 24, "value"), row) == {"pid": [12], "comm": ["ab"], "total": [2**63]}


def test_members_of_inner_structs_unions_and_arrays_are_flattened():
    inner = ["", [["x", "unsigned char"], ["__pad_1", "char", [3]], ["y", "int"]], "struct_packed"]
    union = ["", [["small", "unsigned short"], ["large", "unsigned int"]], "union"]
    description = ["v", [["in", inner], ["un", union], ["arr", "short", [2]]], "struct_packed"]
    row = struct.pack("<B3xiIhh", 1, -2, 0x00050006, -3, 4)
    assert decoded(value_layout(description, 16, "value"), row) == {
        "in_x": [1], "in_y": [-2], "un_small": [6], "un_large": [0x50006], "arr_0": [-3], "arr_1": [4],
    }  # fmt: skip


def test_bit_fields_are_read_where_the_compiler_puts_them():
    class Bits(ctypes.Structure):
        _fields_ = (
            ("a", ctypes.c_uint32, 3), ("b", ctypes.c_uint32, 10), ("c", ctypes.c_int32, 5), ("d", ctypes.c_uint64),
            ("e", ctypes.c_uint8, 2),
        )  # fmt: skip

    kinds = ["unsigned int", "unsigned int", "int", "unsigned long long", "unsigned char"]
    members = [[field[0], kind, *field[2:]] for field, kind in zip(Bits._fields_, kinds, strict=True)]
    rows = [Bits(5, 1000, -16, 2**40, 2), Bits(2, 1, 15, 3, 1)]
    assert decoded(value_layout(["bf", members, "struct"], ctypes.sizeof(Bits), "value"), *map(bytes, rows)) == {
        "a": [5, 2], "b": [1000, 1], "c": [-16, 15], "d": [2**40, 3], "e": [2, 1],
    }  # fmt: skip


def test_a_bit_field_that_does_not_fit_starts_in_the_next_unit():
    class Bits(ctypes.Structure):
        _fields_ = (("a", ctypes.c_uint32, 30), ("b", ctypes.c_uint32, 5), ("c", ctypes.c_uint32, 27))

    members = [[name, "unsigned int", bits] for name, _, bits in Bits._fields_]
    layout = value_layout(["bf", members, "struct"], ctypes.sizeof(Bits), "value")
    assert decoded(layout, bytes(Bits(2**30 - 2, 21, 2**27 - 3))) == {"a": [2**30 - 2], "b": [21], "c": [2**27 - 3]}


def test_128_bit_integers_become_python_integers():
    row = (2**100 + 3).to_bytes(16, "little")
    assert decoded(value_layout("unsigned __int128", 16, "key"), row) == {"key": [2**100 + 3]}
    assert decoded(value_layout("__int128", 16, "key"), (-5).to_bytes(16, "little", signed=True)) == {"key": [-5]}


@pytest.mark.parametrize(
    ("description", "size"),
    [("struct mystery", 8), ("int", 8), (["s", [["a", "int"]], "struct_packed"], 6)],
    ids=["unknown type", "wrong size", "members that do not add up"],
)
def test_unknown_types_stay_bytes(description, size):
    assert decoded(value_layout(description, size, "value"), b"\1" * size) == {"value": [b"\1" * size]}


def test_the_size_of_an_event_decides_whether_it_is_padded_or_packed():
    members = [("k", "u8"), ("time", "__u64"), ("ok", "bool"), ("where", "void *"), ("kind", "enum zz"), ("p", "pid_t")]
    values = (7, 2**40, True, 0xFFFF8000, 3, -1)
    assert decoded(event_layout(members, 40), struct.pack("@BQ?PIi", *values)) == {
        name: [value] for (name, _), value in zip(members, values, strict=True)
    }
    assert decoded(event_layout(members, 26), struct.pack("<BQ?QIi", *values)) == {
        name: [value] for (name, _), value in zip(members, values, strict=True)
    }


def test_text_ends_at_its_first_nul_and_arrays_of_bytes_stay_bytes():
    layout = event_layout([("comm", "char[4]"), ("mac", "u8[6]"), ("m", "u16[2][2]")], 18)
    row = b"a\0xy" + bytes(range(6)) + struct.pack("<4H", 1, 2, 3, 4)
    assert decoded(layout, row) == {
        "comm": ["a"], "mac": [bytes(range(6))], "m_0_0": [1], "m_0_1": [2], "m_1_0": [3], "m_1_1": [4],
    }  # fmt: skip


def test_an_event_with_a_nested_struct_has_no_known_layout():
    assert event_layout([("a", "u64"), ("in", "struct inner")], 16) is None
    assert event_layout([], 8) is None

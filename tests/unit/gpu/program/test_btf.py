"""Types, declared maps, global variables and source lines in BTF, from clang and damaged."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel_magic.errors import ProgramError
from accel_magic.gpu.program import btf
from accel_magic.gpu.program import btf as btf_layouts
from accel_magic.gpu.program.bpf_elf import read_elf
from accel_magic.gpu.program.clang import compile_program
from accel_magic.gpu.program.objects import load_object
from accel_magic.kernel.records.c_layout import columns
from accel_magic.ptx.ptx_model import SourceLine
from tests.support.errors import raises

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACCEL_MAGIC_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def everything():
    """Return .BTF and .BTF.ext of a program with many kinds of types."""
    file = read_elf(compile_program(PROGRAMS / "everything.bpf.c"), "everything")
    return file.described(".BTF"), file.described(".BTF.ext")


def decoded(text, name=".data.all"):
    """Compile global variables in one section; returns their columns and values."""
    spec = next(
        spec for spec in load_object(compile_program(f"#include <vmlinux.h>\n{text}\n")).maps if spec.name == name
    )
    table = np.frombuffer(spec.initial, np.uint8)[None, :]
    return {column: series[0] for column, series in columns(table, spec.value)}


def variable(declaration):
    return f'__attribute__((section(".data.all"))) {declaration};'


class Item(NamedTuple):
    """A C declaration `before NAME after = literal`, and the expected columns with their values."""

    before: str
    after: str
    literal: str
    expected: dict[str, object]


TYPES = """
enum small { TINY, LARGE = 4000000000 };
enum negative { BELOW = -5, ABOVE };
union both { u32 first; u64 second; };
typedef volatile u16 word_t;
"""
INTEGERS = {
    "u8": (8, 0),
    "u16": (16, 0),
    "u32": (32, 0),
    "u64": (64, 0),
    "s8": (8, 1),
    "short": (16, 1),
    "s64": (64, 1),
}
OTHERS = [
    Item("bool", "", "1", {"": True}),
    Item("float", "", "-0.375f", {"": -0.375}),
    Item("double", "", "1e300", {"": 1e300}),
    Item("void *", "", "(void *)77", {"": 77}),
    Item("enum small", "", "LARGE", {"": 4_000_000_000}),
    Item("enum negative", "", "BELOW", {"": -5}),
    Item("word_t", "", "65535", {"": 65535}),
    Item("__int128", "", "-9", {"": -9}),
    Item("char", "[6]", '"text"', {"": "text"}),
    Item("u8", "[3]", "{1, 2, 3}", {"": b"\1\2\3"}),
    Item("char", "[2][4]", '{"ab", "abcd"}', {"0": "ab", "1": "abcd"}),
    Item("u16", "[2][2]", "{{1, 2}, {3, 4}}", {"0_0": 1, "0_1": 2, "1_0": 3, "1_1": 4}),
    Item("u16", "[65]", "{1, 2}", {"": struct.pack("<2H", 1, 2) + bytes(126)}),
    Item("union both", "", "{.first = 513}", {"": struct.pack("<Q", 513)}),
    Item("struct { u32 a; struct { s16 b; }; u64 none[0]; }", "", "{7, {-3}}", {"a": 7, "b": -3}),
]


def joined(prefix, name):
    return "_".join(filter(None, [prefix, name]))


def numbers(bits, signed):
    least = -(1 << bits - 1) if signed else 0
    return st.integers(least, least + (1 << bits) - 1)


def literal(value):
    # The smallest number of a signed type has no literal.
    return f"({value + 1}LL - 1)" if value < 0 else f"{value}ULL"


@st.composite
def integers(draw):
    kind = draw(st.sampled_from(sorted(INTEGERS)))
    value = draw(numbers(*INTEGERS[kind]))
    return Item(kind, "", literal(value), {"": value})


@st.composite
def bit_fields(draw):
    kind = draw(st.sampled_from(sorted(INTEGERS)))
    bits, signed = INTEGERS[kind]
    width = draw(st.integers(1, min(bits, 56)))
    value = draw(numbers(width, signed))
    return Item(kind, f" : {width}", literal(value), {"": value})


@st.composite
def arrays(draw, items):
    item, count = (
        draw(items.filter(lambda item: ":" not in item.after and item.before not in ("char", "u8", "s8"))),
        draw(st.integers(1, 3)),
    )
    if count * len(item.expected) > 60 or item.after:
        return item
    expected = {joined(str(at), name): value for at in range(count) for name, value in item.expected.items()}
    return Item(item.before, f"[{count}]", f"{{{', '.join([item.literal] * count)}}}", expected)


@st.composite
def structs(draw, members):
    chosen = draw(st.lists(st.one_of(members, bit_fields(), bit_fields()), min_size=1, max_size=6))
    # A packed struct may end within the last field's unit, which then becomes bytes: see below.
    chosen.append(Item("u64", "", "5", {"": 5}))
    packed = draw(st.sampled_from(["", "__attribute__((packed))"]))
    body = " ".join(f"{item.before} m{at}{item.after};" for at, item in enumerate(chosen))
    expected = {
        joined(f"m{at}", name): value for at, item in enumerate(chosen) for name, value in item.expected.items()
    }
    return Item(f"struct {packed} {{ {body} }}", "", f"{{{', '.join(item.literal for item in chosen)}}}", expected)


ITEMS = st.recursive(
    st.one_of(integers(), st.sampled_from(OTHERS)),
    lambda items: st.one_of(arrays(items), structs(items)),
    max_leaves=12,
)


@settings(max_examples=settings.default.max_examples // 3)
@given(st.lists(structs(ITEMS), min_size=10, max_size=10))
def test_columns_decode_to_the_values_in_the_source(items):
    text = TYPES + "".join(
        variable(f"{item.before} v{at}{item.after} = {item.literal}") + "\n" for at, item in enumerate(items)
    )
    expected = {joined(f"v{at}", name): value for at, item in enumerate(items) for name, value in item.expected.items()}
    assert decoded(text) == expected


def test_every_kind_of_type_decodes_to_the_value_in_the_source():
    text = TYPES + "".join(
        variable(f"{item.before} v{at}{item.after} = {item.literal}") + "\n" for at, item in enumerate(OTHERS)
    )
    expected = {
        joined(f"v{at}", name): value for at, item in enumerate(OTHERS) for name, value in item.expected.items()
    }
    assert decoded(text) == expected


def test_a_bit_field_has_its_own_type_or_the_smallest_that_fits():
    found = decoded(variable("struct { u32 a : 3; s64 b : 20; bool c : 1; } v = {5, -7, 1}"))
    assert found == {"v_a": 5, "v_b": -7, "v_c": True}
    assert [value.dtype for value in found.values()] == ["u4", "i8", "?"]
    found = decoded(variable("struct __attribute__((packed)) { u8 a; u64 b : 12; u64 c : 4; } v = {1, 2049, 3}"))
    assert found == {"v_a": 1, "v_b": 2049, "v_c": 3}
    assert [value.dtype for value in found.values()] == ["u1", "u2", "u1"]


def test_a_bit_field_that_fits_no_integer_becomes_bytes():
    packed = "struct __attribute__((packed)) { s32 m : 17; }"
    assert decoded(variable(f"{packed} v = {{-2}}")) == {"v_m": bytes.fromhex("feff01")}
    crossing = "struct __attribute__((packed)) { u8 low : 4; u64 m : 64; u8 high : 4; }"
    assert decoded(variable(f"{crossing} v = {{1, 0x123456789abcdef0, 2}}")) == {
        "v_low": 1,
        "v_m": bytes.fromhex("01efcdab8967452321"),
        "v_high": 2,
    }


def test_types_with_too_many_columns_become_bytes():
    wide = "struct wide { struct { u8 a, b; } items[32][16]; u16 after; }"
    found = decoded(variable(f"{wide} v = {{.after = 7}}"))
    assert found == {"v_items": bytes(1024), "v_after": 7}
    members = " ".join(f"u8 m{at};" for at in range(1025))
    assert decoded(variable(f"struct {{ {members} }} v = {{.m3 = 1}}")) == {"v": b"\0\0\0\1" + bytes(1021)}


def test_columns_of_unnamed_unions_and_structs_have_different_names():
    text = variable("struct { union { u16 a; u8 b; }; struct { u8 c; }; union { u8 d; }; } v = {{513}, {3}, {4}}")
    assert decoded(text) == {"v_union": b"\1\2", "v_c": 3, "v_union_2": b"\4"}


def test_source_lines_match_the_file(everything):
    text = (PROGRAMS / "everything.bpf.c").read_text().splitlines()
    found = btf.parse(*everything)
    assert set(found.lines) == {".text", "gpu/exit", "gpu/memory/matmul*", "uprobe/libcudart.so:cudaLaunchKernel"}
    for records in found.lines.values():
        assert records
        assert [at for at, _ in records] == sorted(at for at, _ in records)
        for _, line in records:
            assert line.file == "everything.bpf.c"
            assert line.text == text[line.line - 1]
            assert line.column <= len(line.text)
    (deleted,) = (line for _, line in found.lines["gpu/memory/matmul*"] if "bpf_map_delete_elem" in line.text)
    assert deleted.text[deleted.column - 1 :] == "bpf_map_delete_elem(&plain, &key);"


def test_lines_are_sorted_by_offset_whatever_their_order_in_the_btf():
    texts = b"\0a\0.text\0"
    area = struct.pack("<3I", 16, 3, 2) + struct.pack("<8I", 8, 1, 0, 7 << 10, 0, 1, 0, 6 << 10 | 3)
    head = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, 0, 0, len(area))
    lines = btf.parse(assembled(U32, texts=texts), head + area).lines
    assert lines == {".text": ((0, SourceLine("a", 6, 3)), (8, SourceLine("a", 7)))}


def test_functions_have_their_names_and_offsets(everything):
    found = btf.parse(*everything)
    assert {section: [name for _, name in names] for section, names in found.functions.items()} == {
        ".text": ["shared", "scaled"],
        "gpu/exit": ["first", "second"],
        "gpu/memory/matmul*": ["third"],
        "uprobe/libcudart.so:cudaLaunchKernel": ["on_cpu"],
    }
    file = read_elf(compile_program(PROGRAMS / "everything.bpf.c"), "everything")
    starts = {symbol.name: symbol.value for symbol in file.symbols if symbol.function}
    assert {name: at for names in found.functions.values() for at, name in names} == starts
    assert starts["second"] > starts["first"] == 0


def test_maps_match_their_declarations(everything):
    maps = {spec.name: spec for _, spec in btf_layouts.declared_maps(btf.parse(*everything))}
    by_point, plain, records = maps["by_point"], maps["plain"], maps["records"]
    assert (by_point.type, by_point.key_size, by_point.value_size) == (1501, 16, 8)
    assert (by_point.max_entries, by_point.flags) == (128, 1)
    fields = [(field.name, field.kind, field.type, field.offset) for field in by_point.key.fields]
    assert fields == [("x", "integer", "u4", 0), ("y", "integer", "i2", 4), ("name", "text", "S8", 6)]
    assert [(field.name, field.type) for field in by_point.value.fields] == [("value", "u8")]
    assert (plain.type, plain.key_size, plain.value_size, plain.max_entries) == (2, 4, 24, 7)
    assert (plain.key, plain.value) == (None, None)
    assert (records.type, records.key_size, records.value_size, records.max_entries) == (27, 0, 0, 4096)


@pytest.mark.parametrize(
    ("declaration", "why"),
    [
        ("struct { __uint(max_entries, 1); __type(key, u32); }", "it has no type"),
        ("struct { __uint(type, 2); __type(key, u32); __uint(key_size, 8); }", "key_size is 8, its type has 4 bytes"),
        (
            "struct { __uint(type, 2); __uint(value_size, 2); __type(value, u64); }",
            "value_size is 2, its type has 8 bytes",
        ),
        (
            "struct { __uint(type, 2); __uint(max_entires, 4); }",
            "maps have no max_entires; did you mean max_entries or map_extra?",
        ),
        ("struct { u32 type; }", "type is not declared with __uint"),
        ("struct { __type(type, u32); }", "type is not declared with __uint"),
        ("struct { __uint(type, 2); u32 key; }", "key is not declared with __type"),
        ("u32", "it is not a struct"),
    ],
)
def test_invalid_declarations_are_an_error(declaration, why):
    text = f'#include "accel_gpu.h"\n{declaration} odd SEC(".maps");\n'
    with raises("gpu.map.bad-declaration", ProgramError, match="odd") as caught:
        load_object(compile_program(text))
    assert caught.value.why == why


def test_attributes_of_the_kernels_maps_are_accepted():
    text = """
#include "accel_gpu.h"
struct { __uint(type, 1); __uint(max_entries, 2); __type(key, u32); __type(value, u32); __uint(pinning, 1); } m
	SEC(".maps");
"""
    (spec,) = load_object(compile_program(text)).maps
    assert (spec.name, spec.type, spec.max_entries) == ("m", 1, 2)


# BTF written by hand: heads of types as in the kernel's Documentation/bpf/btf.rst.
INT, PTR, ARRAY, STRUCT, FWD, TYPEDEF, VAR, DATASEC = 1, 2, 3, 4, 7, 8, 14, 15
U32 = (INT, 0, 4, [32])


def assembled(*types, texts=b"\0a\0.maps\0key\0"):
    """Encode types, given as (kind, members, size or type, words), as a section .BTF; each has the name `a`."""
    body = b"".join(
        struct.pack(f"<III{len(words)}I", 1 if kind != DATASEC else 3, kind << 24 | members, number, *words)
        for kind, members, number, words in types
    )
    return struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(body), len(body), len(texts)) + body + texts


def laid_out(*types):
    return btf_layouts.layout(btf.parse(assembled(*types)), len(types), "value")


def test_handwritten_types_are_laid_out():
    pair = (STRUCT, 2, 8, [1, 1, 0, 1, 1, 32])
    assert [(field.name, field.offset) for field in laid_out(U32, pair).fields] == [("a", 0), ("a_2", 4)]


def test_variables_are_sorted_by_offset_and_must_be_within_their_section():
    first, second = (VAR, 0, 1, [1]), (VAR, 0, 1, [1])
    found = btf.parse(assembled(U32, first, second, (DATASEC, 2, 0, [3, 8, 4, 2, 0, 4])))
    fields = btf_layouts.variables(found, ".maps", 12).fields
    assert [(field.name, field.offset) for field in fields] == [("a", 0), ("a_2", 8)]
    assert btf_layouts.variables(found, ".data", 12) is None
    with raises("gpu.object-damaged", ProgramError) as caught:
        btf_layouts.variables(found, ".maps", 11)
    assert caught.value.why == "a reaches beyond the end of .maps"


@pytest.mark.parametrize(
    ("types", "why"),
    [
        ([(TYPEDEF, 0, 1, [])], "type 1 is an alias of itself"),
        ([(TYPEDEF, 0, 2, []), (TYPEDEF, 0, 1, [])], "is an alias of itself"),
        ([(TYPEDEF, 0, 9, [])], "there is no type 9"),
        ([(STRUCT, 1, 4, [1, 1, 0])], "more than 64 levels"),
        ([(ARRAY, 0, 0, [1, 1, 3])], "more than 64 levels"),
        ([U32, *((ARRAY, 0, 0, [at, 1, 1]) for at in range(1, 80))], "more than 64 levels"),
        ([U32, (STRUCT, 1, 4, [1, 1, 8])], "a reaches beyond the end of struct a"),
        ([U32, (STRUCT, 1, 8, [1, 1, 4])], "a of struct a begins within a byte"),
        ([U32, (ARRAY, 0, 0, [1, 1, 0xFFFFFFFF])], "bytes"),
        ([(FWD, 0, 0, [])], "type 1 (fwd)"),
        ([(INT, 0, 3, [24])], "integer a has 24 bits in 3 bytes"),
        ([(INT, 0, 4, [0])], "integer a has 0 bits in 4 bytes"),
        ([(6, 0, 3, [])], "enum a has 3 bytes"),
        ([U32, (ARRAY, 0, 0, [1, 1, 2]), (STRUCT | 0x80, 1, 8, [1, 2, 3 << 24])], "bit field of 3 bits"),
        ([U32, (STRUCT, 1, 4, [99, 1, 0])], "there is no text at 99"),
    ],
)
def test_inconsistent_types_are_an_error(types, why):
    with raises("gpu.object-damaged", ProgramError) as caught:
        laid_out(*types)
    assert why in caught.value.why


def test_structs_that_contain_the_next_one_twice_are_laid_out_quickly():
    levels = [(STRUCT, 2, 4, [1, at, 0, 1, at, 0]) for at in range(1, 60)]
    fields = laid_out(U32, *levels).fields
    assert len(fields) <= btf_layouts.MOST_COLUMNS


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda data: data[:7], "unpack_from requires a buffer"),
        (lambda data: data[:20], "16 bytes at 24 reach beyond its end"),
        (lambda data: b"\xeb\x9f" + data[2:], "it is big-endian"),
        (lambda data: b"\0\0" + data[2:], "unknown format"),
        (lambda data: data[:2] + b"\2" + data[3:], "unknown format"),
        (lambda data: data[:-1], "reach beyond its end"),
        (lambda data: data[:31] + b"\x1f" + data[32:], "kind 31"),
        (lambda data: data[:24] + b"\xff" + data[25:], "there is no text at 255"),
    ],
)
def test_the_error_for_damaged_btf_has_the_reason(damage, why):
    # The first type's head: name at 24, kind at 31.
    with raises("gpu.object-damaged", ProgramError, match="mine") as caught:
        btf.parse(damage(assembled(U32)), source="mine")
    assert why in caught.value.why


@pytest.mark.parametrize(
    ("area", "why"),
    [
        (struct.pack("<I", 0), "records have 0 bytes"),
        (struct.pack("<III", 16, 1, 2), "2 records reach beyond its end"),
        (struct.pack("<II", 16, 1), "unpack_from requires a buffer"),
        (struct.pack("<III4I", 16, 1, 1, 0, 77, 1, 1), "there is no text at 77"),
    ],
)
def test_the_error_for_damaged_lines_has_the_reason(area, why):
    head = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, 0, 0, len(area))
    with raises("gpu.object-damaged", ProgramError) as caught:
        btf.parse(assembled(U32), head + area)
    assert why in caught.value.why


def mutated(data, edits):
    changed = bytearray(data)
    for place, value in edits:
        at = int(place * len(changed))
        changed[at : at + len(value)] = value
    return bytes(changed[: len(data)])


WORDS = st.one_of(
    st.binary(min_size=1, max_size=1),
    st.sampled_from([0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 0x0F000001, 0x84000002]).map(lambda word: struct.pack("<I", word)),
)
EDITS = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), WORDS), min_size=1, max_size=6)


@given(edits=EDITS, extended=EDITS | st.none(), end=st.floats(0, 1) | st.none())
def test_damaged_btf_gives_a_program_error_or_a_result(everything, edits, extended, end):
    data, lines = everything
    data = mutated(data, edits)
    if end is not None:
        data = data[: int(end * len(data))]
    try:
        found = btf.parse(data, mutated(lines, extended) if extended else lines)
        btf_layouts.declared_maps(found)
        for section in (".rodata", ".data", ".bss"):
            btf_layouts.variables(found, section, 20)
    except ProgramError:
        return
    for number in range(len(found.types)):
        try:
            layout = btf_layouts.layout(found, number, "value")
        except ProgramError:
            continue
        assert all(0 <= field.offset <= field.offset + field.size <= layout.size for field in layout.fields)
        assert len({field.name for field in layout.fields}) == len(layout.fields)

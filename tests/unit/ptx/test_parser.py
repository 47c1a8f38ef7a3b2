"""Parsing PTX: nothing is lost, and every part is parsed correctly."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_magic.errors import ProgramError
from accel_magic.gpu.inject import parse, write
from accel_magic.ptx.ptx_model import (
    Address,
    Declaration,
    Directive,
    Group,
    Immediate,
    Instruction,
    Label,
    Name,
    Negated,
    Pair,
    Predicate,
    Scope,
    SymbolValue,
    Vector,
    instructions,
    parse_operands,
    walk,
)
from tests.support.errors import raises

HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"


def body(text):
    (function,) = parse(f"{HEADER}.entry k()\n{{\n{text}\n}}").functions
    return function.body.items


def only(text):
    (instruction,) = body(text)
    return instruction


def operand(text):
    (one,) = parse_operands(text)
    return one


def test_every_sample_is_written_back_unchanged(ptx):
    assert len(ptx.samples) >= 7
    for name in ptx.samples:
        text = ptx.sample(name)
        assert write(parse(text)) == text


def test_every_operand_of_every_sample_is_parsed(ptx):
    for name in ptx.samples:
        for function in parse(ptx.sample(name)).functions:
            for instruction in instructions(function.body):
                text = instruction.operand_text
                assert bool(instruction.operands) == bool(text)


def test_positions_are_correct_and_only_whitespace_and_comments_are_between_parts(ptx):
    for name in ptx.samples:
        module = parse(ptx.sample(name))
        rest = list(module.text)
        for function in module.functions:
            for item in walk(function.body):
                if isinstance(item, Scope):
                    assert module.text[item.start] == "{"
                    assert module.text[item.end - 1] == "}"
                    rest[item.start] = rest[item.end - 1] = ""
                    continue
                assert module.text.count("\n", 0, item.start) + 1 == item.line
                rest[item.start : item.end] = [""] * (item.end - item.start)
            left = "".join(rest[function.body.start + 1 : function.body.end - 1])
            assert re.sub(r"//[^\n]*|/\*.*?\*/", "", left, flags=re.DOTALL).strip() == ""


def test_compiled_code_has_one_instruction_per_semicolon_outside_directives(ptx):
    text = ptx.sample("triton_matmul_sm80")
    code = text[text.index("{") : text.index(".file")]
    directives = re.findall(r"^\s*\.(?!loc).*;", code, re.MULTILINE)
    (kernel,) = parse(text).kernels
    assert len(list(instructions(kernel.body))) == code.count(";") - len(directives)


def test_an_instruction_has_guard_opcode_operands_line_and_text():
    text = "  @!%p1  ld.global.v4.f32\t{%f1, %f2, _, %f4}, [%rd1+-16];"
    found = only(text)
    assert found.opcode == ("ld", "global", "v4", "f32")
    assert found.name == "ld.global.v4.f32"
    assert found.predicate == Predicate("%p1", negated=True)
    assert found.operands == (
        Vector((Name("%f1"), Name("%f2"), Name("_"), Name("%f4"))),
        Address(Name("%rd1"), -16),
    )
    assert found.line == 6


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%r1", Name("%r1")),
        ("%tid.x", Name("%tid", "x")),
        ("$L__BB0_1", Name("$L__BB0_1")),
        ("7", Immediate("7", 7)),
        ("-1", Immediate("-1", -1)),
        ("0xffU", Immediate("0xffU", 255)),
        ("0b101", Immediate("0b101", 5)),
        ("017", Immediate("017", 15)),
        ("0", Immediate("0", 0)),
        ("0f3F800000", Immediate("0f3F800000", 1.0, 0x3F800000)),
        ("0dC000000000000000", Immediate("0dC000000000000000", -2.0, 0xC000000000000000)),
        ("-0f3F800000", Immediate("-0f3F800000", -1.0, 0xBF800000)),
        ("1.5e3", Immediate("1.5e3", 1500.0)),
        ("2e-1", Immediate("2e-1", 0.2)),
        ("(1<<4)|2", Immediate("(1<<4)|2", 18)),
        ("2+3*4-1", Immediate("2+3*4-1", 13)),
        ("~0", Immediate("~0", -1)),
        ("[x]", Address(Name("x"))),
        ("[ %rd1 + 0 ]", Address(Name("%rd1"))),
        ("[%rd1-8]", Address(Name("%rd1"), -8)),
        ("[x+4+8]", Address(Name("x"), 12)),
        ("[64]", Address(Immediate("64", 64))),
        ("[%rd1, {%r1, %r2}]", Address(Name("%rd1"), 0, (Vector((Name("%r1"), Name("%r2"))),))),
        ("%p1|%p2", Pair(Name("%p1"), Name("%p2"))),
        ("!%p1", Negated(Name("%p1"))),
        ("-%f1", Negated(Name("%f1"), "-")),
        ("(a, b)", Group((Name("a"), Name("b")))),
        ("()", Group(())),
        ("generic(x)+4", SymbolValue("x", 4, generic=True)),
        ("x+4", SymbolValue("x", 4)),
        ("0xFF00(x)", SymbolValue("x", mask=0xFF00)),
        ("{{1, 2}, {3}}", Vector((Vector((Immediate("1", 1), Immediate("2", 2))), Vector((Immediate("3", 3),))))),
    ],
)
def test_operands_are_parsed_by_their_form(text, expected):
    assert operand(text) == expected


def test_nan_and_infinity_are_parsed_with_their_bits():
    nan = operand("0f7FC00001")
    assert math.isnan(nan.value)
    assert nan.bits == 0x7FC00001
    assert operand("0f7F800000").value == math.inf


def test_a_call_with_results_arguments_and_prototype_is_parsed():
    found = only("call.uni (retval0), \n\tf, \n\t(\n\tparam0, \n\tparam1\n\t), p;")
    assert found.operands == (
        Group((Name("retval0"),)),
        Name("f"),
        Group((Name("param0"), Name("param1"))),
        Name("p"),
    )


def test_comments_within_instructions_are_ignored():
    found = only("st /* to; { */ .global.u32 [%rd1], // }\n %r1;")
    assert found.opcode == ("st", "global", "u32")
    assert found.operands == (Address(Name("%rd1")), Name("%r1"))


def test_unknown_opcodes_are_kept():
    found = only("frob.sync::odd.b128 {%r1}, [%rd1], 0x1;")
    assert found.opcode == ("frob", "sync::odd", "b128")


def test_labels_scopes_directives_and_declarations_are_distinguished():
    text = '.pragma "nounroll; {";\n$L1: L2:\n{ .reg .pred p, %q<3>; }\nts: .branchtargets $L1, L2;'
    pragma, first, second, scope, label, targets = body(text)
    assert isinstance(pragma, Directive)
    assert [first.name, second.name, label.name] == ["$L1", "L2", "ts"]
    assert isinstance(label, Label)
    (declared,) = scope.items
    assert [(one.name, one.count) for one in declared.names] == [("p", None), ("%q", 3)]
    assert (declared.space, declared.type) == ("reg", "pred")
    assert targets.name == ".branchtargets"


def test_variables_have_space_type_alignment_size_and_value(ptx):
    variables = {one.names[0].name: one for one in parse(ptx.sample("forms")).variables}
    dynamic, numbers, doubles = variables["dynamic"], variables["numbers"], variables["doubles"]
    assert (dynamic.linkage, dynamic.space, dynamic.align, dynamic.type) == ("extern", "shared", 16, "b8")
    assert dynamic.names[0].dimensions == (None,)
    assert numbers.names[0].dimensions == (2, 3)
    assert [[one.value for one in row.items] for row in numbers.names[0].initial.items] == [[1, 2, 3], [8, -5, 18]]
    assert [one.value for one in doubles.names[0].initial.items] == [1.0, 1.0]
    assert variables["pointers"].names[0].initial.items == (SymbolValue("numbers", 4, generic=True), Name("floats"))
    assert (variables["w"].linkage, variables["attributed"].linkage) == ("weak", "visible")


def test_functions_have_parameters_results_and_directives(ptx):
    module = parse(ptx.sample("forms"))
    (kernel,) = module.kernels
    pointer, number, packed = kernel.parameters
    assert (pointer.type, pointer.pointer, pointer.pointer_align) == ("u64", "global", 4)
    assert (number.type, number.dimensions) == ("u32", ())
    assert (packed.align, packed.type, packed.dimensions) == (4, "b8", (12,))
    assert kernel.directives == (".maxntid 128, 1, 1", ".minnctapersm 2", '.pragma "nounroll";')
    assert [one.name for one in module.functions] == ["leaves", "twice", "thrice", "forms"]
    assert [one.name for one in module.functions[1].results] == ["out"]
    assert module.functions[0].directives == (".noreturn",)
    assert (module.version, module.target, module.address_size) == ((8, 0), ("sm_90",), 64)


def test_a_vector_of_registers_is_declared():
    (declared,) = body(".reg .v2 .f32 pair;")
    assert isinstance(declared, Declaration)
    assert (declared.vector, declared.type) == (2, "f32")


def test_instructions_have_source_lines_and_inlining_locations(ptx):
    kernels = {one.name: one for one in parse(ptx.sample("kernels")).kernels}
    (atomic,) = [one for one in instructions(kernels["jumps"].body) if one.opcode[0] == "atom"]
    lines = ptx.source_lines("kernels.cu")
    assert atomic.location.file.endswith("device_atomic_functions.hpp")
    assert atomic.location.inlined_at.file == "kernels.cu"
    assert "atomicAdd(out + n, 1)" in lines[atomic.location.inlined_at.line - 1]
    stores = [one for one in instructions(kernels["vector_add"].body) if one.opcode[0] == "st"]
    assert [lines[one.location.line - 1].strip() for one in stores] == ["c[i] = a[i] + b[i];"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("no PTX at all", 1),
        (HEADER + ".entry k()\n{\n\tmov.u32 %r1, %r2;\n", 5),
        (HEADER + ".entry k()\n{\n\tmov.u32 %r1, %r2\n", 6),
        (HEADER + ".entry k()\n{\n\t123;\n}", 6),
        (HEADER + ".entry k(.param .u32)\n{\n}", 4),
        (HEADER + ".global .u32;", 4),
        (HEADER + ".loc one two\n", 4),
    ],
)
def test_invalid_ptx_is_rejected_with_its_line(text, line):
    with raises("gpu.ptx.unreadable", ProgramError, match=rf"^PTX line {line} "):
        parse(text)


@pytest.mark.parametrize("text", ["[%rd1", "{%r1", "%r1 %r2", "1 +", "[", "?", "0xFF(1)", "(1"])
def test_invalid_operands_are_rejected(text):
    with raises("gpu.ptx.unreadable", ProgramError, match="PTX line 9 "):
        parse_operands(text, 9)


BLANK = st.sampled_from([" ", "\t", "\n", " // x; {\n", "/* } ; */", "  "])
NAME = st.sampled_from(["%r1", "%rd22", "x", "$L_1", "_", "%tid.x", "%p", "a$b", "_Z3fooPf"])
NUMBER = st.sampled_from(["0", "-7", "0x1F", "0b11", "07", "0f00000000", "0dFFF0000000000000", "1.5", "(2+3)*4"])
SIMPLE = st.one_of(NAME, NUMBER)
OPERAND = st.one_of(
    SIMPLE,
    st.lists(SIMPLE, min_size=1, max_size=4).map(lambda items: "{" + ", ".join(items) + "}"),
    st.tuples(NAME, st.sampled_from(["", "+4", "+-4", " + 0"])).map(lambda pair: f"[{pair[0].split('.')[0]}{pair[1]}]"),
    NAME.map("!{}".format),
    st.lists(NAME, max_size=3).map(lambda items: "(" + ",".join(items) + ")"),
)
OPCODE = st.sampled_from(
    ["mov.u32", "ld.global.v4.f32", "bar.sync", "cp.async.bulk.shared::cluster.global", "ret", "new"]
)
GUARD = st.sampled_from(["", "@%p1", "@!p"])


@st.composite
def statements(draw, depth=2):
    kind = draw(st.sampled_from(["instruction"] * 5 + ["label", "declaration", "directive"] + ["scope"] * (depth > 0)))
    blank = draw(BLANK)
    if kind == "scope":
        inner = draw(st.lists(statements(depth=depth - 1), max_size=4))
        return "{" + blank + "".join(text for text, _ in inner) + "}" + blank, ("scope", [what for _, what in inner])
    if kind == "label":
        return f"$L{draw(st.integers(0, 99))}{draw(st.sampled_from(['', ' ']))}:{blank}", ("label", None)
    if kind == "declaration":
        return f".reg .b32 %r<{draw(st.integers(1, 9))}>, x;{blank}", ("declaration", None)
    if kind == "directive":
        return draw(st.sampled_from(['.pragma "no; {";', ".loc 1 2 3\n", ".branchtargets a, b;"])) + blank, (
            "directive",
            None,
        )
    guard, opcode = draw(GUARD), draw(OPCODE)
    operands = draw(st.lists(OPERAND, max_size=4))
    between = draw(BLANK) if operands else ""
    text = f"{guard}{' ' if guard else ''}{opcode}{between}{', '.join(operands)};{blank}"
    return text, ("instruction", (opcode, bool(guard), len(operands)))


def shape(items):
    for item in items:
        if isinstance(item, Scope):
            yield "scope", list(shape(item.items))
        elif isinstance(item, Instruction):
            yield "instruction", (item.name, item.predicate is not None, len(item.operands))
        else:
            yield type(item).__name__.lower(), None


@given(st.lists(statements(), max_size=12), BLANK)
def test_generated_bodies_are_parsed_correctly_and_written_back(made, blank):
    text = f"{HEADER}.visible{blank}.entry k(){blank}{{{blank}" + "".join(text for text, _ in made) + "}" + blank
    module = parse(text)
    assert write(module) == text
    assert list(shape(module.functions[0].body.items)) == [what for _, what in made]

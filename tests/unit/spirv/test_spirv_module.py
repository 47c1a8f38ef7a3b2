"""Modules are read and written without a change, and what is no valid SPIR-V is a typed error."""

import random
import struct

import pytest

from accel_magic.errors import AccelMagicError
from accel_magic.spirv.grammar import opcodes, shapes
from accel_magic.spirv.spirv_module import SpirvModule, id_places, made, string, words_of
from accel_magic.spirv.text import text_of
from tests.support import spirv_modules
from tests.support.errors import raises

HEADER = (0x07230203, 0x00010000, 0, 10, 0)
MODEL = (3 << 16 | opcodes()["MemoryModel"], 2, 2)


def module(*words, header=HEADER):
    return struct.pack(f"<{len(header) + len(words)}I", *header, *words)


@pytest.mark.component
@pytest.mark.parametrize("producer", spirv_modules.PRODUCERS)
def test_what_is_read_is_written_without_a_change(producer):
    code = spirv_modules.PRODUCERS[producer]()
    assert SpirvModule.read(code).write() == code


@pytest.mark.component
@pytest.mark.parametrize("producer", spirv_modules.PRODUCERS)
def test_every_id_of_every_instruction_is_defined(producer):
    code = SpirvModule.read(spirv_modules.PRODUCERS[producer]())
    wide, defined = code.literal_words(), {one.result for one in code.instructions()}
    own = {one.words[0] for one in code.sections["import"] if string(one.words[1:]) == "OpenCL.std"}
    for one in code.instructions():
        if one.name == "ExtInst" and one.words[2] not in own:
            continue  # debug information has numbers there too
        places = id_places(one, wide.get(one.words[0], 1) if one.name == "Switch" else 1)
        assert {one.words[at] for at in places} <= defined, one.name


@pytest.mark.component
def test_text_has_one_line_per_instruction():
    code = SpirvModule.read(spirv_modules.assembled())
    lines = text_of(code).splitlines()
    assert len(lines) == 2 + len(list(code.instructions()))
    assert lines[0] == "; SPIR-V 1.2"
    assert "OpEntryPoint 6 %" in lines[6]
    assert '"first"' in lines[6]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "gpu.spirv.invalid"),
        (b"\0" * 21, "gpu.spirv.invalid"),
        (b"\0" * 20, "gpu.spirv.invalid"),
        (struct.pack(">5I", *HEADER), "gpu.spirv.unsupported"),
        (module(*MODEL, header=(*HEADER[:3], 1 << 30, 0)), "gpu.spirv.invalid"),
        (module(*MODEL, header=(*HEADER[:3], 0, 0)), "gpu.spirv.invalid"),
        (module(), "gpu.spirv.invalid"),
        (module(*MODEL, 0), "gpu.spirv.invalid"),
        (module(*MODEL, 9 << 16 | 19, 1), "gpu.spirv.invalid"),
        (module(*MODEL, 2 << 16 | 19, 1, 2 << 16 | 19, 1), "gpu.spirv.invalid"),
        (module(*MODEL, 2 << 16 | 19, 99), "gpu.spirv.invalid"),
        (module(*MODEL, 1 << 16 | 19), "gpu.spirv.invalid"),
        (module(*MODEL, 5 << 16 | 54, 1, 2, 0, 3), "gpu.spirv.invalid"),
    ],
    ids=[
        *("empty", "odd", "zeros", "big-endian", "huge-bound", "no-bound", "no-model", "no-length", "too-long"),
        *("twice", "beyond-bound", "no-operand", "no-end"),
    ],
)
def test_damaged_modules_are_typed_errors(data, code):
    with raises(code):
        SpirvModule.read(data)


@pytest.mark.component
@pytest.mark.parametrize("seed", range(4))
def test_random_changes_of_a_module_are_typed_errors_or_other_modules(seed):
    chosen = random.Random(seed)
    original, codes = spirv_modules.by_llvm(), set()
    for _ in range(100):
        data = bytearray(original)
        for _ in range(chosen.randint(1, 4)):
            data[chosen.randrange(len(data))] = chosen.randrange(256)
        data = bytes(data[: chosen.choice((len(data), 4 * chosen.randrange(len(data) // 4)))])
        try:
            read = SpirvModule.read(data)
            text_of(read)
            assert SpirvModule.read(read.write()).write() == read.write()
        except AccelMagicError as error:
            codes.add(error.code)
    assert codes <= {"gpu.spirv.invalid", "gpu.spirv.unsupported"}
    assert codes


def test_types_and_constants_are_added_once():
    code = SpirvModule.read(module(*MODEL))
    assert code.integer(32) == code.integer(32) != code.integer(64)
    assert code.constant(64, 1 << 40) == code.constant(64, 1 << 40) != code.constant(32, 0)
    assert [one.name for one in code.sections["type"]] == ["TypeInt", "TypeInt", "Constant", "Constant"]
    assert code.sections["type"][2].words[2:] == [0, 1 << 8]
    assert SpirvModule.read(code.write()).write() == code.write()


@pytest.mark.parametrize("text", ["", "abc", "abcd", "OpenCL.std", "ü"])
def test_strings_end_with_a_zero_and_fill_words(text):
    assert string(words_of(text)) == text
    assert len(words_of(text)) == len(text.encode()) // 4 + 1


def test_the_grammar_knows_what_it_is_asked_for():
    assert shapes()[opcodes()["Load"]].operands == (("t", ""), ("r", ""), ("i", ""), ("m", "?"))
    assert id_places(made("Load", 1, 2, 3, 2, 4)) == [0, 1, 2]  # 2: aligned, to 4 bytes
    assert id_places(made("Store", 1, 2, 2 | 16, 4, 7)) == [0, 1, 4]  # and made visible, in the scope 7
    assert id_places(made("Switch", 1, 2, 0, 5, 9, 6)) == [0, 1, 3, 5]
    assert id_places(made("Switch", 1, 2, 0, 0, 9), 2) == [0, 1, 4]
    assert id_places(made("SpecConstantOp", 1, 2, opcodes()["CompositeExtract"], 3, 0)) == [0, 1, 3]
    with raises("gpu.spirv.invalid"):
        id_places(made("ExtInst", 1, 2, 3))

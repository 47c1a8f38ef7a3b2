"""Programs with structural faults are rejected before any path is followed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from accel_magic.errors import ProgramError
from accel_magic.gpu.program import isa
from accel_magic.gpu.program.helpers import MapType
from accel_magic.gpu.program.isa import Alu, DataReference, EbpfInstruction, Jump, MapReference
from accel_magic.gpu.program.object_model import EbpfFunction, EbpfProgram, MapSpec
from accel_magic.gpu.verifier import findings, verify
from accel_magic.ptx.ptx_model import SourceLine

ZERO = EbpfInstruction(isa.ALU64 | Alu.MOV)
EXIT = EbpfInstruction(isa.EXIT)
MAPS = (MapSpec("items", MapType.ARRAY, 4, 8, 1), MapSpec("jumps", 3, 4, 4, 1))


def function(*code, name="judged"):
    lines = tuple(SourceLine("a.bpf.c", slot + 10, text=f"\tline {slot};") for slot in range(len(code)))
    return EbpfFunction(name, code, lines)


def program(*functions):
    return EbpfProgram("judged", "gpu/exit", functions)


def refused(*functions):
    with pytest.raises(ProgramError) as caught:
        verify(program(*functions), MAPS)
    return caught.value


def rule_of(*code):
    return refused(function(*code, ZERO, EXIT)).why.rsplit("[", 1)[1].rstrip("]")


def test_the_error_names_program_line_text_rule_and_fix():
    error = refused(function(EbpfInstruction(isa.CALL, imm=7), ZERO, EXIT))
    assert error.what == "the verifier rejects judged at a.bpf.c:10: `line 0;`"
    assert error.why == "the GPU has no `bpf_get_prandom_u32` [unknown-helper]"
    assert error.fix == findings.RULES["unknown-helper"].fix
    assert error.code == "gpu.verifier.unknown-helper"


def test_without_line_information_the_error_names_the_instruction():
    bare = EbpfFunction("judged", (ZERO, EbpfInstruction(isa.CALL, imm=7), EXIT), (None, None, None))
    assert refused(bare).what == "the verifier rejects judged at judged, instruction 1:"


def test_one_error_names_all_findings():
    error = refused(function(EbpfInstruction(0xFF), EbpfInstruction(isa.CALL, imm=7), ZERO, EXIT))
    assert "[unknown-opcode]\n       a.bpf.c:11: the GPU has no `bpf_get_prandom_u32` [unknown-helper]" in error.why


@pytest.mark.parametrize(
    "instruction",
    [
        EbpfInstruction(0xFF),
        EbpfInstruction(isa.CALLX),
        EbpfInstruction(isa.ALU64 | 0xE0),
        EbpfInstruction(isa.ALU64 | Alu.ADD, offset=1),
        EbpfInstruction(isa.ALU64 | Alu.ADD | isa.SOURCE_X, imm=1),
        EbpfInstruction(isa.ALU64 | Alu.ADD, src=1),
        EbpfInstruction(isa.ALU64 | Alu.DIV, offset=2, imm=1),
        EbpfInstruction(isa.ALU | Alu.MOV | isa.SOURCE_X, offset=32),
        EbpfInstruction(isa.ALU64 | Alu.NEG, imm=1),
        EbpfInstruction(isa.ALU64 | Alu.END | isa.SOURCE_X, imm=16),
        EbpfInstruction(isa.ALU | Alu.END, imm=8),
        EbpfInstruction(isa.LDX | 0x20, 0, 1),
        EbpfInstruction(isa.LDX | isa.MODE_MEMSX | 0x18, 0, 1),
        EbpfInstruction(isa.LD | 0x20, 0, 1),
        EbpfInstruction(isa.ST | isa.MODE_ATOMIC, 10, 0, -8),
        EbpfInstruction(isa.STX | isa.MODE_ATOMIC | 0x10, 10, 0, -8),
        EbpfInstruction(isa.STX | isa.MODE_ATOMIC, 10, 0, -8, imm=0x20),
        EbpfInstruction(isa.JMP | 0xE0),
        EbpfInstruction(isa.JMP32 | 0x80),
        EbpfInstruction(isa.JA, imm=3),
        EbpfInstruction(isa.EXIT, imm=3),
        EbpfInstruction(isa.CALL, src=2),
    ],
    ids=lambda one: f"{one.opcode:#04x}-{one.src}-{one.offset}-{one.imm}",
)
def test_instructions_that_do_not_exist_are_rejected(instruction):
    assert rule_of(instruction) == "unknown-opcode"


@pytest.mark.parametrize(
    "instruction",
    [
        EbpfInstruction(isa.ALU64 | Alu.MOV, 10),
        EbpfInstruction(isa.LDX | isa.MODE_MEM | 0x18, 10, 1),
        EbpfInstruction(isa.ALU64 | Alu.MOV, 11),
        EbpfInstruction(isa.ALU64 | Alu.MOV | isa.SOURCE_X, 1, 12),
    ],
)
def test_writing_r10_and_using_registers_that_do_not_exist_are_rejected(instruction):
    assert rule_of(instruction) == "bad-register"


def test_wide_loads_must_name_maps_that_exist_and_are_supported():
    def wide(reference, src):
        return EbpfInstruction(isa.LD_IMM64, 1, src, reference=reference), None

    assert rule_of(*wide(MapReference("absent"), 1)) == "unknown-map"
    assert rule_of(*wide(DataReference("absent", 0), 2)) == "unknown-map"
    assert rule_of(*wide(MapReference("jumps"), 1)) == "unknown-map"
    assert rule_of(*wide(None, 1)) == "unknown-opcode"


def test_jumps_must_stay_in_the_function_and_off_second_slots():
    assert rule_of(EbpfInstruction(isa.JMP | Jump.JEQ, offset=9)) == "bad-jump"
    assert rule_of(EbpfInstruction(isa.JA, offset=1), EbpfInstruction(isa.LD_IMM64), None) == "bad-jump"
    assert rule_of(EbpfInstruction(isa.CALL, src=isa.CALL_LOCAL, imm=4)) == "bad-jump"


def test_code_must_not_run_off_its_end():
    assert "falls-off-the-end" in refused(function(ZERO, EbpfInstruction(isa.JMP | Jump.JEQ, offset=-2))).why


def test_a_function_that_calls_itself_through_another_is_rejected():
    call = EbpfInstruction(isa.CALL, src=isa.CALL_LOCAL, imm=1)
    error = refused(
        function(call, ZERO, EXIT),
        function(replace(call, imm=2), EXIT, name="one"),
        function(call, EXIT, name="other"),
    )
    assert error.why.startswith("`one` calls itself here, directly or through others [recursion]")
    assert "`other` calls itself" in error.why
    assert "`judged` calls itself" not in error.why


def test_the_number_of_instructions_is_limited(monkeypatch):
    monkeypatch.setattr("accel_magic.gpu.verifier.shape.MOST_INSTRUCTIONS", 50)
    assert "too-many-instructions" in refused(function(*[ZERO] * 50, EXIT)).why
    assert verify(program(function(*[ZERO] * 49, EXIT)), MAPS).findings == ()


def test_unreachable_code_is_a_note_and_is_not_rejected():
    verdict = verify(program(function(ZERO, EXIT, ZERO, EXIT)), MAPS)
    assert [(found.rule, found.severity, found.slot) for found in verdict.findings] == [("unreachable-code", "note", 2)]


def test_mode_off_checks_nothing():
    assert verify(program(function(EbpfInstruction(0xFF))), MAPS, mode="off").instructions == 1


def test_every_rule_has_a_meaning_and_a_fix():
    for name, rule in findings.RULES.items():
        assert rule.id == name
        assert rule.meaning
        assert rule.fix
        assert not rule.meaning.endswith(".")

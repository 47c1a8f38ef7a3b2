"""Loops that end in time are followed to their end; others are reported, and their bodies are checked too."""

from __future__ import annotations

import pytest

from accel_magic.errors import ProgramError
from accel_magic.gpu.program import isa
from accel_magic.gpu.program.helpers import MapType
from accel_magic.gpu.program.isa import Alu, EbpfInstruction, Jump, MapReference
from accel_magic.gpu.program.object_model import EbpfFunction, EbpfProgram, MapSpec
from accel_magic.gpu.verifier import safety, verify
from tests.support.errors import raises

MAPS = (MapSpec("items", MapType.GPU_ARRAY, 4, 64, 8),)
EXIT = EbpfInstruction(isa.EXIT)
STORE = isa.STX | isa.MODE_MEM | 0x18
LOAD = isa.LDX | isa.MODE_MEM | 0x18


def move(dst, imm=0, *, src=None):
    if src is None:
        return EbpfInstruction(isa.ALU64 | Alu.MOV, dst, imm=imm)
    return EbpfInstruction(isa.ALU64 | Alu.MOV | isa.SOURCE_X, dst, src)


def add(dst, imm):
    return EbpfInstruction(isa.ALU64 | Alu.ADD, dst, imm=imm)


def when(condition, dst, imm, offset):
    return EbpfInstruction(isa.JMP | condition, dst, offset=offset, imm=imm)


def call(helper):
    return EbpfInstruction(isa.CALL, imm=helper)


def jump(offset):
    return EbpfInstruction(isa.JA, offset=offset)


def rules(*code, others=()):
    """Rules that a program breaks, each with its slot."""
    functions = [EbpfFunction(f"f{place}", tuple(one), (None,) * len(one)) for place, one in enumerate((code, *others))]
    result = safety.analyse(EbpfProgram("judged", "gpu/exit", tuple(functions)), MAPS)
    return [(found.rule, found.slot) for found in result.findings if found.severity == "error"]


LOOKUP = (
    EbpfInstruction(isa.ST | isa.MODE_MEM, 10, offset=-4),
    EbpfInstruction(isa.LD_IMM64, 1, 1, reference=MapReference("items")),
    None,
    move(2, src=10),
    add(2, -4),
    call(1),
    when(Jump.JNE, 0, 0, 2),
    move(0),
    EXIT,
    move(6, src=0),
)
"""Ten slots that set r6 to a value of 64 bytes."""


@pytest.mark.parametrize("rounds", [1, 63, 64, 65, 2000])
def test_a_loop_with_a_constant_limit_is_followed_to_its_end(rounds):
    assert rules(move(0), add(0, 1), when(Jump.JLT, 0, rounds, -2), EXIT) == []


def test_a_loop_with_too_many_iterations_is_unbounded(monkeypatch):
    monkeypatch.setattr("accel_magic.gpu.verifier.explore.MOST_STEPS", 5000)
    assert rules(move(0), add(0, 1), when(Jump.JLT, 0, 2400, -2), EXIT) == []
    assert rules(move(0), add(0, 1), when(Jump.JLT, 0, 2600, -2), EXIT) == [("unbounded-loop", 2)]


def test_a_loop_that_changes_nothing_is_unbounded():
    assert rules(move(0), jump(-1), EXIT) == [("unbounded-loop", 1)]
    assert rules(call(5), when(Jump.JNE, 0, 0, -2), EXIT) == [("unbounded-loop", 1)]


def test_a_loop_with_a_limit_known_only_at_run_time_is_unbounded():
    loop = (call(5), move(7, src=0), move(0), add(0, 1), EbpfInstruction(isa.JMP | Jump.JLT | isa.SOURCE_X, 0, 7, -2))
    assert rules(*loop, EXIT) == [("unbounded-loop", 4)]


def test_a_small_limit_known_only_at_run_time_is_accepted():
    limited = (call(5), move(7, src=0), EbpfInstruction(isa.ALU64 | Alu.AND, 7, imm=255), move(0), add(0, 1))
    assert rules(*limited, EbpfInstruction(isa.JMP | Jump.JLT | isa.SOURCE_X, 0, 7, -2), EXIT) == []


def test_an_unbounded_outer_loop_is_reported_instead_of_the_inner_one():
    outer = (call(5), move(7, src=0), move(8), move(0), add(0, 1), when(Jump.JLT, 0, 5, -2), add(8, 1))
    assert rules(*outer, EbpfInstruction(isa.JMP | Jump.JLT | isa.SOURCE_X, 8, 7, -5), EXIT) == [("unbounded-loop", 7)]


def test_an_unbounded_inner_loop_is_reported_instead_of_the_outer_one():
    inner = (move(8), call(5), move(7, src=0), move(0), add(0, 1))
    back = (EbpfInstruction(isa.JMP | Jump.JLT | isa.SOURCE_X, 0, 7, -2), add(8, 1), when(Jump.JLT, 8, 3, -7))
    assert rules(*inner, *back, EXIT) == [("unbounded-loop", 5)]


def test_an_unbounded_loop_around_a_call_is_found():
    local = EbpfInstruction(isa.CALL, src=isa.CALL_LOCAL, imm=1)
    assert rules(move(7), local, jump(-2), EXIT, others=[(move(0), EXIT)]) == [("unbounded-loop", 2)]


def test_an_index_that_grows_to_an_unknown_limit_goes_out_of_bounds():
    index = (
        call(5),
        move(7, src=0),
        move(8),
        move(1, src=6),
        EbpfInstruction(isa.ALU64 | Alu.ADD | isa.SOURCE_X, 1, 8),
    )
    bad = (*LOOKUP, *index, EbpfInstruction(STORE, 1, 8, 0), add(8, 8))
    back = EbpfInstruction(isa.JMP | Jump.JLT | isa.SOURCE_X, 8, 7, -5)
    assert rules(*bad, back, move(0), EXIT) == [("out-of-bounds-value", 15)]


def test_an_unbounded_loop_may_access_memory_at_an_index_that_is_masked_in_each_iteration():
    index = (call(5), move(7, src=0), move(8), EbpfInstruction(isa.ALU64 | Alu.AND, 8, imm=56), move(1, src=6))
    good = (*LOOKUP, *index, EbpfInstruction(isa.ALU64 | Alu.ADD | isa.SOURCE_X, 1, 8), EbpfInstruction(STORE, 1, 8, 0))
    back = EbpfInstruction(isa.JMP | Jump.JLT | isa.SOURCE_X, 8, 7, -6)
    assert rules(*good, add(8, 8), back, move(0), EXIT) == [("unbounded-loop", 18)]


def test_code_after_an_unbounded_loop_is_checked_too():
    assert rules(call(5), when(Jump.JNE, 0, 0, -2), EbpfInstruction(LOAD, 0, 10, -8), EXIT) == [
        ("unbounded-loop", 1),
        ("uninitialised-stack", 2),
    ]


def test_a_record_reserved_in_each_iteration_of_an_endless_loop_is_a_leak():
    ring = MapSpec("ring", MapType.RINGBUF, 0, 0, 4096)
    reserve = (
        EbpfInstruction(isa.LD_IMM64, 1, 1, reference=MapReference("ring")),
        None,
        move(2, 8),
        move(3),
        call(131),
        when(Jump.JEQ, 0, 0, -6),
        jump(-7),
    )
    function = EbpfFunction("f", reserve, (None,) * len(reserve))
    result = safety.analyse(EbpfProgram("judged", "gpu/exit", (function,)), (ring,))
    assert "record-leak" in {found.rule for found in result.findings}


def test_an_access_out_of_bounds_only_in_the_last_iteration_is_rejected():
    def walk(rounds):
        body = (move(8), move(1, src=6), EbpfInstruction(STORE, 1, 8, 0), add(1, 8), add(8, 1))
        return rules(*LOOKUP, *body, when(Jump.JLT, 8, rounds, -4), move(0), EXIT)

    assert walk(8) == []
    assert walk(9) == [("out-of-bounds-value", 12)]


def test_many_independent_conditions_do_not_multiply_the_paths():
    code = [move(7), call(5)]
    for bit in range(30):
        code += [when(Jump.JSET, 0, 1 << bit, 1), jump(1), EbpfInstruction(isa.ALU64 | Alu.OR, 7, imm=1 << bit)]
    assert rules(*code, move(0), EXIT) == []


def test_a_program_of_500_instructions_with_35_branches_takes_few_steps(monkeypatch):
    monkeypatch.setattr("accel_magic.gpu.verifier.explore.MOST_STEPS", 2000)  # paths that join count once
    code = [*LOOKUP]
    for part in range(35):
        code += [
            call(5),
            move(7, src=0),
            EbpfInstruction(STORE, 10, 7, -16),
            when(Jump.JGT, 7, 56, 4),
            move(1, src=6),
            EbpfInstruction(isa.ALU64 | Alu.ADD | isa.SOURCE_X, 1, 7),
            EbpfInstruction(LOAD, 8, 1, 0),
            EbpfInstruction(STORE, 10, 8, -24 - 8 * (part % 8)),
            when(Jump.JSET, 7, 1, 2),
            EbpfInstruction(LOAD, 8, 10, -16),
            EbpfInstruction(STORE, 6, 8, 8 * (part % 8)),
            move(8, part),
            add(8, 3),
            EbpfInstruction(STORE, 6, 8, 0),
        ]
    code += [move(0), EXIT]
    function = EbpfFunction("f", tuple(code), (None,) * len(code))
    assert len(code) == 502
    assert safety.analyse(EbpfProgram("judged", "gpu/exit", (function,)), MAPS).findings == ()


def test_warn_mode_still_rejects_a_program_that_is_too_complex(monkeypatch):
    monkeypatch.setattr("accel_magic.gpu.verifier.explore.MOST_STEPS", 50)
    straight = (*[move(0)] * 60, EXIT)
    program = EbpfProgram("judged", "gpu/exit", (EbpfFunction("f", straight, (None,) * len(straight)),))
    with raises("gpu.verifier.too-complex", ProgramError):
        verify(program, MAPS, mode="warn")

"""Facts about registers, stack and accesses that the memory analysis provides to other analyses."""

from __future__ import annotations

from accel_magic.gpu.program import isa
from accel_magic.gpu.program.helpers import MapType
from accel_magic.gpu.program.isa import Alu, DataReference, EbpfInstruction, Jump, MapReference
from accel_magic.gpu.program.object_model import EbpfFunction, EbpfProgram, MapSpec
from accel_magic.gpu.verifier import safety
from accel_magic.gpu.verifier.memory_facts import RegisterFact

MAPS = (
    MapSpec("items", MapType.GPU_ARRAY, 4, 64, 8),
    MapSpec("odd", MapType.GPU_ARRAY, 4, 12, 8),
    MapSpec("hashed", MapType.GPU_HASH, 4, 12, 8),
    MapSpec("ring", MapType.RINGBUF, 0, 0, 4096),
    MapSpec(".bss", MapType.ARRAY, 4, 32, 1),
)
EXIT = EbpfInstruction(isa.EXIT)
STORE = isa.STX | isa.MODE_MEM | 0x18
LOAD = isa.LDX | isa.MODE_MEM | 0x18


def move(dst, imm=0, *, src=None):
    if src is None:
        return EbpfInstruction(isa.ALU64 | Alu.MOV, dst, imm=imm)
    return EbpfInstruction(isa.ALU64 | Alu.MOV | isa.SOURCE_X, dst, src)


def add(dst, imm):
    return EbpfInstruction(isa.ALU64 | Alu.ADD, dst, imm=imm)


def lookup(name):
    """Nine slots that set r0 to a value that is not null."""
    return (
        EbpfInstruction(isa.ST | isa.MODE_MEM, 10, offset=-4, imm=3),
        EbpfInstruction(isa.LD_IMM64, 1, 1, reference=MapReference(name)),
        None,
        move(2, src=10),
        add(2, -4),
        EbpfInstruction(isa.CALL, imm=1),
        EbpfInstruction(isa.JMP | Jump.JNE, 0, offset=2),
        move(0),
        EXIT,
    )


def analyse(*code, others=()):
    functions = [EbpfFunction(f"f{place}", tuple(one), (None,) * len(one)) for place, one in enumerate((code, *others))]
    return safety.analyse(EbpfProgram("judged", "gpu/exit", tuple(functions)), MAPS)


def broken(*code):
    return [found.rule for found in analyse(*code).findings if found.severity == "error"]


def test_registers_are_known_by_kind_map_and_range():
    result = analyse(*lookup("items"), add(0, 8), EbpfInstruction(LOAD, 0, 0, 8), EXIT)
    assert result.findings == ()
    registers = result.facts.registers
    assert registers[0, 0][1] == RegisterFact()  # the context is not read later
    assert registers[0, 3][1] == RegisterFact("map", "items")
    assert registers[0, 5][2] == RegisterFact("stack", low=-4, high=-4)
    assert registers[0, 6][0] == RegisterFact("value_or_null", "items")
    assert registers[0, 9][0] == RegisterFact("value", "items")
    assert registers[0, 10][0] == RegisterFact("value", "items", 8, 8)
    assert registers[0, 11][0] == RegisterFact("scalar", "", -(1 << 63), (1 << 63) - 1)
    assert registers[0, 11][10] == RegisterFact("stack")
    assert result.facts.pointers == {(0, 0): "stack", (0, 10): "map"}
    assert result.facts.stack_bytes == 8


def test_facts_are_joined_over_paths():
    code = (
        EbpfInstruction(isa.LDX | isa.MODE_MEM, 6, 1, 8),
        move(0, 5),
        EbpfInstruction(isa.JMP | Jump.JGT, 6, offset=1, imm=9),
        move(0, 2),
        EbpfInstruction(STORE, 10, 0, -8),
        EbpfInstruction(isa.LDX | isa.MODE_MEM, 0, 10, -8),
        EXIT,
    )
    facts = analyse(*code).facts
    assert facts.registers[0, 0][1] == RegisterFact("context")
    assert facts.registers[0, 2][6] == RegisterFact("scalar", "", 0, 0xFFFFFFFF)
    assert (facts.registers[0, 4][0].low, facts.registers[0, 4][0].high) in ((2, 5), (-(1 << 63), (1 << 63) - 1))
    assert facts.pointers[0, 0] == "context"


def test_stack_facts_describe_the_contents_of_each_piece():
    code = (*lookup("items"), EbpfInstruction(STORE, 10, 0, -16), EbpfInstruction(LOAD, 6, 10, -16), move(0), EXIT)
    facts = analyse(*code).facts
    assert facts.stack[0, 10] == {
        -16: RegisterFact("value", "items"),
        -4: RegisterFact("scalar", "", 3, 3),
    }


def test_a_pointer_to_the_callers_stack_has_the_caller_as_its_owner():
    code = (
        EbpfInstruction(isa.ST | isa.MODE_MEM | 0x18, 10, offset=-8, imm=7),
        move(1, src=10),
        add(1, -8),
        EbpfInstruction(isa.CALL, src=isa.CALL_LOCAL, imm=1),
        EXIT,
    )
    result = analyse(*code, others=[(EbpfInstruction(LOAD, 0, 1), EXIT)])
    assert result.facts.registers[1, 0][1] == RegisterFact("stack", "", -8, -8, frame=0, depth=1)
    returned = result.facts.registers[0, 4][0]
    assert returned.kind == "scalar"
    assert returned.low <= 7 <= returned.high


def test_an_access_to_the_stack_on_one_path_and_a_map_on_another_has_no_pointer_kind():
    code = (
        EbpfInstruction(isa.ST | isa.MODE_MEM | 0x18, 10, offset=-8, imm=7),
        EbpfInstruction(isa.LDX | isa.MODE_MEM, 6, 1, 8),
        move(2, src=10),
        add(2, -8),
        EbpfInstruction(isa.JMP | Jump.JEQ, 6, offset=2),
        EbpfInstruction(isa.LD_IMM64, 2, 2, reference=DataReference(".bss", 4)),
        None,
        EbpfInstruction(LOAD, 0, 2),
        EXIT,
    )
    result = analyse(*code)
    assert result.findings == ()
    assert (0, 7) not in result.facts.pointers


def test_an_instruction_must_not_read_the_context_on_some_paths_only():
    code = (
        EbpfInstruction(isa.ST | isa.MODE_MEM | 0x18, 10, offset=-8, imm=7),
        EbpfInstruction(isa.LDX | isa.MODE_MEM, 6, 1, 8),
        EbpfInstruction(isa.JMP | Jump.JEQ, 6, offset=2),
        move(1, src=10),
        add(1, -8),
        EbpfInstruction(LOAD, 0, 1),
        EXIT,
    )
    assert broken(*code) == ["mixed-pointers"]


def test_a_64_bit_atomic_on_12_byte_values_is_aligned_only_in_a_hash():
    def atomic(name):
        return broken(*lookup(name), move(1, 1), EbpfInstruction(isa.STX | isa.MODE_ATOMIC | 0x18, 0, 1), move(0), EXIT)

    assert atomic("hashed") == []
    assert atomic("odd") == ["misaligned-atomic"]


def test_part_of_a_spilled_address_cannot_be_read_nor_can_an_overwritten_one():
    spill = (*lookup("items"), EbpfInstruction(STORE, 10, 0, -16))
    half = EbpfInstruction(isa.LDX | isa.MODE_MEM, 1, 10, -16)
    over = EbpfInstruction(isa.ST | isa.MODE_MEM, 10, offset=-16)
    assert broken(*spill, half, move(0), EXIT) == ["pointer-leak"]
    assert broken(*spill, over, EbpfInstruction(LOAD, 1, 10, -16), move(0), EXIT) == ["uninitialised-stack"]
    assert broken(*spill, over, half, move(0), EXIT) == []


def test_a_bounds_check_also_applies_to_copies_of_the_number():
    copies = (
        *lookup("items"),
        move(6, src=0),
        EbpfInstruction(isa.CALL, imm=5),
        move(7, src=0),
        EbpfInstruction(STORE, 10, 0, -16),
        EbpfInstruction(isa.JMP | Jump.JGT, 0, offset=3, imm=56),
        EbpfInstruction(LOAD, 8, 10, -16),
        EbpfInstruction(isa.ALU64 | Alu.ADD | isa.SOURCE_X, 6, 8),
        EbpfInstruction(LOAD, 1, 6),
        move(0),
        EXIT,
    )
    assert broken(*copies) == []
    assert broken(*[one if one != copies[13] else move(1) for one in copies]) == ["out-of-bounds-value"]


def test_a_null_check_applies_only_to_copies_of_the_same_lookup():
    def two(tested):
        return broken(
            *lookup("items"),
            move(6, src=0),
            *lookup("items")[:6],
            move(7, src=0),
            EbpfInstruction(isa.JMP | Jump.JEQ, tested, offset=1),
            EbpfInstruction(LOAD, 1, 7),
            move(0),
            EXIT,
        )

    assert two(7) == two(0) == []
    assert two(6) == ["null-not-checked"]


def byte_at(base, offset):
    return EbpfInstruction(isa.LDX | isa.MODE_MEM | 0x10, 0, base, offset)


def test_the_first_and_last_byte_are_in_bounds_and_their_outer_neighbors_are_not():
    def value(offset):
        return broken(*lookup("odd"), byte_at(0, offset), move(0), EXIT)

    def data(offset):
        wide = EbpfInstruction(isa.LD_IMM64, 1, 2, reference=DataReference(".bss", 30))
        return broken(wide, None, byte_at(1, offset), move(0), EXIT)

    def stack(offset):
        return broken(EbpfInstruction(isa.ST | isa.MODE_MEM | 0x10, 10, offset=offset), move(0), EXIT)

    assert [value(at) for at in (-1, 0, 11, 12)] == [["out-of-bounds-value"], [], [], ["out-of-bounds-value"]]
    assert [data(at) for at in (-31, -30, 1, 2)] == [["out-of-bounds-value"], [], [], ["out-of-bounds-value"]]
    assert [stack(at) for at in (-513, -512, -1, 0)] == [["out-of-bounds-stack"], [], [], ["out-of-bounds-stack"]]


def test_an_atomic_makes_a_known_stack_value_unknown():
    code = (
        *lookup("items"),
        EbpfInstruction(isa.ST | isa.MODE_MEM | 0x18, 10, offset=-16),
        move(1, 800),
        EbpfInstruction(isa.STX | isa.MODE_ATOMIC | 0x18, 10, 1, -16),
        EbpfInstruction(LOAD, 1, 10, -16),
        EbpfInstruction(isa.ALU64 | Alu.ADD | isa.SOURCE_X, 0, 1),
        EbpfInstruction(LOAD, 0, 0),
        EXIT,
    )
    assert broken(*code) == ["out-of-bounds-value"]
    assert broken(*[one for one in code if one is None or one.opcode != isa.STX | isa.MODE_ATOMIC | 0x18]) == []


def test_a_null_lookup_result_is_the_number_zero():
    code = (*lookup("items")[:6], EbpfInstruction(isa.JMP | Jump.JEQ, 0, offset=1), move(0, 1), EXIT)
    assert broken(*code) == []


def test_stack_that_a_helper_writes_on_one_path_is_not_initialized_on_the_other():
    outputs = [one for number, at in ((1, -8), (2, -16), (3, -24)) for one in (move(number, src=10), add(number, at))]
    code = (
        EbpfInstruction(isa.CALL, imm=5),
        EbpfInstruction(isa.JMP | Jump.JEQ, 0, offset=7),
        *outputs,
        EbpfInstruction(isa.CALL, imm=505),
        EbpfInstruction(LOAD, 0, 10, -16),
        EXIT,
    )
    assert broken(*code) == ["uninitialised-stack"]
    assert broken(code[0], move(0), *code[2:]) == []


INDEXED = (
    EbpfInstruction(isa.JMP | Jump.JGT, 8, offset=2, imm=56),
    EbpfInstruction(isa.ALU64 | Alu.ADD | isa.SOURCE_X, 6, 7),
    EbpfInstruction(LOAD, 1, 6),
    move(0),
    EXIT,
)
"""Checks r8, then uses r7 as the index."""


def test_a_check_of_the_lower_half_does_not_bound_the_whole_number():
    start = (*lookup("items"), move(6, src=0), EbpfInstruction(isa.CALL, imm=5), move(7, src=0))
    half = EbpfInstruction(isa.ALU | Alu.MOV | isa.SOURCE_X, 8, 7)
    assert broken(*start, move(8, src=7), *INDEXED) == []
    assert broken(*start, half, *INDEXED) == ["out-of-bounds-value"]


def test_numbers_that_are_equal_on_one_path_may_differ_on_the_other():
    start = (*lookup("items"), move(6, src=0), EbpfInstruction(isa.CALL, imm=5), move(9, src=0))
    code = (
        *start,
        EbpfInstruction(isa.CALL, imm=5),
        move(7, src=0),
        EbpfInstruction(isa.JMP | Jump.JEQ, 9, offset=2),
        move(8, src=7),
        EbpfInstruction(isa.JA, offset=2),
        EbpfInstruction(isa.CALL, imm=5),
        move(8, src=0),
        *INDEXED,
    )
    assert broken(*code) == ["out-of-bounds-value"]


def test_a_null_check_of_a_copy_on_one_path_does_not_apply_to_another_lookup_on_the_other():
    second = (*lookup("items")[:6], move(8, src=0))
    code = (
        EbpfInstruction(isa.CALL, imm=5),
        move(9, src=0),
        *lookup("items")[:6],
        move(7, src=0),
        EbpfInstruction(isa.JMP | Jump.JEQ, 9, offset=2),
        move(8, src=7),
        EbpfInstruction(isa.JA, offset=len(second)),
        *second,
        EbpfInstruction(isa.JMP | Jump.JEQ, 8, offset=1),
        EbpfInstruction(LOAD, 1, 7),
        move(0),
        EXIT,
    )
    assert broken(*code) == ["null-not-checked"]


def test_part_of_an_address_on_the_stack_is_not_a_number_after_paths_join():
    read = EbpfInstruction(isa.LDX | isa.MODE_MEM | 0x10, 7, 10, -5)
    code = (
        EbpfInstruction(STORE, 10, 1, -8),
        EbpfInstruction(isa.CALL, imm=5),
        EbpfInstruction(isa.JMP | Jump.JEQ, 0, offset=1),
        move(6),
        read,
        move(0),
        EXIT,
    )
    assert broken(*code) == ["pointer-leak"]
    whole = (EbpfInstruction(isa.ST | isa.MODE_MEM | 0x18, 10, offset=-8), *code[1:])
    assert broken(*whole) == []

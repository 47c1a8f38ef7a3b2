"""eBPF to LLVM IR: exact results of single instructions, errors, and knowledge about addresses."""

import random
import re
import threading

import numpy as np
import pytest

from accel_magic.errors import ProgramError
from accel_magic.gpu.codegen.lowering import BackendTarget, lower
from accel_magic.gpu.maps.map_layout import Placement
from accel_magic.gpu.program import isa
from accel_magic.gpu.program.isa import EbpfInstruction, MapReference
from accel_magic.gpu.program.object_model import EbpfFunction, EbpfProgram, MapSpec
from accel_magic.ptx.ptx_model import SourceLine
from tests.support import ebpf
from tests.support.errors import raises

pytest.importorskip("llvmlite")
from tests.support.conformance import run
from tests.support.host_device import compile_programs

U64 = (1 << 64) - 1
ARRAY = MapSpec("counts", 2, 4, 8, 16)
NEAR = Placement((0x7000_0000_1000,), 64, 0x7000_0000_2000, 0x7000_0000_3000, 77 << 32 | 78)


def value_of(text, memory=b""):
    return run(ebpf.assemble(text + "\nexit"), memory)


def ir(text, *, maps=(ARRAY,), placement=NEAR, target=BackendTarget.NVPTX, **options):
    return lower(ebpf.program(text, "probe"), maps, placement, target=target, **options)


def raw(*instructions):
    """A program of exactly these instructions, with a source line for the first."""
    lines = (SourceLine("probe.bpf.c", 12), *(None,) * (len(instructions) - 1))
    return EbpfProgram("probe", "gpu/exit", (EbpfFunction("probe", instructions, lines),))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # RFC 9669, 4.1: 32-bit results clear the upper half.
        ("lddw %r0, 0xffffffffffffffff\nadd32 %r0, 2", 1),
        ("mov %r0, -1\nmov32 %r0, -1", 0xFFFFFFFF),
        ("lddw %r0, 0x8000000000000000\nneg %r0", 1 << 63),
        ("lddw %r0, 0x1ffffffff\nneg32 %r0", 1),
        # Shifts take the lowest five or six bits.
        ("mov %r0, 1\nmov %r1, 65\nlsh %r0, %r1", 2),
        ("mov %r0, 1\nmov %r1, 33\nlsh32 %r0, %r1", 2),
        ("mov %r0, -8\nmov %r1, 65\narsh %r0, %r1", U64 - 3),
        ("mov %r0, -8\narsh32 %r0, 1", 0xFFFFFFFC),
        ("mov %r0, -8\nrsh %r0, 60", 15),
        ("mov %r0, -8\nrsh32 %r0, 28", 15),
        # Division by zero gives 0, modulo by zero the dividend.
        ("mov %r0, 7\nmov %r1, 0\ndiv %r0, %r1", 0),
        ("mov %r0, 7\nmov %r1, 0\nsdiv %r0, %r1", 0),
        ("mov %r0, -7\nmov %r1, 0\nmod %r0, %r1", U64 - 6),
        ("mov %r0, -7\nmov %r1, 0\nmod32 %r0, %r1", 0xFFFFFFF9),
        ("mov %r0, -7\nmov %r1, 0\nsmod %r0, %r1", U64 - 6),
        # The smallest number divided by minus one.
        ("lddw %r0, 0x8000000000000000\nsdiv %r0, -1", 1 << 63),
        ("lddw %r0, 0x8000000000000000\nsmod %r0, -1", 0),
        ("lddw %r0, 0x80000000\nsdiv32 %r0, -1", 0x80000000),
        ("mov %r0, 13\nsdiv %r0, -1", U64 - 12),
        ("mov %r0, 13\nsmod %r0, -1", 0),
        ("mov %r0, -13\nsdiv %r0, 3", U64 - 3),
        ("mov %r0, -13\nsmod %r0, 3", U64),
        ("mov %r0, -13\ndiv32 %r0, 3", (2**32 - 13) // 3),
        ("mov %r0, -13\nmov %r1, 3\ndiv %r0, %r1", (2**64 - 13) // 3),
        # Sign extension and byte order.
        ("mov %r1, 0x80\nmovsx864 %r0, %r1", U64 - 0x7F),
        ("mov %r1, 0x8000\nmovsx1632 %r0, %r1", 0xFFFF8000),
        ("lddw %r0, 0x1122334455667788\nbe16 %r0", 0x8877),
        ("lddw %r0, 0x1122334455667788\nle32 %r0", 0x55667788),
        ("lddw %r0, 0x1122334455667788\nbswap64 %r0", 0x8877665544332211),
        ("lddw %r0, 0x1122334455667788\nbswap32 %r0", 0x88776655),
        # Immediates are sign-extended.
        ("mov %r0, 0\nor %r0, -2147483648", 0xFFFFFFFF80000000),
        ("mov %r0, 3\nmul %r0, -1", U64 - 2),
    ],
)
def test_an_operation_gives_the_result_defined_by_the_standard(text, expected):
    assert value_of(text) == expected


@pytest.mark.parametrize(
    ("condition", "left", "right", "taken"),
    [
        ("jgt", U64, 1, True),
        ("jsgt", U64, 1, False),
        ("jgt32", 1 << 32, 0, False),
        ("jlt32", 0x1_0000_0001, 2, True),
        ("jsle", 5, 5, True),
        ("jslt32", 0x80000000, 0, True),
        ("jset", 0b1010, 0b0101, False),
        ("jset32", 0xF_0000_0001, 1, True),
        ("jne32", 0x1_0000_0000, 0, False),
    ],
)
def test_a_condition_compares_the_whole_register_or_its_lower_half(condition, left, right, taken):
    text = f"lddw %r1, {left}\nlddw %r2, {right}\nmov %r0, 1\n{condition} %r1, %r2, end\nmov %r0, 0\nend:"
    assert value_of(text) == taken


def test_loads_zero_extend_or_sign_extend():
    memory = bytes.fromhex("80ff00807f")
    assert value_of("ldxb %r0, [%r1]", memory) == 0x80
    assert value_of("ldxsb %r0, [%r1]", memory) == U64 - 0x7F
    assert value_of("ldxsh %r0, [%r1+0]", memory) == U64 - 0x7F
    assert value_of("ldxsw %r0, [%r1+0]", memory) == U64 - 0x7FFF0080 + 1
    assert value_of("ldxw %r0, [%r1+1]", memory) == 0x7F8000FF


@pytest.mark.parametrize("size", ["", "32"])
@pytest.mark.parametrize(
    ("operation", "after"),
    [("add", 16), ("or", 14), ("and", 2), ("xor", 12), ("xchg", 6)],
)
def test_atomic_operations_on_a_map_return_the_old_value(operation, after, size):
    data = np.zeros(2, np.uint64)
    data[0] = 10
    fetch = "" if operation == "xchg" else "fetch "
    text = f"lddw %r1, data:.bss+0\nmov %r0, 6\nlock {fetch}{operation}{size} [%r1], %r0\nexit"
    maps, placement = (MapSpec(".bss", 2, 4, 16, 1),), Placement((data.ctypes.data,), 1, 0, 0)
    program = compile_programs([ebpf.program(text)], maps, placement, probes=False).programs[0]
    assert program.run() == 10
    assert data.tolist() == [after, 0]


@pytest.mark.parametrize(("expected", "after"), [(10, 99), (11, 10)])
def test_compare_and_exchange_stores_only_when_r0_matches(expected, after):
    text = f"mov %r1, 10\nstxdw [%r10-8], %r1\nmov %r0, {expected}\nmov %r2, 99\nlock cmpxchg [%r10-8], %r2\n"
    assert value_of(text) == 10
    assert value_of(text + "ldxdw %r0, [%r10-8]") == after


def test_each_function_has_its_own_frame_and_preserves_the_callers_registers():
    text = """
        mov %r6, 6
        stdw [%r10-8], 1
        mov %r1, 40
        call local other
        ldxdw %r1, [%r10-8]
        add %r0, %r1
        add %r0, %r6
        exit
    other:
        stdw [%r10-8], 1000
        mov %r6, 0
        mov %r0, %r1
    """
    assert value_of(text) == 40 + 1 + 6


def test_a_called_function_can_use_the_callers_stack():
    text = """
        stdw [%r10-16], 41
        mov %r1, %r10
        add %r1, -24
        call local other
        ldxdw %r0, [%r10-16]
        exit
    other:
        ldxdw %r2, [%r1+8]
        add %r2, 1
        stxdw [%r1+8], %r2
        mov %r0, 0
    """
    assert value_of(text) == 42


@pytest.mark.parametrize(
    "address",
    ["mov %r3, %r10\nsub %r3, 24\n", "mov %r3, -24\nadd %r3, %r10\n", "mov %r3, %r10\nadd %r3, -32\nsub %r3, -8\n"],
)
def test_stack_addresses_can_be_computed_in_any_way(address):
    assert value_of(f"stdw [%r10-16], 7\nmov %r0, 0\n{address}ldxdw %r0, [%r3+8]") == 7


def test_stack_addresses_with_an_offset_from_memory_work():
    text = """
        stdw [%r10-16], 5
        stdw [%r10-8], 6
        ldxb %r2, [%r1]
        mov %r3, %r10
        add %r3, %r2
        ldxdw %r0, [%r3-16]
    """
    assert [value_of(text, bytes([offset])) for offset in (0, 8)] == [5, 6]


LOAD_R0 = EbpfInstruction(isa.Alu.MOV | isa.ALU64, 0)
LEAVE = EbpfInstruction(isa.EXIT)
WIDE = EbpfInstruction(isa.LD_IMM64, 1, reference=MapReference("counts"))


FLOW = "gpu.bad-control-flow"
OPCODE = "gpu.unsupported-instruction"


@pytest.mark.parametrize(
    ("program", "code", "detail"),
    [
        (raw(LOAD_R0), FLOW, r"slot 1\b"),
        (raw(EbpfInstruction(isa.JA, offset=5), LEAVE), FLOW, r"slot 6\b"),
        (raw(EbpfInstruction(isa.JA, offset=-3), LEAVE), FLOW, r"slot -2\b"),
        (raw(EbpfInstruction(isa.JA32, imm=1 << 20), LEAVE), FLOW, r"slot 1048577\b"),
        (raw(EbpfInstruction(isa.JA, offset=1), WIDE, None, LEAVE), FLOW, r"slot 2\b"),
        (raw(EbpfInstruction(0x20), LEAVE), OPCODE, r"probe\.bpf\.c:12.*opcode 0x20"),
        (raw(EbpfInstruction(0xFF), LEAVE), OPCODE, "opcode 0xff"),
        (raw(EbpfInstruction(isa.LD_IMM64, 1, 3), None, LEAVE), OPCODE, ""),
        (raw(EbpfInstruction(isa.Alu.END | isa.ALU, imm=24), LEAVE), OPCODE, "immediate 24"),
        (raw(EbpfInstruction(isa.Alu.END | isa.ALU64 | isa.SOURCE_X, imm=16), LEAVE), OPCODE, "immediate 16"),
        (raw(EbpfInstruction(isa.Alu.NEG | isa.ALU64, offset=1), LEAVE), OPCODE, "offset 1"),
        (raw(EbpfInstruction(isa.Alu.ADD | isa.ALU64, offset=1), LEAVE), OPCODE, "offset 1"),
        (raw(EbpfInstruction(isa.Alu.MOV | isa.SOURCE_X | isa.ALU, offset=32), LEAVE), OPCODE, "offset 32"),
        (raw(EbpfInstruction(isa.Alu.MOV | isa.ALU64, offset=8), LEAVE), OPCODE, "offset 8"),
        (raw(EbpfInstruction(isa.LDX | isa.MODE_MEMSX | 0x18, 0, 10, -8), LEAVE), OPCODE, "offset -8"),
        (raw(EbpfInstruction(isa.STX | isa.MODE_ATOMIC | 0x10, 10, 0, -8), LEAVE), OPCODE, "offset -8"),
        (raw(EbpfInstruction(isa.STX | isa.MODE_ATOMIC | 0x18, 10, 0, -8, 0x20), LEAVE), OPCODE, "immediate 32"),
        (raw(EbpfInstruction(isa.STX | isa.MODE_MEMSX | 0x18, 10, 0, -8), LEAVE), OPCODE, "offset -8"),
        (raw(EbpfInstruction(isa.ST | isa.MODE_ATOMIC, 10, 0, -8), LEAVE), OPCODE, "offset -8"),
        (
            raw(EbpfInstruction(isa.CALL, imm=12), LEAVE),
            "gpu.unsupported-helper",
            r"slot 0 \(probe\.bpf\.c:12\).* helper 12\b",
        ),
        (raw(EbpfInstruction(isa.CALL, src=1, imm=1), LEAVE), "gpu.object-damaged", r"function 1\b"),
        (raw(EbpfInstruction(isa.CALL, src=2, imm=1), LEAVE), OPCODE, "immediate 1"),
        (raw(EbpfInstruction(isa.CALLX, 2), LEAVE), "gpu.unsupported-call", r"\br2\b"),
        (
            raw(EbpfInstruction(isa.LD_IMM64, 1, reference=MapReference("gone")), None, LEAVE),
            "gpu.map.undeclared",
            "gone",
        ),
    ],
)
def test_code_that_cannot_be_translated_is_an_error_with_the_details(program, code, detail):
    with raises(code, ProgramError, match=detail):
        lower(program, (ARRAY,), NEAR, target=BackendTarget.HOST)


def test_unreachable_code_is_omitted_whatever_it_is():
    program = raw(EbpfInstruction(isa.JA, offset=1), EbpfInstruction(0xFF), LOAD_R0, LEAVE)
    assert compile_programs([program], probes=False).programs[0].run() == 0


def test_a_loop_to_the_first_instruction_works():
    assert value_of("add %r6, 1\nmov %r0, %r6\njlt %r6, 1000, -3") == 1000


def test_the_maps_are_constants_of_the_module():
    text = ir(
        "mov %r0, 0\nexit",
        maps=(ARRAY, MapSpec("ring", 27, 0, 0, 4096, 5), MapSpec("both", 2, 4, 12, 3, used_by="both", rounded=True)),
        placement=Placement((16, 32, 48), 9, 10, 11, 12, 13),
    )
    assert "@accel_maps = constant [3 x %accel_map]" in text
    assert "%accel_map { i32 2, i32 4, i32 8, i32 16, i64 16, i64 0 }" in text
    assert "%accel_map { i32 27, i32 0, i32 0, i32 4096, i64 32, i64 0 }" in text
    assert "%accel_map { i32 2, i32 4, i32 12, i32 3, i64 48, i64 4 }" in text  # its values are aligned to 8 bytes
    found = dict(re.findall(r"@(accel_\w+) = constant i64 (\d+)", text))
    assert found == {
        "accel_map_count": "3",
        "accel_threads": "9",
        "accel_losses": "10",
        "accel_printk": "11",
        "accel_pid_tgid": "12",
        "accel_launch_number": "13",
    }


LOOKUP = """
    stw [%r10-4], 3
    mov %r2, %r10
    add %r2, -4
    lddw %r1, map:counts
    call 1
    jeq %r0, 0, end
"""


@pytest.mark.parametrize(
    ("spec", "base", "access", "align"),
    [
        (ARRAY, 0x1000, "ldxdw %r1, [%r0]", 8),
        (ARRAY, 0x1004, "ldxdw %r1, [%r0]", 4),
        (MapSpec("counts", 2, 4, 12, 16), 0x1000, "ldxdw %r1, [%r0]", 4),
        (MapSpec("counts", 2, 4, 16, 16), 0x1000, "ldxw %r1, [%r0+2]", 2),
        (MapSpec("counts", 1502, 4, 16, 16), 0x1000, "ldxdw %r1, [%r0+8]", 8),
        (MapSpec("counts", 1501, 4, 12, 16), 0x1000, "ldxdw %r1, [%r0+0]", 8),
        (MapSpec("counts", 2, 4, 64, 1), 0x1000, "lsh %r7, 3\nadd %r0, %r7\nldxdw %r1, [%r0]", 8),
        (MapSpec("counts", 2, 4, 64, 1), 0x1000, "mul %r7, 12\nadd %r0, %r7\nldxdw %r1, [%r0]", 4),
        (MapSpec("counts", 2, 4, 64, 1), 0x1000, "and %r7, 56\nadd %r0, %r7\nldxdw %r1, [%r0+4]", 4),
        (MapSpec("counts", 2, 4, 64, 1), 0x1000, "add %r0, %r7\nldxdw %r1, [%r0]", 1),
        (MapSpec("counts", 2, 4, 64, 1), 0x1000, "jeq %r7, 0, +1\nadd %r0, 4\nldxdw %r1, [%r0]", 4),
        (MapSpec("counts", 2, 4, 64, 1), 0x1000, "jeq %r7, 0, +1\nadd %r0, 16\nldxdw %r1, [%r0]", 8),
        (MapSpec("counts", 2, 4, 64, 1), 0x1000, "lddw %r1, data:counts+20\nldxdw %r1, [%r1]", 4),
        (MapSpec("counts", 2, 4, 64, 1), 0x1000, "ldxdw %r3, [%r10-24]\nldxdw %r1, [%r3]", 1),
    ],
)
def test_a_map_access_has_the_provable_alignment(spec, base, access, align):
    text = ir(
        f"ldxdw %r7, [%r1]\n{LOOKUP}{access}\nend:\nmov %r0, 0\nexit",
        maps=(spec,),
        placement=Placement((base,), 1, 0, 0),
    )
    loads = re.findall(r"= load i\d+, ptr(?: addrspace\(1\))? %v\d+, align (\d+)", text)
    assert int(loads[-1]) == align


def test_map_accesses_use_global_memory_and_others_are_generic_unless_the_verifier_knows_the_pointer():
    direct = ir(LOOKUP + "ldxdw %r1, [%r0]\nend:\nmov %r0, 0\nexit")
    assert "load i64, ptr addrspace(1)" in direct
    spilled = LOOKUP + "stxdw [%r10-16], %r0\nldxdw %r3, [%r10-16]\nldxdw %r1, [%r3]\nend:\nmov %r0, 0\nexit"
    slot = 9
    assert "addrspace" not in ir(spilled)
    assert "load i64, ptr addrspace(1)" in ir(spilled, pointers={(0, slot): "map"})
    assert "load i64, ptr addrspace(5)" in ir(spilled, pointers={(0, slot): "stack"})
    assert "addrspace" not in ir(spilled, pointers={(0, slot): "map"}, target=BackendTarget.HOST)


def test_atomics_have_device_scope_in_global_memory_and_are_plain_on_the_stack():
    shared = ir(LOOKUP + "mov %r1, 1\nlock add [%r0], %r1\nend:\nmov %r0, 0\nexit")
    assert re.search(
        r'atomicrmw add ptr addrspace\(1\) %v\d+, i64 %v\d+ syncscope\("device"\) monotonic, align 8', shared
    )
    private = ir("stdw [%r10-8], 1\nmov %r1, 1\nlock fetch add [%r10-8], %r1\nmov %r0, %r1\nexit")
    assert "atomicrmw" not in private
    hinted = "ldxdw %r3, [%r10-8]\nmov %r1, 1\nlock cmpxchg [%r3], %r1\nexit"
    assert "cmpxchg" in ir(hinted)
    assert "cmpxchg" not in ir(hinted, pointers={(0, 2): "stack"})


UPDATES = {
    "add": "ldxdw %r2, [%r1]\nadd %r2, 3\nstxdw [%r1], %r2\nmov %r0, %r2",
    "sub register": "mov %r3, 9\nldxdw %r2, [%r1]\nsub %r2, %r3\nstxdw [%r1], %r2\nmov %r0, %r2",
    "or": "ldxdw %r2, [%r1]\nor %r2, 48\nstxdw [%r1], %r2\nmov %r0, %r2",
    "and": "ldxdw %r2, [%r1]\nand %r2, 12\nstxdw [%r1], %r2\nmov %r0, %r2",
    "xor": "ldxdw %r2, [%r1]\nxor %r2, -1\nstxdw [%r1], %r2\nmov %r0, %r2",
    "word, 32-bit": "ldxw %r2, [%r1]\nadd32 %r2, -101\nstxw [%r1], %r2\nmov %r0, %r2",
    "word, 64-bit": "ldxw %r2, [%r1]\nadd %r2, -101\nstxw [%r1], %r2\nmov %r0, %r2",
    "through a move": (
        "ldxdw %r2, [%r1]\nmov %r3, %r2\nadd %r3, 1\nstxdw [%r1], %r3\nmov %r0, %r2\nlsh %r0, 8\nadd %r0, %r3"
    ),
    "second operand": (
        "mov %r3, 1\nldxdw %r2, [%r1]\nadd %r3, %r2\nstxdw [%r1], %r3\nmov %r0, %r2\nlsh %r0, 8\nadd %r0, %r3"
    ),
    "something in between": (
        "ldxdw %r2, [%r1]\nmov %r4, 8\nadd %r2, %r4\nmov %r4, 1\nstxdw [%r1], %r2\nmov %r0, %r2\nadd %r0, %r4"
    ),
    "read overwritten": (
        "ldxdw %r2, [%r1]\nmov %r3, %r2\nadd %r3, 7\nmov %r2, 1000\nstxdw [%r1], %r3\nmov %r0, %r2\nadd %r0, %r3"
    ),
    "word through a 32-bit move": (
        "ldxw %r2, [%r1]\nmov32 %r3, %r2\nadd32 %r3, 1\nstxw [%r1], %r3\nmov %r0, %r2\nadd %r0, %r3"
    ),
}


def updating(text, data, **options):
    maps, placement = (MapSpec(".bss", 2, 4, 8, 1),), Placement((data.ctypes.data,), 1, 0, 0)
    program = ebpf.program(f"lddw %r1, data:.bss+0\n{text}\nexit", "update")
    return program, maps, placement


def first_load(program):
    return next(at for at, one in enumerate(program.functions[0].code) if one is not None and one.kind == isa.LDX)


@pytest.mark.parametrize("text", UPDATES.values(), ids=UPDATES)
def test_a_promoted_update_is_one_atomic_operation_with_the_same_results(text):
    results = []
    for promote in (False, True):
        data = np.full(1, 100, np.uint64)
        program, maps, placement = updating(text, data)
        promoted = frozenset({(0, first_load(program))} if promote else ())
        made = lower(program, maps, placement, target=BackendTarget.HOST, promoted=promoted)
        assert made.count("atomicrmw") == promote
        run = compile_programs([program], maps, placement, promoted=promoted, probes=False).programs[0]
        results.append((run.run(), data.tolist()))
    assert results[0] == results[1]
    assert results[0][1] != [100]


@pytest.mark.parametrize(
    "text",
    [
        "ldxdw %r2, [%r1]\nmul %r2, 3\nstxdw [%r1], %r2\nmov %r0, 0",
        "ldxdw %r2, [%r1]\nmov %r3, %r2\nadd %r3, 1\nadd %r2, 5\nstxdw [%r1], %r3\nmov %r0, 0",
        "ldxdw %r2, [%r1]\nadd %r2, %r2\nstxdw [%r1], %r2\nmov %r0, 0",
        "ldxdw %r2, [%r1]\nadd %r2, 1\nadd %r2, 1\nstxdw [%r1], %r2\nmov %r0, 0",
        "ldxdw %r2, [%r1]\nadd32 %r2, 1\nstxdw [%r1], %r2\nmov %r0, 0",
        "ldxdw %r2, [%r1]\nadd %r2, 1\nmov %r4, %r2\nstxdw [%r1], %r2\nmov %r0, 0",
        "ldxdw %r2, [%r1]\nadd %r2, 1\nldxdw %r3, [%r1]\nstxdw [%r1], %r2\nmov %r0, 0",
        "ldxdw %r2, [%r1]\nadd %r2, 1\njeq %r4, 0, +0\nstxdw [%r1], %r2\nmov %r0, 0",
        "ldxdw %r2, [%r1]\nadd %r2, 1\nstxw [%r1], %r2\nmov %r0, 0",
        "ldxh %r2, [%r1]\nadd %r2, 1\nstxh [%r1], %r2\nmov %r0, 0",
        "mov %r3, 9\nldxdw %r2, [%r1]\nsub %r3, %r2\nstxdw [%r1], %r3\nmov %r0, 0",
        "ldxdw %r2, [%r1]\nmov %r0, 0",
    ],
)
def test_promoting_anything_but_a_single_operation_is_an_error(text):
    program, maps, placement = updating(text, np.zeros(1, np.uint64))
    with raises("gpu.not-atomic", ProgramError):
        lower(program, maps, placement, target=BackendTarget.HOST, promoted=frozenset({(0, first_load(program))}))


def test_promoted_updates_by_several_threads_lose_no_counts():
    data = np.zeros(1, np.uint64)
    text = """
        mov %r6, 0
    more:
        ldxdw %r2, [%r1]
        add %r2, 1
        stxdw [%r1], %r2
        add %r6, 1
        jlt %r6, 200000, more
        mov %r0, 0
    """
    program, maps, placement = updating(text, data)
    promoted = frozenset({(0, first_load(program))})
    counting = compile_programs([program], maps, placement, promoted=promoted, probes=False).programs[0]
    threads = [threading.Thread(target=counting.run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert data.tolist() == [800_000]


@pytest.mark.parametrize("target", list(BackendTarget))
@pytest.mark.parametrize("per", ["thread", "warp"])
def test_llvm_accepts_the_module_for_every_target(target, per):
    from accel_magic.ptx import llvm

    text = ir(
        "ldxdw %r6, [%r1+32]\nldxw %r7, [%r1+28]\n" + LOOKUP + "stxdw [%r0], %r6\nend:\nmov %r0, 0\nexit",
        target=target,
        per=per,
    )
    llvm.parse(text)
    assert ("accel_helper_601(i64 0" in text) == (per == "warp")
    assert "@accel_launch()" in text


def test_only_context_fields_that_a_program_reads_are_filled_in():
    def calls(text, **options):
        return set(re.findall(r"call i64 @(accel_\w+)\(", ir(text + "\nmov %r0, 0\nexit", **options)))

    assert calls("ldxdw %r2, [%r1]") == set()
    assert calls("ldxw %r2, [%r1+28]") == {"accel_helper_600"}
    assert calls("ldxdw %r2, [%r1+32]") == {"accel_launch"}
    assert calls("ldxb %r2, [%r1+27]") == set()
    spilled = "ldxdw %r3, [%r10-8]\nldxw %r2, [%r3+28]"
    assert calls(spilled) == {"accel_helper_600", "accel_launch"}
    assert calls(spilled, pointers={(0, 1): "map"}) == calls(spilled, pointers={(0, 1): "stack"}) == set()
    assert calls("stxdw [%r10-8], %r1\nldxdw %r3, [%r10-8]\nldxw %r2, [%r3+28]") == {"accel_helper_600", "accel_launch"}


def test_the_active_mask_has_all_lanes_that_reach_the_probe_even_if_only_their_leader_runs():
    text = ir("ldxw %r2, [%r1+28]\nmov %r0, 0\nexit", per="warp")
    assert text.index("call i64 @accel_helper_600") < text.index("call i64 @accel_helper_601") < text.index("run:")


def test_arbitrary_bytes_give_ir_that_llvm_accepts_or_a_program_error():
    from accel_magic.ptx import llvm
    from tests.support.conformance import program_of

    generator, bits = ebpf.Generator(11), random.Random(11)
    accepted, refused = 0, []
    for _ in range(400):
        code = bytearray(ebpf.flat(generator.program("p"), 0))
        for at in range(0, len(code), 8):
            if code[at] == isa.LD_IMM64:
                code[at + 1] &= 15  # plain numbers instead of addresses in maps
        for _ in range(bits.randrange(1, 3)):
            at = 8 * bits.randrange(len(code) // 8) + bits.choice((0, 0, 1, 2, 4, bits.randrange(8)))
            code[at] = bits.choice((bits.randrange(256), code[at] ^ 1 << bits.randrange(8)))
        try:
            text = lower(program_of(bytes(code)), (), Placement((), 1, 0, 0), target=bits.choice(list(BackendTarget)))
        except ProgramError as error:
            refused.append(error)
            continue
        llvm.parse(text)
        accepted += 1
    assert accepted > 50
    assert len(refused) > 50
    assert all(error.fix for error in refused)

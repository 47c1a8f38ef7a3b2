"""Faults visible without following values: opcodes, registers, jumps, helpers, maps, calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from accel_magic.gpu.program import isa
from accel_magic.gpu.program.helpers import HELPERS, MapType
from accel_magic.gpu.program.isa import Alu, DataReference, Jump, MapReference
from accel_magic.gpu.verifier.cfg import Fault, calls
from accel_magic.gpu.verifier.findings import MOST_INSTRUCTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from accel_magic.gpu.program.object_model import EbpfFunction, EbpfProgram, MapSpec
    from accel_magic.gpu.verifier.cfg import Cfg

_ATOMICS: Final = frozenset(
    {isa.XCHG, isa.CMPXCHG}
    | {int(kind) | fetch for kind in (Alu.ADD, Alu.OR, Alu.AND, Alu.XOR) for fetch in (0, isa.FETCH)}
)
_CONDITIONS: Final = frozenset(Jump) - {Jump.JA, Jump.CALL, Jump.EXIT}
_MAP_TYPES: Final = frozenset(int(kind) for kind in MapType)


Located = tuple[int, Fault]
"""The index of a function, and a fault in it."""


def faults(
    program: EbpfProgram, maps: Mapping[str, MapSpec], graphs: Sequence[Cfg], *, policy: bool = False
) -> Iterator[Located]:
    """Find faults that make a program impossible to follow.

    Args:
        program: The program.
        maps: The object's maps by name.
        graphs: Control flow of each of its functions.
        policy: Whether it is a policy of a driver, and not a program in a GPU kernel.

    """
    total = sum(len(function.code) for function in program.functions)
    if total > MOST_INSTRUCTIONS:
        yield 0, Fault("too-many-instructions", 0, f"the program has {total} instructions")
    for place, (function, graph) in enumerate(zip(program.functions, graphs, strict=True)):
        for fault in (*_of_function(function, maps, len(program.functions), policy), *graph.faults):
            yield place, fault
    yield from _recursion(program)


def _of_function(function: EbpfFunction, maps: Mapping[str, MapSpec], functions: int, policy: bool) -> Iterator[Fault]:
    for slot, instruction in enumerate(function.code):
        if instruction is None:
            continue
        if not _exists(instruction):
            yield Fault("unknown-opcode", slot, _unknown(instruction))
            continue
        if policy and _shifts_too_far(instruction):
            yield Fault("unknown-opcode", slot, f"a shift by {instruction.imm} bits, which the kernel refuses")
        if instruction.dst > 10 or instruction.src > 10 or (instruction.dst == 10 and _writes(instruction)):
            yield Fault("bad-register", slot, "the instruction writes r10 or uses a register that does not exist")
        yield from _unknown_names(instruction, slot, maps, functions)
        if instruction.opcode == isa.CALL and instruction.src == isa.CALL_HELPER:
            helper = HELPERS.get(instruction.imm)
            if helper is None or helper.user not in ("both", "policy" if policy else "gpu"):
                name = f"`{helper.name}`" if helper else f"helper with the number {instruction.imm}"
                yield Fault("unknown-helper", slot, f"{'a policy' if policy else 'the GPU'} has no {name}")


def _shifts_too_far(instruction: isa.EbpfInstruction) -> bool:
    if instruction.kind not in (isa.ALU, isa.ALU64) or instruction.from_register:
        return False
    width = 64 if instruction.kind == isa.ALU64 else 32
    return instruction.operation in (isa.Alu.LSH, isa.Alu.RSH, isa.Alu.ARSH) and not 0 <= instruction.imm < width


def _unknown(instruction: isa.EbpfInstruction) -> str:
    if instruction.opcode == isa.CALLX:
        return "a function is called through a pointer, so it is unknown which one"
    return f"no instruction has opcode {instruction.opcode:#04x}, offset {instruction.offset} and these operands"


def _unknown_names(
    instruction: isa.EbpfInstruction, slot: int, maps: Mapping[str, MapSpec], functions: int
) -> Iterator[Fault]:
    reference = instruction.reference
    if reference is not None and reference.map not in maps:
        yield Fault("unknown-map", slot, f"map `{reference.map}` does not exist")
    elif isinstance(reference, MapReference) and maps[reference.map].type not in _MAP_TYPES:
        yield Fault("unknown-map", slot, f"map `{reference.map}` has the unsupported type {maps[reference.map].type}")
    if instruction.opcode != isa.CALL:
        return
    if instruction.src == isa.CALL_LOCAL and not 0 <= instruction.imm < functions:
        yield Fault("bad-jump", slot, f"the call goes to function {instruction.imm}; the program has {functions}")


def _writes(instruction: isa.EbpfInstruction) -> bool:
    return instruction.kind in (isa.LD, isa.LDX, isa.ALU, isa.ALU64)


def _exists(instruction: isa.EbpfInstruction) -> bool:
    return _EXISTS[instruction.kind](instruction)


def _wide_load(instruction: isa.EbpfInstruction) -> bool:
    plain = instruction.src == 0 and instruction.offset == 0
    return instruction.opcode == isa.LD_IMM64 and (
        plain or isinstance(instruction.reference, (MapReference, DataReference))
    )


def _load(instruction: isa.EbpfInstruction) -> bool:
    modes = (isa.MODE_MEM,) if instruction.size == 8 else (isa.MODE_MEM, isa.MODE_MEMSX)
    return instruction.mode in modes and instruction.imm == 0


def _store(instruction: isa.EbpfInstruction) -> bool:
    return instruction.mode == isa.MODE_MEM and instruction.src == 0


def _store_register(instruction: isa.EbpfInstruction) -> bool:
    if instruction.mode == isa.MODE_ATOMIC:
        return instruction.size in (4, 8) and instruction.imm in _ATOMICS
    return instruction.mode == isa.MODE_MEM and instruction.imm == 0


def _arithmetic(instruction: isa.EbpfInstruction) -> bool:
    try:
        operation = Alu(instruction.operation)
    except ValueError:
        return False
    if operation is Alu.END:
        swaps = instruction.kind == isa.ALU or not instruction.from_register
        return swaps and instruction.imm in (16, 32, 64) and instruction.src == instruction.offset == 0
    if operation is Alu.NEG:
        return not instruction.from_register and instruction.src == instruction.offset == instruction.imm == 0
    unused = instruction.imm if instruction.from_register else instruction.src
    return unused == 0 and instruction.offset in _variants(operation, instruction)


def _variants(operation: Alu, instruction: isa.EbpfInstruction) -> tuple[int, ...]:
    """Offsets that an arithmetic instruction may have."""
    if operation in (Alu.DIV, Alu.MOD):
        return (0, 1)
    if operation is Alu.MOV and instruction.from_register:
        return (0, 8, 16, 32) if instruction.kind == isa.ALU64 else (0, 8, 16)
    return (0,)


def _jump(instruction: isa.EbpfInstruction) -> bool:
    if instruction.opcode in (isa.JA, isa.JA32):
        unused = instruction.imm if instruction.opcode == isa.JA else instruction.offset
        return instruction.dst == instruction.src == unused == 0
    if instruction.opcode == isa.CALL:
        return instruction.src in (isa.CALL_HELPER, isa.CALL_LOCAL) and instruction.dst == instruction.offset == 0
    if instruction.opcode == isa.EXIT:
        return instruction.dst == instruction.src == instruction.offset == instruction.imm == 0
    unused = instruction.imm if instruction.from_register else instruction.src
    return instruction.operation in _CONDITIONS and unused == 0


_EXISTS: Final[Mapping[int, Callable[[isa.EbpfInstruction], bool]]] = {
    isa.LD: _wide_load,
    isa.LDX: _load,
    isa.ST: _store,
    isa.STX: _store_register,
    isa.ALU: _arithmetic,
    isa.ALU64: _arithmetic,
    isa.JMP: _jump,
    isa.JMP32: _jump,
}


def _recursion(program: EbpfProgram) -> Iterator[Located]:
    """Find calls that lead back to the calling function."""
    known = range(len(program.functions))
    edges = [[(slot, to) for slot, to in calls(function) if to in known] for function in program.functions]
    for place in known:
        for slot, to in edges[place]:
            if place in _reached(edges, to):
                name = program.functions[place].name
                yield place, Fault("recursion", slot, f"`{name}` calls itself here, directly or through others")


def _reached(edges: list[list[tuple[int, int]]], start: int) -> set[int]:
    seen = {start}
    work = [start]
    while work:
        for _, to in edges[work.pop()]:
            if to not in seen:
                seen.add(to)
                work.append(to)
    return seen

"""Control flow of one eBPF function: successors of each slot, reachable slots, and starts of blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel_magic.errors import ProgramError
from accel_magic.gpu.program import isa

if TYPE_CHECKING:
    from accel_magic.gpu.program.isa import EbpfInstruction
    from accel_magic.gpu.program.object_model import EbpfFunction

_JUMPS = frozenset({isa.JMP, isa.JMP32})
_WRITE_FIRST = frozenset({isa.LD, isa.LDX, isa.ALU, isa.ALU64})
_FRAME = 10
_NO_JUMPS = frozenset({isa.CALL, isa.CALLX, isa.EXIT})


@dataclass(frozen=True)
class Flow:
    """Reachable control flow.

    Attributes:
        successors: Successors of each reachable slot, by slot: for a conditional jump the next slot, then the target.
        leaders: Slots at which a block begins: the first one, and all successors of jumps.

    """

    successors: dict[int, tuple[int, ...]]
    leaders: frozenset[int]


def is_jump(instruction: EbpfInstruction) -> bool:
    """Whether it is a jump, conditional or not; calls and exit are not jumps."""
    return instruction.kind in _JUMPS and instruction.opcode not in _NO_JUMPS


def is_unconditional(instruction: EbpfInstruction) -> bool:
    """Whether a jump is always taken."""
    return instruction.opcode in (isa.JA, isa.JA32)


def instruction_at(function: EbpfFunction, slot: int) -> EbpfInstruction:
    """Return the instruction in a slot.

    Raises:
        ProgramError: The slot is outside the function, or the second half of a wide instruction.

    """
    instruction = function.code[slot] if 0 <= slot < len(function.code) else None
    if instruction is None:
        where = "the second half of a wide instruction" if 0 <= slot < len(function.code) else "outside the function"
        raise ProgramError(
            f"{function.name}: control reaches slot {slot}, which is {where}",
            why=f"the function has {len(function.code)} slots",
            fix="end every path with `exit`, and jump only to the first slot of an instruction",
            code="gpu.bad-control-flow",
        )
    return instruction


def flow_of(function: EbpfFunction) -> Flow:
    """Follow control from the first slot.

    Raises:
        ProgramError: A path leaves the function or reaches the middle of an instruction, or a register is misused.

    """
    found: dict[int, tuple[int, ...]] = {}
    leaders = {0}
    waiting = [0]
    while waiting:
        slot = waiting.pop()
        if slot in found:
            continue
        instruction = instruction_at(function, slot)
        _check_registers(function, slot, instruction)
        found[slot] = _successors(slot, instruction)
        waiting += found[slot]
        if is_jump(instruction):
            leaders |= set(found[slot])
    return Flow(found, frozenset(leaders))


def _check_registers(function: EbpfFunction, slot: int, instruction: EbpfInstruction) -> None:
    if max(instruction.dst, instruction.src) > _FRAME or _FRAME in _written(instruction):
        raise ProgramError(
            f"{function.name}: slot {slot} uses r{max(instruction.dst, instruction.src)} in an invalid way",
            why="the registers are r0 to r10, and r10, the end of the frame, is read-only",
            fix="compile with clang -target bpf",
            code="gpu.bad-register",
        )


def _written(instruction: EbpfInstruction) -> tuple[int, ...]:
    if instruction.kind in _WRITE_FIRST:
        return (instruction.dst,)
    fetches = instruction.kind == isa.STX and instruction.mode == isa.MODE_ATOMIC and instruction.imm & isa.FETCH
    return (instruction.src,) if fetches else ()


def _successors(slot: int, instruction: EbpfInstruction) -> tuple[int, ...]:
    if instruction.opcode == isa.EXIT:
        return ()
    following = slot + 1 + instruction.wide
    if not is_jump(instruction):
        return (following,)
    target = slot + 1 + instruction.distance
    return (target,) if is_unconditional(instruction) else (following, target)

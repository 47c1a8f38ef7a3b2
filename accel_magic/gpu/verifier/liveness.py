"""Which registers are read, and which ones decide anything, from each instruction of a function on."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from accel_magic.gpu import isa
from accel_magic.gpu.helpers import HELPERS, Arg, Result
from accel_magic.gpu.verifier.cfg import END

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from accel_magic.gpu.verifier.cfg import Cfg

_ARGUMENTS = 0b111110
_AFTER_CALL = 0b111111


def live(cfg: Cfg) -> Mapping[int, int]:
    """Give the registers that are read before they are written, before each reachable slot.

    Bit n stands for rn. r10 is left out: it never changes.
    """
    return _backwards(cfg, _read_before)


def decisive(cfg: Cfg, *, returns_number: bool) -> Mapping[int, int]:
    """Give the registers that an address, a condition or a helper's argument is made of, likewise.

    What goes only into memory is not among them. It is an estimate for speed: the analysis may forget the values of
    other registers where ways join, and looks again without forgetting when it then finds anything wrong.

    Args:
        cfg: Control flow.
        returns_number: The result only goes out, as the program's own function's does.

    """
    at_exit = 0 if returns_number else 1
    return _backwards(cfg, lambda instruction, after: _decides_before(instruction, after, at_exit))


def _backwards(cfg: Cfg, before_of: Callable[[isa.Instruction, int], int]) -> dict[int, int]:
    """Follow sets of registers against the flow until nothing changes."""
    found = dict.fromkeys(cfg.reachable, 0)
    work = deque(reversed(cfg.order))
    waiting = set(work)
    while work:
        slot = work.popleft()
        waiting.discard(slot)
        instruction = cfg.code[slot]
        if instruction is None:
            continue
        after = 0
        for to in cfg.successors[slot]:
            after |= found[to] if to != END else 0
        before = before_of(instruction, after) & 0x3FF
        if before != found[slot]:
            found[slot] = before
            news = [source for source in cfg.predecessors[slot] if source not in waiting]
            waiting.update(news)
            work.extend(news)
    return found


def _read_before(instruction: isa.Instruction, after: int) -> int:
    reads, writes = _effects(instruction)
    return (after & ~writes) | reads


def _decides_before(instruction: isa.Instruction, after: int, at_exit: int) -> int:
    reads, writes = _effects(instruction)
    if instruction.kind in (isa.ALU, isa.ALU64):
        return (after & ~writes) | reads if after & writes else after
    if instruction.kind in (isa.ST, isa.STX):
        return (after & ~writes) | 1 << instruction.dst
    if instruction.opcode == isa.EXIT:
        return at_exit
    return (after & ~writes) | (reads & ~_numbers(instruction))


def _numbers(instruction: isa.Instruction) -> int:
    """Arguments of a helper that may be any number."""
    if instruction.opcode != isa.CALL or instruction.src != isa.CALL_HELPER or instruction.imm not in HELPERS:
        return 0
    arguments = HELPERS[instruction.imm].arguments
    return sum(1 << at for at, argument in enumerate(arguments, 1) if argument is Arg.ANY)


def _effects(instruction: isa.Instruction) -> tuple[int, int]:
    """Give the registers that an instruction reads and writes, as bits."""
    return _EFFECTS[instruction.kind](instruction)


def _load(instruction: isa.Instruction) -> tuple[int, int]:
    return 1 << instruction.src, 1 << instruction.dst


def _wide(instruction: isa.Instruction) -> tuple[int, int]:
    return 0, 1 << instruction.dst


def _store(instruction: isa.Instruction) -> tuple[int, int]:
    return 1 << instruction.dst, 0


def _store_register(instruction: isa.Instruction) -> tuple[int, int]:
    reads = 1 << instruction.dst | 1 << instruction.src
    if instruction.mode != isa.MODE_ATOMIC:
        return reads, 0
    if instruction.imm == isa.CMPXCHG:
        return reads | 1, 1
    return reads, 1 << instruction.src if instruction.imm & isa.FETCH else 0


def _arithmetic(instruction: isa.Instruction) -> tuple[int, int]:
    reads = 1 << instruction.src if instruction.from_register and instruction.operation != isa.Alu.END else 0
    if instruction.operation != isa.Alu.MOV:
        reads |= 1 << instruction.dst
    return reads, 1 << instruction.dst


def _jump(instruction: isa.Instruction) -> tuple[int, int]:
    if instruction.opcode == isa.CALL:
        return _call(instruction)
    if instruction.opcode == isa.EXIT:
        return 1, 0
    if instruction.operation == isa.Jump.JA:
        return 0, 0
    return 1 << instruction.dst | (1 << instruction.src if instruction.from_register else 0), 0


def _call(instruction: isa.Instruction) -> tuple[int, int]:
    helper = HELPERS.get(instruction.imm) if instruction.src == isa.CALL_HELPER else None
    if helper is None:
        return _ARGUMENTS, _AFTER_CALL
    reads = ((1 << len(helper.arguments)) - 1) << 1
    return reads, 0x3FF if helper.result is Result.NEVER else _AFTER_CALL


_EFFECTS = {
    isa.LD: _wide,
    isa.LDX: _load,
    isa.ST: _store,
    isa.STX: _store_register,
    isa.ALU: _arithmetic,
    isa.ALU64: _arithmetic,
    isa.JMP: _jump,
    isa.JMP32: _jump,
}

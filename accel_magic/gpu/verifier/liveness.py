"""Which registers and stack bytes are read after each instruction, and which registers are decisive."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from accel_magic.gpu.program import isa
from accel_magic.gpu.program.helpers import HELPERS, Arg, HelperResult
from accel_magic.gpu.verifier.cfg import END

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from accel_magic.gpu.verifier.cfg import Cfg

_REGISTERS = 0x3FF
_FRAME = 10
_KEPT = 6
_REACH = 64
"""Bytes after an address that are assumed to be read."""
_WHOLE = (1 << isa.STACK_SIZE) - 1
_ARGUMENTS = 0b111110
_AFTER_CALL = 0b111111


def live(cfg: Cfg) -> Mapping[int, int]:
    """Return the registers that are read before they are written, before each reachable slot.

    Bit n is rn. r10 is omitted because it never changes.
    """
    return _backwards(cfg, lambda instruction, after: _read_before(instruction, after) & _REGISTERS)


def decisive(cfg: Cfg, *, returns_number: bool) -> Mapping[int, int]:
    """Return the registers that addresses, conditions or helper arguments are computed from, as bits like `live`.

    Registers whose values only go into memory are not among them. This is a heuristic for speed: the analysis may drop
    the values of other registers where paths join, and if it then finds a breach, it repeats without dropping any.

    Args:
        cfg: Control flow.
        returns_number: Nothing in the program uses the function's result, as for the main function.

    """
    at_exit = 0 if returns_number else 1
    return _backwards(cfg, lambda instruction, after: _decides_before(instruction, after, at_exit) & _REGISTERS)


def stack(cfg: Cfg) -> Mapping[int, int]:
    """Return the bytes of the function's own stack that may be read later, before each reachable slot.

    Bit n is the byte at offset n - 512 from r10. This is a heuristic for speed, like `decisive`: reads through an
    address are assumed to stay within a few bytes of it.
    """
    addressed = _addressed(cfg)
    return _backwards(cfg, lambda instruction, after: _stack_before(instruction, after) | addressed)


def _addressed(cfg: Cfg) -> int:
    """Return the bytes after addresses held in registers that survive calls: they may be read anywhere."""
    found = 0
    for slot in cfg.reachable:
        instruction = cfg.code[slot]
        if instruction is not None and _takes_address(instruction) and instruction.dst >= _KEPT:
            found |= _span(_moved_by(cfg.code, slot, instruction.dst))
    return found


def _stack_before(instruction: isa.EbpfInstruction, after: int) -> int:
    if instruction.kind == isa.LDX and instruction.src == _FRAME:
        return after | _bytes(instruction.offset, instruction.size)
    if instruction.kind in (isa.ST, isa.STX) and instruction.dst == _FRAME:
        touched = _bytes(instruction.offset, instruction.size)
        return after | touched if instruction.mode == isa.MODE_ATOMIC else after & ~touched
    if (
        instruction.kind == isa.ALU64
        and instruction.operation == isa.Alu.ADD
        and -isa.STACK_SIZE <= instruction.imm < 0
    ):
        # Usually follows a copy of r10. That is not visible here, but extra bytes do no harm.
        return after | _span(instruction.imm)
    return after


def _takes_address(instruction: isa.EbpfInstruction) -> bool:
    return (
        instruction.kind == isa.ALU64
        and instruction.operation == isa.Alu.MOV
        and instruction.from_register
        and instruction.src == _FRAME
    )


def _moved_by(code: isa.Code, slot: int, register: int) -> int:
    """Return the constant added to an address right after it is taken; if there is none, the stack's start."""
    following = code[slot + 1] if slot + 1 < len(code) else None
    if following is None or following.opcode != isa.ALU64 | isa.Alu.ADD or following.dst != register:
        return -isa.STACK_SIZE
    return following.imm


def _span(offset: int) -> int:
    size = isa.STACK_SIZE if offset == -isa.STACK_SIZE else _REACH
    return _bytes(offset, size)


def _bytes(offset: int, size: int) -> int:
    if offset < -isa.STACK_SIZE:
        return 0
    return ((1 << size) - 1) << (offset + isa.STACK_SIZE) & _WHOLE


def _backwards(cfg: Cfg, before_of: Callable[[isa.EbpfInstruction, int], int]) -> dict[int, int]:
    """Propagate sets backwards until nothing changes."""
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
        before = before_of(instruction, after)
        if before != found[slot]:
            found[slot] = before
            news = [source for source in cfg.predecessors[slot] if source not in waiting]
            waiting.update(news)
            work.extend(news)
    return found


def _read_before(instruction: isa.EbpfInstruction, after: int) -> int:
    reads, writes = _effects(instruction)
    return (after & ~writes) | reads


def _decides_before(instruction: isa.EbpfInstruction, after: int, at_exit: int) -> int:
    reads, writes = _effects(instruction)
    if instruction.kind in (isa.ALU, isa.ALU64):
        return (after & ~writes) | reads if after & writes else after
    if instruction.kind in (isa.ST, isa.STX):
        return (after & ~writes) | 1 << instruction.dst
    if instruction.opcode == isa.EXIT:
        return at_exit
    return (after & ~writes) | (reads & ~_numbers(instruction))


def _numbers(instruction: isa.EbpfInstruction) -> int:
    """Helper arguments that may be any number."""
    if instruction.opcode != isa.CALL or instruction.src != isa.CALL_HELPER or instruction.imm not in HELPERS:
        return 0
    arguments = HELPERS[instruction.imm].arguments
    return sum(1 << at for at, argument in enumerate(arguments, 1) if argument is Arg.ANY)


def _effects(instruction: isa.EbpfInstruction) -> tuple[int, int]:
    """Return the registers that an instruction reads and writes, as bits."""
    return _EFFECTS[instruction.kind](instruction)


def _load(instruction: isa.EbpfInstruction) -> tuple[int, int]:
    return 1 << instruction.src, 1 << instruction.dst


def _wide(instruction: isa.EbpfInstruction) -> tuple[int, int]:
    return 0, 1 << instruction.dst


def _store(instruction: isa.EbpfInstruction) -> tuple[int, int]:
    return 1 << instruction.dst, 0


def _store_register(instruction: isa.EbpfInstruction) -> tuple[int, int]:
    reads = 1 << instruction.dst | 1 << instruction.src
    if instruction.mode != isa.MODE_ATOMIC:
        return reads, 0
    if instruction.imm == isa.CMPXCHG:
        return reads | 1, 1
    return reads, 1 << instruction.src if instruction.imm & isa.FETCH else 0


def _arithmetic(instruction: isa.EbpfInstruction) -> tuple[int, int]:
    reads = 1 << instruction.src if instruction.from_register and instruction.operation != isa.Alu.END else 0
    if instruction.operation != isa.Alu.MOV:
        reads |= 1 << instruction.dst
    return reads, 1 << instruction.dst


def _jump(instruction: isa.EbpfInstruction) -> tuple[int, int]:
    if instruction.opcode == isa.CALL:
        return _call(instruction)
    if instruction.opcode == isa.EXIT:
        return 1, 0
    if instruction.operation == isa.Jump.JA:
        return 0, 0
    return 1 << instruction.dst | (1 << instruction.src if instruction.from_register else 0), 0


def _call(instruction: isa.EbpfInstruction) -> tuple[int, int]:
    helper = HELPERS.get(instruction.imm) if instruction.src == isa.CALL_HELPER else None
    if helper is None:
        return _ARGUMENTS, _AFTER_CALL
    reads = ((1 << len(helper.arguments)) - 1) << 1
    return reads, 0x3FF if helper.result is HelperResult.NEVER else _AFTER_CALL


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

"""Lowering of arithmetic on 64 bits or on the lower 32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from accel_magic.gpu.program import isa
from accel_magic.gpu.program.isa import Alu

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from accel_magic.gpu.codegen.lowering.emitter import Emitter
    from accel_magic.gpu.program.isa import EbpfInstruction

Rule = "Callable[[Emitter, str, str, str], str]"

_EXTENDED: Final = {isa.ALU: (8, 16), isa.ALU64: (8, 16, 32)}
_ENDS: Final = (16, 32, 64)


def _plain(operation: str) -> Callable[[Emitter, str, str, str], str]:
    return lambda out, kind, left, right: out.value(f"{operation} {kind} {left}, {right}")


def _shift(operation: str) -> Callable[[Emitter, str, str, str], str]:
    def lower(out: Emitter, kind: str, left: str, right: str) -> str:
        masked = out.value(f"and {kind} {right}, {int(kind[1:]) - 1}")
        return out.value(f"{operation} {kind} {left}, {masked}")

    return lower


def _unsigned(operation: str, *, by_zero: Callable[[str], str]) -> Callable[[Emitter, str, str, str], str]:
    def lower(out: Emitter, kind: str, left: str, right: str) -> str:
        zero = out.value(f"icmp eq {kind} {right}, 0")
        divisor = out.value(f"select i1 {zero}, {kind} 1, {kind} {right}")
        result = out.value(f"{operation} {kind} {left}, {divisor}")
        return out.value(f"select i1 {zero}, {kind} {by_zero(left)}, {kind} {result}")

    return lower


def _signed(
    operation: str, *, by_zero: Callable[[str], str], by_minus_one: Callable[[Emitter, str, str], str]
) -> Callable[[Emitter, str, str, str], str]:
    """Handle division by minus one separately: for the smallest number it overflows, which is undefined in LLVM."""

    def lower(out: Emitter, kind: str, left: str, right: str) -> str:
        zero = out.value(f"icmp eq {kind} {right}, 0")
        minus = out.value(f"icmp eq {kind} {right}, -1")
        special = out.value(f"or i1 {zero}, {minus}")
        divisor = out.value(f"select i1 {special}, {kind} 1, {kind} {right}")
        result = out.value(f"{operation} {kind} {left}, {divisor}")
        turned = out.value(f"select i1 {minus}, {kind} {by_minus_one(out, kind, left)}, {kind} {result}")
        return out.value(f"select i1 {zero}, {kind} {by_zero(left)}, {kind} {turned}")

    return lower


def _negated(out: Emitter, kind: str, value: str) -> str:
    return out.value(f"sub {kind} 0, {value}")


_BINARY: Final[Mapping[int, Callable[[Emitter, str, str, str], str]]] = {
    Alu.ADD: _plain("add"),
    Alu.SUB: _plain("sub"),
    Alu.MUL: _plain("mul"),
    Alu.OR: _plain("or"),
    Alu.AND: _plain("and"),
    Alu.XOR: _plain("xor"),
    Alu.LSH: _shift("shl"),
    Alu.RSH: _shift("lshr"),
    Alu.ARSH: _shift("ashr"),
    Alu.DIV: _unsigned("udiv", by_zero=lambda _: "0"),
    Alu.MOD: _unsigned("urem", by_zero=lambda left: left),
}
_SIGNED: Final[Mapping[int, Callable[[Emitter, str, str, str], str]]] = {
    Alu.DIV: _signed("sdiv", by_zero=lambda _: "0", by_minus_one=_negated),
    Alu.MOD: _signed("srem", by_zero=lambda left: left, by_minus_one=lambda *_: "0"),
}


def lower(out: Emitter, instruction: EbpfInstruction) -> None:
    """Lower an instruction of class ALU or ALU64.

    Raises:
        ProgramError: The operation or variant does not exist.

    """
    special = _SPECIAL.get(instruction.operation)
    if special is not None:
        special(out, instruction)
        return
    operand = second(out, instruction)
    write(out, instruction, out.read(instruction.dst, width(instruction)), operand)


def width(instruction: EbpfInstruction) -> int:
    """Width in bits of arithmetic or a condition."""
    return 64 if instruction.kind in (isa.ALU64, isa.JMP) else 32


def second(out: Emitter, instruction: EbpfInstruction) -> str:
    """Read the second operand of arithmetic or a condition."""
    return out.read(instruction.src, width(instruction)) if instruction.from_register else str(instruction.imm)


def write(out: Emitter, instruction: EbpfInstruction, left: str, right: str) -> None:
    """Apply a two-operand operation to values and write the result to the destination register."""
    rules = {0: _BINARY, 1: _SIGNED}.get(instruction.offset, {})
    rule = rules.get(instruction.operation)
    if rule is None:
        raise out.unknown(instruction)
    bits = width(instruction)
    out.write(instruction.dst, rule(out, f"i{bits}", left, right), bits)


def _move(out: Emitter, instruction: EbpfInstruction) -> None:
    bits = width(instruction)
    value = second(out, instruction)
    if instruction.offset:
        if not instruction.from_register or instruction.offset not in _EXTENDED[instruction.kind]:
            raise out.unknown(instruction)
        low = out.value(f"trunc i{bits} {value} to i{instruction.offset}")
        value = out.value(f"sext i{instruction.offset} {low} to i{bits}")
    out.write(instruction.dst, value, bits)


def _negate(out: Emitter, instruction: EbpfInstruction) -> None:
    if instruction.from_register or instruction.offset:
        raise out.unknown(instruction)
    bits = width(instruction)
    out.write(instruction.dst, _negated(out, f"i{bits}", out.read(instruction.dst, bits)), bits)


def _convert(out: Emitter, instruction: EbpfInstruction) -> None:
    """Convert byte order: class ALU converts to little (no change here) or big endian, ALU64 always swaps."""
    bits = instruction.imm
    always = instruction.kind == isa.ALU64
    if bits not in _ENDS or instruction.offset or (always and instruction.from_register):
        raise out.unknown(instruction)
    value = out.read(instruction.dst, bits)
    if always or instruction.from_register:
        out.used.add(f"declare i{bits} @llvm.bswap.i{bits}(i{bits})")
        value = out.value(f"call i{bits} @llvm.bswap.i{bits}(i{bits} {value})")
    out.write(instruction.dst, value, bits)


_SPECIAL: Final[Mapping[int, Callable[[Emitter, EbpfInstruction], None]]] = {
    Alu.MOV: _move,
    Alu.NEG: _negate,
    Alu.END: _convert,
}

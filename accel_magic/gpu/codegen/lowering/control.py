"""Lowering of control flow: jumps, calls of helpers and of the program's functions, and returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProgramError
from accel_magic.gpu.codegen.lowering import arithmetic
from accel_magic.gpu.codegen.lowering.pointer_analysis import ARGUMENTS, PointerBase
from accel_magic.gpu.program import flow, isa
from accel_magic.gpu.program.helpers import HELPERS
from accel_magic.gpu.program.isa import Jump

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.gpu.codegen.lowering.emitter import Emitter
    from accel_magic.gpu.program.isa import EbpfInstruction

_CONDITIONS: Final[Mapping[int, str]] = {
    Jump.JEQ: "eq",
    Jump.JNE: "ne",
    Jump.JGT: "ugt",
    Jump.JGE: "uge",
    Jump.JLT: "ult",
    Jump.JLE: "ule",
    Jump.JSGT: "sgt",
    Jump.JSGE: "sge",
    Jump.JSLT: "slt",
    Jump.JSLE: "sle",
}


def lower(out: Emitter, instruction: EbpfInstruction) -> None:
    """Lower an instruction of class JMP or JMP32.

    Raises:
        ProgramError: The condition, helper or function does not exist.

    """
    special = _SPECIAL.get(instruction.opcode)
    if special is not None:
        special(out, instruction)
        return
    target = f"%L{out.slot + 1 + instruction.distance}"
    if flow.is_unconditional(instruction):
        out.do(f"br label {target}")
        return
    kind = f"i{arithmetic.width(instruction)}"
    left = out.read(instruction.dst, arithmetic.width(instruction))
    right = arithmetic.second(out, instruction)
    if instruction.operation == Jump.JSET:
        left, right, condition = out.value(f"and {kind} {left}, {right}"), "0", "ne"
    elif instruction.operation in _CONDITIONS:
        condition = _CONDITIONS[instruction.operation]
    else:
        raise out.unknown(instruction)
    taken = out.value(f"icmp {condition} {kind} {left}, {right}")
    out.do(f"br i1 {taken}, label {target}, label %L{out.slot + 1}")


def function_name(program: str, place: int) -> str:
    """Return the name of one of a program's functions in LLVM IR."""
    return f'@"bpf_{program}_{place}"'


def _call(out: Emitter, instruction: EbpfInstruction) -> None:
    if instruction.src == isa.CALL_HELPER:
        _call_helper(out, instruction.imm)
    elif instruction.src == isa.CALL_LOCAL:
        _call_local(out, instruction.imm)
    else:
        raise out.unknown(instruction)


def _call_helper(out: Emitter, number: int) -> None:
    helper = HELPERS.get(number)
    if helper is None:
        raise ProgramError(
            f"{out.where} calls helper {number}, which GPU programs do not have",
            why="this helper works on the state of the Linux kernel",
            fix="use the helpers in accel_gpu.h",
            code="gpu.unsupported-helper",
        )
    given = len(helper.arguments)
    values = [out.read(register) if register <= given else "0" for register in ARGUMENTS]
    out.used.add(f"declare i64 @accel_helper_{number}(i64, i64, i64, i64, i64)")
    _returned(out, out.value(f"call i64 @accel_helper_{number}({', '.join(f'i64 {value}' for value in values)})"))


def _call_local(out: Emitter, place: int) -> None:
    functions = out.around.program.functions
    if not 0 < place < len(functions):
        raise ProgramError(
            f"{out.where} calls function {place}, "
            f"but the program can call only its functions 1 to {len(functions) - 1}",
            fix="build the object again: its calls do not match its functions",
            code="gpu.object-damaged",
        )
    values = ", ".join(f"i64 {out.read(register)}" for register in ARGUMENTS)
    _returned(out, out.value(f"call i64 {function_name(out.around.program.name, place)}({values})"))


def _returned(out: Emitter, result: str) -> None:
    """Put a call's result into r0 and clear r1 to r5, so LLVM does not keep addresses in them alive."""
    out.write(0, result)
    for register in ARGUMENTS:
        out.write(register, "0")


def _call_register(out: Emitter, instruction: EbpfInstruction) -> None:
    """Call the helper whose number is in a register, if the number is known at compile time."""
    origin = out.state[instruction.dst]
    if origin.kind is not PointerBase.NUMBER or origin.offset is None:
        raise ProgramError(
            f"{out.where} calls through r{instruction.dst}, whose value is not known at compile time",
            why="GPU programs cannot call through pointers",
            fix="call the function by its name",
            code="gpu.unsupported-call",
        )
    _call_helper(out, origin.offset)


def _exit(out: Emitter, _: EbpfInstruction) -> None:
    out.do(f"ret i64 {out.read(0)}")


_SPECIAL: Final = {isa.CALL: _call, isa.CALLX: _call_register, isa.EXIT: _exit}

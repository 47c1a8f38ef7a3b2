"""The effect of each instruction on the state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from accel_magic.gpu.program import isa
from accel_magic.gpu.program.isa import Alu, DataReference, Jump, MapReference
from accel_magic.gpu.verifier import accesses, calls
from accel_magic.gpu.verifier.analysis_pass import DONE, read, require_scalar
from accel_magic.gpu.verifier.arithmetic import compute, moved, swapped
from accel_magic.gpu.verifier.conditions import assume
from accel_magic.gpu.verifier.domain import M32, UNKNOWN, constant, truncated
from accel_magic.gpu.verifier.findings import Breach
from accel_magic.gpu.verifier.register_values import NAMES, OR_NULL, RegisterValue, number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from accel_magic.gpu.program.verdict import Place
    from accel_magic.gpu.verifier.analysis_pass import AnalysisPass
    from accel_magic.gpu.verifier.domain import Scalar
    from accel_magic.gpu.verifier.program_state import ProgramState

    Step = Callable[[AnalysisPass, ProgramState, Place, isa.EbpfInstruction], int]

_FARTHEST: Final = 1 << 29
"""Bytes: the kernel's BPF_MAX_VAR_OFF."""
_MOVABLE: Final = frozenset({"stack", "value", "record", "context", "object", "data"})


def step_of(instruction: isa.EbpfInstruction) -> Step:
    """Return the function that executes an instruction; it returns the next slot, or DONE at the end of a path.

    A call of a local function returns slot 0 of that function, and its exit the caller's slot; the state says which
    function that is. The function raises Breach if the instruction breaks a rule.
    """
    return _BY_OPCODE.get(instruction.opcode) or _BY_CLASS[instruction.kind]


def _wide_load(_run: AnalysisPass, state: ProgramState, place: Place, instruction: isa.EbpfInstruction) -> int:
    reference = instruction.reference
    match reference:
        case MapReference():
            value = RegisterValue("map", map=reference.map)
        case DataReference():
            value = RegisterValue("data", constant(reference.offset), reference.map)
        case None:
            value = number(constant(instruction.imm))
    state.frame.registers[instruction.dst] = value
    return place[1] + 2


def _load(run: AnalysisPass, state: ProgramState, place: Place, instruction: isa.EbpfInstruction) -> int:
    base = read(state, instruction.src)
    state.frame.registers[instruction.dst] = accesses.load(run, state, place, base, instruction)
    return place[1] + 1


def _store(run: AnalysisPass, state: ProgramState, place: Place, instruction: isa.EbpfInstruction) -> int:
    base = read(state, instruction.dst)
    size = instruction.size
    value = number(constant(instruction.imm & ((1 << 8 * size) - 1)))
    accesses.store(run, state, place, base, value, offset=instruction.offset, size=size)
    return place[1] + 1


def _store_register(run: AnalysisPass, state: ProgramState, place: Place, instruction: isa.EbpfInstruction) -> int:
    base = read(state, instruction.dst)
    size = instruction.size
    value = _shared(run, state, instruction.src)
    if value.kind == "scalar" and value.number.wide.umax >> 8 * size:
        value = number(truncated(value.number, size))
    accesses.store(run, state, place, base, value, offset=instruction.offset, size=size)
    return place[1] + 1


def _atomic(run: AnalysisPass, state: ProgramState, place: Place, instruction: isa.EbpfInstruction) -> int:
    base = read(state, instruction.dst)
    require_scalar(read(state, instruction.src), "the operand of an atomic")
    if instruction.imm == isa.CMPXCHG:
        require_scalar(read(state, 0), "the expected value of a compare-and-exchange")
    old = accesses.atomic(run, state, place, base, instruction)
    if instruction.imm == isa.CMPXCHG:
        state.frame.registers[0] = old
    elif instruction.imm & isa.FETCH:
        state.frame.registers[instruction.src] = old
    return place[1] + 1


def _stored(run: AnalysisPass, state: ProgramState, place: Place, instruction: isa.EbpfInstruction) -> int:
    step = _atomic if instruction.mode == isa.MODE_ATOMIC else _store_register
    return step(run, state, place, instruction)


def _shared(run: AnalysisPass, state: ProgramState, register: int) -> RegisterValue:
    """Read a register to copy it; if it is a number, both copies share an id from now on."""
    value = read(state, register)
    if value.kind == "scalar" and not value.id and not value.number.known:
        value = value._replace(id=next(run.ids))
        state.frame.registers[register] = value
    return value


def _operand(state: ProgramState, instruction: isa.EbpfInstruction) -> RegisterValue:
    if instruction.from_register:
        return read(state, instruction.src)
    return number(constant(instruction.imm))


def _arithmetic(run: AnalysisPass, state: ProgramState, place: Place, instruction: isa.EbpfInstruction) -> int:
    left = read(state, instruction.dst)
    right = left if instruction.operation == Alu.NEG else _operand(state, instruction)
    width = 64 if instruction.kind == isa.ALU64 else 32
    if left.kind == right.kind == "scalar":
        if run.hook and instruction.operation in (Alu.DIV, Alu.MOD):
            known = UNKNOWN  # as in the kernel, which accepts no more than that
        else:
            known = compute(instruction.operation, width, left.number, right.number, variant=instruction.offset)
        found = number(known)
    else:
        found = _moved_pointer(instruction.operation, width, left, right)
        if run.hook and found.kind != "scalar":
            _check_as_kernel(instruction.operation, found, right if right.kind == "scalar" else left)
    state.frame.registers[instruction.dst] = found
    return place[1] + 1


def _moved_pointer(operation: int, width: int, left: RegisterValue, right: RegisterValue) -> RegisterValue:
    for value in (left, right):
        if value.kind in OR_NULL:
            raise Breach("null-pointer-arithmetic", f"{NAMES[value.kind]} is used in arithmetic; it may be null here")
    if width == 64 and operation == Alu.ADD and "scalar" in (left.kind, right.kind):
        base, by = (right, left) if left.kind == "scalar" else (left, right)
    elif width == 64 and operation == Alu.SUB and right.kind == "scalar":
        base, by = left, right
    elif width == 64 and operation == Alu.SUB and left.kind == right.kind == "object":
        return number(UNKNOWN)
    elif width == 64 and operation == Alu.SUB and left[2:4] == right[2:4] and left.kind == right.kind in _MOVABLE:
        same = left.kind in ("stack", "data")
        return number(compute(Alu.SUB, 64, left.number, right.number) if same else UNKNOWN)
    else:
        base, by = (right, left) if left.kind == "scalar" else (left, right)
        raise Breach("pointer-arithmetic", f"arithmetic on {NAMES[base.kind]} can only add or subtract a number")
    if base.kind not in _MOVABLE:
        raise Breach("pointer-arithmetic", f"{NAMES[base.kind]} is used in arithmetic")
    return base._replace(number=compute(operation, 64, base.number, by.number))


def _check_as_kernel(operation: int, moved_to: RegisterValue, by: RegisterValue) -> None:
    """Refuse what the kernel refuses before the pointer is used."""
    if operation == Alu.SUB and moved_to.kind == "stack":
        raise Breach(
            "pointer-arithmetic", "a number is subtracted from a pointer to the stack; the kernel allows additions"
        )
    for value in (by, moved_to):
        least = value.number.wide.smin
        if not -_FARTHEST < least < _FARTHEST:
            raise Breach(
                "pointer-arithmetic",
                f"{NAMES[moved_to.kind]} is moved by a number that may be {least}; the kernel allows {_FARTHEST - 1}",
            )


def _move(run: AnalysisPass, state: ProgramState, place: Place, instruction: isa.EbpfInstruction) -> int:
    wide = instruction.kind == isa.ALU64
    if not instruction.from_register:
        known = constant(instruction.imm if wide else instruction.imm & M32)
        state.frame.registers[instruction.dst] = number(known)
        return place[1] + 1
    value = _shared(run, state, instruction.src)
    if value.kind != "scalar":
        if not wide or instruction.offset:
            raise Breach("pointer-arithmetic", f"{NAMES[value.kind]} is truncated")
    else:
        known = moved(64 if wide else 32, value.number, instruction.offset)
        if known is not value.number:
            value = number(known)
    state.frame.registers[instruction.dst] = value
    return place[1] + 1


def _swap(_run: AnalysisPass, state: ProgramState, place: Place, instruction: isa.EbpfInstruction) -> int:
    value = require_scalar(read(state, instruction.dst), "the operand of a byte swap")
    swap = instruction.kind == isa.ALU64 or instruction.from_register  # host and devices are little-endian
    state.frame.registers[instruction.dst] = number(swapped(value.number, instruction.imm, swap=swap))
    return place[1] + 1


def _alu(run: AnalysisPass, state: ProgramState, place: Place, instruction: isa.EbpfInstruction) -> int:
    return _BY_OPERATION.get(instruction.operation, _arithmetic)(run, state, place, instruction)


def _jump(_run: AnalysisPass, _state: ProgramState, place: Place, instruction: isa.EbpfInstruction) -> int:
    return place[1] + 1 + instruction.distance


def _exit(_run: AnalysisPass, state: ProgramState, _place: Place, _instruction: isa.EbpfInstruction) -> int:
    return calls.leave(state)


def _call(run: AnalysisPass, state: ProgramState, place: Place, instruction: isa.EbpfInstruction) -> int:
    if instruction.src == isa.CALL_LOCAL:
        return calls.local(state, place, instruction.imm)
    return calls.helper(run, state, place, instruction.imm)


def _branch(run: AnalysisPass, state: ProgramState, place: Place, instruction: isa.EbpfInstruction) -> int:
    left, right = read(state, instruction.dst), _operand(state, instruction)
    target = place[1] + 1 + instruction.offset
    if left.kind == right.kind == "scalar":
        return _branch_on_numbers(run, state, place, instruction, operands=(left, right), target=target)
    null = _compared_with_null(instruction, left, right)
    if null is None:
        run.branches.append((state.copy(), target))
        return place[1] + 1
    if_null, otherwise = (target, place[1] + 1) if instruction.operation == Jump.JEQ else (place[1] + 1, target)
    if null.kind not in OR_NULL:
        return otherwise
    other = state.copy()
    other.settle_null(null.id, null=True)
    run.branches.append((other, if_null))
    state.settle_null(null.id, null=False)
    return otherwise


def _compared_with_null(
    instruction: isa.EbpfInstruction, left: RegisterValue, right: RegisterValue
) -> RegisterValue | None:
    """Return the pointer that is compared with null; None if two pointers are compared."""
    pointer, other = (right, left) if left.kind == "scalar" else (left, right)
    equality = instruction.operation in (Jump.JEQ, Jump.JNE)
    if instruction.kind == isa.JMP32:
        raise Breach("pointer-arithmetic", f"only the lower half of {NAMES[pointer.kind]} is compared")
    if other.kind == "scalar" and equality and other.number.known and not other.number.value:
        return None if pointer.kind == "object" and not pointer.frame else pointer
    if "object" in (left.kind, right.kind):
        return None
    if other.kind == "scalar" or not (equality or left.kind == right.kind):
        raise Breach("pointer-arithmetic", f"{NAMES[pointer.kind]} is compared with {NAMES[other.kind]}")
    return None


def _branch_on_numbers(
    run: AnalysisPass,
    state: ProgramState,
    place: Place,
    instruction: isa.EbpfInstruction,
    *,
    operands: tuple[RegisterValue, RegisterValue],
    target: int,
) -> int:
    width = 64 if instruction.kind == isa.JMP else 32
    left, right = operands[0].number, operands[1].number
    yes = assume(instruction.operation, width, left, right, taken=True)
    no = assume(instruction.operation, width, left, right, taken=False)
    if yes is not None:
        there = state.copy() if no is not None else state
        _sharpen(there, instruction, operands, yes)
        if no is None:
            return target
        run.branches.append((there, target))
    if no is None:
        return DONE
    _sharpen(state, instruction, operands, no)
    return place[1] + 1


def _sharpen(
    state: ProgramState,
    instruction: isa.EbpfInstruction,
    operands: tuple[RegisterValue, RegisterValue],
    known: tuple[Scalar, Scalar],
) -> None:
    """Apply the outcome of a condition to the registers that it compared, and to all copies of their values."""
    for register, value, sharper in zip((instruction.dst, instruction.src), operands, known, strict=True):
        if sharper is value.number or (value is operands[1] and not instruction.from_register):
            continue
        if value.id:
            state.refine(value.id, sharper)
        else:
            state.frame.registers[register] = value._replace(number=sharper)


_BY_OPERATION: Final[Mapping[int, Step]] = {Alu.MOV: _move, Alu.END: _swap}
_BY_OPCODE: Final[Mapping[int, Step]] = {
    isa.CALL: _call,
    isa.EXIT: _exit,
    isa.JA: _jump,
    isa.JA32: _jump,
}
_BY_CLASS: Final[Mapping[int, Step]] = {
    isa.LD: _wide_load,
    isa.LDX: _load,
    isa.ST: _store,
    isa.STX: _stored,
    isa.ALU: _alu,
    isa.ALU64: _alu,
    isa.JMP: _branch,
    isa.JMP32: _branch,
}

"""Lowering of one eBPF function to LLVM IR."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from accel_magic.gpu.codegen.lowering import accesses, arithmetic, control, promotion
from accel_magic.gpu.codegen.lowering.emitter import Emitter
from accel_magic.gpu.codegen.lowering.pointer_analysis import (
    ARGUMENTS,
    FRAME,
    STACK_ALIGNMENT,
    UNKNOWN,
    Pointer,
    PointerBase,
    number,
    origins,
)
from accel_magic.gpu.program import isa
from accel_magic.gpu.program.flow import flow_of, instruction_at, is_jump

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from accel_magic.gpu.codegen.lowering.emitter import Surroundings
    from accel_magic.gpu.codegen.lowering.pointer_analysis import State
    from accel_magic.gpu.program.isa import EbpfInstruction

_REGISTERS: Final = range(11)

_BY_CLASS: Final[Mapping[int, Callable[[Emitter, EbpfInstruction], None]]] = {
    isa.LD: accesses.load_constant,
    isa.LDX: accesses.load,
    isa.ST: accesses.store_constant,
    isa.STX: accesses.store,
    isa.ALU: arithmetic.lower,
    isa.ALU64: arithmetic.lower,
    isa.JMP: control.lower,
    isa.JMP32: control.lower,
}


def lower_function(around: Surroundings, place: int) -> Emitter:
    """Lower one function of a program.

    The main function takes `(ptr %context, i64 %a2)`, the initial values of r1 and r2; the others take five numbers.
    All return r0.

    Args:
        around: The program, its maps and the machine.
        place: Index of the function in `Program.functions`.

    Returns:
        The function's text and the declarations that it needs.

    Raises:
        ProgramError: An instruction is unknown, control leaves the function, or a called function does not exist.

    """
    function = around.program.functions[place]
    flow = flow_of(function)
    known = origins(function, flow, _entry(place), around.maps, around.placement)
    promoted = promotion.promotions(function, flow, frozenset(slot for at, slot in around.promoted if at == place))
    out = Emitter(around, function, place)
    _begin(out)
    for slot in sorted(flow.successors):
        instruction = instruction_at(function, slot)
        out.slot, out.state = slot, known[slot]
        if slot in flow.leaders:
            out.label(f"L{slot}")
        if not promotion.lower(out, instruction, promoted):
            _BY_CLASS[instruction.kind](out, instruction)
        following = flow.successors[slot]
        if following and not is_jump(instruction) and following[0] in flow.leaders:
            out.do(f"br label %L{following[0]}")
    out.lines.append("}")
    return out


def _entry(place: int) -> State:
    """State at a function's start: its arguments, and the end of its frame."""
    first = Pointer(PointerBase.CONTEXT, 0, 0, STACK_ALIGNMENT)
    arguments = [first, UNKNOWN] if place == 0 else [Pointer(PointerBase.ARGUMENT, n, 0, 1) for n in ARGUMENTS]
    state = [UNKNOWN, *arguments]
    state += [number(0)] * (FRAME - len(state))
    return (*state, Pointer(PointerBase.STACK, 0, 0, STACK_ALIGNMENT))


def _begin(out: Emitter) -> None:
    traits, place = out.around.traits, out.place
    name = control.function_name(out.around.program.name, place)
    parameters = "ptr %context, i64 %a2" if place == 0 else ", ".join(f"i64 %a{n}" for n in ARGUMENTS)
    attributes = "alwaysinline convergent nounwind" if traits.device else "nounwind"
    out.lines.append(f"define internal i64 {name}({parameters}) {attributes} {{")
    out.label("entry")
    for register in _REGISTERS:
        out.do(f"%r{register} = alloca i64, align 8" + _space(traits.stack))
    out.do(f"%frame = alloca [{isa.STACK_SIZE} x i8], align {STACK_ALIGNMENT}" + _space(traits.stack))
    frame = f"addrspacecast {out.variables} %frame to ptr" if traits.stack else "getelementptr i8, ptr %frame, i64 0"
    out.do(f"%stack = {frame}")
    out.do(f"%stack_end = getelementptr i8, ptr %stack, i64 {isa.STACK_SIZE}")
    given = {2: "%a2"} if place == 0 else {n: f"%a{n}" for n in ARGUMENTS}
    if place == 0:
        given[1] = out.value("ptrtoint ptr %context to i64")
    for register in given if place else ():
        out.do(f"%p{register} = inttoptr i64 %a{register} to ptr")
    given[FRAME] = out.value("ptrtoint ptr %stack_end to i64")
    for register in _REGISTERS:
        # Initialize all registers: reading an uninitialized one would be undefined in LLVM.
        out.do(f"store i64 {given.get(register, '0')}, {out.variable(register)}")
    out.do("br label %L0")


def _space(space: int) -> str:
    return f", addrspace({space})" if space else ""

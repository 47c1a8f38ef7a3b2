"""Calls of device functions: frames, parameters, results, recursion, pointers (PTX ISA 7.1, 9.7.12.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.devices.sim.device_memory import CODE
from accel_magic.devices.sim.faults import Violation
from accel_magic.devices.sim.instruction_compiler import UnknownFormError, require
from accel_magic.devices.sim.lane_state import DEEPEST, DEPTH_SHIFT
from accel_magic.devices.sim.operations import intrinsics
from accel_magic.devices.sim.operations.control import leave
from accel_magic.devices.sim.types import BITS, TYPES
from accel_magic.ptx.ptx_model import Group, Immediate

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.devices.sim.executable import Executable, ExecutableFunction
    from accel_magic.devices.sim.instruction_compiler import CompiledInstruction, End, Reader, Step, Variable
    from accel_magic.devices.sim.lane_state import ExecutionState
    from accel_magic.devices.sim.types import Array
    from accel_magic.devices.sim.variables import Slot
    from accel_magic.ptx.ptx_model import Operand

DEEPEST_CALLS = 4096
"""Most nested calls; the stack usually runs out first."""


@dataclass(frozen=True)
class CallOperands:
    """A call's operands."""

    target: Operand
    results: tuple[Operand, ...]
    arguments: tuple[Operand, ...]


def parts_of(code: CompiledInstruction) -> CallOperands:
    """Split a call's operands: `(results), target, (arguments), prototype`."""
    items = list(code.operands)
    results: tuple[Operand, ...] = ()
    arguments: tuple[Operand, ...] = ()
    if items and isinstance(items[0], Group):
        results = items[0].items
        del items[0]
    require(bool(items), "it does not name a function")
    target = items.pop(0)
    if items and isinstance(items[0], Group):
        arguments = items[0].items
    return CallOperands(target, results, arguments)


def intrinsic(code: CompiledInstruction, name: str) -> Step:
    """Compile a call of a function that a GPU's driver provides.

    Raises:
        UnknownFormError: The device does not provide it.

    """
    call = parts_of(code)
    make = intrinsics.FUNCTIONS.get(name)
    if make is None:
        raise UnknownFormError(
            f"the function {name} is not defined in the module, and the device does not provide it",
            "Compile the kernel together with the function's source, so that the module defines it.",
        )
    return make(
        code, [_variable(code, item) for item in call.results], [_variable(code, item) for item in call.arguments]
    )


def _variable(code: CompiledInstruction, item: Operand) -> Variable:
    symbol = code.symbol(item)
    if symbol is None or symbol.symbol not in code.scope.variables:
        raise UnknownFormError("an argument is not a declared parameter")
    return code.scope.variables[symbol.symbol]


def frame_bytes(state: ExecutionState, lanes: Array, offset: int, size: int) -> tuple[Array, Array]:
    """Locate bytes in the lanes' frames. Returns local memory, and indices into it of shape (lanes, size)."""
    places = state.frame[lanes] + lanes * state.local_stride + offset
    return state.local.data, places[:, None] + np.arange(size)


def compile_call(code: CompiledInstruction, program: Executable, caller: ExecutableFunction) -> tuple[End, Step]:
    """Compile a call: one function that enters the callee, and one that collects its results afterwards."""
    call = parts_of(code)
    if target := code.symbol(call.target):
        functions = [program.functions[code.scope.functions[target.symbol]]]
        pick: Reader | None = None
        caller.calls.add(functions[0].name)
    else:
        functions = [function for function in program.functions if not function.kernel]
        pick = code.read(call.target, TYPES["u64"])
        caller.indirect = True
    possible = functions if pick is None else [function for function in functions if _fits(code, call, function)]
    if not possible or len(possible[0].parameters) != len(call.arguments):
        raise UnknownFormError(f"no possible target takes these {len(call.arguments)} arguments")
    entries = {function.number: _Entry(code, function, call.arguments, caller) for function in possible}
    return _enter(code, entries, pick), _collect(code, call, possible[0], caller, indirect=pick is not None)


def _fits(code: CompiledInstruction, call: CallOperands, function: ExecutableFunction) -> bool:
    """Whether a function can be the target of a call through a pointer: its parameters and results must match."""

    def sizes(items: tuple[Operand, ...]) -> list[int]:
        return [_variable(code, item).size for item in items]

    given = sizes(call.results), sizes(call.arguments)
    return given == ([slot.size for slot in function.results], [slot.size for slot in function.parameters])


class _Entry:
    """The entry to one function from one call."""

    def __init__(
        self,
        code: CompiledInstruction,
        function: ExecutableFunction,
        arguments: tuple[Operand, ...],
        caller: ExecutableFunction,
    ) -> None:
        self.function = function
        self.caller = caller
        self.site = code.site
        self.passing = [_passing(code, slot, item) for slot, item in zip(function.parameters, arguments, strict=True)]

    def enter(self, state: ExecutionState, key: int) -> int:
        """Move the executing lanes to the function's first segment."""
        depth = DEEPEST - (key >> DEPTH_SHIFT)
        lanes = state.lanes()
        self._check(state, lanes, depth)
        if self.function.recursive:
            save(state, self.function, depth, lanes)
        for give in self.passing:
            give(state, self.caller.frame)
        while len(state.returns) <= depth:
            state.returns.append(np.zeros(state.shape.lanes, np.int64))
        state.returns[depth][lanes] = key + 1
        state.frame[lanes] += self.caller.frame
        return (DEEPEST - depth - 1) << DEPTH_SHIFT | self.function.entry

    def _check(self, state: ExecutionState, lanes: Array, depth: int) -> None:
        need = state.frame[lanes] + self.caller.frame + self.function.frame
        if need.max() <= state.shape.local and depth < DEEPEST_CALLS:
            return
        first = int(np.argmax(need))
        raise Violation(
            f"stack overflow: calls are nested {depth + 1} deep",
            site=self.site,
            lane=int(lanes[first]),
            why=f"a thread has {state.shape.local} bytes of local memory here",
            fix="End the recursion earlier, or create the device with more stack_bytes.",
            code="gpu.fault.stack-overflow",
        )


def _passing(code: CompiledInstruction, slot: Slot, item: Operand) -> Callable[[ExecutionState, int], None]:
    """Compile passing one argument; the returned function takes the size of the caller's frame."""
    if isinstance(item, Immediate) or code.register(item):
        return _pass_value(code, slot, item)
    source = _variable(code, item)
    require(not slot.register and source.size >= slot.size, f"the size of its argument {slot.name} does not match")

    def give(state: ExecutionState, frame: int) -> None:
        lanes = state.lanes()
        memory, here = frame_bytes(state, lanes, source.offset, slot.size)
        memory[here + (frame + slot.offset - source.offset)] = memory[here]

    return give


def _pass_value(code: CompiledInstruction, slot: Slot, item: Operand) -> Callable[[ExecutionState, int], None]:
    read = code.read(item, TYPES[f"b{slot.type.bits}"])
    require(slot.register, f"its argument {slot.name} is a value, but the parameter is in memory")
    number = code.arrays.view(int(slot.offset), BITS[slot.type.size])

    def give(state: ExecutionState, _frame: int) -> None:
        state.arrays[number][state.selection] = read(state)

    return give


def _enter(code: CompiledInstruction, entries: dict[int, _Entry], pick: Reader | None) -> End:
    if pick is None:
        (entry,) = entries.values()
        return entry.enter

    def end(state: ExecutionState, key: int) -> int:
        lanes = state.lanes()
        targets = state.spread(pick(state)).astype(np.int64) - CODE
        for target in np.unique(targets):
            entry = entries.get(int(target) // 16) if target % 16 == 0 else None
            chosen = lanes[targets == target]
            if entry is None:
                raise Violation(
                    "call through a pointer that is not a function with these parameters",
                    site=code.site,
                    lane=int(chosen[0]),
                    address=int(target) + CODE,
                    fix="Check the function pointer and the types of its arguments.",
                    code="gpu.fault.bad-call",
                )
            state.selection = chosen
            state.key[chosen] = entry.enter(state, key)
        return -1

    return end


def _collect(
    code: CompiledInstruction,
    call: CallOperands,
    function: ExecutableFunction,
    caller: ExecutableFunction,
    *,
    indirect: bool,
) -> Step:
    """Compile what follows a return: restore the frame, and copy the results from the callee's frame."""
    require(len(function.results) == len(call.results), f"{function.name} has {len(function.results)} results")
    takers = [_taking(code, slot, item) for slot, item in zip(function.results, call.results, strict=True)]
    require(
        not (indirect and any(slot.register for slot in function.results)),
        "calls through pointers with results in registers are not supported",
    )

    def step(state: ExecutionState) -> None:
        state.frame[state.selection] -= caller.frame
        for take in takers:
            take(state, caller.frame)

    return step


def _taking(code: CompiledInstruction, slot: Slot, item: Operand) -> Callable[[ExecutionState, int], None]:
    if slot.register:
        write = code.write(item, TYPES[f"b{slot.type.bits}"])
        number = code.arrays.view(int(slot.offset), BITS[slot.type.size])

        def take_register(state: ExecutionState, _frame: int) -> None:
            if write is not None:
                write(state, state.arrays[number][state.selection])

        return take_register
    target = _variable(code, item)

    def take(state: ExecutionState, frame: int) -> None:
        memory, here = frame_bytes(state, state.lanes(), target.offset, slot.size)
        memory[here] = memory[here + (frame + slot.offset - target.offset)]

    return take


def save(state: ExecutionState, function: ExecutableFunction, depth: int, lanes: Array) -> None:
    """Save a recursive function's registers, which its outer activation needs."""
    saved = state.saved.setdefault((function.number, depth), [])
    if not saved:
        saved.extend(np.zeros_like(state.registers[number]) for number in function.registers)
    for copy, number in zip(saved, function.registers, strict=True):
        copy[lanes] = state.registers[number][lanes]


def compile_return(function: ExecutableFunction) -> End:
    """Compile `ret`; in a kernel it ends the threads."""
    if function.kernel:
        return leave

    def end(state: ExecutionState, key: int) -> int:
        lanes = state.lanes()
        depth = DEEPEST - (key >> DEPTH_SHIFT) - 1
        if function.recursive:
            for copy, number in zip(state.saved[function.number, depth], function.registers, strict=True):
                state.registers[number][lanes] = copy[lanes]
        keys = state.returns[depth][lanes]
        if (keys == keys[0]).all():
            return int(keys[0])
        state.key[lanes] = keys
        return -1

    return end

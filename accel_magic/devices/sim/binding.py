"""What a kernel needs to run: functions that it reaches, its arguments in memory, arrays for its registers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from accel_magic.devices.sim import specials
from accel_magic.devices.sim.types import BITS, UNSIGNED
from accel_magic.errors import ProgramError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from accel_magic.devices.sim.executable import Executable, ExecutableFunction
    from accel_magic.devices.sim.lane_state import ExecutionState
    from accel_magic.devices.sim.types import Array
    from accel_magic.devices.sim.variables import Slot


def reachable(program: Executable, kernel: ExecutableFunction) -> list[ExecutableFunction]:
    """Functions that may run: the kernel, and all that it calls."""
    by_name = {function.name: function for function in program.functions}
    found = {kernel.name: kernel}
    left = [kernel]
    while left:
        one = left.pop()
        names: Iterable[str] = one.calls
        if one.indirect:
            names = [function.name for function in program.functions if not function.kernel]
        for name in names:
            if name not in found:
                found[name] = by_name[name]
                left.append(by_name[name])
    return list(found.values())


def parameters(function: ExecutableFunction, arguments: Sequence[int | float | np.generic | bytes]) -> Array:
    """Lay out a kernel's arguments; uint8, padded to whole words."""
    if len(arguments) != len(function.parameters):
        raise ProgramError(
            f"{function.name} takes {len(function.parameters)} arguments, not {len(arguments)}.",
            why="The number of arguments must equal the number of parameters.",
            fix="Pass one argument for each parameter.",
            code="gpu.wrong-argument-count",
        )
    data = np.zeros(-(-function.parameter_bytes // 16) * 16 + 16, np.uint8)
    for number, (slot, argument) in enumerate(zip(function.parameters, arguments, strict=True)):
        raw = _bytes(slot, argument)
        if raw is None or len(raw) != slot.size:
            raise ProgramError(
                f"Argument {number} of {function.name} does not fit its parameter.",
                why=f"The parameter has {slot.size} bytes (.{slot.type.name}); the argument is {argument!r}"[:300],
                fix="Pass a number of the parameter's type, or its bytes.",
                code="gpu.bad-argument",
            )
        data[slot.offset : slot.offset + slot.size] = np.frombuffer(raw, np.uint8)
    return data


def _bytes(slot: Slot, argument: float | np.generic | bytes) -> bytes | None:
    """Return an argument's bytes; None for a number that the parameter cannot hold."""
    if isinstance(argument, bytes | np.generic):
        return bytes(argument) if isinstance(argument, bytes) else argument.tobytes()
    if slot.size not in UNSIGNED:
        return None
    if isinstance(argument, float):
        kind = {2: np.float16, 4: np.float32, 8: np.float64}.get(slot.size)
        return None if kind is None else np.array(argument).astype(kind).tobytes()
    whole = int(argument)
    if not -(2 ** (8 * slot.size - 1)) <= whole < 2 ** (8 * slot.size):
        return None
    return (whole & 2 ** (8 * slot.size) - 1).to_bytes(slot.size, "little")


def bind(program: Executable, kernel: ExecutableFunction, state: ExecutionState, multiprocessors: int) -> None:
    """Allocate the arrays that the kernel's code uses."""
    arrays = program.arrays
    used = {number for function in reachable(program, kernel) for number in function.views}
    special = set(arrays.specials.values())
    views: list[Any] = [None] * len(arrays.views)
    for (base, dtype, step), number in arrays.views.items():
        if number not in used and base not in special:
            continue
        size = arrays.bases[base]
        if base not in state.registers:
            state.registers[base] = np.zeros(state.shape.lanes, np.bool_ if size == 0 else BITS[size])
        views[number] = state.registers[base].view(dtype)[::step]
    state.arrays = views
    for function in reachable(program, kernel):
        for base in function.registers:
            size = arrays.bases[base]
            if base not in state.registers and function.recursive:
                state.registers[base] = np.zeros(state.shape.lanes, np.bool_ if size == 0 else BITS[size])
    for name, base in arrays.specials.items():
        specials.fill(name, state.registers[base], state, multiprocessors)

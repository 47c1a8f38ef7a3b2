"""Atomic memory operations: atom and red (PTX ISA 9.7.13)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from accel_magic.devices.sim import float_arithmetic, memory_access, true_atomics
from accel_magic.devices.sim.device_memory import GLOBAL
from accel_magic.devices.sim.instruction_compiler import Modifiers, require
from accel_magic.devices.sim.memory_access import LaneAccess
from accel_magic.devices.sim.operations import floating
from accel_magic.devices.sim.operations.moving import ORDERS, space_of
from accel_magic.devices.sim.types import TYPES, PtxType
from accel_magic.ptx.ptx_model import items_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.devices.sim.instruction_compiler import CompiledInstruction, Step
    from accel_magic.devices.sim.lane_state import ExecutionState
    from accel_magic.devices.sim.types import Array
    from accel_magic.ptx.ptx_model import Operand

_UFUNCS: dict[str, Any] = {
    "add": np.add,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "min": np.minimum,
    "max": np.maximum,
}
_FUNCTIONS: dict[str, Callable[[Array, Array], Array]] = {"inc": memory_access.increase, "dec": memory_access.decrease}
_NAMES = (*_UFUNCS, *_FUNCTIONS, "exch", "cas")
_HALVES = ("f16", "f16x2", "bf16", "bf16x2")


@dataclass(frozen=True)
class _Operation:
    """An operation on memory.

    Attributes:
        name: 'add', 'cas', ...
        kind: Type of the elements.
        fetch: Whether the previous values are needed.

    """

    name: str
    kind: PtxType
    fetch: bool

    def one_by_one(self) -> Callable[[Array, Array], Array] | None:
        """Return the function of (old, value) for operations that have no ufunc, else None."""
        if self.kind.name in _HALVES:
            function: Callable[[Array, Array], Array] = floating.RULES[self.name](Modifiers((self.kind.name,))).function
            return function
        if self.kind.kind == "f" and self.name in ("min", "max"):
            return float_arithmetic.lesser if self.name == "min" else float_arithmetic.greater
        return _FUNCTIONS.get(self.name)

    def apply(self, memory: Array, places: Array, values: list[Array]) -> Array | None:
        """Apply it to units of the right type; returns the previous values if they are needed."""
        if self.name == "cas":
            return memory_access.compare_and_swap(memory, places, *values)
        if self.name == "exch":
            return memory_access.exchange(memory, places, values[0])
        function = self.one_by_one()
        if function is not None:
            return memory_access.fetch_rounds(memory, places, values[0], function)
        if self.fetch:
            return memory_access.fetch_fold(memory, places, values[0], _UFUNCS[self.name])
        memory_access.fold(memory, places, values[0], _UFUNCS[self.name])
        return None


def _apply(
    state: ExecutionState, operation: _Operation, units: Array, places: Array, values: list[Array]
) -> Array | None:
    """Apply the operation, with processor atomics if programs on the CPU may update the memory concurrently."""
    heap, size = state.heap, units.dtype.itemsize
    if np.may_share_memory(units[:1], heap.region.data[:1]) and true_atomics.possible(operation.name, units):
        low, high = (GLOBAL + size * int(place) for place in (places.min(), places.max()))
        if heap.others_write(low, high):
            return true_atomics.apply(operation.name, units, places, values)
    return operation.apply(units, places, values)


def _run(
    state: ExecutionState, how: LaneAccess, operation: _Operation, addresses: Array, values: list[list[Array]]
) -> list[Array]:
    """Apply the operation to every element of every lane's vector."""
    kind = operation.kind
    results = [np.zeros(len(addresses), kind.dtype) for _ in values]
    for part in list(memory_access.parts(state, how, addresses)):
        units = part.units.view(kind.dtype)
        for number, operands in enumerate(values):
            chosen = operands if part.lanes is None else [value[part.lanes] for value in operands]
            before = _apply(state, operation, units, part.places + number, chosen)
            if before is not None:
                results[number][slice(None) if part.lanes is None else part.lanes] = before
    return results


def _compile(code: CompiledInstruction, modifiers: Modifiers, *, fetch: bool) -> Step:
    modifiers.drop(ORDERS)
    modifiers.flag("noftz")
    space, name = space_of(modifiers), modifiers.one_of(_NAMES)
    require(bool(name), "its operation is not supported")
    width = {"v2": 2, "v4": 4, "v8": 8}.get(modifiers.one_of(("v2", "v4", "v8")), 1)
    kind = modifiers.type()
    kind = TYPES[f"b{kind.bits}"] if name in ("exch", "cas") else kind
    require(kind.size <= 8 or name in ("exch", "cas"), "its operation is not supported for this type")
    operands = code.operands[1:] if fetch else code.operands
    address = code.address(operands[0], space)
    columns = [items_of(item) for item in operands[1 : 3 if name == "cas" else 2]]
    require(all(len(column) == width for column in columns), f"its operands must have {width} elements")
    readers = [[code.read(column[at], kind) for column in columns] for at in range(width)]
    targets = _targets(code, width) if fetch else []
    writers = [code.write(target, kind) for target in targets]
    how = LaneAccess(space, kind.size, width, True, code.site)
    operation = _Operation(name, kind, any(write is not None for write in writers))

    def step(state: ExecutionState) -> None:
        addresses = state.spread(address(state))
        values = [[state.spread(read(state)) for read in element] for element in readers]
        results = _run(state, how, operation, addresses, values)
        for write, result in zip(writers, results, strict=False):
            if write is not None:
                write(state, result)

    return step


def _targets(code: CompiledInstruction, width: int) -> tuple[Operand, ...]:
    items = items_of(code.operands[0])
    require(len(items) == width, f"its operands must have {width} elements")
    return items


STEPS: dict[str, Callable[[CompiledInstruction, Modifiers], Step]] = {
    "atom": lambda code, modifiers: _compile(code, modifiers, fetch=True),
    "red": lambda code, modifiers: _compile(code, modifiers, fetch=False),
}
"""Instruction name to the function that compiles it."""

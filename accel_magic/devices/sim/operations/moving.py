"""mov, loads, stores, and address conversions (PTX ISA 9.7.9)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.devices.sim import memory_access
from accel_magic.devices.sim.device_memory import GLOBAL, LOCAL, PARAMETER, SHARED, WINDOW
from accel_magic.devices.sim.faults import Violation
from accel_magic.devices.sim.instruction_compiler import Modifiers, UnknownFormError, require
from accel_magic.devices.sim.memory_access import LaneAccess
from accel_magic.devices.sim.types import TYPES, PtxType
from accel_magic.ptx.ptx_model import Address, Immediate, SymbolValue, Vector, items_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.devices.sim.instruction_compiler import CompiledInstruction, Reader, Step, Writer
    from accel_magic.devices.sim.lane_state import ExecutionState
    from accel_magic.devices.sim.types import Array
    from accel_magic.ptx.ptx_model import Operand

SPACES = {
    "global": "global",
    "shared": "shared",
    "shared::cluster": "shared",
    "shared::cta": "shared",
    "local": "local",
    "const": "const",
    "param": "param",
    "param::entry": "param",
    "param::func": "param",
}
ORDERS = frozenset(
    {
        "weak",
        "relaxed",
        "acquire",
        "release",
        "acq_rel",
        "sc",
        "volatile",
        "mmio",
        "cta",
        "cluster",
        "gpu",
        "sys",
        "ca",
        "cg",
        "cs",
        "lu",
        "cv",
        "wb",
        "wt",
        "nc",
        "L1::evict_normal",
        "L1::evict_unchanged",
        "L1::evict_first",
        "L1::evict_last",
        "L1::no_allocate",
        "L2::64B",
        "L2::128B",
        "L2::256B",
        "L2::evict_first",
        "L2::evict_last",
        "L2::evict_normal",
        "L2::cache_hint",
    }
)
"""Modifiers for order, scope and caching. They have no effect: memory is coherent, and each instruction completes in
all lanes before the next begins."""
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
_WIDEST = 16
"""Bytes of a `.b128` register."""


def space_of(modifiers: Modifiers) -> str:
    """Take the state space; '' for generic."""
    return SPACES.get(modifiers.one_of(tuple(SPACES)), "")


def _raw(kind: PtxType) -> PtxType:
    """Return the type that a load or store moves: integers as they are (signed ones sign-extend), others as bits."""
    return kind if kind.integer else TYPES[f"b{kind.bits}"]


def _shape(modifiers: Modifiers, target: Operand) -> tuple[str, PtxType, tuple[Operand, ...]]:
    """Read space, type, and the registers of a load's or store's data."""
    space = space_of(modifiers)
    modifiers.drop(ORDERS)
    count = _VECTORS.get(modifiers.one_of(tuple(_VECTORS)), 1)
    kind = _raw(modifiers.type())
    items = items_of(target)
    require(len(items) == count, f"it moves {count} elements but has {len(items)} registers")
    return space, kind, items


def _where(code: CompiledInstruction, space: str, operand: Operand) -> tuple[str, Reader]:
    """Compile an address. Functions' parameters are in the frame; kernels' have their own space."""
    if space != "param":
        return space, code.address(operand, space)
    if isinstance(operand, Address) and (symbol := code.symbol(operand.base)):
        variable = code.scope.variables.get(symbol.symbol)
        if variable is None:
            raise UnknownFormError(f"{symbol.symbol} is not declared")
        return variable.space, code.address(operand, variable.space)
    return "", _parameter_pointer(code, operand)


def _parameter_pointer(code: CompiledInstruction, operand: Operand) -> Reader:
    """Compile `[register]` in the parameter space: an offset in it, or a generic address from mov."""
    read = code.address(operand, "param")
    window = np.uint64(PARAMETER)
    return lambda state: np.where(read(state) >> np.uint64(WINDOW) == 0, read(state) | window, read(state))


def _ld(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    target, source = code.operands[:2]
    space, kind, items = _shape(modifiers, target)
    space, address = _where(code, space, source)
    writers = [code.write(item, kind) for item in items]
    if space == "param" and isinstance(source, Address) and (symbol := code.symbol(source.base)):
        return _constant_load(code, replace(symbol, offset=source.offset), kind, writers)
    how = LaneAccess(space, kind.size, len(items), False, code.site)

    def step(state: ExecutionState) -> None:
        for write, value in zip(writers, memory_access.load(state, how, state.spread(address(state))), strict=True):
            if write is not None:
                write(state, value.view(kind.dtype))

    return step


def _constant_load(code: CompiledInstruction, source: SymbolValue, kind: PtxType, writers: list[Writer | None]) -> Step:
    """Compile a load of kernel parameters at a constant offset: the same value for all lanes."""
    variable, first = code.scope.variables[source.symbol], source.offset
    end = first + kind.size * len(writers)
    require(first >= 0 and end <= variable.size, f"it reads beyond {source.symbol}, which has {variable.size} bytes")
    at = variable.offset + first

    def step(state: ExecutionState) -> None:
        for number, write in enumerate(writers):
            if write is not None:
                start = at + number * kind.size
                write(state, state.parameters.data[start : start + kind.size].view(kind.dtype)[0])

    return step


def _st(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    target, source = code.operands[:2]
    space, kind, items = _shape(modifiers, source)
    space, address = _where(code, space, target)
    bits = TYPES[f"b{kind.bits}"]
    readers = [code.read(item, bits) for item in items]
    how = LaneAccess(space, kind.size, len(items), True, code.site)

    def step(state: ExecutionState) -> None:
        memory_access.store(state, how, state.spread(address(state)), [read(state) for read in readers])

    return step


def _mov(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    kind = modifiers.type()
    target, source = code.operands[:2]
    if isinstance(source, Vector):
        return _gather(code, target, source, kind)
    if isinstance(target, Vector):
        return _scatter(code, target, source, kind)
    raw = kind if kind.kind == "p" else TYPES[f"b{kind.bits}"]
    if isinstance(source, Immediate):
        raw = kind
    read = _value_or_address(code, source, raw)
    write = code.write(target, raw)
    return (lambda _state: None) if write is None else (lambda state: write(state, read(state)))


def _value_or_address(code: CompiledInstruction, source: Operand, kind: PtxType) -> Reader:
    """Compile a source; a variable's address is in its own space, or generic for a function's parameter."""
    symbol = code.symbol(source)
    if symbol is None:
        return code.read(source, kind)
    name, variable = symbol.symbol, code.scope.variables.get(symbol.symbol)
    # A kernel's parameter is accessed by its offset. A function's parameter is in the frame; a generic address
    # distinguishes it from a kernel's.
    read = code.address_of(name, symbol.offset, generic=variable is not None and variable.parameter)
    require(variable is not None or name in code.scope.functions, f"{name} is not declared")
    return lambda state: read(state).astype(kind.dtype)


def _gather(code: CompiledInstruction, target: Operand, source: Vector, kind: PtxType) -> Step:
    """Compile `mov.b64 r, {low, high}`: pack several registers into one."""
    if kind.size == _WIDEST:
        return _gather_widest(code, target, source, kind)
    piece = TYPES[f"u{kind.bits // len(source.items)}"]
    whole = TYPES[f"u{kind.bits}"]
    readers = [code.read(item, piece) for item in source.items]
    write = code.write(target, whole)

    def step(state: ExecutionState) -> None:
        value = np.zeros(state.count(), whole.dtype)
        for place, read in enumerate(readers):
            value |= np.asarray(read(state)).astype(whole.dtype) << whole.dtype(place * piece.bits)
        if write is not None:
            write(state, value)

    return step


def _scatter(code: CompiledInstruction, target: Vector, source: Operand, kind: PtxType) -> Step:
    """Compile `mov.b64 {low, high}, r`: unpack one register into several."""
    piece = TYPES[f"u{kind.bits // len(target.items)}"]
    whole = TYPES[f"b{kind.bits}"]
    read = code.read(source, whole)
    writers = [code.write(item, piece) for item in target.items]
    if kind.size == _WIDEST:
        return lambda state: _write_pieces(state, writers, np.ascontiguousarray(read(state)).view(piece.dtype))

    def step(state: ExecutionState) -> None:
        value = read(state)
        for place, write in enumerate(writers):
            if write is not None:
                write(state, np.asarray(value >> whole.dtype(place * piece.bits)).astype(piece.dtype))

    return step


def _gather_widest(code: CompiledInstruction, target: Operand, source: Vector, kind: PtxType) -> Step:
    """Compile `mov.b128 q, {low, high}`."""
    piece = TYPES[f"u{kind.bits // len(source.items)}"]
    readers = [code.read(item, piece) for item in source.items]
    write = code.write(target, kind)

    def step(state: ExecutionState) -> None:
        if write is not None:
            pieces = np.stack([state.spread(read(state)) for read in readers], axis=-1)
            write(state, pieces.view(kind.dtype)[:, 0])

    return step


def _write_pieces(state: ExecutionState, writers: list[Writer | None], pieces: Array) -> None:
    """Write the pieces of each lane's value, consecutive in `pieces`, to a register each."""
    for place, write in enumerate(writers):
        if write is not None:
            write(state, pieces[place :: len(writers)])


_BASES = {"global": 0, "const": 0, "shared": SHARED, "local": LOCAL, "param": PARAMETER}


def _cvta(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    """Convert between generic addresses and those of a space; as on GPUs, null does not stay null."""
    back, space, kind = modifiers.flag("to"), space_of(modifiers), modifiers.type()
    require(space in _BASES, "it has no supported space")
    target, source = code.operands[:2]
    read = _value_or_address(code, source, TYPES["u64" if code.symbol(source) else f"u{kind.bits}"])
    write = code.write(target, TYPES[f"u{kind.bits}"])
    base = np.uint64(_BASES[space])

    def step(state: ExecutionState) -> None:
        value = np.asarray(read(state)).astype(np.uint64)
        if write is not None:
            write(state, (value - base if back else value + base).astype(kind.dtype))

    return step


def _isspacep(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    space = space_of(modifiers)
    require(space in _BASES, "it has no supported space")
    target, source = code.operands[:2]
    read = code.read(source, TYPES["u64"])
    write = code.write(target, TYPES["pred"])

    def step(state: ExecutionState) -> None:
        address = np.asarray(read(state))
        if write is not None:
            write(state, _within(state, space, address))

    return step


def _within(state: ExecutionState, space: str, address: Array) -> Array:
    window = address >> np.uint64(WINDOW)
    if space == "const":
        places = [state.heap.holding(int(one), 1) for one in np.atleast_1d(address)]
        return np.array([place is not None and place.constant for place in places])
    if space == "global":
        return window >= np.uint64(GLOBAL >> WINDOW)
    return window == np.uint64(_BASES[space] >> WINDOW)


def _nothing(_code: CompiledInstruction, modifiers: Modifiers) -> Step:
    """Compile an instruction that has no effect here."""
    modifiers.left.clear()
    return lambda _state: None


def _mapa(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    """Compile the address of a variable in another block of the cluster: there is one block, of rank 0."""
    space, kind = space_of(modifiers), modifiers.type()
    require(space in ("shared", ""), "it has no supported space")
    target, source, rank = code.operands
    read = _value_or_address(code, source, kind)
    write, ranks = code.write(target, kind), code.read(rank, TYPES["u32"])

    def step(state: ExecutionState) -> None:
        wrong = state.spread(ranks(state)) != 0
        if wrong.any():
            first = int(np.argmax(wrong))
            raise Violation(
                f"there is no block {state.spread(ranks(state))[first]} in the cluster",
                site=code.site,
                lane=int(state.lanes()[first]),
                why="the simulated device runs clusters of one block",
                fix="Take the number of blocks from %cluster_nctarank: cluster_group::num_blocks().",
                code="gpu.fault.bad-cluster-rank",
            )
        if write is not None:
            write(state, read(state))

    return step


def _getctarank(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    space_of(modifiers)
    modifiers.type()
    write = code.write(code.operands[0], TYPES["u32"])
    return lambda state: None if write is None else write(state, np.zeros(state.count(), np.uint32))


def _alloca(_code: CompiledInstruction, _modifiers: Modifiers) -> Step:
    raise UnknownFormError("stack memory of dynamic size is not supported")


STEPS: dict[str, Callable[[CompiledInstruction, Modifiers], Step]] = {
    "mov": _mov,
    "ld": _ld,
    "ldu": _ld,
    "st": _st,
    "cvta": _cvta,
    "isspacep": _isspacep,
    "mapa": _mapa,
    "getctarank": _getctarank,
    "alloca": _alloca,
    **dict.fromkeys(("prefetch", "prefetchu", "applypriority", "discard", "createpolicy", "griddepcontrol"), _nothing),
    **dict.fromkeys(("membar", "fence", "setmaxnreg", "pmevent"), _nothing),
}
"""Instruction name to the function that compiles it."""

"""Matrix fragments: which elements of a matrix each lane of a warp holds, and how (PTX ISA 9.7.14).

A fragment is described by index arrays, so that one assignment assembles the matrices of all warps from their registers
and one selection splits them again. Elements are handled as raw bits; `numbers` and `raw` convert them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic.devices.sim import float_arithmetic
from accel_magic.devices.sim.faults import Violation
from accel_magic.devices.sim.instruction_compiler import require
from accel_magic.devices.sim.lane_state import WARP
from accel_magic.devices.sim.types import TYPES
from accel_magic.ptx.ptx_model import items_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from accel_magic.devices.sim.faults import FaultSite
    from accel_magic.devices.sim.instruction_compiler import CompiledInstruction, Reader, Writer
    from accel_magic.devices.sim.lane_state import ExecutionState
    from accel_magic.devices.sim.types import Array
    from accel_magic.ptx.ptx_model import Operand

_LANE: Final = np.arange(WARP)
_GROUP: Final = _LANE // 4
_INDEX: Final = _LANE % 4
BITS: Final[Mapping[str, int]] = {
    "f64": 64,
    "f32": 32,
    "s32": 32,
    "tf32": 32,
    "f16": 16,
    "bf16": 16,
    "e4m3": 8,
    "e5m2": 8,
    "s8": 8,
    "u8": 8,
    "s4": 4,
    "u4": 4,
    "b1": 1,
}
"""Bits of an element."""


def whole_warps(state: ExecutionState, site: FaultSite) -> Array:
    """Numbers of the executing lanes, shape (warps, 32).

    Raises:
        Violation: Only part of a warp executes.

    """
    lanes = state.lanes()
    if len(lanes) % WARP or (lanes.reshape(-1, WARP)[:, 0] + WARP - 1 != lanes.reshape(-1, WARP)[:, -1]).any():
        raise Violation(
            "a matrix instruction was executed by part of a warp",
            site=site,
            lane=int(lanes[0]),
            fix=f"Use a block size that is a multiple of {WARP}, and execute the instruction in all lanes.",
            code="gpu.fault.incomplete-warp",
        )
    return lanes.reshape(-1, WARP)


def _integers(bits: int, *, signed: bool) -> Callable[[Array], Array]:
    sign = (1 << bits - 1) if signed else 0
    return lambda raw: (raw.astype(np.int64) ^ sign) - sign


_NUMBERS: Final[Mapping[str, Callable[[Array], Array]]] = {
    "f64": lambda raw: raw.view(np.float64),
    "f32": lambda raw: raw.view(np.float32).astype(np.float64),
    "tf32": lambda raw: (raw & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64),
    "f16": lambda raw: raw.astype(np.uint16).view(np.float16).astype(np.float64),
    "bf16": lambda raw: float_arithmetic.widen_bf16(raw).astype(np.float64),
    "e4m3": lambda raw: float_arithmetic.from_eight("e4m3", raw).astype(np.float64),
    "e5m2": lambda raw: float_arithmetic.from_eight("e5m2", raw).astype(np.float64),
    "s32": _integers(32, signed=True),
    "s8": _integers(8, signed=True),
    "u8": _integers(8, signed=False),
    "s4": _integers(4, signed=True),
    "u4": _integers(4, signed=False),
    "b1": _integers(1, signed=False),
}
_SUMS: Final[Mapping[str, Any]] = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "s32": np.int32}
"""Types of accumulators."""


def numbers(kind: str) -> Callable[[Array], Array]:
    """Return the conversion from raw elements of a type to float64 or int64.

    Raises:
        UnknownFormError: The device does not support the type.

    """
    require(kind in _NUMBERS, f"products of .{kind} are not supported")
    return _NUMBERS[kind]


def raw(kind: str) -> Callable[[Array], Array]:
    """Return the conversion from numbers to raw elements of an accumulator's type, rounded to nearest.

    Raises:
        UnknownFormError: There are no sums of this type.

    """
    require(kind in _SUMS, f"sums of .{kind} are not supported")
    dtype = np.dtype(_SUMS[kind])
    return lambda values: values.astype(dtype).view(f"u{dtype.itemsize}")


@dataclass(frozen=True)
class Fragment:
    """The places of a matrix's elements in the registers of a warp.

    Attributes:
        kind: Type of the elements.
        rows: Row of each element; shape (registers, elements of a register, 32).
        columns: Its column.
        matrices: Which of several matrices it belongs to; 0 if there is one.
        shape: (matrices, rows, columns).

    """

    kind: str
    rows: Array
    columns: Array
    matrices: Array
    shape: tuple[int, int, int]

    @classmethod
    def of(cls, kind: str, rows: Array, columns: Array, matrices: Array | int = 0) -> Fragment:
        """Make a fragment from arrays that broadcast to (registers, elements of a register, 32)."""
        row, column, matrix = (np.array(one) for one in np.broadcast_arrays(rows, columns, matrices))
        return cls(kind, row, column, matrix, (int(matrix.max()) + 1, int(row.max()) + 1, int(column.max()) + 1))

    def repeated(self, times: int) -> Fragment:
        """Hold every element in `times` registers."""
        row, column, matrix = (np.concatenate([one] * times) for one in (self.rows, self.columns, self.matrices))
        return Fragment(self.kind, row, column, matrix, self.shape)

    @property
    def registers(self) -> int:
        """Number of registers in each lane."""
        return len(self.rows)

    @property
    def _word(self) -> Any:
        return np.uint64 if BITS[self.kind] == 64 else np.uint32

    def readers(self, code: CompiledInstruction, operand: Operand) -> list[Reader]:
        """Compile the registers of a source."""
        return [code.read(item, self._type) for item in self._checked(operand)]

    def writers(self, code: CompiledInstruction, operand: Operand) -> list[Writer | None]:
        """Compile the registers of a destination."""
        return [code.write(item, self._type) for item in self._checked(operand)]

    @property
    def _type(self) -> Any:
        return TYPES["u64"] if BITS[self.kind] == 64 else TYPES["u32"]

    def _checked(self, operand: Operand) -> tuple[Operand, ...]:
        found = items_of(operand)
        require(
            len(found) == self.registers,
            f"a fragment of .{self.kind} has {self.registers} registers here, not {len(found)}",
        )
        return found

    def take(self, words: list[Array]) -> Array:
        """Assemble matrices of raw elements, shape (warps, *shape), from registers of shape (warps, 32)."""
        bits, word = BITS[self.kind], self._word
        held = np.stack(words, axis=1)[:, :, None, :]
        shifts = (np.arange(self.rows.shape[1]) * bits).astype(word)[None, None, :, None]
        elements = held >> shifts & word(2**bits - 1)
        result = np.zeros((len(held), *self.shape), word)
        result[:, self.matrices, self.rows, self.columns] = elements
        return result

    def give(self, matrix: Array) -> list[Array]:
        """Split matrices of raw elements into registers of shape (warps, 32)."""
        word = self._word
        elements = matrix[:, self.matrices, self.rows, self.columns].astype(word)
        shifts = (np.arange(self.rows.shape[1]) * BITS[self.kind]).astype(word)[None, None, :, None]
        words = np.bitwise_or.reduce(elements << shifts, axis=2)
        return [words[:, at] for at in range(self.registers)]

    def read(self, state: ExecutionState, readers: list[Reader]) -> Array:
        """Assemble matrices from the executing lanes' registers."""
        return self.take([state.spread(read(state)).reshape(-1, WARP) for read in readers])

    def write(self, state: ExecutionState, writers: list[Writer | None], matrix: Array) -> None:
        """Write matrices to the executing lanes' registers."""
        for write, word in zip(writers, self.give(matrix), strict=True):
            if write is not None:
                write(state, word.reshape(-1))


def _places(registers: int, kind: str) -> tuple[Array, Array, int]:
    """Return the numbers of registers and of elements in them, to broadcast, and the elements of a register."""
    per = max(32 // BITS[kind], 1)
    return np.arange(registers)[:, None, None], np.arange(per)[None, :, None], per


def left(kind: str, rows: int, depth: int) -> Fragment:
    """Return the fragment of a left matrix: 8 rows by 4 registers at a time, rows first."""
    register, element, per = _places(rows * depth // (WARP * max(32 // BITS[kind], 1)), kind)
    tall = rows // 8
    return Fragment.of(
        kind, _GROUP + 8 * (register % tall) + 0 * element, _INDEX * per + 4 * per * (register // tall) + element
    )


def right(kind: str, depth: int, columns: int) -> Fragment:
    """Return the fragment of a right matrix: 4 registers by 8 columns at a time, rows first."""
    register, element, per = _places(depth * columns // (WARP * max(32 // BITS[kind], 1)), kind)
    tall = depth // (4 * per)
    return Fragment.of(
        kind, _INDEX * per + 4 * per * (register % tall) + element, _GROUP + 8 * (register // tall) + 0 * element
    )


def sums(kind: str, rows: int, columns: int) -> Fragment:
    """Return the fragment of an accumulator: 8 rows by 8 columns at a time, rows first."""
    register, element, per = _places(rows * columns // (WARP * max(32 // BITS[kind], 1)), kind)
    number, tall = register * per + element, rows // 8
    return Fragment.of(kind, _GROUP + 8 * (number // 2 % tall), 2 * _INDEX + number % 2 + 8 * (number // 2 // tall))


_QUAD: Final = _LANE % 16 // 4
"""Which of the four products of m8n8k4 a lane takes part in."""
_HALF: Final = _LANE // 16 * 4


def left_of_four(kind: str, *, by_rows: bool) -> Fragment:
    """Return the fragment of the left matrices of m8n8k4: four products, each of two groups of four lanes."""
    register, element, per = _places(2, kind)
    number = register * per + element
    places = (_INDEX + _HALF + 0 * number, number + 0 * _LANE) if by_rows else (number + _HALF, _INDEX + 0 * number)
    return Fragment.of(kind, *places, _QUAD)


def right_of_four(kind: str, *, by_rows: bool) -> Fragment:
    """Return the fragment of the right matrices of m8n8k4."""
    turned = left_of_four(kind, by_rows=not by_rows)
    return Fragment.of(kind, turned.columns, turned.rows, turned.matrices)


def sums_of_four(kind: str) -> Fragment:
    """Return the fragment of the accumulators of m8n8k4."""
    register, element, per = _places(8 * BITS[kind] // 32, kind)
    number = register * per + element
    if kind == "f16":
        return Fragment.of(kind, _INDEX + _HALF + 0 * number, number + 0 * _LANE, _QUAD)
    return Fragment.of(kind, (_INDEX & 1) + (number & 2) + _HALF, (number & 4) + (_INDEX & 2) + (number & 1), _QUAD)

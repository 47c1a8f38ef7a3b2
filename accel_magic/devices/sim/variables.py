"""Layout and initial values of declared variables and parameters."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.devices.sim.instruction_compiler import UnknownFormError, immediate
from accel_magic.devices.sim.types import TYPES, Array, PtxType
from accel_magic.ptx import ptx_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_OPAQUE = 8
"""Bytes of texture, sampler and surface references, which the device cannot use."""
OPAQUE = frozenset({"texref", "samplerref", "surfref"})
"""Types of these references."""
NO_REFERENCES = "texture and surface references (.texref, .surfref) are not supported"


@dataclass(frozen=True, slots=True)
class Slot:
    """A parameter or result of a function, in the frame or in the kernel's parameters.

    Attributes:
        register: Whether it is a register rather than memory; `offset` is then the register's number.

    """

    name: str
    type: PtxType
    offset: int
    size: int
    register: bool = False


def align(offset: int, to: int) -> int:
    """Round up to a multiple."""
    return -(-offset // to) * to


def type_named(name: str) -> PtxType:
    """Look up a declared type.

    Raises:
        UnknownFormError: The device does not support it.

    """
    if name in OPAQUE:
        raise UnknownFormError(NO_REFERENCES)
    if name not in TYPES:
        raise UnknownFormError(f"the type .{name} is not supported")
    return TYPES[name]


def parameters(declared: Iterable[ptx_model.Parameter], start: int = 0) -> tuple[tuple[Slot, ...], int]:
    """Lay out parameters as C does. Returns them and the offset where they end."""
    slots = []
    for number, parameter in enumerate(declared):
        kind = type_named(parameter.type)
        size = kind.size * prod(size or 1 for size in parameter.dimensions)
        at = align(start, parameter.align or kind.size)
        slots.append(Slot(parameter.name or f"_{number}", kind, at, size, parameter.space == "reg"))
        start = at + size
    return tuple(slots), start


def sizes(declaration: ptx_model.Declaration, one: ptx_model.Declared) -> tuple[int, int]:
    """Return the bytes and alignment of a variable."""
    kind = TYPES.get(declaration.type)
    element = (kind.size if kind else _OPAQUE) * declaration.vector
    count = 1
    for place, dimension in enumerate(one.dimensions):
        given = dimension
        if given is None:
            given = len(one.initial.items) if place == 0 and isinstance(one.initial, ptx_model.Vector) else 0
        count *= given
    return element * count, max(declaration.align, element)


def image(
    declaration: ptx_model.Declaration, one: ptx_model.Declared, address: Callable[[str, bool], int]
) -> Array | None:
    """Return a variable's initial bytes; None for zeros.

    Args:
        declaration: The declaration that contains it.
        one: The variable.
        address: Maps a symbol, and whether its generic address is wanted, to its address.

    """
    if one.initial is None:
        return None
    kind = type_named(declaration.type)
    size, _ = sizes(declaration, one)
    data = np.zeros(size, np.uint8)
    inner = [size or 0 for size in one.dimensions[1:]]
    for at, value in _values(0, one.initial, inner, kind.size):
        data[at : at + kind.size] = np.frombuffer(_bytes(value, kind, address), np.uint8)
    return data


def _values(at: int, value: ptx_model.Operand, inner: list[int], size: int) -> Iterator[tuple[int, ptx_model.Operand]]:
    """Yield each scalar and its offset; the elements of an array have the `inner` dimensions."""
    if not isinstance(value, ptx_model.Vector):
        yield at, value
        return
    for number, item in enumerate(value.items):
        yield from _values(at + number * size * prod(inner), item, inner[1:], size)


def _bytes(value: ptx_model.Operand, kind: PtxType, address: Callable[[str, bool], int]) -> bytes:
    if isinstance(value, ptx_model.Immediate):
        data: bytes = immediate(value, kind).tobytes()
        return data
    if isinstance(value, ptx_model.Name):
        value = ptx_model.SymbolValue(value.text)
    if not isinstance(value, ptx_model.SymbolValue):
        raise UnknownFormError("an initial value is neither a number nor an address")
    place = address(value.symbol, value.generic) + value.offset
    if value.mask:
        shift = (value.mask & -value.mask).bit_length() - 1
        place = (place & value.mask) >> shift
    whole: int = place & 2**kind.bits - 1
    return whole.to_bytes(kind.size, "little")

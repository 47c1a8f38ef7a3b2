"""What an instruction does to memory: which address, how many bytes, in which space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic.gpu.context import Operation, Space
from accel_magic.gpu.ptx.model import Address, Immediate, Instruction, Name, Operand

if TYPE_CHECKING:
    from collections.abc import Callable

SPACES: Final = {
    "global": Space.GLOBAL,
    "shared": Space.SHARED,
    "local": Space.LOCAL,
    "const": Space.CONST,
    "param": Space.PARAM,
}
_NO_MEMORY: Final = frozenset({Space.PARAM, Space.CONST})
_BYTES: Final = {
    **{f"{kind}{bits}": bits // 8 for kind in "bsuf" for bits in (8, 16, 32, 64, 128)},
    **dict.fromkeys(("bf16", "e4m3x2", "e5m2x2"), 2),
    **dict.fromkeys(("f16x2", "bf16x2", "e4m3x4", "e5m2x4"), 4),
}
"""Bytes of one element of a type."""
_VECTORS: Final = {"v2": 2, "v4": 4, "v8": 8}
_MATRICES: Final = {"x1": 1, "x2": 2, "x4": 4}


@dataclass(frozen=True, slots=True)
class Access:
    """A memory operation.

    Attributes:
        operation: What it does.
        space: As the opcode says; of copies the space of `address`.
        address: Which address is reported. Of copies between global and shared memory the global one; of copies of
            tensors the tensor map's, since the elements' addresses are not in the instruction.
        size: Bytes per lane over all elements of a vector; a register where the instruction takes it from one; 0 where
            it cannot be known. Of matrix loads and stores what each lane receives or gives: their rows together have
            as many bytes.

    """

    operation: Operation
    space: Space
    address: Address
    size: int | Name


def access(instruction: Instruction) -> Access | None:
    """Say what an instruction does to memory.

    Parameters and constants are no memory here, nor are textures, surfaces, prefetches and the barriers of asynchronous
    copies.

    Raises:
        ProgramError: The operands cannot be read.

    """
    rule = _RULES.get(instruction.opcode[0])
    found = rule(instruction) if rule else None
    return None if found is None or found.space in _NO_MEMORY else found


def _spaces(instruction: Instruction) -> list[Space]:
    bare = (part.partition("::")[0] for part in instruction.opcode[1:])
    return [SPACES[part] for part in bare if part in SPACES]


def _bytes(instruction: Instruction) -> int:
    element = next((_BYTES[part] for part in reversed(instruction.opcode) if part in _BYTES), 0)
    vector = next((_VECTORS[part] for part in instruction.opcode if part in _VECTORS), 1)
    return element * vector


def _addresses(instruction: Instruction) -> list[Address]:
    return [operand for operand in instruction.operands if isinstance(operand, Address)]


def _simple(operation: Operation) -> Callable[[Instruction], Access | None]:
    def rule(instruction: Instruction) -> Access | None:
        space = next(iter(_spaces(instruction)), Space.GENERIC)
        if space in _NO_MEMORY:
            return None
        size = _size(instruction.operands[1]) if instruction.opcode[1:2] == ("bulk",) else _bytes(instruction)
        return Access(operation, space, _addresses(instruction)[0], size)

    return rule


def _matrix(operation: Operation) -> Callable[[Instruction], Access | None]:
    def rule(instruction: Instruction) -> Access | None:
        count = next((_MATRICES[part] for part in instruction.opcode if part in _MATRICES), 1)
        return Access(operation, Space.SHARED, _addresses(instruction)[0], 4 * count)

    return rule


def _multimem(instruction: Instruction) -> Access | None:
    kinds = {"ld_reduce": Operation.LOAD, "st": Operation.STORE, "red": Operation.ATOMIC}
    operation = kinds.get(instruction.opcode[1])
    return _simple(operation)(instruction) if operation else None


def _copy(instruction: Instruction) -> Access | None:
    spaces, addresses = _spaces(instruction), _addresses(instruction)
    if "prefetch" in instruction.opcode or len(addresses) < 2 or len(spaces) < 2:
        return None
    if "tensor" in instruction.opcode:
        tensor = next((address for address in addresses if address.coordinates), addresses[0])
        return Access(Operation.ASYNC_COPY, Space.GENERIC, Address(tensor.base, tensor.offset), 0)
    place = spaces.index(Space.GLOBAL) if Space.GLOBAL in spaces[:2] else 1
    return Access(Operation.ASYNC_COPY, spaces[place], addresses[place], _size(instruction.operands[2]))


def _size(operand: Operand) -> int | Name:
    if isinstance(operand, Immediate):
        return int(operand.value)
    return operand if isinstance(operand, Name) else 0


_RULES: Final[dict[str, Callable[[Instruction], Access | None]]] = {
    "ld": _simple(Operation.LOAD),
    "ldu": _simple(Operation.LOAD),
    "st": _simple(Operation.STORE),
    "atom": _simple(Operation.ATOMIC),
    "red": _simple(Operation.ATOMIC),
    "ldmatrix": _matrix(Operation.LOAD),
    "stmatrix": _matrix(Operation.STORE),
    "multimem": _multimem,
    "cp": _copy,
}

"""Memory operations in SPIR-V: their kinds, sizes, addresses and values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic.gpu.program.context import Operation, Space
from accel_magic.spirv.spirv_module import string, unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from accel_magic.spirv.spirv_module import SpirvInstruction, SpirvModule

_SPACES: Final[Mapping[int, Space]] = {
    4: Space.SHARED,
    5: Space.GLOBAL,
    6: Space.LOCAL,
    7: Space.LOCAL,
    8: Space.GENERIC,
}
"""By storage class: Workgroup, CrossWorkgroup, Private, Function, Generic. Others are constants and built-in values."""
_WITHOUT_RESULT: Final = frozenset({"AtomicStore", "AtomicFlagClear"})
OPENCL: Final = "OpenCL.std"
"""The set of OpenCL's own functions."""
_VECTOR_LOADS: Final = frozenset({171, 173, 174, 179})
"""vloadn, vload_half, vload_halfn, vloada_halfn: operands are the offset and the pointer."""
_VECTOR_STORES: Final = frozenset({172, 175, 176, 177, 178, 180, 181})
"""vstoren, and those of half with and without rounding: operands are the data, the offset and the pointer."""
_ALIGNED_HALVES: Final = frozenset({179, 180, 181})
"""Vectors of three halves take the room of four."""
_DEEPEST: Final = 64
"""Types within types; a damaged module may have a cycle."""
_LARGEST: Final = 1 << 31


@dataclass(frozen=True)
class SpirvAccess:
    """One memory operation.

    Attributes:
        operation: Its kind.
        space: The pointer's storage class.
        size: Bytes; 0 if known only at run time.
        pointer: Id of the pointer.
        offset: Id of a number of elements to add to it; 0 for none.
        element: Bytes of such an element.
        value: Id of what is loaded or stored; 0 if unknown.

    """

    operation: Operation
    space: Space
    size: int
    pointer: int
    offset: int = 0
    element: int = 0
    value: int = 0


class SpirvTypes:
    """Types of a module's ids, and their sizes."""

    def __init__(self, module: SpirvModule) -> None:
        self.defined = {one.result: one for one in module.instructions() if one.result is not None}
        self._sets = {one.words[0]: string(one.words[1:]) for one in module.sections["import"]}

    def definition(self, place: int) -> SpirvInstruction:
        """What defines an id. Raises ProgramError if nothing does."""
        if place not in self.defined:
            raise unsupported(f"nothing defines id {place}")
        return self.defined[place]

    def type_of(self, place: int) -> SpirvInstruction:
        """The type of a value. Raises ProgramError if it has none."""
        kind = self.definition(place).type
        if kind is None:
            raise unsupported(f"id {place} has no type")
        return self.definition(kind)

    def pointee(self, pointer: int) -> tuple[int, int]:
        """Storage class and id of the type that a pointer points to. Raises ProgramError if it points to none."""
        kind = self.type_of(pointer)
        if kind.name != "TypePointer":
            raise unsupported(f"id {pointer} is of type Op{kind.name}")
        return kind.words[1], kind.words[2]

    def size(self, kind: int, depth: int = 0) -> int:
        """Bytes of a type as OpenCL C lays it out; 0 for a type without a size."""
        if depth > _DEEPEST:
            raise unsupported("its types are nested too deeply")
        one = self.definition(kind)
        match one.name:
            case "TypeInt" | "TypeFloat":
                size = one.words[1] // 8
            case "TypeBool" | "TypePointer":
                size = 1 if one.name == "TypeBool" else 8
            case "TypeVector":
                size = self.size(one.words[1], depth + 1) * (4 if one.words[2] == 3 else one.words[2])
            case "TypeArray":
                size = self.size(one.words[1], depth + 1) * self.number(one.words[2])
            case "TypeStruct":
                size = self._struct(one, depth + 1)
            case _:
                size = 0
        return min(size, _LARGEST)

    def number(self, constant: int) -> int:
        """The value of an integer constant; 0 if it is none."""
        one = self.definition(constant)
        return one.words[2] if one.name == "Constant" else 0

    def _struct(self, one: SpirvInstruction, depth: int) -> int:
        end, most = 0, 1
        for part in one.words[1:]:
            align = self._alignment(part, depth)
            end = -(-end // align) * align + self.size(part, depth)
            most = max(most, align)
        return -(-end // most) * most

    def _alignment(self, kind: int, depth: int) -> int:
        if depth > _DEEPEST:
            raise unsupported("its types are nested too deeply")
        one = self.definition(kind)
        if one.name == "TypeArray":
            return self._alignment(one.words[1], depth + 1)
        if one.name == "TypeStruct":
            return max((self._alignment(part, depth + 1) for part in one.words[1:]), default=1)
        return max(self.size(kind, depth + 1), 1)

    def accesses(self, one: SpirvInstruction) -> Iterator[SpirvAccess]:
        """Memory operations of an instruction."""
        words = one.words
        if one.name == "Load":
            yield from self._access(Operation.LOAD, words[2], self.size(words[0]), value=words[1])
        elif one.name == "Store":
            size = self.size(self.type_of(words[1]).words[0])
            yield from self._access(Operation.STORE, words[0], size, value=words[1])
        elif one.name.startswith("Atomic"):
            pointer = words[0 if one.name in _WITHOUT_RESULT else 2]
            yield from self._access(Operation.ATOMIC, pointer, self.size(self.pointee(pointer)[1]))
        elif one.name in ("CopyMemory", "CopyMemorySized"):
            target, source = words[:2]
            sized = one.name == "CopyMemorySized"
            size = self.number(words[2]) if sized else self.size(self.pointee(target)[1])
            yield from self._access(Operation.LOAD, source, size)
            yield from self._access(Operation.STORE, target, size)
        elif one.name == "ExtInst" and self._sets.get(words[2]) == OPENCL:
            yield from self._of_vectors(one)

    def _of_vectors(self, one: SpirvInstruction) -> Iterator[SpirvAccess]:
        words, number = one.words, one.words[3]
        if number in _VECTOR_LOADS:
            (offset, pointer), data = words[4:6], words[1]
        elif number in _VECTOR_STORES:
            data, offset, pointer = words[4:7]
        else:
            return
        kind = self.type_of(data)
        count = kind.words[2] if kind.name == "TypeVector" else 1
        unit = self.size(self.pointee(pointer)[1])
        step = unit * (4 if count == 3 and number in _ALIGNED_HALVES else count)
        operation = Operation.LOAD if number in _VECTOR_LOADS else Operation.STORE
        yield from self._access(operation, pointer, unit * count, offset=offset, element=step)

    def _access(
        self, operation: Operation, pointer: int, size: int, *, offset: int = 0, element: int = 0, value: int = 0
    ) -> Iterator[SpirvAccess]:
        storage, _ = self.pointee(pointer)
        if storage in _SPACES:
            yield SpirvAccess(operation, _SPACES[storage], size, pointer, offset, element, value)

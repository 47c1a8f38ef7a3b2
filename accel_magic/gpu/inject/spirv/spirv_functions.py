"""Functions of a SPIR-V module: which are kernels, who calls whom, and copies for kernels with other programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from accel_magic.gpu.inject.spirv.spirv_accesses import OPENCL
from accel_magic.spirv.spirv_module import (
    KERNEL,
    SpirvFunction,
    SpirvInstruction,
    id_places,
    invalid,
    made,
    string,
    string_words,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from accel_magic.spirv.spirv_module import SpirvModule

_ASIDE = frozenset({"Function", "FunctionParameter", "Label", "Variable", "Line", "NoLine", "FunctionEnd", "ExtInst"})


@dataclass
class SpirvKernel:
    """A kernel.

    Attributes:
        name: The name by which the host knows it.
        body: The function with its code.
        entry: The entry point.
        via: The call of `body` by a wrapper that is the entry point's function; None if there is no wrapper.

    """

    name: str
    body: SpirvFunction
    entry: SpirvInstruction
    via: SpirvInstruction | None = None


@dataclass
class SpirvFunctions:
    """All functions of a module; `defined` are the ids of those with a body."""

    module: SpirvModule
    kernels: list[SpirvKernel] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._by_id = {one.id: one for one in self.module.functions}
        self._sets = {one.words[0] for one in self.module.sections["import"] if string(one.words[1:]) == OPENCL}
        self.defined = {one.id for one in self.module.functions if one.is_defined}
        self.names = {
            one.words[0]: string(one.words[1:]) for one in self.module.sections["debug"] if one.name == "Name"
        }
        for entry in self.module.sections["entry point"]:
            if entry.words[0] == KERNEL:
                self.kernels.append(self._kernel(entry))

    def _kernel(self, entry: SpirvInstruction) -> SpirvKernel:
        """The kernel of an entry point.

        llvm-spirv 15 and older make entry points that only call the kernel's function; Khronos' reader, which Intel's
        drivers use, drops them again. So the kernel's code is in the function that they call.
        """
        function = self._by_id.get(entry.words[1])
        if function is None:
            raise invalid("an entry point is no function")
        name = string(entry.words[2:])
        inside = [one for one in function.code if one.name not in _ASIDE]
        if [one.name for one in inside] == ["FunctionCall", "Return"]:
            body = self._by_id.get(inside[0].words[2])
            if body is not None and body.is_defined:
                return SpirvKernel(name, body, entry, inside[0])
        return SpirvKernel(name, function, entry)

    def _is_debug(self, one: SpirvInstruction) -> bool:
        """Whether an instruction is of a set whose operands may be numbers: debug information, which a copy lacks."""
        return one.name == "ExtInst" and one.words[2] not in self._sets

    def name_of(self, function: SpirvFunction) -> str:
        """A function's name, or its id."""
        return self.names.get(function.id, f"%{function.id}")

    def called(self, function: SpirvFunction) -> Iterator[SpirvFunction]:
        """The functions that a function calls."""
        for one in function.code:
            if one.name == "FunctionCall" and one.words[2] in self._by_id:
                yield self._by_id[one.words[2]]

    def below(self, function: SpirvFunction) -> list[SpirvFunction]:
        """A function and all that it reaches, each once."""
        found, waiting = {}, [function]
        while waiting:
            one = waiting.pop()
            if one.id not in found:
                found[one.id] = one
                waiting += self.called(one)
        return list(found.values())

    def copy(self, function: SpirvFunction) -> SpirvFunction:
        """Add a copy of a function, with ids of its own, and with the decorations and names of the original's."""
        new = {one.result: self.module.new_id() for one in function.code if one.result is not None}
        wide = self.module.literal_words()
        copied = SpirvFunction(
            [made("NoLine") if self._is_debug(one) else _renumbered(one, new, wide) for one in function.code]
        )
        for section in ("debug", "annotation"):
            own = self.module.sections[section]
            own += [
                SpirvInstruction(one.opcode, [new[one.words[0]], *one.words[1:]])
                for one in tuple(own)
                if one.words and one.words[0] in new and one.name in ("Name", "Decorate")
            ]
        self.module.functions.append(copied)
        self._by_id[copied.id] = copied
        self.defined.add(copied.id)
        return copied


def _renumbered(one: SpirvInstruction, new: Mapping[int, int], wide: Mapping[int, int]) -> SpirvInstruction:
    words = list(one.words)
    for at in id_places(one, wide.get(words[0], 1) if one.name == "Switch" else 1):
        words[at] = new.get(words[at], words[at])
    return SpirvInstruction(one.opcode, words)


def list_in_interface(entry: SpirvInstruction, variables: list[int]) -> None:
    """Add variables to those that an entry point lists."""
    first = 2 + string_words(entry.words[2:])
    entry.words += [one for one in dict.fromkeys(variables) if one not in entry.words[first:]]

"""Adding one module's functions to another: ids get new numbers, types and built-in variables are shared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from accel_magic.spirv.grammar import opcodes
from accel_magic.spirv.spirv_module import (
    BUILT_IN,
    SpirvFunction,
    SpirvInstruction,
    SpirvModule,
    id_places,
    made,
    string,
    unsupported,
)

LINKAGE: Final = 41
_EXPORT: Final = 0
_INLINE: Final = 1
_LINKAGE_CAPABILITY: Final = 5
_ALIGNED: Final = 2
_ACCESSES: Final = {"Load": 3, "Store": 2}
"""Place of the mask of a memory access."""
_LINES: Final = frozenset({"Line", "NoLine"})
Intrinsic = Callable[[SpirvModule, int, list[int]], list[SpirvInstruction]]
"""Writes the instructions in place of a call: takes the module, the id of the result and those of the arguments."""


@dataclass(frozen=True)
class Merged:
    """What a merge added.

    Attributes:
        functions: Ids of the functions that the other module exports, by name.
        variables: Ids of the variables that they read, which entry points list.

    """

    functions: dict[str, int]
    variables: list[int]


def merge(into: SpirvModule, other: SpirvModule, intrinsics: Mapping[str, Intrinsic]) -> Merged:
    """Add the functions of a module, and what they need.

    Args:
        into: Is changed.
        other: A module without entry points; its linkage is dropped, and its functions are to be inlined.
        intrinsics: By name, what writes the instructions in place of calls of functions that it imports.

    Raises:
        ProgramError: The two cannot be one module, or `other` imports another function.

    """
    if into.sections["memory model"][0].words != other.sections["memory model"][0].words:
        raise unsupported("it is not for 64-bit OpenCL")
    return _Merge(into, other, intrinsics).run()


@dataclass
class _Merge:
    into: SpirvModule
    other: SpirvModule
    intrinsics: Mapping[str, Intrinsic]
    ids: dict[int, int] = field(default_factory=dict)
    _read: list[int] = field(default_factory=list)

    def run(self) -> Merged:
        self._wide = self.other.literal_words()
        imported, exported = self._linked()
        replaced = {place: self.intrinsics[name] for place, name in imported.items() if name in self.intrinsics}
        self._declare()
        variables = self._share_variables()
        variables += self._add_types(set(variables))
        self._annotate(replaced)
        for function in self.other.functions:
            if function.id in replaced:
                continue
            if not function.is_defined:
                raise unsupported(f"a program needs the function {imported.get(function.id, '?')}")
            self._add_function(function, replaced)
        return Merged({name: self.ids[place] for name, place in exported.items()}, variables + self._read)

    def _linked(self) -> tuple[dict[int, str], dict[str, int]]:
        """Names of imported functions by id, and ids of exported ones by name."""
        imported, exported = {}, {}
        for place, words in self.other.decorated(LINKAGE).items():
            name, kind = string(words[:-1]), words[-1]
            if kind == _EXPORT:
                exported[name] = place
            else:
                imported[place] = name
        return imported, exported

    def _declare(self) -> None:
        """Capabilities, extensions, imported sets of instructions, and the version."""
        self.into.version = max(self.into.version, self.other.version)
        for one in self.other.sections["capability"]:
            if one.words[0] != _LINKAGE_CAPABILITY:
                self.into.require(one.words[0])
        for one in self.other.sections["extension"]:
            self.into.require_extension(string(one.words))
        known = {string(one.words[1:]): one.words[0] for one in self.into.sections["import"]}
        for one in self.other.sections["import"]:
            name = string(one.words[1:])
            if name not in known:
                known[name] = self.into.new_id()
                self.into.add("import", "ExtInstImport", known[name], *one.words[1:])
            self.ids[one.words[0]] = known[name]

    def _share_variables(self) -> list[int]:
        """Use the module's own variables of work-items' identity; returns those that are used."""
        own = {words[0]: place for place, words in self.into.decorated(BUILT_IN).items()}
        shared = {place: own[words[0]] for place, words in self.other.decorated(BUILT_IN).items() if words[0] in own}
        self.ids.update(shared)
        return list(shared.values())

    def _add_types(self, shared: set[int]) -> list[int]:
        """Add types, constants and variables; returns the ids of the variables."""
        variables = []
        sizes = {one.words[0]: one.words[1] for one in self.other.sections["type"] if one.name == "TypeInt"}
        for one in self.other.sections["type"]:
            if one.name in _LINES or (one.result is not None and self.ids.get(one.result) in shared):
                continue
            # A type that was named before it was defined has its id.
            if one.name == "TypeStruct" or not one.name.startswith("Type") or one.words[0] in self.ids:
                self.into.sections["type"].append(self._copied(_plain(one, sizes)))
            else:
                operands = self._copied(SpirvInstruction(one.opcode, list(one.words)), result=False).words[1:]
                self.ids[one.words[0]] = self.into.type(one.name, *operands)
            if one.name == "Variable":
                variables.append(self.ids[one.words[1]])
        return variables

    def _annotate(self, replaced: Mapping[int, object]) -> None:
        mine = set(self.into.decorated(BUILT_IN))
        for one in self.other.sections["annotation"]:
            is_linkage = one.name == "Decorate" and one.words[1] == LINKAGE
            if not is_linkage and one.words[0] not in replaced and self.ids.get(one.words[0]) not in mine:
                self.into.sections["annotation"].append(self._copied(one))

    def _add_function(self, function: SpirvFunction, replaced: Mapping[int, Intrinsic]) -> None:
        code: list[SpirvInstruction] = []
        for one in function.code:
            if one.name == "FunctionCall" and one.words[2] in replaced:
                arguments = [self._new(word) for word in one.words[3:]]
                written = replaced[one.words[2]](self.into, self._new(one.words[1]), arguments)
                self._read += [each.words[2] for each in written if each.name == "Load"]
                code += written
            elif one.name not in _LINES:
                copied = self._copied(one, self._wide.get(one.words[0], 1) if one.name == "Switch" else 1)
                code.append(_aligned(copied))
        code[0].words[2] = _INLINE
        self.into.functions.append(SpirvFunction(code))

    def _new(self, place: int) -> int:
        if place not in self.ids:
            self.ids[place] = self.into.new_id()
        return self.ids[place]

    def _copied(self, one: SpirvInstruction, literal_words: int = 1, *, result: bool = True) -> SpirvInstruction:
        """Copy with the new ids; without a new id for its result unless `result`."""
        words = list(one.words)
        for at in id_places(one, literal_words):
            if result or words[at] != one.result:
                words[at] = self._new(words[at])
        return SpirvInstruction(one.opcode, words)


def _plain(one: SpirvInstruction, sizes: Mapping[int, int]) -> SpirvInstruction:
    """Write an integer zero as a constant: readers of llvm-spirv 15's age reject `OpConstantNull` of integers."""
    if one.opcode != opcodes()["ConstantNull"] or one.words[0] not in sizes:
        return one
    return made("Constant", *one.words, *([0] * (-(-sizes[one.words[0]] // 32))))


def _aligned(one: SpirvInstruction) -> SpirvInstruction:
    """Write an alignment of 0, as LLVM does for atomic loads, as 1: it must be a power of two."""
    at = _ACCESSES.get(one.name, len(one.words))
    if at + 1 < len(one.words) and one.words[at] & _ALIGNED and not one.words[at + 1]:
        one.words[at + 1] = 1
    return one

"""SPIR-V modules as lists of instructions by section: read, looked up in, added to, and written."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProgramError
from accel_magic.spirv import grammar
from accel_magic.spirv.grammar import opcodes, shapes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MAGIC: Final = 0x07230203
HEADER_WORDS: Final = 5
LARGEST_BOUND: Final = 1 << 24
"""Ids are below a module's bound. SPIR-V guarantees 2^22; consumers may allocate memory for each."""
_FIXED: Final[Mapping[str, tuple[tuple[int, ...], int]]] = {
    grammar.TYPE: ((0,), 1),
    grammar.RESULT: ((0,), 1),
    grammar.ID: ((0,), 1),
    grammar.ID_AND_LITERAL: ((0,), 2),
    grammar.TWO_IDS: ((0, 1), 2),
}
"""Kinds of operands that always have the same words: places of the ids, and words."""
_ALIGNED: Final = 2
_ACCESS_IDS: Final = (8, 16, 1 << 16, 1 << 17)
"""Bits of a memory access with an id: make available, make visible, alias scope, no alias."""
_BEFORE_FUNCTIONS: Final = (
    *("capability", "extension", "import", "memory model", "entry point", "execution mode"),
    *("debug", "annotation", "type"),
)
_DEBUG: Final = frozenset(
    {"String", "Source", "SourceContinued", "SourceExtension", "Name", "MemberName", "ModuleProcessed"}
)
_ANNOTATIONS: Final = ("Decorate", "MemberDecorate", "GroupDecorate", "GroupMemberDecorate", "DecorationGroup", "Alias")
_SECTIONS: Final = {
    "Capability": "capability",
    "Extension": "extension",
    "ExtInstImport": "import",
    "MemoryModel": "memory model",
    "EntryPoint": "entry point",
    "ExecutionMode": "execution mode",
    "ExecutionModeId": "execution mode",
}


@dataclass(slots=True, eq=False)
class SpirvInstruction:
    """One instruction: its opcode and operand words."""

    opcode: int
    words: list[int]

    @property
    def name(self) -> str:
        """Its name without "Op"; "unknown 1234" if the grammar does not have it."""
        shape = shapes().get(self.opcode)
        return f"unknown {self.opcode}" if shape is None else shape.name

    @property
    def type(self) -> int | None:
        """Id of its result's type."""
        shape = shapes().get(self.opcode)
        return None if shape is None or shape.type_at is None else self.words[shape.type_at]

    @property
    def result(self) -> int | None:
        """The id that it defines."""
        shape = shapes().get(self.opcode)
        return None if shape is None or shape.result_at is None else self.words[shape.result_at]

    @property
    def operands(self) -> list[int]:
        """Words after its result."""
        shape = shapes().get(self.opcode)
        return self.words if shape is None or shape.result_at is None else self.words[shape.result_at + 1 :]


BUILT_IN: Final = 11
"""Decoration of a variable that the device provides."""
_INPUT: Final = 1
KERNEL: Final = 6
"""Execution model of OpenCL's entry points."""


def made(name: str, *words: int) -> SpirvInstruction:
    """Make an instruction."""
    return SpirvInstruction(opcodes()[name], list(words))


def invalid(why: str) -> ProgramError:
    """The error for code that is not valid SPIR-V."""
    return ProgramError(
        "the module is not valid SPIR-V", why=why, fix="check it with spirv-val", code="gpu.spirv.invalid"
    )


def unsupported(why: str) -> ProgramError:
    """The error for valid SPIR-V that programs cannot be inserted into."""
    return ProgramError(
        "programs cannot be inserted into this SPIR-V module",
        why=why,
        fix="the kernel runs as it is; compile it for 64-bit OpenCL to trace it",
        code="gpu.spirv.unsupported",
    )


def id_places(instruction: SpirvInstruction, literal_words: int = 1) -> list[int]:
    """Places of the operand words that are ids, in order.

    Args:
        instruction: An instruction that the grammar knows.
        literal_words: Words of each literal of an `OpSwitch`.

    Raises:
        ProgramError: It is unknown, or has too few words.

    """
    shape = shapes().get(instruction.opcode)
    if shape is None or shape.name.endswith("Id"):
        raise unsupported(f"the operands of Op{instruction.name} are not known")
    try:
        return list(_places(instruction.words, list(shape.operands), literal_words))
    except IndexError:
        raise invalid(f"Op{instruction.name} has too few operands") from None


def _places(words: Sequence[int], operands: list[tuple[str, str]], literal_words: int) -> Iterator[int]:
    at = 0
    while operands and at < len(words):
        kind, quantifier = operands[0]
        if quantifier != "*":
            del operands[0]
        if kind == grammar.OPERATION:
            operands[:] = shapes()[words[at]].operands[2:] if words[at] in shapes() else []
        ids, at = _span(kind, words, at, literal_words)
        yield from ids
    if at > len(words) or any(not quantifier for _, quantifier in operands):
        raise IndexError


def _span(kind: str, words: Sequence[int], at: int, literal_words: int) -> tuple[Sequence[int], int]:
    """Places of an operand's ids, and the place after it."""
    if kind in _FIXED:
        places, size = _FIXED[kind]
        return [at + place for place in places], at + size
    ids: Sequence[int] = ()
    after = len(words)
    match kind:
        case grammar.STRING:
            after = at + string_words(words[at:])
        case grammar.LITERAL_AND_ID:
            ids, after = (at + literal_words,), at + literal_words + 1
        case grammar.MEMORY_ACCESS:
            first = at + 1 + bool(words[at] & _ALIGNED)
            after = first + sum(bool(words[at] & bit) for bit in _ACCESS_IDS)
            ids = range(first, after)
        case grammar.IMAGE_OPERANDS:
            ids = range(at + 1, len(words))
        case grammar.ENUMERANT:
            pass
        case _:
            after = at + 1
    return ids, after


def string_words(words: Sequence[int]) -> int:
    """How many words the string at the beginning takes. Raises IndexError if it does not end."""
    for at, word in enumerate(words):
        if not all(word >> shift & 0xFF for shift in (0, 8, 16, 24)):
            return at + 1
    raise IndexError


def string(words: Sequence[int]) -> str:
    """The string at the beginning of these words."""
    data = struct.pack(f"<{len(words)}I", *words)
    return data.split(b"\0", 1)[0].decode("utf-8", "replace")


def words_of(text: str) -> list[int]:
    """The words of a string."""
    data = text.encode() + b"\0"
    data += b"\0" * (-len(data) % 4)
    return list(struct.unpack(f"<{len(data) // 4}I", data))


@dataclass(eq=False)
class SpirvFunction:
    """A function, from `OpFunction` to `OpFunctionEnd`."""

    code: list[SpirvInstruction]

    @property
    def id(self) -> int:
        """The function's id."""
        return self.code[0].words[1]

    @property
    def is_defined(self) -> bool:
        """Whether it has a body."""
        return any(one.opcode == opcodes()["Label"] for one in self.code)


@dataclass(eq=False)
class SpirvModule:
    """A module.

    Attributes:
        version: The version's word: 0x00010200 is 1.2.
        generator: Who made it.
        bound: All ids are smaller.
        sections: Instructions before the functions, by section, in the order of `_BEFORE_FUNCTIONS`.
        functions: Functions, in order.

    """

    version: int
    generator: int
    bound: int
    sections: dict[str, list[SpirvInstruction]] = field(
        default_factory=lambda: {name: [] for name in _BEFORE_FUNCTIONS}
    )
    functions: list[SpirvFunction] = field(default_factory=list)
    _types: dict[tuple[int, ...], int] = field(default_factory=dict)

    @classmethod
    def read(cls, data: bytes) -> SpirvModule:
        """Read a module.

        Raises:
            ProgramError: It is damaged, or of the other byte order.

        """
        words = _all_words(data)
        module = cls(words[1], words[2], words[3])
        if not 0 < module.bound <= LARGEST_BOUND:
            raise invalid(f"its bound of ids is {module.bound:,}")
        defined: set[int] = set()
        section = "capability"
        function: list[SpirvInstruction] | None = None
        for one in _instructions(words):
            _note_result(one, defined, module.bound)
            if function is not None or one.opcode == opcodes()["Function"]:
                function = [] if function is None else function
                function.append(one)
                if one.opcode == opcodes()["FunctionEnd"]:
                    module.functions.append(SpirvFunction(function))
                    function = None
                continue
            # Everything from the first type to the functions is in one section: lines of source may be in between.
            section = "type" if section == "type" else _section_of(one.name)
            module.sections[section].append(one)
        if function is not None:
            raise invalid("its last function does not end")
        if len(module.sections["memory model"]) != 1:
            raise invalid("it does not have one memory model")
        return module

    def write(self) -> bytes:
        """The module as bytes; declarations of functions come before definitions."""
        words = [MAGIC, self.version, self.generator, self.bound, 0]
        for one in self.instructions(sorted(self.functions, key=lambda function: function.is_defined)):
            words.append(len(one.words) + 1 << 16 | one.opcode)
            words += one.words
        return struct.pack(f"<{len(words)}I", *words)

    def instructions(self, functions: Sequence[SpirvFunction] | None = None) -> Iterator[SpirvInstruction]:
        """All instructions in order; `functions` instead of the module's own."""
        for name in _BEFORE_FUNCTIONS:
            yield from self.sections[name]
        for function in self.functions if functions is None else functions:
            yield from function.code

    def entry_names(self) -> tuple[str, ...]:
        """The names of the module's kernels."""
        return tuple(string(one.words[2:]) for one in self.sections["entry point"] if one.words[0] == KERNEL)

    def new_id(self) -> int:
        """Take an id that nothing has."""
        if self.bound >= LARGEST_BOUND:
            raise invalid("it has too many ids")
        self.bound += 1
        return self.bound - 1

    def add(self, section: str, name: str, *words: int) -> None:
        """Append an instruction to a section."""
        self.sections[section].append(made(name, *words))

    def require(self, capability: int) -> None:
        """Declare a capability, unless it is declared."""
        if all(one.words[0] != capability for one in self.sections["capability"]):
            self.add("capability", "Capability", capability)

    def require_extension(self, name: str) -> None:
        """Declare an extension, unless it is declared."""
        if all(string(one.words) != name for one in self.sections["extension"]):
            self.add("extension", "Extension", *words_of(name))

    def type(self, name: str, *operands: int) -> int:
        """The id of a type, which is added if it is not there: a module has each only once, except structs."""
        if not self._types:
            self._types = {
                (one.opcode, *one.words[1:]): one.words[0]
                for one in self.sections["type"]
                if one.name.startswith("Type") and one.name != "TypeStruct"
            }
        key = (opcodes()[name], *operands)
        if key not in self._types:
            self._types[key] = self.new_id()
            self.add("type", name, self._types[key], *operands)
        return self._types[key]

    def integer(self, bits: int) -> int:
        """The type of integers of so many bits."""
        return self.type("TypeInt", bits, 0)

    def constant(self, bits: int, value: int) -> int:
        """The id of an integer constant, which is added if it is not there."""
        kind = self.integer(bits)
        words = [value & 0xFFFFFFFF, *([value >> 32] if bits > 32 else [])]
        key = (opcodes()["Constant"], kind, *words)
        if key not in self._types:
            self._types[key] = self.new_id()
            self.add("type", "Constant", kind, self._types[key], *words)
        return self._types[key]

    def built_in(self, number: int, bits: int) -> int:
        """The id of a built-in variable of integers, which is added if it is missing; entry points must list it."""
        for place, words in self.decorated(BUILT_IN).items():
            if words[0] == number:
                return place
        place, pointer = self.new_id(), self.type("TypePointer", _INPUT, self.integer(bits))
        self.add("type", "Variable", pointer, place, _INPUT)
        self.add("annotation", "Decorate", place, BUILT_IN, number)
        return place

    def literal_words(self) -> Mapping[int, int]:
        """Words of each literal of an `OpSwitch`, by its selector's id, if they are more than one."""
        wide = {
            one.words[0]: -(-one.words[1] // 32)
            for one in self.sections["type"]
            if one.name == "TypeInt" and one.words[1] > 32
        }
        return {
            one.result: wide[one.type]
            for one in self.instructions()
            if one.result is not None and one.type is not None and one.type in wide
        }

    def decorated(self, decoration: int) -> dict[int, list[int]]:
        """The parameters of a decoration, by the id that has it."""
        return {
            one.words[0]: one.words[2:]
            for one in self.sections["annotation"]
            if one.opcode == opcodes()["Decorate"] and one.words[1] == decoration
        }


def _all_words(data: bytes) -> tuple[int, ...]:
    if len(data) < 4 * HEADER_WORDS or len(data) % 4:
        raise invalid(f"it has {len(data):,} bytes")
    words = struct.unpack(f"<{len(data) // 4}I", data)
    if words[0] == int.from_bytes(MAGIC.to_bytes(4, "little"), "big"):
        raise unsupported("it has the other byte order")
    if words[0] != MAGIC:
        raise invalid("it does not begin with SPIR-V's number")
    return words


def _instructions(words: Sequence[int]) -> Iterator[SpirvInstruction]:
    at = HEADER_WORDS
    while at < len(words):
        count = words[at] >> 16
        if not count or at + count > len(words):
            raise invalid(f"at byte {4 * at:,} it has an instruction of {count} words")
        yield SpirvInstruction(words[at] & 0xFFFF, list(words[at + 1 : at + count]))
        at += count


def _note_result(one: SpirvInstruction, defined: set[int], bound: int) -> None:
    try:
        result = one.result
        one.type  # noqa: B018 - it must be there
    except IndexError:
        raise invalid(f"Op{one.name} has too few operands") from None
    if result is None:
        return
    if not 0 < result < bound:
        raise invalid(f"Op{one.name} defines id {result}, and ids are below {bound}")
    if result in defined:
        raise invalid(f"id {result} is defined twice")
    defined.add(result)


def _section_of(name: str) -> str:
    if name in _DEBUG:
        return "debug"
    if name.startswith(_ANNOTATIONS):
        return "annotation"
    return _SECTIONS.get(name, "type")

"""SPIR-V as text, one instruction per line, to look at: `%5 = OpLoad %2 %3 2 4`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic.errors import ProgramError
from accel_magic.spirv.grammar import shapes
from accel_magic.spirv.spirv_module import id_places, string, string_words

if TYPE_CHECKING:
    from accel_magic.spirv.spirv_module import SpirvInstruction, SpirvModule

HEADER_LINES = 2
_STRINGS = {"Extension": 0, "ExtInstImport": 1, "EntryPoint": 2, "Name": 1, "MemberName": 2, "String": 1}
"""Instructions with a string, and the place of its first word."""


def line_of(one: SpirvInstruction) -> str:
    """One instruction. Operands are ids (`%5`), numbers, and strings."""
    try:
        ids = set(id_places(one))
    except ProgramError:
        ids = set()
    words = [f"%{word}" if at in ids else str(word) for at, word in enumerate(one.words)]
    first = _STRINGS.get(one.name, len(words))
    if first < len(words):
        try:
            after = first + string_words(one.words[first:])
        except IndexError:
            after = len(words)
        words[first:after] = ['"' + string(one.words[first:after]).replace('"', '\\"') + '"']
    shape = shapes().get(one.opcode)
    if shape is None or shape.result_at is None:
        return " ".join([f"Op{one.name}", *words])
    rest = [word for at, word in enumerate(words) if at != shape.result_at]
    return " ".join([f"%{one.result} = Op{one.name}", *rest])


def text_of(module: SpirvModule) -> str:
    """A whole module."""
    version = f"{module.version >> 16 & 0xFF}.{module.version >> 8 & 0xFF}"
    return "\n".join([f"; SPIR-V {version}", f"; Bound: {module.bound}", *map(line_of, module.instructions()), ""])

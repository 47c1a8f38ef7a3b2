"""SPIR-V's instructions and the kinds of their operands, from Khronos' grammar (`tools/build_spirv_grammar`)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

TYPE: Final = "t"
"""Id of the result's type."""
RESULT: Final = "r"
"""Id that the instruction defines."""
ID: Final = "i"
STRING: Final = "s"
LITERAL_AND_ID: Final = "w"
ID_AND_LITERAL: Final = "x"
TWO_IDS: Final = "p"
MEMORY_ACCESS: Final = "m"
"""A mask, and what its bits ask for."""
IMAGE_OPERANDS: Final = "g"
"""A mask, then ids."""
OPERATION: Final = "o"
"""Another instruction's opcode and operands, in a specialization constant."""
ENUMERANT: Final = "e"
"""A number and its parameters, to the end; all other letters are literals of one word."""
_OPERAND: Final = re.compile(r"([a-z])([?*]?)")


@dataclass(frozen=True, slots=True)
class InstructionShape:
    """An instruction of SPIR-V.

    Attributes:
        name: Its name without "Op".
        operands: Kind of each operand, one of the letters of this module; and "", "?" (optional) or "*" (any number).
        type_at: Place of the result type among the operand words; None if there is none.
        result_at: Place of the result id; None if there is none.

    """

    name: str
    operands: tuple[tuple[str, str], ...]
    type_at: int | None
    result_at: int | None


@cache
def shapes() -> Mapping[int, InstructionShape]:
    """All instructions that the grammar knows, by opcode."""
    table = json.loads(resources.files(__package__).joinpath("grammar.json").read_text("utf-8"))
    return {int(opcode): _shape(name, pattern) for opcode, (name, pattern) in table.items()}


@cache
def opcodes() -> Mapping[str, int]:
    """Opcodes by name, without "Op"."""
    return {shape.name: opcode for opcode, shape in shapes().items()}


def _shape(name: str, pattern: str) -> InstructionShape:
    operands = tuple(_OPERAND.findall(pattern))
    kinds = [kind for kind, _ in operands[:2]]
    return InstructionShape(
        name,
        operands,
        kinds.index(TYPE) if TYPE in kinds else None,
        kinds.index(RESULT) if RESULT in kinds else None,
    )

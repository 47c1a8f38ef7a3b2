"""The values that stores write and loads return, as parameters of inserted programs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic.gpu.program.context import COMPONENTS, ValueType
from accel_magic.gpu.program.sections import Where
from accel_magic.ptx.ptx_model import Immediate, Name, items_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from accel_magic.gpu.inject.functions import VisibleNames
    from accel_magic.gpu.inject.sites import FoundSite
    from accel_magic.ptx.ptx_model import Instruction, Operand

_KINDS: Final = {"b": ValueType.BITS, "u": ValueType.UNSIGNED, "s": ValueType.SIGNED, "f": ValueType.FLOAT}
_TYPE: Final = re.compile(r"([busf])(8|16|32|64)")
_REGISTER: Final = re.compile(r"[busf](16|32|64)|(bf16|f16)(?:x2)?")
_WORD: Final = (1 << 64) - 1
_NAMES: Final = tuple(f"value{at}" for at in range(COMPONENTS))


@dataclass(frozen=True)
class Components:
    """The value of a load or store.

    Attributes:
        values: By parameter: a number or a register.
        code: Instructions that write the registers; they do not change the kernel's.
        registers: (type, name) of these registers.

    """

    values: dict[str, str]
    code: tuple[str, ...] = ()
    registers: tuple[tuple[str, str], ...] = ()


NOTHING: Final = Components(dict.fromkeys((*_NAMES, "values", "width", "type"), "0"))


def components(found: FoundSite, *, tag: str, uses: Collection[str], saved: str) -> Components:
    """Return the components of the value at a place, zero-extended to 64 bits, or sign-extended if they are signed.

    Args:
        found: The place. Loads have a value only after them.
        tag: Prefix of new registers.
        uses: Parameters that the programs read; no code is generated for others.
        saved: Suffix of new registers.

    """
    instruction = found.instruction
    operand = None if instruction is None else _operand(found.where, instruction)
    if instruction is None or operand is None:
        return NOTHING
    kind = _TYPE.fullmatch(instruction.opcode[-1])
    items = items_of(operand)
    widths = [_width(found.names, item) for item in items]
    if kind is None or len(items) > COMPONENTS or None in widths:
        return NOTHING
    form = _Form(_KINDS[kind[1]], int(kind[2]))
    made = dict(NOTHING.values) | {"values": str(len(items)), "width": str(form.bits // 8), "type": str(int(form.kind))}
    code: list[str] = []
    registers: list[tuple[str, str]] = []
    for name, item, width in zip(_NAMES, items, widths, strict=False):
        if isinstance(item, Immediate):
            made[name] = str(_number(item, form))
        elif name in uses and isinstance(item, Name) and width:
            made[name] = register = f"%{tag}_{name}{saved}"
            part = f"{register}_{width}"
            registers += [("b64", register)] if width == 64 else [("b64", register), (f"b{width}", part)]
            code += _extended(register, part, item.text, width, form)
    return Components(made, tuple(code), tuple(registers))


@dataclass(frozen=True)
class _Form:
    """The type of a component in memory, and its bits."""

    kind: ValueType
    bits: int


def _operand(where: Where, instruction: Instruction) -> Operand | None:
    """Return the operand with the value; None if the instruction has none, or none yet."""
    if where is Where.MEMORY and instruction.opcode[0] == "st" and "bulk" not in instruction.opcode:
        return instruction.operands[1]
    return instruction.operands[0] if where is Where.LOADED else None


def _width(names: VisibleNames, item: Operand) -> int | None:
    """Bits of a register; 0 for a number or an ignored component, None if the item is something else."""
    if isinstance(item, Immediate):
        return None if item.bits is None and isinstance(item.value, float) else 0
    if isinstance(item, Name) and item.text == "_":
        return 0
    found = names.find(item.text) if isinstance(item, Name) else None
    kind = _REGISTER.fullmatch(found[1]) if found is not None and found[0] == "reg" else None
    if kind is None:
        return None
    return int(kind[1]) if kind[1] else 32 if kind[0].endswith("x2") else 16


def _extended(register: str, part: str, name: str, width: int, form: _Form) -> Iterator[str]:
    """Yield code that copies a register of the kernel, and extends the bits that are in memory."""
    if width == 64:
        yield f"mov.b64 {register}, {name};"
    else:
        yield f"mov.b{width} {part}, {name};"
        yield f"cvt.u64.u{width} {register}, {part};"
    if form.bits < width or (form.kind is ValueType.SIGNED and form.bits < 64):
        yield f"shl.b64 {register}, {register}, {64 - form.bits};"
        yield f"shr.{'s' if form.kind is ValueType.SIGNED else 'u'}64 {register}, {register}, {64 - form.bits};"


def _number(item: Immediate, form: _Form) -> int:
    """Return a number as the instruction stores it, extended to 64 bits."""
    value = (int(item.value) if item.bits is None else item.bits) & ((1 << form.bits) - 1)
    negative = form.kind is ValueType.SIGNED and value >> (form.bits - 1)
    return (value - (1 << form.bits)) & _WORD if negative else value


_MASKED: Final = frozenset({"shfl", "vote", "match", "redux", "elect"})
"""Instructions of a warp whose last operand is the mask of their lanes."""


def member_mask(instruction: Instruction | None) -> Operand | None:
    """Return the operand with the mask of lanes that an instruction of a warp names; None if it names none."""
    if instruction is None or "sync" not in instruction.opcode:
        return None
    named = instruction.opcode[0] in _MASKED or instruction.opcode[:2] in {("bar", "warp"), ("barrier", "warp")}
    return instruction.operands[-1] if named else None

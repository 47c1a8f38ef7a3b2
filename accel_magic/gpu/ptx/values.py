"""What a probe's parameters are at a place: numbers, and registers that hold what the instruction uses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProgramError
from accel_magic.gpu.context import Operation, Space
from accel_magic.gpu.places import Where
from accel_magic.gpu.ptx.accesses import SPACES
from accel_magic.gpu.ptx.model import Immediate, Name

if TYPE_CHECKING:
    from collections.abc import Collection

    from accel_magic.gpu.ptx.finding import Found
    from accel_magic.gpu.ptx.model import Address
    from accel_magic.gpu.ptx.registers import Names

_WORD_MASK: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Values:
    """Values at a place.

    Attributes:
        code: Instructions that compute them; they change nothing of the kernel.
        values: By parameter: a number or a register.
        registers: (type, name) of registers that `code` writes.
        guard: The predicate that the copy must run under: "" for none, else `%p1` or `!%p1`.

    """

    code: tuple[str, ...]
    values: dict[str, str]
    registers: tuple[tuple[str, str], ...]
    guard: str


def values(found: Found, site: int, kernel: int, *, tag: str, uses: Collection[str], saved: str = "") -> Values:
    """Say what the parameters are.

    At a branch `address` is 1 in the lanes that take it and 0 in the others, of an indexed branch the index.

    Args:
        found: The place.
        site: Its number.
        kernel: Its kernel's.
        tag: Prefix of new registers.
        uses: Parameters that the probes read; code for others is left out.
        saved: Suffix of new registers that keep everything for later; "" where the copy follows at once.

    Raises:
        ProgramError: An operand is nothing that can be reported.

    """
    access = found.access
    numbers = {
        "address": "0",
        "size": "0",
        "space": str(int(access.space if access else Space.GENERIC)),
        "operation": str(int(access.operation if access else Operation.NONE)),
        "site": str(site),
        "kernel": str(kernel),
    }
    maker = _Maker(found.names, tag, saved)
    if access and "address" in uses:
        numbers["address"] = maker.address(access.address, access.space)
    if access and "size" in uses:
        numbers["size"] = str(access.size) if isinstance(access.size, int) else maker.number("size", access.size, 32)
    if found.where is Where.BRANCH and "address" in uses:
        numbers["address"] = maker.taken(found)
    guard = maker.guard(found)
    return Values(tuple(maker.code), numbers, tuple(maker.registers), guard)


class _Maker:
    """Collects code and the registers that it needs."""

    def __init__(self, names: Names, tag: str, saved: str) -> None:
        self.code: list[str] = []
        self.registers: list[tuple[str, str]] = []
        self._names, self._tag, self._saved = names, tag, saved

    def _new(self, kind: str, name: str) -> str:
        register = f"%{self._tag}_{name}{self._saved}"
        self.registers.append((kind, register))
        return register

    def _width(self, name: Name) -> int:
        """Bits of a register; 0 if the name is none."""
        found = self._names.find(name.text)
        if found is None:
            raise ProgramError(
                f"{name.text} is not declared", why=f"{name.text} is not declared", code="gpu.ptx.undeclared"
            )
        bits = re.fullmatch(r"[busf](16|32|64)", found[1])
        return int(bits[1]) if found[0] == "reg" and bits else 0

    def number(self, what: str, name: Name, bits: int) -> str:
        """Give a register of so many bits with the value of another one."""
        width = self._width(name)
        if width == bits and not self._saved:
            return name.text
        register = self._new(f"b{bits}", what)
        same = f"mov.b{bits} {register}, {name.text};"
        self.code.append(same if width == bits else f"cvt.u{bits}.u{width} {register}, {name.text};")
        return register

    def address(self, address: Address, space: Space) -> str:
        base, offset = address.base, address.offset
        if isinstance(base, Immediate):
            return str((int(base.value) + offset) & _WORD_MASK)
        register = self.number("address", base, 64) if self._width(base) else self._symbol(base, space)
        if not offset:
            return register
        if register == base.text:
            register = self._new("b64", "address")
            self.code.append(f"add.s64 {register}, {base.text}, {offset};")
        else:
            self.code.append(f"add.s64 {register}, {register}, {offset};")
        return register

    def _symbol(self, name: Name, space: Space) -> str:
        found = self._names.find(name.text)
        kind = found[0] if found else ""
        register = self._new("b64", "address")
        generic = space is Space.GENERIC and kind in SPACES
        self.code.append(f"{f'cvta.{kind}.u64' if generic else 'mov.u64'} {register}, {name.text};")
        return register

    def taken(self, found: Found) -> str:
        instruction = found.instruction
        if instruction is None:
            return "0"
        if instruction.opcode[0] == "brx":
            index = instruction.operands[0]
            return self.number("address", index, 64) if isinstance(index, Name) else "0"
        register = self._new("b64", "address")
        predicate = instruction.predicate
        if predicate is not None:
            chosen = "0, 1" if predicate.negated else "1, 0"
            self.code.append(f"selp.b64 {register}, {chosen}, {predicate.name};")
        return register

    def guard(self, found: Found) -> str:
        instruction = found.instruction
        # All lanes that come to a conditional branch are at it, those too that do not take it.
        if instruction is None or instruction.predicate is None:
            return ""
        if found.where is Where.BRANCH and instruction.opcode[0] == "bra":
            return ""
        name = instruction.predicate.name
        if self._saved:
            name = self._new("pred", "guard")
            self.code.append(f"mov.pred {name}, {instruction.predicate.name};")
        return f"{'!' * instruction.predicate.negated}{name}"

"""The instructions that call programs at a place, and compute their arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from accel_magic.gpu.program.context import COMPONENTS, PARAMETERS, ValueType
from accel_magic.spirv.spirv_module import made

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accel_magic.gpu.inject.spirv.spirv_accesses import SpirvAccess, SpirvTypes
    from accel_magic.gpu.inject.spirv.spirv_versions import SpirvProbe
    from accel_magic.spirv.spirv_module import SpirvInstruction, SpirvModule

_CAPABILITIES: Final = {8: 39, 16: 22, 64: 11}
"""Of integers, by bits."""
_VALUES: Final = frozenset({*(f"value{at}" for at in range(COMPONENTS)), "values", "width", "type"})


@dataclass
class Values:
    """Makes instructions that compute values in a module."""

    module: SpirvModule

    def number(self, bits: int, value: int) -> int:
        """The id of a constant."""
        return self.module.constant(bits, value)

    def integer(self, bits: int) -> int:
        """The type of integers of so many bits; declares what they need."""
        if bits in _CAPABILITIES:
            self.module.require(_CAPABILITIES[bits])
        return self.module.integer(bits)


@dataclass
class SpirvCall:
    """Calls of programs at one place."""

    values: Values
    types: SpirvTypes
    site: int
    kernel: int
    access: SpirvAccess | None
    code: list[SpirvInstruction] = field(default_factory=list)

    def of(
        self, probes: Sequence[SpirvProbe], branch: SpirvInstruction | None, *, loaded: bool
    ) -> list[SpirvInstruction]:
        """Return the instructions.

        Args:
            probes: The programs, in order.
            branch: The branch before which they are called.
            loaded: Whether they are called after a load.

        """
        read = {name for probe in probes for (name, _), reads in zip(PARAMETERS, probe.reads, strict=True) if reads}
        arguments: dict[str, int] = {}
        if "address" in read and branch is not None:
            arguments["address"] = self._taken(branch)
        elif "address" in read and self.access is not None:
            arguments["address"] = self._address(self.access)
        if self.access is not None:
            numbers = (self.access.size, int(self.access.space), int(self.access.operation))
            arguments |= self._constants(dict(zip(("size", "space", "operation"), numbers, strict=True)))
            if self.access.value and (loaded or self.access.operation.name == "STORE") and read & _VALUES:
                arguments |= self._components(self.access.value)
        arguments |= self._constants({"site": self.site, "kernel": self.kernel})
        void = self.values.module.type("TypeVoid")
        for probe in probes:
            given = [
                arguments[name] if name in arguments else self.values.number(8 * size, 0) for name, size in PARAMETERS
            ]
            self.code.append(made("FunctionCall", void, self.values.module.new_id(), probe.function, *given))
        return self.code

    def _constants(self, numbers: dict[str, int]) -> dict[str, int]:
        return {name: self.values.number(32, number) for name, number in numbers.items()}

    def _do(self, name: str, kind: int, *operands: int) -> int:
        result = self.values.module.new_id()
        self.code.append(made(name, kind, result, *operands))
        return result

    def _taken(self, branch: SpirvInstruction) -> int:
        """Whether a conditional branch goes to its first target; of a switch, the selector."""
        selector, wide = branch.words[0], self.values.integer(64)
        if branch.name == "BranchConditional":
            return self._do("Select", wide, selector, self.values.number(64, 1), self.values.number(64, 0))
        return self._wide(selector, wide)

    def _wide(self, value: int, wide: int) -> int:
        """An integer as 64 bits."""
        same = self.types.type_of(value).words[1] == 64
        return value if same else self._do("UConvert", wide, value)

    def _address(self, access: SpirvAccess) -> int:
        wide = self.values.integer(64)
        address = self._do("ConvertPtrToU", wide, access.pointer)
        if not access.offset:
            return address
        step = self.values.number(64, access.element)
        return self._do("IAdd", wide, address, self._do("IMul", wide, self._wide(access.offset, wide), step))

    def _components(self, value: int) -> dict[str, int]:
        """Values of up to eight components, extended with zeros; nothing for others."""
        kind = self.types.type_of(value)
        count = kind.words[2] if kind.name == "TypeVector" else 1
        unit = self.types.definition(kind.words[1]) if kind.name == "TypeVector" else kind
        bits = 8 * self.types.size(unit.words[0])
        if unit.name not in ("TypeInt", "TypeFloat", "TypePointer") or count > COMPONENTS or bits > 64:
            return {}
        found = {}
        for at in range(count):
            part = value if kind is unit else self._do("CompositeExtract", unit.words[0], value, at)
            found[f"value{at}"] = self._bits(part, unit.name, bits)
        meaning = ValueType.FLOAT if unit.name == "TypeFloat" else ValueType.BITS
        return found | self._constants({"values": count, "width": bits // 8, "type": int(meaning)})

    def _bits(self, value: int, kind: str, bits: int) -> int:
        wide = self.values.integer(64)
        if kind == "TypePointer":
            return self._do("ConvertPtrToU", wide, value)
        if kind == "TypeFloat":
            value = self._do("Bitcast", self.values.integer(bits), value)
        return value if bits == 64 else self._do("UConvert", wide, value)

"""Writing the LLVM IR of one function: new names, registers, and the text so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProgramError
from accel_magic.gpu.codegen.lowering.pointer_analysis import PointerBase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.gpu.codegen.lowering.backend_targets import Traits
    from accel_magic.gpu.codegen.lowering.pointer_analysis import Pointer, State
    from accel_magic.gpu.maps.map_layout import Placement
    from accel_magic.gpu.program.isa import EbpfInstruction
    from accel_magic.gpu.program.object_model import EbpfFunction, EbpfProgram, MapSpec

_ROOTS: Final = {PointerBase.STACK: "%stack_end", PointerBase.CONTEXT: "%context"}


@dataclass(frozen=True)
class Surroundings:
    """The surroundings of a function that is lowered.

    Attributes:
        program: Its program.
        maps: The object's maps.
        places: Indices of the maps by name.
        placement: Addresses of the maps.
        traits: The target machine.
        promoted: (function index, slot) of loads whose load-modify-store becomes one atomic operation.
        pointers: (function index, slot) of memory accesses: the kind of memory, from the verifier.

    """

    program: EbpfProgram
    maps: tuple[MapSpec, ...]
    places: Mapping[str, int]
    placement: Placement
    traits: Traits
    promoted: frozenset[tuple[int, int]]
    pointers: Mapping[tuple[int, int], str]

    @property
    def system(self) -> bool:
        """Whether atomic operations must have system scope, because programs on the CPU access a map too."""
        return any(spec.used_by == "both" for spec in self.maps)

    @property
    def scope(self) -> str:
        """Scope of atomic operations in LLVM IR."""
        return "" if self.system else self.traits.scope


@dataclass
class Emitter:
    """The IR of one function while it is written.

    Registers are variables (`%r0` to `%r10`), which LLVM turns into values; `slot` and `state` belong to the
    instruction that is being lowered. `used` collects declarations, `context` the byte ranges (from, to) of the context
    that the function may read.
    """

    around: Surroundings
    function: EbpfFunction
    place: int
    lines: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    context: set[tuple[int, int]] = field(default_factory=set)
    slot: int = 0
    state: State = ()
    _values: int = 0

    def do(self, text: str) -> None:
        """Write an instruction without a result."""
        self.lines.append(f"  {text}")

    def value(self, text: str) -> str:
        """Write an instruction and return the name of its result."""
        self._values += 1
        self.lines.append(f"  %v{self._values} = {text}")
        return f"%v{self._values}"

    def label(self, name: str) -> None:
        """Begin a block."""
        self.lines.append(f"{name}:")

    def variable(self, register: int) -> str:
        """Return the typed address of a register."""
        return f"{self.variables} %r{register}"

    @property
    def variables(self) -> str:
        """Pointer type of stack variables."""
        space = self.around.traits.stack
        return f"ptr addrspace({space})" if space else "ptr"

    def read(self, register: int, bits: int = 64) -> str:
        """Read a register's lowest bits."""
        root = self.root(self.state[register])
        if root is None:
            value = self.value(f"load i64, {self.variable(register)}")
        else:
            value = self.value(f"ptrtoint ptr {root} to i64")
        return value if bits == 64 else self.value(f"trunc i64 {value} to i{bits}")

    def write(self, register: int, value: str, bits: int = 64) -> None:
        """Write a register; a narrower value is extended with zeros."""
        wide = value if bits == 64 else self.value(f"zext i{bits} {value} to i64")
        self.do(f"store i64 {wide}, {self.variable(register)}")

    def root(self, origin: Pointer, displacement: int = 0) -> str | None:
        """Return a generic pointer to a place known from its origin; None if the origin does not determine it."""
        if origin.offset is None or origin.kind in (PointerBase.NUMBER, PointerBase.GLOBAL):
            return None
        base = _ROOTS.get(origin.kind) or f"%p{origin.place}"
        offset = origin.offset + displacement
        return self.value(f"getelementptr i8, ptr {base}, i64 {offset}") if offset else base

    @property
    def where(self) -> str:
        """The instruction that is being lowered, for errors: its function, slot and source line."""
        line = self.function.lines[self.slot] if self.slot < len(self.function.lines) else None
        return f"{self.function.name}: slot {self.slot}" + (f" ({line.file}:{line.line})" if line else "")

    def unknown(self, instruction: EbpfInstruction) -> ProgramError:
        """Make the error for an instruction that eBPF does not have."""
        return ProgramError(
            f"{self.where} is not an instruction of eBPF ISA version 4: "
            f"opcode 0x{instruction.opcode:02x}, offset {instruction.offset}, immediate {instruction.imm}",
            why="only instructions defined in RFC 9669 are supported, without the legacy packet instructions",
            fix="compile with clang -target bpf -mcpu=v4 or lower",
            code="gpu.unsupported-instruction",
        )

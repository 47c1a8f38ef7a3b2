"""What a GPU trace is made of before anything is compiled: programs, their maps, and the lines they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from accel_magic.gpu.program.isa import Code
    from accel_magic.kernel.records.c_layout import CLayout
    from accel_magic.ptx.model import SourceLine

Side = Literal["gpu", "cpu", "both"]
"""Whose programs use a map."""

Per = Literal["thread", "warp"]
"""Whether a program runs in every thread that comes by, or once for each warp, in its lowest active lane."""


@dataclass(frozen=True, slots=True)
class KernelField:
    """What an instruction asks of the running kernel's types (CO-RE).

    Attributes:
        type: Name of the struct, union or enum.
        steps: Names of members, and indexes of array items, from there on; of an enum the name of its value.
        asked: The kernel's enum bpf_core_relo_kind: offset, size, existence...

    """

    type: str
    steps: tuple[str | int, ...]
    asked: int

    def __str__(self) -> str:
        """As C has it: `task_struct.pid`, `rq.cpu[2]`."""
        return self.type + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.steps)


@dataclass(frozen=True)
class Function:
    """One eBPF function.

    Attributes:
        name: In C.
        code: Its instructions by slot.
        lines: The line that each slot comes from, where that is known.
        kernel_fields: (slot, what it asks of the running kernel); programs for the CPU alone have any.
        missing: What it refers to that its object does not define, likewise.

    """

    name: str
    code: Code
    lines: tuple[SourceLine | None, ...]
    kernel_fields: tuple[tuple[int, KernelField], ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class MapSpec:
    """A map as its program declares it.

    Attributes:
        name: Its name; of global data the section's: `.rodata`, `.data`, `.bss` and longer ones.
        type: The number in the declaration: a `MapType`, or another one, which the verifier refuses.
        key_size: Bytes of a key.
        value_size: Bytes of a value.
        max_entries: Entries; of a ring buffer its bytes (type 27) or its records per thread (type 1527).
        flags: BPF_F_... of the declaration.
        initial: Content of the first value at the start: global data. None for zeros.
        key: Columns of a key; None where the declaration gives only a size.
        value: Columns of a value, likewise.
        used_by: Whose programs use it: a map of the CPU's programs is the kernel's, also where both sides see it.
        rounded: Whether values of an array begin at multiples of 8 bytes, as the kernel has them.

    """

    name: str
    type: int
    key_size: int
    value_size: int
    max_entries: int
    flags: int = 0
    initial: bytes | None = None
    key: CLayout | None = None
    value: CLayout | None = None
    used_by: Side = "gpu"
    rounded: bool = False

    @property
    def stride(self) -> int:
        """Bytes from one value of an array to the next."""
        return -(-self.value_size // 8) * 8 if self.rounded else self.value_size

    @property
    def read_only(self) -> bool:
        """Whether programs may only read it: constants."""
        return self.name.startswith(".rodata")


@dataclass(frozen=True)
class Program:
    """One program: what its section says to attach it to, its own function and those it calls.

    Attributes:
        name: The C function's name.
        section: The ELF section's name: `gpu/exit`, `kretprobe/_Z9vectorAddPKfS0_Pf`.
        functions: The program's own function first; a local call's immediate is a place in here.

    """

    name: str
    section: str
    functions: tuple[Function, ...]


@dataclass(frozen=True)
class BpfObject:
    """A compiled eBPF object: its programs in the order of the file, its maps in the order of their declaration.

    Attributes:
        source: The file it comes from.
        programs: For the GPU and for the CPU; `accel_magic.gpu.program.sections` tells them apart.
        maps: Declared ones first, then global data.
        data: The ELF object itself: what the kernel engine takes for the CPU programs.

    """

    source: str
    programs: tuple[Program, ...]
    maps: tuple[MapSpec, ...]
    license: str = ""
    data: bytes = b""

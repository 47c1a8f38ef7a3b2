"""What a GPU trace is made of before anything is compiled: programs, their maps, and the lines they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from accel_magic.gpu.isa import Code
    from accel_magic.traces.c_layout import CLayout

Per = Literal["thread", "warp"]
"""Whether a program runs in every thread that comes by, or once for each warp, in its lowest active lane."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the user's C."""

    file: str
    line: int
    column: int = 0
    text: str = ""


@dataclass(frozen=True)
class Function:
    """One eBPF function: its instructions by slot, and the line that each slot comes from where that is known."""

    name: str
    code: Code
    lines: tuple[SourceLine | None, ...]


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
        programs: For the GPU and for the CPU; `accel_magic.gpu.sections` tells them apart.
        maps: Declared ones first, then global data.
        data: The ELF object itself: what the kernel engine takes for the CPU programs.

    """

    source: str
    programs: tuple[Program, ...]
    maps: tuple[MapSpec, ...]
    license: str = ""
    data: bytes = b""

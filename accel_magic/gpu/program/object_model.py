"""Values of loaded eBPF objects: programs, functions and maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from accel_magic.gpu.program.isa import Code
    from accel_magic.kernel.records.c_layout import CLayout
    from accel_magic.ptx.ptx_model import SourceLine

Side = Literal["gpu", "cpu", "both"]
"""The side whose programs use a map."""

Per = Literal["thread", "warp", "block"]
"""Whether a program runs in each thread that reaches it, in the lowest active lane of each warp, or for a block."""


@dataclass(frozen=True, slots=True)
class KernelField:
    """A relocation of an instruction to the running kernel's types (CO-RE).

    Attributes:
        type: Name of the struct, union or enum.
        steps: Path of member names and array indexes from that type; for an enum the name of a value.
        kind: The kind of relocation, the kernel's enum bpf_core_relo_kind: offset, size, existence...

    """

    type: str
    steps: tuple[str | int, ...]
    kind: int

    def __str__(self) -> str:
        """Return the field in C notation: `task_struct.pid`, `rq.cpu[2]`."""
        return self.type + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.steps)


@dataclass(frozen=True)
class EbpfFunction:
    """One eBPF function.

    Attributes:
        name: Its name in C.
        code: Its instructions by slot.
        lines: The source line of each slot, if known.
        kernel_fields: (slot, relocation to the running kernel's types); only in CPU programs.
        missing: Descriptions of references that its object does not define; only in CPU programs.

    """

    name: str
    code: Code
    lines: tuple[SourceLine | None, ...]
    kernel_fields: tuple[tuple[int, KernelField], ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class MapSpec:
    """The declaration of a map.

    Attributes:
        name: Its name; for global data that of the section: `.rodata`, `.data`, `.bss`, possibly with a suffix.
        type: The number in the declaration: a `MapType`, or another number, which the verifier rejects.
        key_size: Bytes of a key.
        value_size: Bytes of a value.
        max_entries: Entries; for a ring buffer its bytes (type 27) or its records per thread (type 1527).
        flags: BPF_F_... of the declaration.
        initial: Initial content of the first value, for global data. None for zeros.
        key: Columns of a key; None if the declaration has only a size.
        value: Columns of a value, likewise.
        used_by: The side whose programs use it. Maps used by CPU programs, or by both, are maps of the kernel.
        rounded: Whether values of an array begin at multiples of 8 bytes, as in the kernel.

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
        """Whether it holds constants, which programs may only read."""
        return self.name.startswith(".rodata")


@dataclass(frozen=True)
class EbpfProgram:
    """One program: its section, its own function and those that it calls.

    Attributes:
        name: The C function's name.
        section: The ELF section's name, which names the attach point: `gpu/exit`, `kretprobe/_Z9vectorAddPKfS0_Pf`.
        functions: The program's own function first; a local call's immediate is an index in here.

    """

    name: str
    section: str
    functions: tuple[EbpfFunction, ...]


@dataclass(frozen=True)
class BpfObject:
    """A compiled eBPF object: its programs in the order of the file, its maps in the order of their declaration.

    Attributes:
        source: The file it comes from.
        programs: GPU and CPU programs; `accel_magic.gpu.program.sections` distinguishes them.
        maps: Declared maps first, then global data.
        data: The ELF object itself.

    """

    source: str
    programs: tuple[EbpfProgram, ...]
    maps: tuple[MapSpec, ...]
    license: str = ""
    data: bytes = b""

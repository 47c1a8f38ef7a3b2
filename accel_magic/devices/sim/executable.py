"""A module in executable form."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accel_magic.devices.sim.faults import FaultSite
    from accel_magic.devices.sim.instruction_compiler import Arrays, End, Reader, Step, Variable
    from accel_magic.devices.sim.variables import Slot


@dataclass
class Segment:
    """A straight-line sequence of instructions.

    Attributes:
        steps: What to execute.
        end: Decides where the lanes continue.
        mask: If the segment begins with a `.sync` instruction: the lanes that it waits for.
        cost: Cycles.
        issued: Instructions, including the one that ends it.
        first: The first instruction.
        last: The instruction that ends it.

    """

    steps: list[Step]
    end: End
    mask: Gate | None = None
    cost: int = 0
    issued: int = 0
    first: FaultSite | None = None
    last: FaultSite | None = None


@dataclass(frozen=True)
class Gate:
    """The condition that a `.sync` instruction waits for.

    Attributes:
        mask: Reads the lanes of the warp that must arrive, as bits; uint32.
        predicate: Reads the predicate that guards the instruction; None if there is none.

    """

    mask: Reader
    predicate: Reader | None = None


@dataclass(frozen=True)
class BlockProgram:
    """A kernel that the device runs for whole blocks of another kernel.

    Attributes:
        place: When: BLOCK_ENTER, BLOCK_EXIT or STEAL.
        entry: Its name.
        site: The place's number, which it is given.
        kernel: The number of the kernel that it is for, which it is given.

    """

    place: str
    entry: str
    site: int
    kernel: int


@dataclass
class ExecutableFunction:
    """A kernel or a device function.

    Attributes:
        number: Its number in the module.
        results: In its frame or in registers.
        parameters: In its frame, in the kernel's parameters, or in registers.
        entry: Number of its first segment.
        frame: Bytes of local memory.
        registers: Numbers of its registers.
        views: Numbers of the arrays that its code uses.
        calls: Names of functions that it calls.
        indirect: Whether it calls through pointers.
        recursive: Whether it may be entered again before it returns.
        threads: Most threads of a block that it allows; 0 for any number.
        blocks: Programs for its blocks.

    """

    name: str
    number: int
    kernel: bool
    results: tuple[Slot, ...] = ()
    parameters: tuple[Slot, ...] = ()
    parameter_bytes: int = 0
    entry: int = -1
    frame: int = 0
    registers: list[int] = field(default_factory=list)
    views: range = range(0)
    calls: set[str] = field(default_factory=set)
    indirect: bool = False
    recursive: bool = False
    threads: int = 0
    blocks: tuple[BlockProgram, ...] = ()


@dataclass
class Executable:
    """Everything that a launch needs.

    Attributes:
        functions: By number.
        segments: By number.
        arrays: The numbering of registers.
        shared: Bytes of shared memory per block, without the dynamic part.
        variables: The module's variables.

    """

    functions: list[ExecutableFunction]
    segments: list[Segment]
    arrays: Arrays
    shared: int
    variables: dict[str, Variable]

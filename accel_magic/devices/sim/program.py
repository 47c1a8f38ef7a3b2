"""A module in executable form."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accel_magic.devices.sim.code import Arrays, End, Reader, Step, Variable
    from accel_magic.devices.sim.faults import Site
    from accel_magic.devices.sim.layout import Slot


@dataclass
class Segment:
    """Instructions that follow each other with nothing between them that could send lanes elsewhere.

    Attributes:
        steps: What to execute.
        end: Where the lanes go afterwards.
        mask: For a segment that begins with a `.sync` instruction: reads the mask of lanes that it waits for.
        cost: Cycles.
        issued: Instructions, the end's own included.
        first: The first instruction; of a barrier the barrier.
        last: The instruction that ends it.

    """

    steps: list[Step]
    end: End
    mask: Gate | None = None
    cost: int = 0
    issued: int = 0
    first: Site | None = None
    last: Site | None = None


@dataclass(frozen=True)
class Gate:
    """What a `.sync` instruction waits for.

    Attributes:
        mask: Reads the lanes of the warp that must come, as bits; uint32.
        predicate: Reads what guards the instruction, None for nothing.

    """

    mask: Reader
    predicate: Reader | None = None


@dataclass
class Function:
    """A kernel or a device function.

    Attributes:
        number: Among the module's functions.
        results: In its frame, or registers.
        parameters: In its frame, in the kernel's parameters, or registers.
        entry: Number of its first segment.
        frame: Bytes of local memory.
        registers: Numbers of its registers.
        views: Numbers of the arrays that its code uses.
        calls: Names of functions that it calls.
        indirect: It calls through pointers.
        recursive: It may be entered again before it returns.
        threads: Threads of a block that it allows at most, 0 for any number.

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


@dataclass
class Program:
    """Everything that a launch needs.

    Attributes:
        functions: By number.
        segments: By number.
        arrays: How registers are numbered.
        shared: Bytes of shared memory of a block, without the dynamic part.
        variables: The module's own.

    """

    functions: list[Function]
    segments: list[Segment]
    arrays: Arrays
    shared: int
    variables: dict[str, Variable]

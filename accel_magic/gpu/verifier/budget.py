"""Whether a program fits: instructions, stack, and the memory of its maps for a number of threads.

Registers are not guessed here: the assembler counts them, before and after, for each kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic.gpu.maps.layout import layout_of
from accel_magic.gpu.verifier.findings import Rule, finding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from accel_magic.gpu.program.model import MapSpec, Program
    from accel_magic.gpu.program.verdict import Finding, Verdict

MIB: Final = 1 << 20
_START: Final = (0, 0)


@dataclass(frozen=True)
class Limits:
    """What a program may take.

    Attributes:
        instructions: Of one program, which becomes a part of each place that it is injected into.
        stack_bytes: Of the deepest chain of calls, for each thread. Stack that the compiler cannot keep in registers is
            local memory, as slow as the device's.
        map_bytes: Of all maps together.

    """

    instructions: int = 4096
    stack_bytes: int = 1024
    map_bytes: int = 1024 * MIB


INSTRUCTIONS: Final = Rule(
    "instruction-budget",
    "a program is copied to every place that it is attached to: long ones slow kernels down and take long to assemble",
    "do less on the device, and combine on the host; or attach to fewer places",
    severity="warning",
    memory=False,
)
STACK: Final = Rule(
    "stack-budget",
    "each thread has its own stack; what does not fit into registers is slow local memory",
    "use a per-thread array map for large structs, and fewer nested calls",
    severity="warning",
    memory=False,
)
MEMORY: Final = Rule(
    "map-memory",
    "the maps of a trace take device memory before the kernel runs",
    "use fewer entries, or --threads with the number of threads that the largest grid has",
    memory=False,
)


def map_bytes(maps: Sequence[MapSpec], threads: int) -> Mapping[str, int]:
    """Bytes of each map.

    Args:
        maps: The object's maps.
        threads: Threads that per-thread maps have room for.

    Raises:
        ProgramError: A declaration is no map that GPU programs can use.

    """
    return {spec.name: layout_of(spec, threads).bytes for spec in maps}


def findings(
    program: Program, maps: Sequence[MapSpec], verdict: Verdict, *, threads: int, limits: Limits | None = None
) -> list[Finding]:
    """Compare what a program takes with the limits; each finding names the limit, and how much there is.

    Args:
        program: The program.
        maps: The object's maps.
        verdict: What the verifier counted.
        threads: Threads that per-thread maps have room for.
        limits: Others than the usual ones.

    Raises:
        ProgramError: A declaration is no map that GPU programs can use.

    """
    most = limits or Limits()
    sizes = map_bytes(maps, threads)
    total = sum(sizes.values())
    found = []
    if verdict.instructions > most.instructions:
        found.append(
            finding(
                INSTRUCTIONS, program, _START, f"{verdict.instructions} instructions; the limit is {most.instructions}"
            )
        )
    if verdict.stack_bytes > most.stack_bytes:
        found.append(
            finding(STACK, program, _START, f"{verdict.stack_bytes} bytes of stack; the limit is {most.stack_bytes}")
        )
    if total > most.map_bytes:
        largest = max(sizes, key=lambda name: sizes[name])
        message = (
            f"the maps take {total:,} bytes for {threads:,} threads; the limit is {most.map_bytes:,} "
            f"(largest: {largest}, {sizes[largest]:,} bytes)"
        )
        found.append(finding(MEMORY, program, _START, message))
    return found

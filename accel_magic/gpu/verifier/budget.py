"""Resource limits: instructions, stack, and the memory of a program's maps for a number of threads.

Registers are not estimated here: the assembler counts them for each kernel, with and without the program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic.gpu.maps.map_layout import layout_of
from accel_magic.gpu.verifier.findings import VerifierRule, finding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from accel_magic.gpu.program.object_model import EbpfProgram, MapSpec
    from accel_magic.gpu.program.verdict import Verdict, VerifierFinding

MIB: Final = 1 << 20
_START: Final = (0, 0)


@dataclass(frozen=True)
class VerifierLimits:
    """Limits for one program.

    Attributes:
        instructions: Instructions of the program, which is copied to each place that it is injected into.
        stack_bytes: Stack of the deepest call chain, for each thread. Stack that the compiler cannot keep in registers
            is local memory, as slow as device memory.
        map_bytes: Bytes of all maps together.

    """

    instructions: int = 4096
    stack_bytes: int = 1024
    map_bytes: int = 1024 * MIB


INSTRUCTIONS: Final = VerifierRule(
    "instruction-budget",
    "a program is copied to every place that it is attached to; long programs slow kernels down and assemble slowly",
    "do less on the device and more on the host, or attach to fewer places",
    severity="warning",
    memory=False,
)
STACK: Final = VerifierRule(
    "stack-budget",
    "each thread has its own stack; the part that does not fit into registers is slow local memory",
    "move large structs into a per-thread array map, and nest fewer calls",
    severity="warning",
    memory=False,
)
MEMORY: Final = VerifierRule(
    "map-memory",
    "the maps of a trace are allocated in device memory before the kernel runs",
    "use fewer entries, or set --threads to the number of threads in the largest grid",
    memory=False,
)


def map_bytes(maps: Sequence[MapSpec], threads: int) -> Mapping[str, int]:
    """Bytes of each map, by name.

    Args:
        maps: The object's maps.
        threads: Number of threads for which per-thread maps have values.

    Raises:
        ProgramError: GPU programs cannot use a map.

    """
    return {spec.name: layout_of(spec, threads).bytes for spec in maps}


def findings(
    program: EbpfProgram,
    maps: Sequence[MapSpec],
    verdict: Verdict,
    *,
    threads: int,
    limits: VerifierLimits | None = None,
) -> list[VerifierFinding]:
    """Compare a program's resources with the limits; each finding has the amount and the limit.

    Args:
        program: The program.
        maps: The object's maps.
        verdict: The verifier's counts.
        threads: Number of threads for which per-thread maps have values.
        limits: Limits other than the defaults.

    Raises:
        ProgramError: GPU programs cannot use a map.

    """
    most = limits or VerifierLimits()
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

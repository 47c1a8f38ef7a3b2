"""Programs for whole blocks: kernels that the simulated device calls itself, named in the kernels that they are for.

A kernel's body has one directive for each of its programs, `.pragma "accel_magic PLACE ENTRY SITE KERNEL"`:
`devices.sim.executable.BlockProgram` describes the parts.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel_magic.demangle import means
from accel_magic.errors import ProgramError
from accel_magic.gpu.inject.report import Site
from accel_magic.gpu.program.context import Operation, Space
from accel_magic.gpu.program.sections import Where

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from accel_magic.gpu.inject.template import Entry
    from accel_magic.gpu.program.sections import Attach
    from accel_magic.ptx.ptx_model import Function


@dataclass(frozen=True, eq=False)
class BlockProbe:
    """A program for whole blocks: its attach point, its name, and the prepared kernel."""

    attach: Attach
    name: str
    entry: Entry


@dataclass(frozen=True)
class BlockPlans:
    """The programs for whole blocks of some kernels, in the order in which they run."""

    probes: Sequence[BlockProbe]

    def of(self, kernel: str) -> dict[Where, list[BlockProbe]]:
        """A kernel's programs by place."""
        found = defaultdict[Where, list[BlockProbe]](list)
        for probe in self.probes:
            if means(probe.attach.name, kernel):
                found[probe.attach.where].append(probe)
        return dict(found)

    def used(self, kernels: Iterable[str]) -> list[Entry]:
        """Prepared kernels of the programs of some kernels, each once."""
        return list(dict.fromkeys(one.entry for name in kernels for probes in self.of(name).values() for one in probes))

    def place(self, kernel: Function, number: int, line: int, first: int) -> tuple[list[Site], list[str]]:
        """Return a kernel's places, and the directives in its body that name its programs.

        Args:
            kernel: The kernel.
            number: Its number.
            line: Its line in the PTX.
            first: Number of the first place.

        Raises:
            ProgramError: Several programs decide whether its workers steal.

        """
        sites: list[Site] = []
        directives: list[str] = []
        for at, (where, probes) in enumerate(self.of(kernel.name).items(), first):
            names = tuple(probe.name for probe in probes)
            if where is Where.STEAL and len(probes) > 1:
                raise _several(kernel.name, names)
            sites.append(
                Site(at, number, kernel.name, where, Operation.NONE, Space.GENERIC, 0, "", line, None, None, names)
            )
            words = [f"accel_magic {where.name} {probe.entry.name} {at} {number}" for probe in probes]
            directives += [f'.pragma "{text}";' for text in words]
        return sites, directives


def _several(kernel: str, names: Sequence[str]) -> ProgramError:
    return ProgramError(
        f"{len(names)} programs decide whether workers steal blocks of {kernel}",
        why=f"they are {', '.join(names)}",
        fix='name one kernel in each section: SEC("gpu/should_try_steal/KERNEL")',
        code="gpu.several-decisions",
    )

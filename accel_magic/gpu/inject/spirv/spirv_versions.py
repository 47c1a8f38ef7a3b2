"""Which programs each kernel gets, and the versions of functions that kernels with different programs share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from accel_magic.demangle import means
from accel_magic.gpu.inject.report import SEVERAL_KERNELS
from accel_magic.gpu.program.sections import Attach, Where

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from accel_magic.gpu.inject.spirv.spirv_functions import SpirvFunctions, SpirvKernel
    from accel_magic.spirv.spirv_module import SpirvFunction, SpirvInstruction

IN_FUNCTIONS: Final = frozenset({Where.FUNCTION, Where.FUNCTION_EXIT})


@dataclass(frozen=True, eq=False)
class SpirvProbe:
    """A program that has been merged into the module.

    Attributes:
        attach: Its attach point.
        name: Its name.
        function: The id of its function.
        reads: For each of its parameters whether it reads it.

    """

    attach: Attach
    name: str
    function: int
    reads: tuple[bool, ...]

    @property
    def kernels(self) -> str:
        """Glob of the kernels that it attaches to."""
        return self.attach.kernels if self.attach.where in IN_FUNCTIONS else self.attach.name


@dataclass
class SpirvVersion:
    """A function with the programs of some kernels.

    Attributes:
        original: The original function.
        code: Its instructions before programs were inserted.
        function: The function to change: the same, or a copy.
        probes: The programs of its kernels.
        kernels: Its kernels that are traced.
        is_kernel: Whether it is a kernel's code.

    """

    original: SpirvFunction
    code: tuple[SpirvInstruction, ...]
    function: SpirvFunction
    probes: tuple[SpirvProbe, ...]
    kernels: list[SpirvKernel] = field(default_factory=list)
    is_kernel: bool = False

    def number(self, numbers: Mapping[str, int]) -> int:
        """The kernel number that programs read."""
        return numbers[self.kernels[0].name] if len(self.kernels) == 1 else SEVERAL_KERNELS


def versions_of(functions: SpirvFunctions, requested: Mapping[str, Sequence[SpirvProbe]]) -> list[SpirvVersion]:
    """Return the functions to change, each with its programs, after making copies and changing calls.

    Args:
        functions: The module's functions; copies are added.
        requested: The programs of each kernel; none for a kernel that is not traced.

    """
    made: dict[tuple[int, str, tuple[SpirvProbe, ...]], SpirvVersion] = {}
    taken: set[int] = set()

    def version(function: SpirvFunction, kernel: SpirvKernel, role: str) -> SpirvVersion:
        probes = tuple(requested[kernel.name])
        key = function.id, role, probes
        if key not in made:
            own = functions.copy(function) if function.id in taken else function
            taken.add(function.id)
            made[key] = SpirvVersion(function, tuple(function.code), own, probes, is_kernel=bool(role))
        if probes:
            made[key].kernels.append(kernel)
        return made[key]

    # Kernels first, because an entry point's function cannot be another's; those without programs keep what they call.
    kernels = sorted(functions.kernels, key=lambda kernel: bool(requested[kernel.name]))
    bodies = {kernel.name: version(kernel.body, kernel, kernel.name) for kernel in kernels}
    for kernel in kernels:
        body = bodies[kernel.name]
        if kernel.via is not None:
            kernel.via.words[2] = body.function.id
        else:
            kernel.entry.words[1] = body.function.id
        below = [one for one in functions.below(kernel.body) if one is not kernel.body and one.is_defined]
        own = {one.id: version(one, kernel, "") for one in below}
        for one in (body, *own.values()):
            for instruction in one.function.code:
                if instruction.name == "FunctionCall" and instruction.words[2] in own:
                    instruction.words[2] = own[instruction.words[2]].function.id
    return [one for one in made.values() if one.probes]


def goes_into(probe: SpirvProbe, name: str) -> bool:
    """Whether a program attaches to places in a function of this name."""
    return probe.attach.where not in IN_FUNCTIONS or means(probe.attach.name, name)

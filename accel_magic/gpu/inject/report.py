"""The result of an injection: kernels, places, and instructions that could not be instrumented."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic

from accel_magic.devices.launches import Code
from accel_magic.gpu.program.context import Operation, Space
from accel_magic.ptx.ptx_model import SourceLine

if TYPE_CHECKING:
    from accel_magic.gpu.inject.sites import FoundSite
    from accel_magic.gpu.program.sections import Where
    from accel_magic.ptx.ptx_model import Location

SEVERAL_KERNELS: Final = 0xFFFFFFFF
"""The kernel number that a program reads in a device function used by several traced kernels."""


@dataclass(frozen=True, slots=True)
class Site:
    """A place where programs were inserted.

    Attributes:
        number: The value of `site` in programs.
        kernel: The value of `kernel` in programs; `SEVERAL_KERNELS` in a function that several traced kernels use.
        function: The kernel or device function that contains it.
        where: Its kind.
        operation: Kind of a memory operation; otherwise NONE.
        space: Space of a memory operation; otherwise GENERIC.
        size: Bytes per lane of a memory operation; 0 if known only at run time, and at other places.
        instruction: The instruction's text; "" at entries and at the end of a function.
        ptx_line: Line in the original module's text.
        source: Line of the kernel's source; for inlined code, the outermost call.
        inlined: The line in the inlined function, if the code was inlined.
        programs: Names of the probes, in the order in which they run.

    """

    number: int
    kernel: int
    function: str
    where: Where
    operation: Operation
    space: Space
    size: int
    instruction: str
    ptx_line: int
    source: SourceLine | None
    inlined: SourceLine | None
    programs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KernelReport:
    """A kernel of the module.

    Attributes:
        name: Its name in the module.
        number: The value of `kernel` in programs.
        instrumented: Whether a program was inserted into it or into a function that it uses.
        reason: Why it was not instrumented; "" if it was.
        sites: Number of places in it and in the device functions that it uses.
        functions: Those device functions.
        left: Instructions that were not instrumented, with the reasons.

    """

    name: str
    number: int
    instrumented: bool
    reason: str
    sites: int
    functions: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Injection(Generic[Code]):
    """A module with inserted programs.

    Attributes:
        code: The PTX or SPIR-V to use; the original if nothing was inserted.
        kernels: All kernels of the module, in order.
        sites: All places, sorted by number.
        notes: Other changes as sentences, e.g. a raised PTX version.

    """

    code: Code
    kernels: tuple[KernelReport, ...]
    sites: tuple[Site, ...]
    notes: tuple[str, ...] = ()


def site(found: FoundSite, number: int, kernel: int, *, text: str, line: int, programs: tuple[str, ...]) -> Site:
    """Describe a place.

    Args:
        found: The place.
        number: Its number.
        kernel: Its kernel's number.
        text: The instruction as written.
        line: Line in the PTX.
        programs: Names of its probes.

    """
    location = found.instruction.location if found.instruction else None
    outermost = location
    while outermost is not None and outermost.inlined_at is not None:
        outermost = outermost.inlined_at
    access = found.access
    return Site(
        number,
        kernel,
        found.function.name,
        found.where,
        access.operation if access else Operation.NONE,
        access.space if access else Space.GENERIC,
        access.size if access and isinstance(access.size, int) else 0,
        " ".join(text.split()),
        line,
        _source(outermost),
        None if outermost is location else _source(location),
        programs,
    )


def _source(location: Location | None) -> SourceLine | None:
    if location is None or location.line == 0:
        return None
    return SourceLine(location.file, location.line, location.column)

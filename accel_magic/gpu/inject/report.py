"""What an injection did: kernels, places, and what it could not do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic.gpu.program.context import Operation, Space
from accel_magic.ptx.model import SourceLine

if TYPE_CHECKING:
    from accel_magic.gpu.inject.sites import Found
    from accel_magic.gpu.program.sections import Where
    from accel_magic.ptx.model import Location

SEVERAL_KERNELS: Final = 0xFFFFFFFF
"""What a program reads as its kernel in a device function that several traced kernels use."""


@dataclass(frozen=True, slots=True)
class Site:
    """A place that programs were put at.

    Attributes:
        number: What programs read as `site`.
        kernel: What programs read as `kernel`; `SEVERAL_KERNELS` in a function that several traced kernels use.
        function: The entry or device function that it lies in.
        where: Its kind.
        operation: Of a memory operation; else NONE.
        space: Of a memory operation; else GENERIC.
        size: Bytes per lane; 0 where that is known only as the kernel runs, and at other places.
        instruction: The instruction's text; "" at entries and at the end of a function.
        ptx_line: Line in the module before anything was put in.
        source: Line of the kernel's source; where code was inlined, the outermost call.
        inlined: The line of the inlined function, if it was inlined.
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
        name: As PTX names it.
        number: What programs read as `kernel`.
        instrumented: Whether anything was put into it or into a function that it uses.
        reason: Why not; "" if it was.
        sites: Places in it and in the device functions that it uses.
        functions: Those device functions.
        left: Instructions that were left alone, with their reason.

    """

    name: str
    number: int
    instrumented: bool
    reason: str
    sites: int
    functions: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Injection:
    """A module with programs in it.

    Attributes:
        text: The PTX to use; the same as before where nothing was put in.
        kernels: All kernels of the module, in its order.
        sites: All places, in the order of their numbers.
        notes: What else was changed, in words: a raised PTX version, for one.

    """

    text: str
    kernels: tuple[KernelReport, ...]
    sites: tuple[Site, ...]
    notes: tuple[str, ...] = ()


def site(found: Found, number: int, kernel: int, *, text: str, line: int, programs: tuple[str, ...]) -> Site:
    """Describe a place.

    Args:
        found: The place.
        number: Its number.
        kernel: Its kernel's.
        text: The instruction as written.
        line: Line in the PTX.
        programs: Probes.

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

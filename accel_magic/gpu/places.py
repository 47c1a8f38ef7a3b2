"""Where in GPU code a program can be attached, and what a section's name asks for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from accel_magic.gpu.context import Operation, Space

if TYPE_CHECKING:
    from accel_magic.gpu.model import Per

EVERY_OPERATION = frozenset({Operation.LOAD, Operation.STORE, Operation.ATOMIC, Operation.ASYNC_COPY})
EVERY_SPACE = frozenset(Space)


class Where(Enum):
    """A kind of place in a kernel's PTX."""

    ENTRY = "kernel entry"
    EXIT = "every exit of a kernel"
    MEMORY = "before a memory operation"
    BARRIER = "before a barrier"
    BRANCH = "before a conditional branch"
    FUNCTION = "entry of a device function"
    FUNCTION_EXIT = "every return of a device function"


@dataclass(frozen=True, slots=True)
class Attach:
    """What a program's section asks for.

    Attributes:
        where: The kind of place.
        name: Glob of the kernels it goes into, mangled or demangled; of device functions if `where` is one of theirs.
        operations: For MEMORY: which.
        spaces: For MEMORY: where, as the instruction names it.
        kernels: For places of device functions: glob of the kernels whose modules' functions are meant.
        per: Whether it runs in each thread or once for each warp; None where the section does not say.

    """

    where: Where
    name: str = "*"
    operations: frozenset[Operation] = frozenset()
    kernels: str = "*"
    per: Per | None = None
    spaces: frozenset[Space] = EVERY_SPACE

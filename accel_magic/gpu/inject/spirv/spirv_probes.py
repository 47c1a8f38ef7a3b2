"""The programs of a trace, compiled to SPIR-V."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accel_magic.gpu.program.sections import Attach


@dataclass(frozen=True)
class SpirvProbes:
    """The programs of a trace, compiled to one module.

    Attributes:
        functions: Attach points and names of the functions that the module exports, in order.
        code: The module.

    """

    functions: tuple[tuple[Attach, str], ...]
    code: bytes

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
        launch_words: Addresses of 8 bytes where they read the launch's number, which the host writes.

    """

    functions: tuple[tuple[Attach, str], ...]
    code: bytes
    launch_words: tuple[int, ...] = ()

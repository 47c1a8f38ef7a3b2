"""What a user's own BCC program left behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from accel_magic.kernel.attach.bindings import Place
    from accel_magic.kernel.bcc.compiler import ProgramMap
    from accel_magic.kernel.load.maps import MapContent
    from accel_magic.recording.recording import Outcome


@dataclass(frozen=True)
class ProgramRecording:
    """What a program left behind, as read from the kernel.

    Attributes:
        program: The file's name.
        machine: `accel_magic.machine.describe()`.
        started: Wall-clock start, ISO 8601 with time zone.
        places: Where its functions were attached.
        duration_ns: From the start of the traced code to its end.
        maps: Each map as BCC describes it, with its elements; those that cannot be read are named in `notes`.
        rings: Each ring buffer as BCC describes it, with its records as they lay there.
        histograms: Names of the maps declared with BPF_HISTOGRAM; `log2` whether their buckets are powers of two.
        missed: Hits for which the kernel could not run the program, because it was running on that CPU already.
        outcome: How the traced code ended.
        notes: What the user should know.

    """

    program: str
    machine: dict[str, str]
    started: str
    places: tuple[Place, ...]
    duration_ns: int
    maps: tuple[tuple[ProgramMap, MapContent], ...]
    rings: tuple[tuple[ProgramMap, NDArray[np.uint8]], ...]
    histograms: frozenset[str]
    log2: bool
    missed: int
    outcome: Outcome
    notes: tuple[str, ...]

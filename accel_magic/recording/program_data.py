"""The recording of a user's own BCC program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from accel_magic.kernel.attach.function_bindings import FunctionBinding
    from accel_magic.kernel.bcc.compiler import ProgramMap
    from accel_magic.kernel.load.bpf_maps import MapElements
    from accel_magic.recording.recording import Outcome


@dataclass(frozen=True)
class ProgramRecording:
    """The data of a program, as read from the kernel.

    Attributes:
        program: Name of the program's file.
        machine: `accel_magic.machine.describe()`.
        started: Wall-clock start, ISO 8601 with time zone.
        places: Where its functions were attached.
        duration_ns: From the start of the traced code to its end.
        maps: Each map as BCC describes it, with its elements; maps that cannot be read are named in `notes`.
        rings: Each ring buffer as BCC describes it, with its raw records.
        histograms: Names of the maps declared with BPF_HISTOGRAM.
        log2: Whether their buckets are powers of two.
        missed: Hits for which the kernel could not run the program because it was already running on that CPU.
        outcome: How the traced code ended.
        notes: Notes for the user.

    """

    program: str
    machine: dict[str, str]
    started: str
    places: tuple[FunctionBinding, ...]
    duration_ns: int
    maps: tuple[tuple[ProgramMap, MapElements], ...]
    rings: tuple[tuple[ProgramMap, NDArray[np.uint8]], ...]
    histograms: frozenset[str]
    log2: bool
    missed: int
    outcome: Outcome
    notes: tuple[str, ...]

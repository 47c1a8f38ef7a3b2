"""What a GPU trace left behind: kernels, launches, places, and the maps as they lay in the device's memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from accel_magic.gpu.model import MapSpec
    from accel_magic.traces.recording import Outcome, Replayed

KERNELS: Final = {
    "kernel": "int32",
    "name": "str",
    "framework": "str",
    "module": "int32",
    "instrumented": "bool",
    "sites": "int64",
    "launches": "int64",
    "reason": "str",
    "file": "str",
    "line": "int32",
}
"""Columns of `GpuRecording.kernels`: one row per kernel seen; `kernel` is its number, -1 if not compiled here; `module`
the row of its PTX in `GpuRecording.modules`, or -1."""

MODULES: Final = {"arch": "str", "before": "str", "after": "str"}
"""Columns of `GpuRecording.modules`: one row per PTX module that programs were put into: its text without and with."""

LAUNCHES: Final = {
    "device_launch": "Int64",
    "kernel": "int32",
    "name": "str",
    "framework": "str",
    "grid_x": "int64",
    "grid_y": "int64",
    "grid_z": "int64",
    "block_x": "int64",
    "block_y": "int64",
    "block_z": "int64",
    "shared_bytes": "int64",
    "stream": "int64",
    "time_ns": "int64",
    "host_ns": "int64",
    "device_ns": "Int64",
}
"""Columns of `GpuRecording.launches`: one row per launch in their order; `time_ns` since the start of the trace, when
the host asked; `host_ns` until its call returned; `device_ns` how long the kernel took and `device_launch` the device's
own number of the launch, where it told."""

SITES: Final = {
    "site": "int32",
    "kernel": "int64",
    "function": "str",
    "where": "str",
    "operation": "str",
    "space": "str",
    "bytes": "int32",
    "file": "str",
    "line": "int32",
    "instruction": "str",
}
"""Columns of `GpuRecording.sites`: one row per place in the kernels' code at which programs were put in; of a
device function that several traced kernels use `kernel` is 4294967295."""


@dataclass(frozen=True)
class MapContent:
    """One map as it was when the trace ended.

    Attributes:
        source: The tool or file that declares it.
        spec: Its declaration.
        raw: (bytes,) uint8, as it lay there: `accel_magic.gpu.map_views` reads it.
        lost: Calls that failed for lack of room, exact.

    """

    source: str
    spec: MapSpec
    raw: NDArray[np.uint8]
    lost: int


@dataclass(frozen=True)
class GpuRecording:
    """A GPU trace, immutable.

    Attributes:
        sources: The tools and files, in the order in which they were asked for.
        device: What the kernels ran on, in words: `CPU device (simulated)`.
        multiprocessors: How many it has.
        started: When, ISO 8601.
        start_ns: The same on the device's clock, ns.
        duration_ns: From the start of the traced code to its end.
        threads: Threads of a grid that per-thread maps had room for.
        kernels: Frame with the columns KERNELS.
        modules: Frame with the columns MODULES.
        launches: Frame with the columns LAUNCHES.
        sites: Frame with the columns SITES.
        maps: All maps of all programs.
        printed: Lines that programs printed, in order.
        findings: What the verifier says, one line each.
        outcome: How the traced code ended.
        notes: What the user should know.
        machine: `accel_magic.machine.describe()`, with `simulated` where the device is.
        replayed: Set where this is played back.

    """

    sources: tuple[str, ...]
    device: str
    multiprocessors: int
    started: str
    start_ns: int
    duration_ns: int
    threads: int
    kernels: pd.DataFrame
    modules: pd.DataFrame
    launches: pd.DataFrame
    sites: pd.DataFrame
    maps: tuple[MapContent, ...]
    printed: tuple[str, ...]
    findings: tuple[str, ...]
    outcome: Outcome
    notes: tuple[str, ...]
    machine: dict[str, str]
    replayed: Replayed | None = None
    imported: None = None

    @property
    def lost(self) -> int:
        """Records and entries for which maps had no room, all together."""
        return sum(content.lost for content in self.maps)

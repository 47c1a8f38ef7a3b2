"""What a GPU trace left behind: kernels, launches, places, and the maps as they lay in the device's memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from accel_magic.devices.device import Clock

if TYPE_CHECKING:
    import pandas as pd

    from accel_magic.banners import Replayed
    from accel_magic.gpu.maps.content import MapContent, MapHistory
    from accel_magic.recording.recording import Outcome

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
    "pid": "int32",
}
"""Columns of `GpuRecording.kernels`: one row per kernel seen; `kernel` is its number, -1 if not compiled here; `module`
the row of its PTX in `GpuRecording.modules`, or -1; `pid` the process, 0 in recordings that did not tell."""

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
    "pid": "int32",
    "tid": "Int32",
}
"""Columns of `GpuRecording.launches`: one row per launch in their order, for each process; `time_ns` since the start of
the trace, when the host asked; `host_ns` until its call returned; `device_ns` how long the kernel took and
`device_launch` the device's own number of the launch, where known; `pid` the process, 0 in older recordings; `tid` the
thread that launched, as kernel traces number it, NA where it is not known and in older recordings."""

API: Final = {
    "time_ns": "int64",
    "duration_ns": "int64",
    "pid": "int32",
    "tid": "int32",
    "name": "str",
    "kind": "str",
    "kernel": "str",
    "grid_x": "Int64",
    "grid_y": "Int64",
    "grid_z": "Int64",
    "block_x": "Int64",
    "block_y": "Int64",
    "block_z": "Int64",
    "shared_bytes": "Int64",
    "stream": "Int64",
    "bytes": "Int64",
    "direction": "str",
    "waits": "boolean",
    "result": "str",
    "launch": "Int64",
}
"""Columns of `GpuRecording.api`: one row per call of the CUDA driver in order of time; `time_ns` since the start of the
trace; `kind` launch, copy, memset, alloc, free, sync, event, poll, context or module; `stream` its handle (0: the
default one, 2: the thread's own default one); `direction` of a copy between `H`ost, `D`evice and `A`rray, as HtoD;
`waits` whether the call waits for the device, NA where it may or may not; `launch` the row of `GpuRecording.launches`
that it made."""

NOT_WANTED: Final = "--host-api off"
"""`GpuRecording.api_off` where the user did not want host calls."""

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
class GpuRecording:
    """A GPU trace, immutable.

    Attributes:
        sources: The tools and files, in the order in which they were asked for.
        device: What the kernels ran on, in words: `CPU device (simulated)`.
        multiprocessors: How many it has.
        started: When, ISO 8601.
        start_ns: The same on CLOCK_MONOTONIC, ns.
        duration_ns: From the start of the traced code to its end.
        threads: Threads of a grid that per-thread maps had room for.
        kernels: Frame with the columns KERNELS.
        modules: Frame with the columns MODULES.
        launches: Frame with the columns LAUNCHES.
        sites: Frame with the columns SITES.
        maps: All maps of all programs.
        history: Maps that were read over time.
        api: Frame with the columns API; None where the driver's calls were not recorded.
        api_lost: Calls of the driver whose record was lost.
        api_off: Why they were not recorded; '' where they were.
        printed: Lines that programs printed, in order.
        findings: What the verifier says, one line each.
        outcome: How the traced code ended.
        notes: What the user should know.
        machine: `accel_magic.machine.describe()`, with `simulated` where the device is.
        clock: How the device's clock, which maps hold times of, lies on the host's.
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
    clock: Clock = field(default_factory=Clock)
    history: tuple[MapHistory, ...] = ()
    api: pd.DataFrame | None = None
    api_lost: int = 0
    api_off: str = ""
    replayed: Replayed | None = None
    imported: None = None

    @property
    def lost(self) -> int:
        """Records and entries for which maps had no room, all together."""
        return sum(content.lost for content in self.maps)

"""The recording of a GPU trace: kernels, launches, probe sites, and raw maps from device memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from accel_magic.devices.device import DeviceClock

if TYPE_CHECKING:
    import pandas as pd

    from accel_magic.banners import Replayed
    from accel_magic.gpu.maps.map_content import MapContent, MapHistory
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
the row of its PTX in `GpuRecording.modules`, or -1; `pid` the process."""

MODULES: Final = {"arch": "str", "before": "str", "after": "str"}
"""Columns of `GpuRecording.modules`: one row per instrumented PTX module: its text before and after."""

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
    "lanes": "Int64",
    "stream": "int64",
    "time_ns": "int64",
    "host_ns": "int64",
    "device_ns": "Int64",
    "pid": "int32",
    "tid": "Int32",
}
"""Columns of `GpuRecording.launches`: one row per launch, in order, for each process; `time_ns` when the host requested
it, since the start of the trace; `host_ns` until its call returned; `device_ns` the kernel's duration and
`device_launch` the device's number of the launch, if known; `lanes` those of its warps, of OpenCL the most
of its sub-groups, NA if unknown or if its blocks have several axes; `pid` the process; `tid` the launching thread, with
the same id as in kernel traces, NA if unknown."""

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
default stream, 2: the per-thread default stream); `direction` of a copy between `H`ost, `D`evice and `A`rray, such as
HtoD; `waits` whether the call waits for the device, NA if it may or may not; `launch` the corresponding row of
`GpuRecording.launches`."""

NOT_WANTED: Final = "--host-api off"
"""`GpuRecording.api_off` if the user turned host calls off."""

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
"""Columns of `GpuRecording.sites`: one row per place in the kernels' code where programs were inserted; `kernel` is
4294967295 for a device function that several traced kernels use."""


@dataclass(frozen=True)
class GpuRecording:
    """A GPU trace, immutable.

    Attributes:
        sources: The tools and program files, in the requested order.
        device: Description of the device, such as `simulated device`.
        multiprocessors: Number of multiprocessors of the device.
        started: Wall-clock start, ISO 8601.
        start_ns: The start on CLOCK_MONOTONIC, ns.
        duration_ns: From the start of the traced code to its end.
        threads: Capacity of per-thread maps, in threads of a grid.
        kernels: Frame with the columns KERNELS.
        modules: Frame with the columns MODULES.
        launches: Frame with the columns LAUNCHES.
        sites: Frame with the columns SITES.
        maps: All maps of all programs.
        history: Maps that were read over time.
        api: Frame with the columns API; None if driver calls were not recorded.
        api_lost: Driver calls whose record was lost.
        api_off: Why driver calls were not recorded; '' if they were.
        printed: Lines that programs printed, in order.
        findings: Findings of the verifier, one line each.
        outcome: How the traced code ended.
        notes: Notes for the user.
        machine: `accel_magic.machine.describe()`, with `simulated` if the device is simulated.
        clock: Relation of the device's clock, which times in maps use, to the host's.
        replayed: Set if this is played back.

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
    clock: DeviceClock = field(default_factory=DeviceClock)
    history: tuple[MapHistory, ...] = ()
    api: pd.DataFrame | None = None
    api_lost: int = 0
    api_off: str = ""
    replayed: Replayed | None = None
    imported: None = None

    @property
    def lost(self) -> int:
        """Records and entries that did not fit into maps, over all maps."""
        return sum(content.lost for content in self.maps)

"""Workloads that use the NPU through the intel_vpu driver's interface, with exact counts of their calls.

`load(jobs=300, processes=8)` runs jobs; `Device()` gives direct access to the driver. `request_fault("lose-ipc", 3)`
and `reload_driver(fault="no-boot")` make the lab's device misbehave. `python -m accel_magic.lab.npu --help` runs the
same load from a shell; `npu_load` is the same program in C (`compile_load`). `ze_load(jobs=20)` uses Level Zero. Names
are loaded on first use, pandas only when a table is requested.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accel_magic.lab.npu.device import (
        Buffer,
        Device,
        IoctlError,
        Queue,
        load_driver,
        reload_driver,
        unload_driver,
    )
    from accel_magic.lab.npu.faults import (
        FirmwareCounts,
        clear_faults,
        faulty_jobs,
        firmware_counts,
        job_fault,
        request_fault,
        requested_fault,
    )
    from accel_magic.lab.npu.level_zero_load import ZeLoad, ze_load
    from accel_magic.lab.npu.loads import Latency, Load, load
    from accel_magic.lab.npu.uapi import BufferFlags
    from accel_magic.lab.program_folder import compile_load

__all__ = [
    "Buffer",
    "BufferFlags",
    "Device",
    "FirmwareCounts",
    "IoctlError",
    "Latency",
    "Load",
    "Queue",
    "ZeLoad",
    "clear_faults",
    "compile_load",
    "faulty_jobs",
    "firmware_counts",
    "job_fault",
    "load",
    "load_driver",
    "reload_driver",
    "request_fault",
    "requested_fault",
    "unload_driver",
    "ze_load",
]

_MODULES = {
    "Buffer": ".device",
    "BufferFlags": ".uapi",
    "Device": ".device",
    "FirmwareCounts": ".faults",
    "IoctlError": ".device",
    "Queue": ".device",
    "clear_faults": ".faults",
    "compile_load": "..program_folder",
    "faulty_jobs": ".faults",
    "firmware_counts": ".faults",
    "job_fault": ".faults",
    "load_driver": ".device",
    "reload_driver": ".device",
    "unload_driver": ".device",
    "request_fault": ".faults",
    "requested_fault": ".faults",
    "Latency": ".loads",
    "Load": ".loads",
    "load": ".loads",
    "ZeLoad": ".level_zero_load",
    "ze_load": ".level_zero_load",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name], __package__), name)

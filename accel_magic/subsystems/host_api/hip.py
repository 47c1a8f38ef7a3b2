"""The preset `hip`: calls of AMD's HIP runtime.

Arguments are those of `hip/hip_runtime_api.h`. A launch by address passes its sizes in halves of registers, which are
not recorded. Nobody has tried this preset with an AMD GPU.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from accel_magic.probes.presets import Preset, calls

LIBRARY: Final = "libamdhip64"
_INSTALL: Final = {LIBRARY: "install AMD's ROCm, or apt install libamdhip64-5"}

_LAUNCH = "handle=arg0:u64,shared_bytes=arg6:u64,stream=arg7:u64"
_MODULE_LAUNCH = (
    "handle=arg0:u64,grid_x=arg1:u32,grid_y=arg2:u32,grid_z=arg3:u32,"
    "block_x=arg4:u32,block_y=arg5:u32,block_z=arg6:u32,shared_bytes=arg7:u64,stream=arg8:u64"
)
_COPY = "bytes=arg2:u64"
_NEW = "address=arg0[0]:u64@return,bytes=arg1:u64"
_ADDRESS = "address=arg0:u64"
_STREAM = "stream=arg0:u64"

CALLS: Final[dict[str, dict[str, str]]] = {
    "launch": {
        **dict.fromkeys(("hipLaunchKernel", "hipExtLaunchKernel"), _LAUNCH),
        "hipModuleLaunchKernel": _MODULE_LAUNCH,
        "hipGraphLaunch": "stream=arg1:u64",
    },
    "copy": {
        **dict.fromkeys(("hipMemcpyHtoD", "hipMemcpyDtoH", "hipMemcpyDtoD"), _COPY),
        **dict.fromkeys(("hipMemcpyHtoDAsync", "hipMemcpyDtoHAsync", "hipMemcpyDtoDAsync"), f"{_COPY},stream=arg3:u64"),
        "hipMemcpy": f"{_COPY},kind=arg3:u32",
        "hipMemcpyAsync": f"{_COPY},kind=arg3:u32,stream=arg4:u64",
        "hipMemPrefetchAsync": "bytes=arg1:u64,stream=arg3:u64",
    },
    "memset": {"hipMemset": _COPY, "hipMemsetAsync": f"{_COPY},stream=arg3:u64"},
    "memory": {
        **dict.fromkeys(("hipMalloc", "hipMallocManaged", "hipHostMalloc"), _NEW),
        "hipMallocAsync": f"{_NEW},stream=arg2:u64",
        **dict.fromkeys(("hipFree", "hipHostFree"), _ADDRESS),
        "hipFreeAsync": f"{_ADDRESS},stream=arg1:u64",
    },
    "wait": {
        "hipDeviceSynchronize": "",
        "hipStreamSynchronize": _STREAM,
        "hipEventSynchronize": "event=arg0:u64",
    },
    "event": {
        "hipEventRecord": "event=arg0:u64,stream=arg1:u64",
        "hipStreamWaitEvent": "stream=arg0:u64,event=arg1:u64",
    },
    "poll": {"hipEventQuery": "event=arg0:u64", "hipStreamQuery": _STREAM},
    "program": {
        **dict.fromkeys(("hipModuleLoad", "hipModuleLoadData", "hipModuleLoadDataEx", "hipModuleUnload"), ""),
        "hipModuleGetFunction": "handle=arg0[0]:u64@return,kernel=arg2:str",
    },
}
"""The calls with their columns, by category."""

PRESET: Final = Preset(
    name="hip",
    probes=tuple(
        probe for kind, functions in CALLS.items() for probe in calls(f"hip:{kind}", LIBRARY, functions, "HIP")
    ),
    install=MappingProxyType(_INSTALL),
    for_users=True,
)

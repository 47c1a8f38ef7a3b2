"""The preset `opencl`: calls of OpenCL, in the loader that all its drivers share.

Arguments are those of `CL/cl.h`. Nobody has tried this preset with an OpenCL device.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from accel_magic.probes.presets import Preset, calls

LIBRARY: Final = "libOpenCL.so.1"
_INSTALL: Final = {LIBRARY: "apt install ocl-icd-libopencl1, besides the driver of the device"}

_QUEUE = "queue=arg0:u64"
_TRANSFER = f"{_QUEUE},buffer=arg1:u64,blocking=arg2:u32,bytes=arg4:u64"
_SIZED = f"{_QUEUE},bytes=arg5:u64"
_NEW = "bytes=arg2:u64"

CALLS: Final[dict[str, dict[str, str]]] = {
    "launch": {"clEnqueueNDRangeKernel": f"{_QUEUE},handle=arg1:u64,dimensions=arg2:u32", "clEnqueueTask": _QUEUE},
    "copy": {
        **dict.fromkeys(("clEnqueueReadBuffer", "clEnqueueWriteBuffer"), _TRANSFER),
        **dict.fromkeys(("clEnqueueCopyBuffer", "clEnqueueFillBuffer"), _SIZED),
        "clEnqueueMapBuffer": f"{_SIZED},buffer=arg1:u64,blocking=arg2:u32",
        **dict.fromkeys(("clEnqueueReadImage", "clEnqueueWriteImage", "clEnqueueCopyImage"), _QUEUE),
        **dict.fromkeys(("clEnqueueUnmapMemObject", "clEnqueueSVMMemcpy", "clEnqueueSVMMap"), _QUEUE),
        "clEnqueueMigrateMemObjects": _QUEUE,
    },
    "memory": {
        **dict.fromkeys(("clCreateBuffer", "clSVMAlloc"), _NEW),
        **dict.fromkeys(("clCreateImage", "clSVMFree"), ""),
        "clReleaseMemObject": "buffer=arg0:u64",
    },
    "wait": {"clFinish": _QUEUE, "clFlush": _QUEUE, "clWaitForEvents": "events=arg0:u32"},
    "poll": {"clGetEventInfo": "event=arg0:u64"},
    "program": {
        **dict.fromkeys(("clBuildProgram", "clCompileProgram", "clLinkProgram", "clCreateProgramWithSource"), ""),
        "clCreateProgramWithBinary": "",
        "clCreateKernel": "kernel=arg1:str",
    },
    "context": dict.fromkeys(("clCreateContext", "clCreateCommandQueue", "clCreateCommandQueueWithProperties"), ""),
}
"""The calls with their columns, by category."""

PRESET: Final = Preset(
    name="opencl",
    probes=tuple(
        probe for kind, functions in CALLS.items() for probe in calls(f"opencl:{kind}", LIBRARY, functions, "OpenCL")
    ),
    install=MappingProxyType(_INSTALL),
    for_users=True,
)

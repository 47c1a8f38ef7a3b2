"""Helpers for the device in C, compiled to LLVM IR by tools/build_gpu_helpers, and support for their host build."""

from __future__ import annotations

import ctypes
from functools import cache
from importlib import resources
from typing import ClassVar, Final, Literal

Build = Literal["nvptx64", "host"]
"""For NVIDIA GPUs (sm_75 or newer), or for this machine's processor."""


@cache
def helpers_ir(build: Build) -> str:
    """LLVM IR of the helpers as text to link with a lowered program; it does not name a target.

    It defines `u64 accel_helper_N(u64, u64, u64, u64, u64)` for each of `accel_magic.gpu.program.helpers.HELPERS`,
    `u64 accel_launch()` and `u32 accel_is_leader()`, and needs the constants declared in `accel.h`.
    """
    return resources.files(__name__).joinpath(f"helpers_{build}.ll").read_text("utf-8")


class HostThread(ctypes.Structure):
    """Identity of the running thread in the host build: the variable `accel_self`, struct accel_self in host.h.

    `block`, `grid`, `thread` and `dims` are x, y, z of blockIdx, gridDim, threadIdx and blockDim; `clock` counts both
    nanoseconds and cycles, and advances by one each time it is read; `gpu_exit` sets `exited`.
    """

    _fields_: ClassVar = [
        ("block", ctypes.c_uint32 * 3),
        ("grid", ctypes.c_uint32 * 3),
        ("thread", ctypes.c_uint32 * 3),
        ("dims", ctypes.c_uint32 * 3),
        ("sm", ctypes.c_uint32),
        ("warp", ctypes.c_uint32),
        ("lane", ctypes.c_uint32),
        ("exited", ctypes.c_uint32),
        ("clock", ctypes.c_uint64),
        ("launch", ctypes.c_uint64),
    ]


HOST_THREAD: Final = "accel_self"
"""Name of that variable in the compiled module."""

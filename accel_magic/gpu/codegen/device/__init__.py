"""The device's side: helpers in C, compiled to LLVM IR by tools/build_gpu_helpers, and what their host build needs."""

from __future__ import annotations

import ctypes
from functools import cache
from importlib import resources
from typing import ClassVar, Final, Literal

Build = Literal["nvptx64", "host"]
"""For NVIDIA GPUs from sm_75 on, or for this machine's processor."""


@cache
def helpers_ir(build: Build) -> str:
    """LLVM IR of the helpers: text for the module of a lowered program, with no target of its own.

    It defines `u64 accel_helper_N(u64, u64, u64, u64, u64)` for each of `accel_magic.gpu.program.helpers.HELPERS`,
    `u64 accel_launch()` and `u32 accel_is_leader()`, and needs the constants that `accel.h` declares.
    """
    return resources.files(__name__).joinpath(f"helpers_{build}.ll").read_text("utf-8")


class HostThread(ctypes.Structure):
    """Who runs in the host build: the variable `accel_self`, struct accel_self of host.h.

    `block`, `grid`, `thread` and `dims` are x, y, z of blockIdx, gridDim, threadIdx and blockDim; `clock` goes one on
    each time it is read, in nanoseconds and in cycles alike; `exited` is set by `gpu_exit`.
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

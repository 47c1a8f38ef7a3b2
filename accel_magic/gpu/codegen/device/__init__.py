"""Helpers for the device in C, compiled to LLVM IR by tools/build_gpu_helpers."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Literal

Build = Literal["nvptx64", "spirv64", "host"]
"""For NVIDIA GPUs (sm_75 or newer), for OpenCL devices, or for this machine's processor."""


@cache
def helpers_ir(build: Build) -> str:
    """LLVM IR of the helpers as text to link with a lowered program; it does not name a target.

    It defines `u64 accel_helper_N(u64, u64, u64, u64, u64)` for each of `accel_magic.gpu.program.helpers.HELPERS`,
    `u64 accel_launch()` and `u32 accel_is_leader()`, and needs the constants declared in `accel.h`.
    """
    return resources.files(__name__).joinpath(f"helpers_{build}.ll").read_text("utf-8")

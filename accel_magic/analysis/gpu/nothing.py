"""Why a GPU trace, or the table of one of its tools, has nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic.gpu_tools import TOOLS

if TYPE_CHECKING:
    from accel_magic.analysis.gpu.frames import GpuFrames


def why_no_program_ran(gpu: GpuFrames) -> str:
    """Why no program ran inside a kernel; '' if one did."""
    kernels = gpu.kernels
    if (kernels["instrumented"] & (kernels["launches"] > 0)).any():
        return ""
    if not len(gpu.launches) and not (kernels["launches"] > 0).any():
        return "no kernel was launched"
    reason = next(filter(None, kernels["reason"]), "")
    return "no kernel that was launched is instrumented" + (f": {reason}" if reason else "")


def why_empty(gpu: GpuFrames, tool: str) -> str:
    """Why the table of a tool has no rows."""
    return why_no_program_ran(gpu) or TOOLS[tool].empty

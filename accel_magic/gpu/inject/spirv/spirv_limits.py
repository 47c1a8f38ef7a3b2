"""Whether an OpenCL device can run a module with programs in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProgramError
from accel_magic.spirv.spirv_module import SpirvModule

if TYPE_CHECKING:
    from accel_magic.devices.opencl.opencl_library import OpenClDevice

MOST_LANES: Final = 32
"""The most lanes of a sub-group that programs can look at."""
_BALLOTS: Final = frozenset({64, 65})
"""Capabilities of programs that look at all lanes of a sub-group: ballot and shuffle."""
_CLOCK: Final = 5055


def uses_lanes(device: OpenClDevice, module: bytes, changed: bytes) -> bool:
    """Whether the programs in a changed module look at all lanes of a sub-group.

    Raises:
        ProgramError: The device cannot run the changed module.

    """
    needed = _capabilities(changed) - _capabilities(module)
    word = SpirvModule.read(changed).version
    version = word >> 16, word >> 8 & 0xFF
    if version > max(device.spirv):
        newest = "{}.{}".format(*max(device.spirv))
        raise not_traced(
            f"the programs need SPIR-V {version[0]}.{version[1]}, and the device takes up to {newest}",
            "update the driver, or use a tool that does not look at sub-groups: threadhist",
        )
    if _CLOCK in needed and "cl_khr_kernel_clock" not in device.extensions:
        raise not_traced("the programs read a clock, and the device has none (cl_khr_kernel_clock)", "use another tool")
    return bool(needed & _BALLOTS)


def not_traced(why: str, fix: str) -> ProgramError:
    """Make the error of a kernel that cannot be traced."""
    return ProgramError("it cannot be traced", why=why, fix=fix, code="opencl.kernel-not-traced")


def _capabilities(code: bytes) -> frozenset[int]:
    return frozenset(one.words[0] for one in SpirvModule.read(code).sections["capability"])

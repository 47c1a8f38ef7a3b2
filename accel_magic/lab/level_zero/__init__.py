"""Level Zero in the lab: the real loader, a driver library for the emulated NPU, and a load that calls the API.

The loader is Debian's `libze_loader.so.1`, the library that programs call. Below it is a driver library of ours: it
makes the ioctls that Intel's user-mode driver makes for the same calls, on the real intel_vpu, and computes nothing.
"""

from __future__ import annotations

from accel_magic.lab.level_zero.loads import ZeLoad, ze_load
from accel_magic.lab.level_zero.parts import LevelZero, find, install

__all__ = ["LevelZero", "ZeLoad", "find", "install", "ze_load"]

"""Level Zero in the lab: the real loader with a driver library for the emulated NPU.

Programs call Debian's `libze_loader.so.1`, which calls our driver library. For each call, the library makes the same
ioctls on the real intel_vpu driver as Intel's user-mode driver, but computes nothing.
"""

from __future__ import annotations

from accel_magic.lab.level_zero.parts import LevelZero, find, install

__all__ = ["LevelZero", "find", "install"]

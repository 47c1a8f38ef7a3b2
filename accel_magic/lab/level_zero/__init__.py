"""Level Zero in the lab: the real loader, a driver library for the emulated NPU.

The loader is Debian's `libze_loader.so.1`, the library that programs call. Below it is a driver library of ours: it
makes the ioctls that Intel's user-mode driver makes for the same calls, on the real intel_vpu, and computes nothing.
"""

from __future__ import annotations

from accel_magic.lab.level_zero.parts import LevelZero, find, install

__all__ = ["LevelZero", "find", "install"]

"""Calls of programs to the libraries of GPUs (CUDA's driver, HIP, OpenCL), and their trace within a GPU trace."""

from __future__ import annotations

from typing import Final

from accel_magic.subsystems.host_api import cuda, hip, opencl
from accel_magic.subsystems.subsystem import Subsystem

SUBSYSTEM: Final = Subsystem(name="host_api", presets=(cuda.PRESET, hip.PRESET, opencl.PRESET))

"""The CPU device (simulated): runs the PTX of CUDA kernels on numpy arrays, with no GPU.

It is an interpreter of warps: registers are arrays over threads, an instruction is executed for all threads that stand
at it at once. Results are those of a GPU wherever PTX defines them; times are a model that shows where work is.
"""

from accel_magic.devices.sim.device import Device, Launch
from accel_magic.devices.sim.faults import DeviceFault, Site
from accel_magic.devices.sim.module import Module

__all__ = ["Device", "DeviceFault", "Launch", "Module", "Site"]

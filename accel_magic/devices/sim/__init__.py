"""The simulated device: runs the PTX of CUDA kernels on numpy arrays, with no GPU.

It interprets warps: registers are arrays over threads, and an instruction is executed at once for all threads that have
reached it. Results equal a GPU's wherever PTX defines them; times come from a model that shows where the work is.
"""

from accel_magic.devices.sim.faults import DeviceFault, FaultSite
from accel_magic.devices.sim.module import LoadedModule
from accel_magic.devices.sim.simulated_device import LaunchStatistics, SimulatedDevice

__all__ = ["DeviceFault", "FaultSite", "LaunchStatistics", "LoadedModule", "SimulatedDevice"]

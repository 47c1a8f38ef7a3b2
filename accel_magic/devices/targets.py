"""Choose and open the device that a trace runs on."""

from __future__ import annotations

import contextlib
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from accel_magic.devices.device import SimulatedMemory
from accel_magic.devices.launches import SIMULATED_DEVICE
from accel_magic.devices.sim.simulated_device import ARCH
from accel_magic.errors import MachineError, ProbeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.devices.device import DeviceMemory, DeviceName
    from accel_magic.devices.opencl.opencl_memory import OpenClMemory
    from accel_magic.devices.sim import SimulatedDevice

Asked = Literal["auto", "cuda", "cpu", "opencl"]


SPIRV: Final = "spirv64"
"""The architecture of OpenCL devices."""


@dataclass(frozen=True)
class Target:
    """The device of a trace.

    Attributes:
        kind: `cuda` for a device of the NVIDIA driver, `cpu` for the simulated device, `opencl` for one of OpenCL.
        name: The name in output.
        architecture: What kernels are compiled for: `sm_90`, `spirv64`.
        simulated: Whether kernels are interpreted, and times are a model's.
        gpu: The number of the GPU or of the OpenCL device.
        note: Why the GPU that this machine seems to have is not used.

    """

    kind: DeviceName
    name: str
    architecture: str
    simulated: bool
    gpu: int | None = None
    note: str = ""


def target(requested: Asked, gpu: int | None = None) -> Target:
    """Find the device.

    Args:
        requested: `auto` takes a GPU if the NVIDIA driver has one; else, if pyopencl is imported, an OpenCL device that
            can be traced; else the simulated device.
        gpu: The number of the GPU, or of the OpenCL device; None for the GPU of the thread's current context, else the
            first.

    Raises:
        MachineError: A GPU was requested, and none can be used.
        ProbeError: A GPU number was given together with the simulated device.

    """
    if requested == "cpu":
        if gpu is not None:
            raise ProbeError(
                f"gpu={gpu} does not apply to the {SIMULATED_DEVICE}",
                fix="remove --gpu, or use --device cuda",
                code="gpu.option-not-for-cpu",
            )
        return _simulated()
    if requested == "opencl":
        return _opencl(gpu)
    try:
        return _cuda(gpu)
    except MachineError as error:
        if requested == "cuda" or gpu is not None:
            raise
        note = _worth_a_note(error)
    if "pyopencl" in sys.modules:
        with contextlib.suppress(MachineError):
            return _opencl(None, note)
    return _simulated(note)


@contextmanager
def opened(found: Target) -> Iterator[tuple[DeviceMemory, SimulatedDevice | OpenClMemory | None]]:
    """Open a device for the duration of the context.

    Yields:
        Its memory; and the simulated device itself or the OpenCL device's memory, None for a GPU.

    Raises:
        MachineError: It cannot be used now.

    """
    if found.kind == "cuda":
        from accel_magic.devices.cuda.memory import CudaMemory

        memory = CudaMemory.open(found.gpu)
        try:
            yield memory, None
        finally:
            memory.close()
        return
    if found.kind == "opencl":
        from accel_magic.devices.opencl import opencl_library
        from accel_magic.devices.opencl.opencl_memory import OpenClMemory

        shared = OpenClMemory(opencl_library.chosen(found.gpu))
        try:
            yield shared, shared
        finally:
            shared.close()
        return
    from accel_magic.devices.sim import SimulatedDevice

    device = SimulatedDevice()
    yield SimulatedMemory(device), device


def _simulated(note: str = "") -> Target:
    return Target("cpu", SIMULATED_DEVICE, ARCH, simulated=True, note=note)


def _cuda(number: int | None) -> Target:
    from accel_magic.devices.cuda import gpus

    gpu = gpus.chosen(number)
    return Target("cuda", gpu.name, gpu.architecture, gpu.simulated, gpu.number)


def _opencl(number: int | None, note: str = "") -> Target:
    from accel_magic.devices.opencl import opencl_library

    device = opencl_library.chosen(number)
    return Target("opencl", device.label, SPIRV, simulated=False, gpu=device.number, note=note)


def _worth_a_note(error: MachineError) -> str:
    """Explain why a GPU that seems to be present is not used; '' if there is no driver or no GPU."""
    from accel_magic.devices.cuda import driver

    none = isinstance(error, driver.NoDriverError)
    none |= isinstance(error, driver.DriverError) and error.result == driver.NO_DEVICE
    return "" if none else f"the GPU is not used: {error.what} ({error.why})"

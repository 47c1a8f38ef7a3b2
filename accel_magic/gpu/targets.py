"""Which device a trace runs on: what was asked for, what is there, and opening it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from accel_magic.errors import MachineError, ProbeError
from accel_magic.gpu.adapters import CPU_DEVICE
from accel_magic.gpu.adapters.simulated import ARCH
from accel_magic.gpu.devices import SimulatedMemory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.gpu.devices import DeviceName, Memory
    from accel_magic.gpu.simt import Device

Asked = Literal["auto", "cuda", "cpu"]


@dataclass(frozen=True)
class Target:
    """The device of a trace.

    Attributes:
        kind: `cuda` for what the NVIDIA driver has, `cpu` for the simulated device.
        name: In words.
        architecture: What kernels are compiled for: `sm_90`.
        simulated: Whether it is no GPU.
        gpu: Its number, as the driver counts.
        note: Why it is not the GPU that this machine seems to have.

    """

    kind: DeviceName
    name: str
    architecture: str
    simulated: bool
    gpu: int | None = None
    note: str = ""


def target(asked: Asked, gpu: int | None = None) -> Target:
    """Find the device.

    Args:
        asked: `auto`: a GPU where the NVIDIA driver has one, else the simulated device.
        gpu: Which GPU, as the driver counts; None for that of the thread's current context, else the first.

    Raises:
        MachineError: A GPU was asked for, and there is none that can be used.
        ProbeError: The number of a GPU together with the simulated device.

    """
    if asked == "cpu":
        if gpu is not None:
            raise ProbeError(
                f"gpu={gpu} is not for the {CPU_DEVICE}",
                fix="leave out --gpu, or use --device cuda",
                code="gpu.option-not-for-cpu",
            )
        return _simulated()
    try:
        return _cuda(gpu)
    except MachineError as error:
        if asked == "cuda" or gpu is not None:
            raise
        return _simulated(_worth_a_note(error))


@contextmanager
def opened(found: Target) -> Iterator[tuple[Memory, Device | None]]:
    """Open a device until the context ends.

    Yields:
        Its memory, and the simulated device itself; None for a GPU.

    Raises:
        MachineError: It cannot be used now.

    """
    if found.kind == "cuda":
        from accel_magic.gpu.cuda.memory import CudaMemory

        memory = CudaMemory.open(found.gpu)
        try:
            yield memory, None
        finally:
            memory.close()
        return
    from accel_magic.gpu.simt import Device

    device = Device()
    yield SimulatedMemory(device), device


def _simulated(note: str = "") -> Target:
    return Target("cpu", CPU_DEVICE, ARCH, simulated=True, note=note)


def _cuda(number: int | None) -> Target:
    from accel_magic.gpu.cuda import gpus

    gpu = gpus.chosen(number)
    return Target("cuda", gpu.name, gpu.architecture, gpu.simulated, gpu.number)


def _worth_a_note(error: MachineError) -> str:
    """Say why a GPU that seems to be there is not used; without a driver or a GPU there is nothing to say."""
    from accel_magic.gpu.cuda import driver

    none = isinstance(error, driver.NoDriverError)
    none |= isinstance(error, driver.DriverError) and error.result == driver.NO_DEVICE
    return "" if none else f"no GPU is used: {error.what} ({error.why})"

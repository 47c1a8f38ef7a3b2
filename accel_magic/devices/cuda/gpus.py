"""The GPUs that the driver finds, and the choice of the one to trace."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic.devices.cuda import driver as cuda
from accel_magic.devices.launches import SIMULATED_DEVICE
from accel_magic.errors import MachineError

if TYPE_CHECKING:
    from accel_magic.devices.cuda.driver import CudaDriver

_OLDEST: Final = (7, 5)
_NAME_BYTES: Final = 256
_DRIVER_VERSION: Final = Path("/sys/module/nvidia/version")


@dataclass(frozen=True)
class Gpu:
    """One GPU.

    Attributes:
        number: The driver's number for it, from 0.
        model: Its name.
        architecture: `sm_90`.
        multiprocessors: Number of multiprocessors.
        software: The versions of the driver and of CUDA.

    """

    number: int
    model: str
    architecture: str
    multiprocessors: int
    software: str

    @property
    def name(self) -> str:
        """The GPU with its software: `NVIDIA H200, driver 580.95.05, CUDA 13.0`."""
        return SIMULATED_DEVICE if self.simulated else f"{self.model}, {self.software}"

    @property
    def simulated(self) -> bool:
        """Whether it is the simulated device behind the mock CUDA driver."""
        return SIMULATED_DEVICE in self.model


def found(driver: CudaDriver | None = None) -> tuple[Gpu, ...]:
    """Describe all GPUs, in the driver's order. Raises MachineError if there is no driver or no GPU."""
    driver = driver or cuda.load()
    count = driver.number("cuDeviceGetCount")
    if not count:
        raise MachineError(
            "the NVIDIA driver finds no GPU",
            why="cuDeviceGetCount returns 0",
            fix="check nvidia-smi and CUDA_VISIBLE_DEVICES, or use --device cpu",
            code="cuda.no-gpu",
        )
    return tuple(_described(driver, number) for number in range(count))


def chosen(number: int | None = None, driver: CudaDriver | None = None) -> Gpu:
    """Choose the GPU to trace.

    Args:
        number: The driver's number for it; None for the GPU of the thread's current context, else the first.
        driver: The driver to use; None for the machine's.

    Raises:
        MachineError: There is no driver, no such GPU, or it is too old.

    """
    driver = driver or cuda.load()
    gpus = found(driver)
    if number is None:
        number = driver.number("cuCtxGetDevice") if driver.handle("cuCtxGetCurrent") else 0
    if not 0 <= number < len(gpus):
        listed = ", ".join(f"{gpu.number} ({gpu.model})" for gpu in gpus)
        raise MachineError(
            f"there is no GPU {number}",
            why=f"the driver finds {listed}",
            fix="choose one of these: --gpu N",
            code="gpu.no-such-device",
        )
    gpu = gpus[number]
    capability = tuple(_attribute(driver, number, one) for one in (cuda.CAPABILITY_MAJOR, cuda.CAPABILITY_MINOR))
    if capability < _OLDEST:
        raise MachineError(
            f"{gpu.model} is too old to be traced",
            why=f"its compute capability is {capability[0]}.{capability[1]}; programs need {_OLDEST[0]}.{_OLDEST[1]}",
            fix="use a newer GPU, or --device cpu",
            code="cuda.gpu-too-old",
        )
    if not _attribute(driver, number, cuda.CAN_MAP_HOST_MEMORY):
        raise MachineError(
            f"{gpu.model} cannot access the host's memory",
            why="ring buffers are in host memory, and CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY is 0",
            fix="use another GPU (--gpu N), or --device cpu",
            code="cuda.no-host-memory",
        )
    return gpu


def context_of(driver: CudaDriver, gpu: Gpu) -> tuple[int, bool]:
    """Find the context to use on a GPU: the thread's current one, else the GPU's primary one.

    Returns:
        Its handle, and whether it is the primary context, which is then retained.

    Raises:
        MachineError: The GPU is not available, or lacks memory for a context.

    """
    device = driver.number("cuDeviceGet", gpu.number)
    current = driver.handle("cuCtxGetCurrent")
    flags, active = ctypes.c_uint(), ctypes.c_int()
    driver.call("cuDevicePrimaryCtxGetState", device, ctypes.byref(flags), ctypes.byref(active))
    here = bool(current) and driver.number("cuCtxGetDevice") == device
    if here and not active.value:
        return current, False
    primary = driver.handle("cuDevicePrimaryCtxRetain", device)
    if here and current != primary:
        driver.attempt("cuDevicePrimaryCtxRelease_v2", device)
        return current, False
    return primary, True


def _described(driver: CudaDriver, number: int) -> Gpu:
    device = driver.number("cuDeviceGet", number)
    name = ctypes.create_string_buffer(_NAME_BYTES)
    driver.call("cuDeviceGetName", name, _NAME_BYTES, device)
    major, minor = (_attribute(driver, number, one) for one in (cuda.CAPABILITY_MAJOR, cuda.CAPABILITY_MINOR))
    return Gpu(
        number=number,
        model=name.value.decode(errors="replace"),
        architecture=f"sm_{major}{minor}",
        multiprocessors=_attribute(driver, number, cuda.MULTIPROCESSOR_COUNT),
        software=", ".join(filter(None, (_driver_text(), f"CUDA {cuda.cuda_text(driver.version)}"))),
    )


def _attribute(driver: CudaDriver, number: int, attribute: int) -> int:
    return driver.number("cuDeviceGetAttribute", attribute, driver.number("cuDeviceGet", number))


def _driver_text() -> str:
    try:
        return f"driver {_DRIVER_VERSION.read_text(encoding='utf-8').strip()}"
    except OSError:
        return ""

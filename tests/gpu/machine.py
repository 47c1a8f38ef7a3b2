"""The device that the tests run on: an NVIDIA GPU, or the mock CUDA driver with ACCEL_MAGIC_GPU=mock."""

from __future__ import annotations

import ctypes
import os
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

MOCK_CUDA = os.environ.get("ACCEL_MAGIC_GPU") == "mock"


class NoGpuError(Exception):
    """There is no usable GPU; the text says what is missing."""


@dataclass(frozen=True)
class Gpu:
    """`arch` is the compilers' name, `count` the number of GPUs; children need `environment` added to theirs."""

    name: str
    arch: str
    count: int
    multiprocessors: int
    simulated: bool
    environment: dict[str, str]


@contextmanager
def opened():
    """Make the first GPU's primary context current in this thread. Raises NoGpuError if there is no GPU."""
    environment = {}
    with ExitStack() as stack:
        if MOCK_CUDA:
            from tests.gpu.handover import mock_cuda_driver

            environment = mock_cuda_driver()
        require()
        from cuda.bindings import driver

        from tests.gpu.memory import call

        device = call(driver.cuDeviceGet, 0)
        call(driver.cuCtxSetCurrent, call(driver.cuDevicePrimaryCtxRetain, device))
        stack.callback(driver.cuDevicePrimaryCtxRelease, device)
        kinds = driver.CUdevice_attribute
        major, minor, multiprocessors = (
            call(driver.cuDeviceGetAttribute, kind, device)
            for kind in (
                kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                kinds.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
            )
        )
        name = bytes(call(driver.cuDeviceGetName, 128, device)).partition(b"\0")[0].decode()
        yield Gpu(name, f"sm_{major}{minor}", call(driver.cuDeviceGetCount), multiprocessors, MOCK_CUDA, environment)


def require():
    """Raise NoGpuError, which says what is missing, unless a GPU is usable."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise NoGpuError("there is no NVIDIA driver: libcuda.so.1 was not found") from None
    try:
        from cuda.bindings import driver
    except ImportError:
        raise NoGpuError("the package cuda-bindings is not installed") from None
    code = library.cuInit(0)
    if code:
        raise NoGpuError(f"the NVIDIA driver finds no usable GPU: {driver.CUresult(code).name}")

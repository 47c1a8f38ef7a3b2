"""Native binaries that the cell starts: environment variables connect its children to a server in this process."""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from accel_magic.errors import MachineError
from accel_magic.gpu.adapters.patching import environment
from accel_magic.gpu.native import native_libraries
from accel_magic.gpu.native.cuda_images import CudaApi
from accel_magic.gpu.native.native_server import NativeServer
from accel_magic.gpu.native.opencl_images import OpenClApi

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from accel_magic.devices.device import DeviceMemory
    from accel_magic.devices.opencl.opencl_library import OpenClDevice
    from accel_magic.gpu.instrument import Instrumenter
    from accel_magic.gpu.program.program_source import GpuSource

NAME: Final = "native binaries"
_SOCKET: Final = "ACCEL_MAGIC_NATIVE"
_PRELOAD: Final = "LD_PRELOAD"
_LAYERS: Final = "OPENCL_LAYERS"
_DEVICE: Final = "ACCEL_MAGIC_OPENCL_DEVICE"
_NO_CACHE: Final = "PYOPENCL_NO_CACHE"
"""PyOpenCL would load what it has compiled before as a binary, in which nothing can be inserted."""


@contextmanager
def watched(
    sources: Sequence[GpuSource],
    threads: int,
    trace: Instrumenter,
    memory: DeviceMemory,
    descriptors: Callable[[GpuSource], Mapping[str, int]],
    *,
    device: OpenClDevice | None = None,
) -> Iterator[NativeServer | None]:
    """Trace the kernels of processes that are started until the context ends.

    Without a C compiler, this is reported through `trace.skipped` and nothing is watched.

    Args:
        sources: The programs.
        threads: Capacity of per-thread maps, in threads of a grid.
        trace: Inserts programs into kernels, and is notified of launches.
        memory: The memory of this process.
        descriptors: The kernel's arrays that the programs of a source share: open descriptors by name.
        device: The OpenCL device whose kernels are traced; None for the GPU of CUDA.

    Yields:
        The server, whose `finish` returns the results of each process; None if nothing is watched.

    """
    try:
        variables = _of_cuda() if device is None else _of_opencl(device)
    except MachineError as error:
        trace.skipped(NAME, str(error).replace("\n", ";"))
        yield None
        return
    api = CudaApi if device is None else partial(OpenClApi, device, trace.noted)
    server = NativeServer(sources, threads, trace, memory, descriptors, api=api)
    try:
        server.start()
        with environment({**variables, _SOCKET: server.name}):
            yield server
    finally:
        server.finish()


def _of_cuda() -> dict[str, str]:
    return {_PRELOAD: _before(native_libraries.cuda_library(), _PRELOAD)}


def _of_opencl(device: OpenClDevice) -> dict[str, str]:
    # The first layer is the one next to the driver, the last one is next to the program.
    layers = _before(native_libraries.opencl_layer(), _LAYERS)
    loaded = _before(native_libraries.level_zero_library(), _PRELOAD)
    return {_LAYERS: layers, _PRELOAD: loaded, _DEVICE: f"{device.name}, {device.platform}", _NO_CACHE: "1"}


def _before(library: Path, name: str) -> str:
    """The value of a variable that lists libraries, with another one first."""
    others = os.environ.get(name, "")
    return f"{library}:{others}" if others else str(library)

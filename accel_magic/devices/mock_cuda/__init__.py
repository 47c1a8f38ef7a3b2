"""A mock CUDA driver: a `libcuda.so.1` whose device is the simulated device.

Programs that use CUDA's driver API run with it unmodified on machines without a GPU: other processes load the library
through `LD_LIBRARY_PATH`, this one by its name. The library is written in C, compiled on first use; it forwards calls
to a thread of this process.
"""

from __future__ import annotations

import ctypes
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from accel_magic import cache
from accel_magic.devices.mock_cuda import driver_protocol, library_build
from accel_magic.devices.mock_cuda.driver_server import DriverOptions, DriverServer
from accel_magic.errors import MachineError, TraceStateError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.devices.launches import Observer
    from accel_magic.devices.sim import SimulatedDevice

__all__ = ["DriverOptions", "DriverServer", "driver", "environment"]

_SEPARATORS: Final = ":;"
_one = threading.Lock()


def environment(server: DriverServer) -> dict[str, str]:
    """Return environment variables to add to a child process's environment so that it finds the driver.

    Raises:
        MachineError: The library cannot be built, or the path of its folder cannot be in LD_LIBRARY_PATH.

    """
    folder = str(library_build.library().parent)
    if any(separator in folder for separator in _SEPARATORS):
        raise MachineError(
            f"child processes cannot find the mock CUDA driver in {folder}",
            why="colons and semicolons separate folders in LD_LIBRARY_PATH",
            fix=f"choose another folder that only you can write to: export {cache.VARIABLE}=FOLDER",
            code="cache.path",
        )
    others = os.environ.get("LD_LIBRARY_PATH", "")
    return {driver_protocol.VARIABLE: server.name, "LD_LIBRARY_PATH": f"{folder}:{others}" if others else folder}


@contextmanager
def driver(
    device: SimulatedDevice | None = None, observer: Observer | None = None, *, options: DriverOptions | None = None
) -> Iterator[DriverServer]:
    """Make the mock CUDA driver this process's CUDA driver until the context ends; one at a time.

    Objects obtained from the driver (contexts, modules, addresses) are invalid afterwards. The library stays loaded.

    Threads of this process serve the driver's calls. If frameworks free driver objects in finalizers (cuda.core, CuPy),
    disable Python's garbage collector: a finalizer in such a thread would call the driver and wait for itself.

    Args:
        device: Runs the kernels; a new one by default.
        observer: Sees modules and launches, as for native binaries.
        options: Options for tests.

    Raises:
        MachineError: The library cannot be built, or another CUDA driver is already loaded.
        TraceStateError: The mock CUDA driver is already in use.

    """
    if not _one.acquire(blocking=False):
        raise TraceStateError(
            "the mock CUDA driver is already in use in this process",
            fix="use the running one, or end its context first",
            code="mock.in-use",
        )
    try:
        with _driver(device, observer, options) as server:
            yield server
    finally:
        _one.release()


@contextmanager
def _driver(
    device: SimulatedDevice | None, observer: Observer | None, options: DriverOptions | None
) -> Iterator[DriverServer]:
    if device is None:
        from accel_magic.devices.sim import SimulatedDevice

        device = SimulatedDevice()
    library = ctypes.CDLL(str(library_build.library()), ctypes.RTLD_GLOBAL)
    by_name = ctypes.CDLL(library_build.NAME)
    if not hasattr(by_name, "accel_mock_cuda_reset"):
        raise MachineError(
            "the mock CUDA driver cannot be used in this process",
            why=f"another {library_build.NAME} is already loaded",
            fix="use a new process",
            code="mock.other-library",
        )
    before = os.environ.get(driver_protocol.VARIABLE)
    with DriverServer(device, observer, options=options) as server:
        os.environ[driver_protocol.VARIABLE] = server.name
        try:
            # Initialize here, where the GIL is released: some frameworks call cuInit while holding it.
            result = library.cuInit(0)
            if result:
                raise MachineError(f"the mock CUDA driver does not start: error {result}", code="mock.not-started")
            yield server
        finally:
            library.accel_mock_cuda_reset()
            if before is None:
                del os.environ[driver_protocol.VARIABLE]
            else:
                os.environ[driver_protocol.VARIABLE] = before

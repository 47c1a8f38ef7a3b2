"""A stand-in for CUDA's driver: a `libcuda.so.1` whose device is the CPU device (simulated).

Programs that use CUDA's driver run with it unmodified where there is no GPU: other processes, which load the library by
`LD_LIBRARY_PATH`, and this one, by its name. The library is C, compiled on first use; it asks a thread of this process.
"""

from __future__ import annotations

import ctypes
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from accel_magic import cache
from accel_magic.errors import MachineError, TraceStateError
from accel_magic.gpu.standin import build, protocol
from accel_magic.gpu.standin.server import Options, Server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.gpu.adapters import Observer
    from accel_magic.gpu.simt import Device

__all__ = ["Options", "Server", "driver", "environment"]

_SEPARATORS: Final = ":;"
_one = threading.Lock()


def environment(server: Server) -> dict[str, str]:
    """Give the environment variables with which a child process finds the driver: to be added to the child's own.

    Raises:
        MachineError: The library cannot be built, or lies where children cannot be told to find it.

    """
    folder = str(build.library().parent)
    if any(separator in folder for separator in _SEPARATORS):
        raise MachineError(
            f"children cannot find a driver in {folder}",
            why="a colon or a semicolon divides the folders in LD_LIBRARY_PATH",
            fix=f"name another folder that only you can write to: export {cache.VARIABLE}=FOLDER",
            code="cache.path",
        )
    others = os.environ.get("LD_LIBRARY_PATH", "")
    return {protocol.VARIABLE: server.name, "LD_LIBRARY_PATH": f"{folder}:{others}" if others else folder}


@contextmanager
def driver(
    device: Device | None = None, observer: Observer | None = None, *, options: Options | None = None
) -> Iterator[Server]:
    """Let this process find the stand-in as its CUDA driver, until the context ends; one at a time.

    What was got from the driver (contexts, modules, addresses) is void afterwards. The library itself stays loaded.

    Threads of this process answer for the driver. Where frameworks free what they hold in finalizers (cuda.core, CuPy),
    turn Python's garbage collector off meanwhile: in such a thread it would ask the driver, and wait for itself.

    Args:
        device: Runs the kernels; a new one by default.
        observer: Sees modules and launches, as for native binaries.
        options: What tests ask for.

    Raises:
        MachineError: The library cannot be built, or another CUDA driver is loaded already.
        TraceStateError: There is one already.

    """
    if not _one.acquire(blocking=False):
        raise TraceStateError(
            "the stand-in for CUDA's driver is in use in this process",
            fix="use the one there is",
            code="standin.in-use",
        )
    try:
        with _driver(device, observer, options) as server:
            yield server
    finally:
        _one.release()


@contextmanager
def _driver(device: Device | None, observer: Observer | None, options: Options | None) -> Iterator[Server]:
    if device is None:
        from accel_magic.gpu.simt import Device as Simulated

        device = Simulated()
    library = ctypes.CDLL(str(build.library()), ctypes.RTLD_GLOBAL)
    by_name = ctypes.CDLL(build.NAME)
    if not hasattr(by_name, "accel_standin_reset"):
        raise MachineError(
            "the stand-in for CUDA's driver cannot be used in this process",
            why=f"another {build.NAME} is loaded already",
            fix="use a process of its own",
            code="standin.other-library",
        )
    before = os.environ.get(protocol.VARIABLE)
    with Server(device, observer, options=options) as server:
        os.environ[protocol.VARIABLE] = server.name
        try:
            # Here, where the interpreter is free to answer: some frameworks call cuInit while they hold it.
            result = library.cuInit(0)
            if result:
                raise MachineError(
                    f"the stand-in for CUDA's driver does not start: error {result}", code="standin.not-started"
                )
            yield server
        finally:
            library.accel_standin_reset()
            if before is None:
                del os.environ[protocol.VARIABLE]
            else:
                os.environ[protocol.VARIABLE] = before

"""Native binaries that the cell starts: environment variables connect its children to a server in this process."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from accel_magic.errors import MachineError
from accel_magic.gpu.adapters.patching import environment
from accel_magic.gpu.native import shim_build
from accel_magic.gpu.native.native_server import NativeServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from accel_magic.devices.device import DeviceMemory
    from accel_magic.gpu.instrument import Instrumenter
    from accel_magic.gpu.program.program_source import GpuSource

NAME: Final = "native binaries"
_PRELOAD: Final = "LD_PRELOAD"
_NAME: Final = "ACCEL_MAGIC_NATIVE"


@contextmanager
def watched(
    sources: Sequence[GpuSource],
    threads: int,
    trace: Instrumenter,
    device: DeviceMemory,
    descriptors: Callable[[GpuSource], Mapping[str, int]],
) -> Iterator[NativeServer | None]:
    """Trace the kernels of processes that are started until the context ends.

    Without a C compiler, this is reported through `trace.skipped` and nothing is watched.

    Args:
        sources: The programs.
        threads: Capacity of per-thread maps, in threads of a grid.
        trace: Inserts programs into kernels, and is notified of launches.
        device: The memory of this process.
        descriptors: The kernel's arrays that the programs of a source share: open descriptors by name.

    Yields:
        The server, whose `finish` returns the results of each process; None if nothing is watched.

    """
    try:
        library = shim_build.library()
    except MachineError as error:
        trace.skipped(NAME, str(error).replace("\n", ";"))
        yield None
        return
    server = NativeServer(sources, threads, trace, device, descriptors)
    try:
        server.start()
        before = os.environ.get(_PRELOAD, "")
        with environment({_PRELOAD: f"{library}:{before}" if before else str(library), _NAME: server.name}):
            yield server
    finally:
        server.finish()

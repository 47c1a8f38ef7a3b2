"""Native binaries that a traced cell starts, on the simulated device: children find the stand-in as CUDA's driver."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from accel_magic.devices.standin import Server, environment
from accel_magic.errors import MachineError
from accel_magic.gpu.adapters import patching

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.devices.launches import Observer
    from accel_magic.devices.sim import Device

NAME: Final = "native binary"


@contextmanager
def children_run_on(device: Device, observer: Observer) -> Iterator[None]:
    """Let programs that are started from now on run their kernels on the device, until the context ends.

    They find the driver by their environment, so that programs which are started without it are not seen. What still
    runs at the end is told by its next call that there is no driver any more. Where the driver cannot be built, the
    observer is told, and children have what they have without a trace.

    Args:
        device: Runs the kernels.
        observer: Gets the modules and launches of all children.

    """
    with Server(device, observer, framework=NAME) as server:
        try:
            added = environment(server)
        except MachineError as error:
            observer.skipped("native binaries", str(error).replace("\n", ";"))
            added = {}
        with patching.environment(added):
            yield

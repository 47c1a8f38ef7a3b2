"""Native binaries that a traced cell starts, on the simulated device: children load the mock CUDA driver."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from accel_magic.devices.mock_cuda import DriverServer, environment
from accel_magic.errors import MachineError
from accel_magic.gpu.adapters import patching

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.devices.launches import Observer
    from accel_magic.devices.sim import SimulatedDevice

NAME: Final = "native binary"


@contextmanager
def children_run_on(device: SimulatedDevice, observer: Observer) -> Iterator[None]:
    """Run the kernels of programs that are started until the context ends on the device.

    Programs find the driver through environment variables; those started without them are not traced. The next call of
    a program that still runs at the end fails: the driver is gone. If the driver cannot be built, this is reported to
    the observer, and children run as without a trace.

    Args:
        device: Runs the kernels.
        observer: Gets the modules and launches of all children.

    """
    with DriverServer(device, observer, framework=NAME) as server:
        try:
            added = environment(server)
        except MachineError as error:
            observer.skipped("native binaries", str(error).replace("\n", ";"))
            added = {}
        with patching.environment(added):
            yield

"""The devices that kernels of a trace run on, and the memory on them that programs share with the host."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, Protocol

import numpy as np

from accel_magic.devices.launches import CPU_DEVICE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.devices.launches import Launch
    from accel_magic.devices.sim import Device as Simulated


DeviceName = Literal["cuda", "cpu"]
_APART: Final = 10_000
"""One part in so many is by how much two crystals differ at most: 100 ppm, the worst that is sold."""


@dataclass(frozen=True)
class Clock:
    """How a device's clock, which %globaltimer reads, lies on the host's CLOCK_MONOTONIC; both in ns.

    Attributes:
        device_ns: A moment on the device's clock.
        host_ns: The same moment on the host's.
        rate: Host nanoseconds for each of the device's.
        error_ns: By how much a mapped time may be wrong, at most.

    """

    device_ns: int = 0
    host_ns: int = 0
    rate: float = 1.0
    error_ns: int = 0

    def to_host(self, device_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Map times of the device, int64 ns of any shape, to CLOCK_MONOTONIC."""
        passed = device_ns - self.device_ns
        mapped: NDArray[np.int64] = self.host_ns + passed + np.rint(passed * (self.rate - 1.0)).astype(np.int64)
        return mapped

    def through(self, later: Clock) -> Clock:
        """Lay a line through this comparison and a later one of the same clocks; between the two both errors hold.

        Where the device's clock did not go on meanwhile, the error is by how much the two differ.
        """
        passed, host = later.device_ns - self.device_ns, later.host_ns - self.host_ns
        error = max(self.error_ns, later.error_ns)
        if passed <= 0:
            return replace(self, error_ns=error + abs(host - passed))
        return replace(self, rate=host / passed, error_ns=error)

    def aged(self, host_ns: int) -> Clock:
        """Widen the error for times up to `host_ns`: two clocks that nobody compared again run apart."""
        return replace(self, error_ns=self.error_ns + max(host_ns - self.host_ns, 0) // _APART)


class Memory(Protocol):
    """What a trace needs of a device: memory that kernels write to and the host reads, also while they run."""

    @property
    def name(self) -> str:
        """The device, in words."""

    @property
    def simulated(self) -> bool:
        """Whether it is no GPU, and its times are a model's."""

    @property
    def multiprocessors(self) -> int:
        """How many it has."""

    def allocate(self, content: NDArray[np.uint8], kind: MemoryKind = "device") -> int:
        """Reserve memory with this content; the address that kernels use, a multiple of 256."""

    def share(self, descriptor: int, size: int) -> int:
        """Map `size` bytes of a file that can be mapped shared (an mmapable BPF array), for kernels and `view`.

        Its address, as kernels use it. The descriptor may be closed afterwards; `free` ends the sharing.
        """

    def read(self, address: int, size: int) -> NDArray[np.uint8]:
        """Copy (size,) bytes from the device without waiting for kernels that run."""

    def view(self, address: int, size: int) -> NDArray[np.uint8] | None:
        """(size,) bytes themselves, live, where the host can reach them (always of kind `host`), else None."""

    def free(self, address: int) -> None:
        """Give memory back, or stop sharing it."""

    def launching(self, launch: Launch) -> None:
        """Hear of a launch before it happens."""

    def finish(self, stream: int) -> None:
        """Wait until what was put into a stream has run; a stream that is being captured is left alone."""

    def wait(self) -> bool:
        """Wait for all kernels; False where an interrupt came first: they may still run, and their memory stays."""

    def clock(self) -> Clock:
        """Compare the clocks now."""

    def elsewhere(self) -> str:
        """Say why kernels that are loaded now, in this thread, do not reach this memory; '' where they do."""


@dataclass(frozen=True)
class SimulatedMemory:
    """The simulated device's memory."""

    device: Simulated

    @property
    def name(self) -> str:
        """The device, in words: always that it is simulated."""
        return CPU_DEVICE

    @property
    def simulated(self) -> bool:
        """Always."""
        return True

    @property
    def multiprocessors(self) -> int:
        """How many the model has."""
        return self.device.multiprocessors

    def allocate(self, content: NDArray[np.uint8], kind: MemoryKind = "device") -> int:  # noqa: ARG002 - all of it is the host's
        """Reserve memory with this content; the address."""
        address = self.device.allocate(len(content))
        self.device.view(address, len(content))[:] = content
        return address

    def share(self, descriptor: int, size: int) -> int:
        """Map `size` bytes of a file, live for kernels and `view`."""
        return self.device.share(descriptor, size)

    def read(self, address: int, size: int) -> NDArray[np.uint8]:
        """Copy (size,) bytes from the device."""
        return self.view(address, size).copy()

    def view(self, address: int, size: int) -> NDArray[np.uint8]:
        """(size,) bytes themselves, live."""
        seen: NDArray[np.uint8] = self.device.view(address, size)
        return seen

    def free(self, address: int) -> None:
        """Give memory back."""
        self.device.free(address)

    def launching(self, launch: Launch) -> None:
        """Set the device's clock to the host's: kernels begin when they were asked for, or when the last one ended."""
        self.device.time_ns = max(self.device.time_ns, launch.time_ns)

    def finish(self, stream: int) -> None:
        """Nothing to do: a launch returns when its kernel has ended."""

    def wait(self) -> bool:
        """Nothing to do, likewise."""
        return True

    def clock(self) -> Clock:
        """Kernels are told the host's time: see `launching`."""
        return Clock()

    def elsewhere(self) -> str:
        """All kernels run on this device."""
        return ""


MemoryKind = Literal["device", "host"]
"""Where a map lies: in the device's own memory, or in the host's, which the device reaches and the host reads live."""

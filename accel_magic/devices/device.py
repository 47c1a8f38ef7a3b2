"""The interface to a device that runs traced kernels, and the memory that programs share with the host."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, Protocol

import numpy as np

from accel_magic.devices.launches import SIMULATED_DEVICE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.devices.launches import LaunchRequest
    from accel_magic.devices.sim import SimulatedDevice


DeviceName = Literal["cuda", "cpu", "opencl"]
_APART: Final = 10_000
"""Two oscillators differ by at most one part in this many: 100 ppm, the worst sold."""


@dataclass(frozen=True)
class DeviceClock:
    """How a device's clock (%globaltimer) relates to the host's CLOCK_MONOTONIC; both in ns.

    Attributes:
        device_ns: A moment on the device's clock.
        host_ns: The same moment on the host's clock.
        rate: Host nanoseconds per device nanosecond.
        error_ns: Largest error of a mapped time.

    """

    device_ns: int = 0
    host_ns: int = 0
    rate: float = 1.0
    error_ns: int = 0

    def to_host(self, device_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Map device times, int64 ns of any shape, to CLOCK_MONOTONIC."""
        passed = device_ns - self.device_ns
        mapped: NDArray[np.int64] = self.host_ns + passed + np.rint(passed * (self.rate - 1.0)).astype(np.int64)
        return mapped

    def through(self, later: DeviceClock) -> DeviceClock:
        """Draw a line through this comparison and a later one of the same clocks.

        Between the two, the larger of both errors applies. If the device's clock did not advance in between, the
        difference of the elapsed times is added to the error.
        """
        passed, host = later.device_ns - self.device_ns, later.host_ns - self.host_ns
        error = max(self.error_ns, later.error_ns)
        if passed <= 0:
            return replace(self, error_ns=error + abs(host - passed))
        return replace(self, rate=host / passed, error_ns=error)

    def aged(self, host_ns: int) -> DeviceClock:
        """Widen the error for times up to `host_ns`, because the clocks drift apart after the comparison."""
        return replace(self, error_ns=self.error_ns + max(host_ns - self.host_ns, 0) // _APART)


class DeviceMemory(Protocol):
    """What a trace needs from a device: memory that kernels write and the host reads, even while they run."""

    @property
    def name(self) -> str:
        """The device's name."""

    @property
    def simulated(self) -> bool:
        """Whether it is simulated: not a GPU, and its times come from a model."""

    @property
    def multiprocessors(self) -> int:
        """Number of multiprocessors."""

    def allocate(self, content: NDArray[np.uint8], kind: MemoryKind = "device") -> int:
        """Allocate memory with this content and return its device address, a multiple of 256."""

    def share(self, descriptor: int, size: int) -> int:
        """Map `size` bytes of a file that can be mapped shared (an mmapable BPF array), for kernels and `view`.

        Returns its device address. The descriptor may be closed afterwards; `free` ends the sharing.
        """

    def read(self, address: int, size: int) -> NDArray[np.uint8]:
        """Copy (size,) bytes from the device without waiting for running kernels."""

    def view(self, address: int, size: int) -> NDArray[np.uint8]:
        """Return a live view of (size,) bytes of kind `host`."""

    def free(self, address: int) -> None:
        """Free memory, or stop sharing it."""

    def launching(self, launch: LaunchRequest) -> None:
        """Handle a launch that is about to happen."""

    def finish(self, stream: int) -> None:
        """Wait for the work queued in a stream; a stream that is being captured is left alone."""

    def wait(self) -> bool:
        """Wait for all kernels; False if an interrupt came first: they may still run, and their memory is kept."""

    def clock(self) -> DeviceClock:
        """Compare the clocks now."""

    def elsewhere(self) -> str:
        """Explain why kernels loaded now by this thread cannot access this memory; '' if they can."""


@dataclass(frozen=True)
class SimulatedMemory:
    """The simulated device's memory."""

    device: SimulatedDevice

    @property
    def name(self) -> str:
        """The device's name, which says that it is simulated."""
        return SIMULATED_DEVICE

    @property
    def simulated(self) -> bool:
        """Always true."""
        return True

    @property
    def multiprocessors(self) -> int:
        """Number of multiprocessors in the model."""
        return self.device.multiprocessors

    def allocate(self, content: NDArray[np.uint8], kind: MemoryKind = "device") -> int:  # noqa: ARG002 - all memory is on the host
        """Allocate memory with this content and return its address."""
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
        """Return a live view of (size,) bytes."""
        seen: NDArray[np.uint8] = self.device.view(address, size)
        return seen

    def free(self, address: int) -> None:
        """Free memory."""
        self.device.free(address)

    def launching(self, launch: LaunchRequest) -> None:
        """Set the device's clock to the host's: a kernel begins when it is launched, or when the last one ended."""
        self.device.time_ns = max(self.device.time_ns, launch.time_ns)

    def finish(self, stream: int) -> None:
        """Do nothing: a launch returns when its kernel has ended."""

    def wait(self) -> bool:
        """Do nothing: a launch returns when its kernel has ended."""
        return True

    def clock(self) -> DeviceClock:
        """Return the identity: kernels see the host's time, see `launching`."""
        return DeviceClock()

    def elsewhere(self) -> str:
        """Return '': all kernels run on this device."""
        return ""


MemoryKind = Literal["device", "host"]
"""Where a map is: in device memory, or in host memory, which the device can access and the host reads live."""

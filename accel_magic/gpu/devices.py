"""The devices that kernels of a trace run on, and the memory on them that programs share with the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from accel_magic.gpu.adapters import CPU_DEVICE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from accel_magic.gpu.adapters import Launch
    from accel_magic.gpu.simt import Device as Simulated

DeviceName = Literal["cuda", "cpu"]


class Memory(Protocol):
    """What a trace needs of a device: memory that kernels write to and the host reads, also while they run."""

    @property
    def name(self) -> str:
        """The device, in words."""

    @property
    def multiprocessors(self) -> int:
        """How many it has."""

    def allocate(self, content: NDArray[np.uint8]) -> int:
        """Reserve memory with this content; the address, a multiple of 256."""

    def read(self, address: int, size: int) -> NDArray[np.uint8]:
        """Copy (size,) bytes from the device."""

    def free(self, address: int) -> None:
        """Give memory back."""

    def launching(self, launch: Launch) -> None:
        """Hear of a launch before it happens."""


@dataclass(frozen=True)
class SimulatedMemory:
    """The simulated device's memory."""

    device: Simulated

    @property
    def name(self) -> str:
        """The device, in words: always that it is simulated."""
        return CPU_DEVICE

    @property
    def multiprocessors(self) -> int:
        """How many the model has."""
        return self.device.multiprocessors

    def allocate(self, content: NDArray[np.uint8]) -> int:
        """Reserve memory with this content; the address."""
        address = self.device.allocate(len(content))
        self.device.view(address, len(content))[:] = content
        return address

    def read(self, address: int, size: int) -> NDArray[np.uint8]:
        """Copy (size,) bytes from the device."""
        content: NDArray[np.uint8] = self.device.view(address, size).copy()
        return content

    def free(self, address: int) -> None:
        """Give memory back."""
        self.device.free(address)

    def launching(self, launch: Launch) -> None:
        """Set the device's clock to the host's: kernels begin when they were asked for, or when the last one ended."""
        self.device.time_ns = max(self.device.time_ns, launch.time_ns)

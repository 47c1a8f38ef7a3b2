"""What `native_process` needs to know of the API that a native program loads its kernels with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.devices.launches import KernelSource
    from accel_magic.gpu.native.native_protocol import NativeMessage


@dataclass(frozen=True, slots=True)
class NativeImage:
    """An image for the process to load.

    Attributes:
        data: The image; empty for the process's own.
        uses_lanes: Whether programs in it look at all lanes of a sub-group.

    """

    data: bytes = b""
    uses_lanes: bool = False


ORIGINAL = NativeImage()
"""The process's own image."""


class NativeApi(Protocol):
    """An API, for one process."""

    @property
    def framework(self) -> str:
        """The name in tables."""

    @property
    def notes(self) -> Mapping[str, str]:
        """Notes on what a process could not trace, by counter of the ring; with `who` and `count`."""

    def introduced(self, hello: NativeMessage) -> tuple[str, str]:
        """Read what a process says first: returns its executable, and why it is not traced ('' if it is)."""

    def source(self, message: NativeMessage, data: bytes, executable: str, pid: int) -> tuple[KernelSource[Any], str]:
        """Read an image: returns its kernels, and why it cannot be instrumented ('' if it can).

        Raises AccelMagicError if it is damaged or cannot be compiled.
        """

    def image(self, source: KernelSource[Any], code: Any) -> NativeImage:
        """Make an image of a module with programs in it. Raises AccelMagicError if the device cannot run it."""

    def alternative(self, source: KernelSource[Any], code: Any, message: NativeMessage) -> tuple[NativeImage, str]:
        """Return what to load instead of an image that was rejected: ORIGINAL if there is nothing, and why."""

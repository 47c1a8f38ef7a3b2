"""Memory in a traced process's context, accessed from the notebook: each block is a file that both sides map."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.errors import MachineError
from accel_magic.gpu.native.native_protocol import Kept, MessageKind, NativeMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from accel_magic.devices.device import DeviceClock, DeviceMemory
    from accel_magic.devices.device import MemoryKind as Where
    from accel_magic.devices.launches import LaunchRequest

_PIECE: Final = 4 << 20
_KINDS: Final = {"device": 0, "host": 1}


@dataclass(frozen=True)
class _Block:
    content: NDArray[np.uint8]
    kept: Kept


class ChildMemory:
    """Implements `accel_magic.devices.device.DeviceMemory`. Reads device memory from its last copy, at most 0.2 s old.

    Args:
        ask: Sends the process a message and returns its answer; raises OSError if the process has ended.
        tell: Sends the process a message.
        device: The memory of the notebook's own process on the same kind of device.

    """

    def __init__(
        self, ask: Callable[[NativeMessage], NativeMessage], tell: Callable[[NativeMessage], None], device: DeviceMemory
    ) -> None:
        self._ask, self._tell, self._device = ask, tell, device
        self._blocks: dict[int, _Block] = {}

    @property
    def name(self) -> str:
        """Description of the device."""
        return self._device.name

    @property
    def simulated(self) -> bool:
        """Whether the device is simulated."""
        return self._device.simulated

    @property
    def multiprocessors(self) -> int:
        """The device's number of multiprocessors."""
        return self._device.multiprocessors

    @property
    def live(self) -> bool:
        """Whether the files are the host memory itself, so rings can be drained while kernels fill them."""
        return all(block.kept is not Kept.ALLOCATED for block in self._blocks.values())

    @property
    def is_current(self) -> bool:
        """Whether all memory is the files themselves, so nothing has to be copied."""
        return all(block.kept is Kept.MAPPED for block in self._blocks.values())

    def allocate(self, content: NDArray[np.uint8], kind: Where = "device") -> int:
        """Allocate memory with this content in the process; returns its address. Raises MachineError if that fails."""
        size = -(-max(len(content), 1) // mmap.PAGESIZE) * mmap.PAGESIZE
        file = os.memfd_create("accel_magic maps", os.MFD_CLOEXEC)
        try:
            os.ftruncate(file, size)
            mapped = np.frombuffer(mmap.mmap(file, size), np.uint8)
            for at in range(0, len(content), _PIECE):
                piece = content[at : at + _PIECE]
                if piece.any():  # pages that are never written use no memory
                    mapped[at : at + len(piece)] = piece
            return self._placed(NativeMessage(MessageKind.ALLOCATE, _KINDS[kind], size, descriptor=file), mapped)
        finally:
            os.close(file)

    def share(self, descriptor: int, size: int) -> int:
        """Map a file for kernels of the process; returns its address. Raises MachineError if this is not possible."""
        mapped = np.frombuffer(mmap.mmap(descriptor, size), np.uint8)
        return self._placed(NativeMessage(MessageKind.SHARE, 0, size, descriptor=descriptor), mapped)

    def _placed(self, message: NativeMessage, mapped: NDArray[np.uint8]) -> int:
        answer = self._ask(message)
        if not answer.a:
            raise MachineError(
                f"the process cannot allocate {len(mapped):,} bytes for maps",
                why=f"its driver returned error {answer.b}",
                fix="trace fewer threads: --threads N",
                code="cuda.out-of-memory",
            )
        self._blocks[answer.a] = _Block(mapped, Kept(answer.c))
        return answer.a

    def read(self, address: int, size: int) -> NDArray[np.uint8]:
        """Copy (size,) bytes."""
        return self.view(address, size).copy()

    def view(self, address: int, size: int) -> NDArray[np.uint8]:
        """Return (size,) uint8: a view of host memory if `live`, otherwise of the last copy."""
        start, block = next(
            (start, block)
            for start, block in self._blocks.items()
            if start <= address and address + size <= start + len(block.content)
        )
        return block.content[address - start : address - start + size]

    def free(self, address: int) -> None:
        """Free memory of the process."""
        del self._blocks[address]
        self._tell(NativeMessage(MessageKind.FREE, a=address))

    def release(self) -> None:
        """Release all files; they cannot be read afterwards. The process keeps its memory."""
        self._blocks.clear()

    def launching(self, launch: LaunchRequest) -> None:
        """Do nothing: launches are reported afterwards."""

    def finish(self, stream: int) -> None:
        """Do nothing: the streams belong to the process."""

    def wait(self) -> bool:
        """Return at once."""
        return True

    def clock(self) -> DeviceClock:
        """Return the device's clock, which is the same for all processes."""
        return self._device.clock()

    def elsewhere(self) -> str:
        """Return '': the process itself checks its contexts."""
        return ""

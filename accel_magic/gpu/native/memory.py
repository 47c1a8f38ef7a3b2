"""Memory in a traced process's context, as the notebook sees it: a file for each block, which both sides map."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.errors import MachineError
from accel_magic.gpu.native.wire import Kept, Kind, Message

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from accel_magic.gpu.adapters import Launch
    from accel_magic.gpu.devices import Clock, Memory
    from accel_magic.gpu.maps import MemoryKind as Where

_PIECE: Final = 4 << 20
_KINDS: Final = {"device": 0, "host": 1}


@dataclass(frozen=True)
class _Block:
    content: NDArray[np.uint8]
    kept: Kept


class ChildMemory:
    """See `accel_magic.gpu.devices.Memory`. Device memory is as of its last copy, which is 0.2 s old at most.

    Args:
        ask: Sends the process a message and gives its answer; raises OSError when the process is gone.
        tell: Sends it a message.
        device: The memory of the notebook's own process on the same kind of device.

    """

    def __init__(self, ask: Callable[[Message], Message], tell: Callable[[Message], None], device: Memory) -> None:
        self._ask, self._tell, self._device = ask, tell, device
        self._blocks: dict[int, _Block] = {}

    @property
    def name(self) -> str:
        """The device, in words."""
        return self._device.name

    @property
    def simulated(self) -> bool:
        """Whether it is no GPU."""
        return self._device.simulated

    @property
    def multiprocessors(self) -> int:
        """How many it has."""
        return self._device.multiprocessors

    @property
    def live(self) -> bool:
        """Whether host memory is the files themselves, so that rings can be emptied while kernels fill them."""
        return all(block.kept is not Kept.ALLOCATED for block in self._blocks.values())

    def allocate(self, content: NDArray[np.uint8], kind: Where = "device") -> int:
        """Have memory with this content made; its address there. Raises MachineError for lack of room."""
        size = -(-max(len(content), 1) // mmap.PAGESIZE) * mmap.PAGESIZE
        file = os.memfd_create("accel_magic maps", os.MFD_CLOEXEC)
        try:
            os.ftruncate(file, size)
            mapped = np.frombuffer(mmap.mmap(file, size), np.uint8)
            for at in range(0, len(content), _PIECE):
                piece = content[at : at + _PIECE]
                if piece.any():  # what was never written takes no memory
                    mapped[at : at + len(piece)] = piece
            return self._placed(Message(Kind.ALLOCATE, _KINDS[kind], size, descriptor=file), mapped)
        finally:
            os.close(file)

    def share(self, descriptor: int, size: int) -> int:
        """Have a file mapped for kernels there; its address. Raises MachineError where that is not possible."""
        mapped = np.frombuffer(mmap.mmap(descriptor, size), np.uint8)
        return self._placed(Message(Kind.SHARE, 0, size, descriptor=descriptor), mapped)

    def _placed(self, message: Message, mapped: NDArray[np.uint8]) -> int:
        answer = self._ask(message)
        if not answer.a:
            raise MachineError(
                f"the process has no room for {len(mapped):,} bytes of maps",
                why=f"its driver says error {answer.b}",
                fix="trace fewer threads: --threads N",
                code="cuda.out-of-memory",
            )
        self._blocks[answer.a] = _Block(mapped, Kept(answer.c))
        return answer.a

    def read(self, address: int, size: int) -> NDArray[np.uint8]:
        """Copy (size,) bytes."""
        return self.view(address, size).copy()

    def view(self, address: int, size: int) -> NDArray[np.uint8]:
        """(size,) bytes: those themselves in host memory where `live`, else those of the last copy."""
        start, block = next(
            (start, block)
            for start, block in self._blocks.items()
            if start <= address and address + size <= start + len(block.content)
        )
        return block.content[address - start : address - start + size]

    def free(self, address: int) -> None:
        """Have memory given back."""
        del self._blocks[address]
        self._tell(Message(Kind.FREE, a=address))

    def release(self) -> None:
        """Let all files go: nothing of them can be read any more; the process keeps its memory."""
        self._blocks.clear()

    def launching(self, launch: Launch) -> None:
        """Nothing to do: launches are heard of afterwards."""

    def finish(self, stream: int) -> None:
        """Nothing to do: its streams are its own."""

    def wait(self) -> bool:
        """Nothing is waited for."""
        return True

    def clock(self) -> Clock:
        """The device's clock is the same for all processes."""
        return self._device.clock()

    def elsewhere(self) -> str:
        """The process itself looks after its contexts."""
        return ""

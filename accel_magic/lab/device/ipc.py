"""The firmware's side of the IPC: slots for messages in memory, and the FIFO of their addresses that the driver reads.

Source: Linux, drivers/accel/ivpu/ivpu_ipc.c and ivpu_fw.c: the boot parameters name an area for headers and one for
payloads; the sender marks a header as taken, the driver as free again once it has read the message.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel_magic.lab.device import messages as jsm
from accel_magic.lab.device.guest_fault import GuestFault

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.lab.device.mmu import Mmu
    from accel_magic.lab.device.timers import Timer, Timers

FIFO_DEPTH = 128
MOST_SLOTS = 128
MOST_WAITING = 512
RETRY_US = 10_000


@dataclass(frozen=True)
class Areas:
    """Where messages to the driver go.

    Attributes:
        headers: Address of the first header, of the NPU, in the global context.
        payloads: Address of the first message.
        slots: How many of both there are.

    """

    headers: int
    payloads: int
    slots: int

    @classmethod
    def checked(cls, headers: int, headers_size: int, payloads: int, payloads_size: int) -> Areas:
        """Areas as boot parameters give them.

        Raises:
            GuestFault: They hold no message, or lie beyond the 32 bits that the FIFO can carry.

        """
        slots = min(headers_size // jsm.IPC_HEADER_SIZE, payloads_size // jsm.JSM_SIZE, MOST_SLOTS)
        ends = headers + headers_size, payloads + payloads_size
        if slots < 1 or headers % jsm.IPC_HEADER_SIZE or payloads % jsm.IPC_HEADER_SIZE or max(ends) > 1 << 32:
            raise GuestFault("boot", f"IPC areas {headers:#x}+{headers_size:#x} and {payloads:#x}+{payloads_size:#x}")
        return cls(headers, payloads, slots)


class Ipc:
    """Sends messages to the driver, in order; those for which there is no slot yet wait.

    Args:
        mmu: Translates the slots' addresses.
        timers: To try again when the driver has freed a slot.
        on_arrival: Called when the FIFO got an entry.
        guard: Runs an action; what the guest did wrong in it is counted and goes no further.

    """

    def __init__(
        self,
        mmu: Mmu,
        timers: Timers,
        on_arrival: Callable[[], None],
        guard: Callable[[Callable[[], None]], None],
    ) -> None:
        self._mmu = mmu
        self._timers = timers
        self._on_arrival = on_arrival
        self._guard = guard
        self.areas: Areas | None = None
        self._fifo: deque[int] = deque()
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._next_slot = 0
        self._retry: Timer | None = None

    def reset(self) -> None:
        """The NPU lost its state: nothing waits, nothing lies in the FIFO, no areas are known."""
        self.areas = None
        self._fifo.clear()
        self._waiting.clear()
        self._next_slot = 0
        if self._retry is not None:
            self._timers.cancel(self._retry)
            self._retry = None

    @property
    def level(self) -> int:
        """Entries in the FIFO, 0 to 128."""
        return len(self._fifo)

    def pop(self) -> int:
        """Take the address of the oldest message out of the FIFO; 0 where there is none."""
        address = self._fifo.popleft() if self._fifo else 0
        self._guard(self._pump)
        return address

    def send_boot(self) -> None:
        """Say that the firmware runs: a header alone, with a constant in place of a message.

        Raises:
            GuestFault: The header's slot is not memory.

        """
        self._put(jsm.CHANNEL_BOOT, b"")

    def send(self, channel: int, kind: int, request: int, result: int, payload: bytes) -> None:
        """Send a JSM message.

        Raises:
            GuestFault: Its slot is not memory, or the driver lets too many messages wait.

        """
        head = jsm.JSM_HEADER.pack(0, kind, jsm.JSM_ALLOCATED, request, result, 0)
        self._put(channel, head + payload[: jsm.JSM_PAYLOAD_SIZE].ljust(jsm.JSM_PAYLOAD_SIZE, b"\0"))

    def _put(self, channel: int, message: bytes) -> None:
        if self.areas is None:
            raise GuestFault("ipc", "a message before the boot")
        if len(self._waiting) >= MOST_WAITING:
            raise GuestFault("ipc", f"{MOST_WAITING} messages wait for the driver; one more is lost")
        self._waiting.append((channel, message))
        self._pump()

    def _pump(self) -> None:
        """Move waiting messages into free slots, as long as there are both."""
        areas = self.areas
        while self._waiting and areas is not None:
            slot = self._free_slot(areas) if len(self._fifo) < FIFO_DEPTH else None
            if slot is None:
                self._try_again()
                return
            channel, message = self._waiting.popleft()
            header = areas.headers + slot * jsm.IPC_HEADER_SIZE
            where, size = jsm.BOOT_DATA_ADDRESS, 0
            if channel != jsm.CHANNEL_BOOT:
                where, size = areas.payloads + slot * jsm.JSM_SIZE, len(message)
                self._mmu.write(where, message)
            self._mmu.write(
                header,
                jsm.IPC_HEADER.pack(where, size, channel, jsm.NPU_NODE, jsm.HOST_NODE, jsm.IPC_ALLOCATED),
            )
            self._next_slot = slot + 1
            self._fifo.append(header)
            self._on_arrival()

    def _free_slot(self, areas: Areas) -> int | None:
        for step in range(areas.slots):
            slot = (self._next_slot + step) % areas.slots
            status = areas.headers + slot * jsm.IPC_HEADER_SIZE + jsm.IPC_STATUS_OFFSET
            if self._mmu.read(status, 1)[0] == jsm.IPC_FREE:
                return slot
        return None

    def _try_again(self) -> None:
        if self._retry is None or self._retry.action is None:
            self._retry = self._timers.after(RETRY_US, lambda: self._guard(self._pump))

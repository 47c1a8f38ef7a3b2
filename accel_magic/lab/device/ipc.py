"""The firmware's side of the IPC: message slots in memory, and the FIFO of their addresses that the driver reads.

Source: Linux, drivers/accel/ivpu/ivpu_ipc.c and ivpu_fw.c: the boot parameters name an area for headers and one for
payloads; the sender marks a header as allocated, and the driver marks it as free after reading the message.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel_magic.lab.device import jsm_messages
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
    """Memory areas for messages to the driver.

    Attributes:
        headers: Address of the first header: an NPU address in the global context.
        payloads: Address of the first message.
        slots: Number of headers and of messages.

    """

    headers: int
    payloads: int
    slots: int

    @classmethod
    def checked(cls, headers: int, headers_size: int, payloads: int, payloads_size: int) -> Areas:
        """Create areas from boot parameters.

        Raises:
            GuestFault: They are too small for a message, or misaligned, or exceed the FIFO's 32-bit addresses.

        """
        slots = min(headers_size // jsm_messages.IPC_HEADER_SIZE, payloads_size // jsm_messages.JSM_SIZE, MOST_SLOTS)
        ends = headers + headers_size, payloads + payloads_size
        if (
            slots < 1
            or headers % jsm_messages.IPC_HEADER_SIZE
            or payloads % jsm_messages.IPC_HEADER_SIZE
            or max(ends) > 1 << 32
        ):
            raise GuestFault("boot", f"IPC areas {headers:#x}+{headers_size:#x} and {payloads:#x}+{payloads_size:#x}")
        return cls(headers, payloads, slots)


class Ipc:
    """Sends messages to the driver, in order; messages wait until a slot is free.

    Args:
        mmu: Translates the slots' addresses.
        timers: For retries while no slot is free.
        on_arrival: Called when an entry was added to the FIFO.
        guard: Runs an action; a `GuestFault` in it is counted, logged and suppressed.

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
        """Reset the state: drop waiting messages, FIFO entries and the areas."""
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
        """Remove the address of the oldest message from the FIFO and return it; 0 if the FIFO is empty."""
        address = self._fifo.popleft() if self._fifo else 0
        self._guard(self._pump)
        return address

    def send_boot(self) -> None:
        """Report that the firmware runs: a header only, with a constant instead of a message address.

        Raises:
            GuestFault: The header's slot is not in guest memory.

        """
        self._put(jsm_messages.CHANNEL_BOOT, b"")

    def send(self, channel: int, kind: int, request: int, result: int, payload: bytes) -> None:
        """Send a JSM message.

        Raises:
            GuestFault: Its slot is not in guest memory, or too many messages wait for the driver.

        """
        head = jsm_messages.JSM_HEADER.pack(0, kind, jsm_messages.JSM_ALLOCATED, request, result, 0)
        self._put(channel, head + payload[: jsm_messages.JSM_PAYLOAD_SIZE].ljust(jsm_messages.JSM_PAYLOAD_SIZE, b"\0"))

    def _put(self, channel: int, message: bytes) -> None:
        if self.areas is None:
            raise GuestFault("ipc", "message before the boot")
        if len(self._waiting) >= MOST_WAITING:
            raise GuestFault("ipc", f"{MOST_WAITING} messages wait for the driver; this one is dropped")
        self._waiting.append((channel, message))
        self._pump()

    def _pump(self) -> None:
        """Move waiting messages to free slots."""
        areas = self.areas
        while self._waiting and areas is not None:
            slot = self._free_slot(areas) if len(self._fifo) < FIFO_DEPTH else None
            if slot is None:
                self._try_again()
                return
            channel, message = self._waiting.popleft()
            header = areas.headers + slot * jsm_messages.IPC_HEADER_SIZE
            where, size = jsm_messages.BOOT_DATA_ADDRESS, 0
            if channel != jsm_messages.CHANNEL_BOOT:
                where, size = areas.payloads + slot * jsm_messages.JSM_SIZE, len(message)
                self._mmu.write(where, message)
            self._mmu.write(
                header,
                jsm_messages.IPC_HEADER.pack(
                    where, size, channel, jsm_messages.NPU_NODE, jsm_messages.HOST_NODE, jsm_messages.IPC_ALLOCATED
                ),
            )
            self._next_slot = slot + 1
            self._fifo.append(header)
            self._on_arrival()

    def _free_slot(self, areas: Areas) -> int | None:
        for step in range(areas.slots):
            slot = (self._next_slot + step) % areas.slots
            status = areas.headers + slot * jsm_messages.IPC_HEADER_SIZE + jsm_messages.IPC_STATUS_OFFSET
            if self._mmu.read(status, 1)[0] == jsm_messages.IPC_FREE:
                return slot
        return None

    def _try_again(self) -> None:
        if self._retry is None or self._retry.action is None:
            self._retry = self._timers.after(RETRY_US, lambda: self._guard(self._pump))

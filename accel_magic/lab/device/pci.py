"""PCI configuration space: identity, the two register regions, MSI, power management, and our fault capability.

Source: PCI Local Bus 3.0, chapter 6; the identity is that of Meteor Lake's NPU in Linux'
drivers/accel/ivpu/ivpu_drv.h. QEMU itself handles the addresses of the regions and of the MSI, and forwards other
accesses.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from accel_magic.lab.device import fault_injection, npu_registers

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = 256
VENDOR, DEVICE = 0x8086, 0x7D1D
REVISION = 4
CLASS = 0x120000  # processing accelerator

MSI_AT, POWER_AT, FAULT_AT = 0x40, 0x60, 0x70
CAP_POWER, CAP_MSI, CAP_VENDOR = 0x01, 0x05, 0x09
FAULT_CAP_SIZE = 24
FAULT_CAP_VERSION = 2
_COUNTS_AT = FAULT_AT + 16

_COMMAND_BITS = 0x0407  # memory and I/O decoding, bus mastering, interrupt disable
_MSI_64BIT = 1 << 7
_NO_SOFT_RESET = 1 << 3


class ConfigSpace:
    """256 bytes with a mask of their writable bits.

    Args:
        on_fault: Called with (fault, argument) when the guest has written the fault capability.
        counts: Returns what the end of that capability shows: how many messages the firmware has sent, and the type of
            the last one that a fault has dropped, 0 for none.

    """

    def __init__(self, on_fault: Callable[[int, int], None], counts: Callable[[], tuple[int, int]]) -> None:
        self._on_fault = on_fault
        self._counts = counts
        self._bytes = bytearray(SIZE)
        self._writable = bytearray(SIZE)
        self.reset()
        for at, size, mask in (
            (0x04, 2, _COMMAND_BITS),
            (0x0C, 1, 0xFF),  # cache line size
            (0x0D, 1, 0xFF),  # latency timer
            (0x10, 8, (1 << 64) - npu_registers.BAR0_SIZE),
            (0x20, 8, (1 << 64) - npu_registers.BAR4_SIZE),
            (0x3C, 1, 0xFF),  # interrupt line
            (MSI_AT + 2, 2, 0x0001),
            (MSI_AT + 4, 10, ((1 << 80) - 1) & ~0x3),  # address and data
            (POWER_AT + 4, 2, 0x0003),
            (FAULT_AT + 8, 8, (1 << 64) - 1),
        ):
            self._writable[at : at + size] = mask.to_bytes(size, "little")

    def reset(self) -> None:
        """Restore the power-on state, except the fault capability: a requested fault survives a reset."""
        kept = bytes(self._bytes[FAULT_AT + 8 : FAULT_AT + 16])
        self._bytes[:] = bytes(SIZE)
        struct.pack_into("<HHHH", self._bytes, 0x00, VENDOR, DEVICE, 0, 0x0010)  # 0x10: has capabilities
        struct.pack_into("<I", self._bytes, 0x08, CLASS << 8 | REVISION)
        struct.pack_into("<Q", self._bytes, 0x10, 0x4)  # BAR 0 and 4: memory, 64 bits wide
        struct.pack_into("<Q", self._bytes, 0x20, 0x4)
        struct.pack_into("<HH", self._bytes, 0x2C, VENDOR, DEVICE)
        self._bytes[0x34] = MSI_AT
        struct.pack_into("<BBH", self._bytes, MSI_AT, CAP_MSI, POWER_AT, _MSI_64BIT)
        struct.pack_into("<BBHH", self._bytes, POWER_AT, CAP_POWER, FAULT_AT, 0x0003, _NO_SOFT_RESET)
        struct.pack_into(
            "<BBBBI", self._bytes, FAULT_AT, CAP_VENDOR, 0, FAULT_CAP_SIZE, FAULT_CAP_VERSION, fault_injection.MAGIC
        )
        self._bytes[FAULT_AT + 8 : FAULT_AT + 16] = kept

    def show_fault(self, fault: int, argument: int) -> None:
        """Show the device's current fault in the capability."""
        struct.pack_into("<II", self._bytes, FAULT_AT + 8, fault & 0xFFFFFFFF, argument & 0xFFFFFFFF)

    def read(self, offset: int, size: int) -> bytes:
        """Read `size` bytes from `offset`; bytes past the end read as zero."""
        struct.pack_into("<II", self._bytes, _COUNTS_AT, *(count & 0xFFFFFFFF for count in self._counts()))
        return bytes(self._bytes[offset : offset + size]).ljust(size, b"\0")

    def write(self, offset: int, data: bytes) -> None:
        """Write the writable bits, and report a requested fault.

        The capability's two words may be written separately, in either order: each write applies the current pair.
        """
        for at, value in enumerate(data[: max(0, SIZE - offset)], offset):
            mask = self._writable[at]
            self._bytes[at] = self._bytes[at] & ~mask | value & mask
        if offset < FAULT_AT + 16 and offset + len(data) > FAULT_AT + 8:
            self._on_fault(*struct.unpack_from("<II", self._bytes, FAULT_AT + 8))

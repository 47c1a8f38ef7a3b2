"""The NPU's MMU: an SMMUv3 with one stream, a table of contexts (one per SSID) and four levels of 4 KiB tables.

Sources: Linux, drivers/accel/ivpu/ivpu_mmu.c and ivpu_mmu_context.c (the features the driver uses); Arm IHI 0070 (the
fields). Nothing is cached, so the driver's invalidations have no effect; the command queue is consumed because the
driver waits for that.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from accel_magic.lab.device import npu_registers
from accel_magic.lab.device.guest_fault import GuestFault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.lab.device.guest_memory import GuestMemory

PAGE = 4096
GLOBAL_SSID = 0
LARGE_PAGE = 2 << 20
"""The guest's memory, above the first such page, is in windows of whole ones."""

CR0_SMMUEN = 1 << 0
CR0_CMDQEN = 1 << 3

# Stream table entry, first word
STE_VALID = 1 << 0
STE_CONFIG = 0x7 << 1
STE_STAGE_1 = 0x5 << 1
STE_FORMAT = 0x3 << 4
STE_CONTEXTS = 0x000FFFFFFFFFFFC0
STE_CONTEXTS_LOG2_SHIFT = 59
STRTAB_ADDRESS = 0x000FFFFFFFFFFFC0

# Context descriptor
CD_SIZE = 64
CD_VALID = 1 << 31
CD_AARCH64 = 1 << 41
CD_T0SZ = 0x3F
CD_TABLE = 0x000FFFFFFFFFFFF0
# With 4 KiB tables, 40 to 48 address bits need four levels; the driver uses 48.
T0SZ_FOUR_LEVELS = range(16, 25)

# Translation table entry
ENTRY_VALID = 1 << 0
ENTRY_TABLE_OR_PAGE = 1 << 1
ENTRY_READ_ONLY = 1 << 7
ENTRY_ADDRESS = 0x0000FFFFFFFFF000
LEVEL_SHIFTS = (39, 30, 21, 12)

QUEUE_ADDRESS = 0x000FFFFFFFFFFFE0
QUEUE_LOG2 = 0x1F
COMMAND_SIZE = 16
# The driver's queue has 16 entries; this bounds the work of one write to the producer's index.
LARGEST_QUEUE_LOG2 = 8
COMMANDS = {
    0x01: "PREFETCH_CFG",
    0x03: "CFGI_STE",
    0x04: "CFGI_ALL",
    0x05: "CFGI_CD",
    0x06: "CFGI_CD_ALL",
    0x11: "TLBI_NH_ASID",
    0x20: "TLBI_EL2_ALL",
    0x30: "TLBI_NSNH_ALL",
    0x46: "SYNC",
}
CONS_ERROR_SHIFT = 24
CONS_INDEX = 0xFFFFF
ERROR_ILLEGAL = 1
ERROR_ABORT = 2
GERROR_CMDQ = 1 << 0

_QUEUE_ENTRY = struct.Struct("<QQ")


class Mmu:
    """Translates the NPU's addresses and consumes the MMU's command queue.

    Args:
        memory: The guest memory with the tables.
        registers: The registers of BAR 0, by offset; shared with `HostInterface`.

    """

    def __init__(self, memory: GuestMemory, registers: dict[int, int]) -> None:
        self._memory = memory
        self._registers = registers

    def _register64(self, offset: int) -> int:
        return self._registers.get(offset, 0) | self._registers.get(offset + 4, 0) << 32

    def _context(self, ssid: int) -> int:
        """Address of the root of a context's translation tables."""
        if not self._registers.get(npu_registers.MMU_CR0, 0) & CR0_SMMUEN:
            raise GuestFault("translation", "the MMU is off")
        entry = self._memory.read_u64(self._register64(npu_registers.MMU_STRTAB_BASE) & STRTAB_ADDRESS)
        if not entry & STE_VALID or entry & STE_CONFIG != STE_STAGE_1 or entry & STE_FORMAT:
            raise GuestFault("translation", f"stream table entry {entry:#x}")
        if ssid >> min(entry >> STE_CONTEXTS_LOG2_SHIFT, 20):
            raise GuestFault("translation", f"SSID {ssid} is beyond the table of contexts")
        descriptor = (entry & STE_CONTEXTS) + ssid * CD_SIZE
        control = self._memory.read_u64(descriptor)
        if not control & CD_VALID or not control & CD_AARCH64 or control & CD_T0SZ not in T0SZ_FOUR_LEVELS:
            raise GuestFault("translation", f"context descriptor {control:#x} of SSID {ssid}")
        return self._memory.read_u64(descriptor + 8) & CD_TABLE

    def translate(self, address: int, ssid: int, *, write: bool) -> int:
        """Translate an NPU address to a guest address, with at most seven reads of guest memory.

        Raises:
            GuestFault: It is not mapped, or not writable.

        """
        if address >> 48:
            raise GuestFault("translation", f"{address:#x} has more than 48 bits")
        table = self._context(ssid)
        for shift in LEVEL_SHIFTS:
            entry = self._memory.read_u64(table + (address >> shift & 0x1FF) * 8)
            if not entry & ENTRY_VALID or not entry & ENTRY_TABLE_OR_PAGE:
                raise GuestFault("translation", f"{address:#x} of SSID {ssid} is not mapped")
            table = entry & ENTRY_ADDRESS
        if write and entry & ENTRY_READ_ONLY:
            raise GuestFault("translation", f"{address:#x} of SSID {ssid} is read-only")
        return table | address & (PAGE - 1)

    def _runs(self, address: int, size: int, ssid: int, *, write: bool) -> Iterator[tuple[int, int]]:
        """Yield guest address and bytes of an area's parts; neighboring pages are joined.

        Raises:
            GuestFault: Some of it is not mapped, or not writable.

        """
        start = length = 0
        while size > 0:
            step = min(size, PAGE - address % PAGE)
            place = self.translate(address, ssid, write=write)
            if length and place == start + length and place % LARGE_PAGE and place > LARGE_PAGE:
                length += step
            else:
                if length:
                    yield start, length
                start, length = place, step
            address, size = address + step, size - step
        if length:
            yield start, length

    def read(self, address: int, size: int, ssid: int = GLOBAL_SSID) -> bytes:
        """Read `size` bytes at an NPU address, across pages.

        Raises:
            GuestFault: Some of it is not mapped, or not guest memory.

        """
        return b"".join(self._memory.read(*run) for run in self._runs(address, size, ssid, write=False))

    def write(self, address: int, data: bytes, ssid: int = GLOBAL_SSID) -> None:
        """Write at an NPU address, across pages; nothing is written unless all pages are mapped for writing.

        Raises:
            GuestFault: Some of it is not mapped for writing, or not guest memory.

        """
        done = 0
        for place, length in [*self._runs(address, len(data), ssid, write=True)]:
            self._memory.write(place, data[done : done + length])
            done += length

    def consume_commands(self) -> None:
        """Consume the command queue up to the producer index, after a write to that index or to CR0.

        Raises:
            GuestFault: The queue, its indices or a command are invalid. For an invalid command, the consumer index
                then holds the error, as the architecture specifies.

        """
        if not self._registers.get(npu_registers.MMU_CR0, 0) & CR0_CMDQEN:
            return
        base = self._register64(npu_registers.MMU_CMDQ_BASE)
        log2 = base & QUEUE_LOG2
        producer = self._registers.get(npu_registers.MMU_CMDQ_PROD, 0) & CONS_INDEX
        consumer = self._registers.get(npu_registers.MMU_CMDQ_CONS, 0) & CONS_INDEX
        if log2 > LARGEST_QUEUE_LOG2:
            raise GuestFault("mmu-queue", f"a command queue of 2**{log2} entries")
        wrap = (2 << log2) - 1
        if (producer - consumer & wrap) > 1 << log2 or producer > wrap or consumer > wrap:
            raise GuestFault("mmu-queue", f"command queue indices {producer:#x} and {consumer:#x} of 2**{log2}")
        while consumer != producer:
            try:
                place = (base & QUEUE_ADDRESS) + (consumer & wrap >> 1) * COMMAND_SIZE
                command = _QUEUE_ENTRY.unpack(self._memory.read(place, COMMAND_SIZE))[0] & 0xFF
            except GuestFault:
                self._fail(consumer, ERROR_ABORT)
                raise
            if command not in COMMANDS:
                self._fail(consumer, ERROR_ILLEGAL)
                raise GuestFault("mmu-queue", f"command {command:#x}")
            consumer = consumer + 1 & wrap
            self._registers[npu_registers.MMU_CMDQ_CONS] = consumer

    def _fail(self, consumer: int, error: int) -> None:
        self._registers[npu_registers.MMU_CMDQ_CONS] = consumer | error << CONS_ERROR_SHIFT
        # The error is active while the two registers differ; the driver acknowledges it by making them equal.
        acknowledged = self._registers.get(npu_registers.MMU_GERRORN, 0)
        self._registers[npu_registers.MMU_GERROR] = acknowledged ^ GERROR_CMDQ

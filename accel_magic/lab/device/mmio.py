"""BAR 0: the NPU's registers, read and written by the driver.

Source: Linux, drivers/accel/ivpu/ivpu_hw_ip.c (power-up, interrupts, FIFO, doorbells) and ivpu_mmu.c.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from accel_magic.lab.device import npu_registers

if TYPE_CHECKING:
    from collections.abc import Callable

PERF_TICKS_IN_10_US = 384  # the free-running counter runs at 38.4 MHz


class Behind(Protocol):
    """Actions behind the registers that have side effects."""

    def fifo_level(self) -> int:
        """Return the number of entries in the IPC FIFO."""

    def fifo_pop(self) -> int:
        """Remove and return the oldest entry of the IPC FIFO."""

    def ipc_receive(self, address: int) -> None:
        """Receive a message from the driver."""

    def doorbell(self, index: int) -> None:
        """Ring a doorbell."""

    def boot(self, entry: int) -> None:
        """Start the firmware."""

    def mmu_commands(self) -> None:
        """Process new MMU commands."""

    def interrupts_changed(self) -> None:
        """Check whether an interrupt can be delivered."""

    def unknown_register(self, offset: int) -> None:
        """Count an access to a register that does not exist."""


class HostInterface:
    """The registers of BAR 0 and their effects.

    Args:
        clock: Returns the time in microseconds.

    Attributes:
        registers: Values by offset, shared with the MMU. Only offsets of known registers are stored.

    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self.registers: dict[int, int] = {}
        self._counter = 0
        self.reset()

    def reset(self) -> None:
        """Restore the state after a reset of the NPU."""
        self.registers.clear()
        self.registers.update(npu_registers.MMU_RESET)

    def signal(self) -> None:
        """Signal a new entry in the IPC FIFO."""
        self.registers[npu_registers.ICB_STATUS_0] = (
            self.registers.get(npu_registers.ICB_STATUS_0, 0) | npu_registers.ICB_IPC_FIFO
        )

    @property
    def pending(self) -> bool:
        """Whether an interrupt is signaled and enabled."""
        get = self.registers.get
        return bool(
            get(npu_registers.ICB_STATUS_0, 0) & get(npu_registers.ICB_ENABLE_0, 0)
            | get(npu_registers.ICB_STATUS_1, 0) & get(npu_registers.ICB_ENABLE_1, 0)
        )

    def read(self, offset: int, behind: Behind) -> int:
        """Read a 32-bit register; one that does not exist reads as zero."""
        if offset == npu_registers.IPC_FIFO_STAT:
            return min(behind.fifo_level(), 0xFF) << npu_registers.FIFO_LEVEL_SHIFT
        if offset == npu_registers.IPC_FIFO_ATM:
            return behind.fifo_pop()
        if offset == npu_registers.PERF_FREE_CNT:
            # Reading the lower half latches the upper half.
            self._counter = self._clock() * PERF_TICKS_IN_10_US // 10
            return self._counter & 0xFFFFFFFF
        if offset == npu_registers.PERF_FREE_CNT + 4:
            return self._counter >> 32 & 0xFFFFFFFF
        if offset not in _KNOWN and not _is_doorbell(offset):
            behind.unknown_register(offset)
        return self.registers.get(offset, 0)

    def write(self, offset: int, value: int, behind: Behind) -> None:
        """Write a 32-bit register.

        Raises:
            GuestFault: The action triggered by the write is invalid.

        """
        if _is_doorbell(offset):
            if value & 1:
                behind.doorbell((offset - npu_registers.DOORBELL_0) // npu_registers.DOORBELL_STRIDE)
        elif offset == npu_registers.TIM_IPC_FIFO:
            behind.ipc_receive(value)
        elif offset in _CLEARS:
            status = _CLEARS[offset]
            self.registers[status] = self.registers.get(status, 0) & ~value
        elif offset in _HOLDS:
            self._store(offset, value, behind)
        elif offset not in _KNOWN:
            behind.unknown_register(offset)

    def _store(self, offset: int, value: int, behind: Behind) -> None:
        self.registers[offset] = value
        if offset in npu_registers.FOLLOWERS:
            self.registers[npu_registers.FOLLOWERS[offset]] = value
        if offset in {npu_registers.ICB_ENABLE_0, npu_registers.ICB_ENABLE_1}:
            behind.interrupts_changed()
        elif offset in {npu_registers.MMU_CR0, npu_registers.MMU_CMDQ_PROD}:
            behind.mmu_commands()
        elif offset == npu_registers.LOADING_ADDRESS_LO and value & npu_registers.LOADING_DONE:
            behind.boot((value & npu_registers.LOADING_LOCATION) << npu_registers.LOADING_SHIFT)


def _is_doorbell(offset: int) -> bool:
    index, rest = divmod(offset - npu_registers.DOORBELL_0, npu_registers.DOORBELL_STRIDE)
    return rest == 0 and 0 <= index < npu_registers.DOORBELLS


_CLEARS = {npu_registers.ICB_CLEAR_0: npu_registers.ICB_STATUS_0, npu_registers.ICB_CLEAR_1: npu_registers.ICB_STATUS_1}
_HOLDS = npu_registers.PLAIN | {
    npu_registers.ICB_ENABLE_0,
    npu_registers.ICB_ENABLE_1,
    npu_registers.LOADING_ADDRESS_LO,
    npu_registers.MMU_CR0,
    npu_registers.MMU_CMDQ_PROD,
    npu_registers.MMU_CMDQ_CONS,
}
_KNOWN = (
    _HOLDS
    | npu_registers.READ_ONLY
    | {
        npu_registers.CPR_RST_CLR,
        npu_registers.ICB_STATUS_0,
        npu_registers.ICB_STATUS_1,
        npu_registers.ICB_CLEAR_0,
        npu_registers.ICB_CLEAR_1,
        npu_registers.IPC_FIFO_ATM,
        npu_registers.IPC_FIFO_STAT,
        npu_registers.TIM_IPC_FIFO,
        npu_registers.PERF_FREE_CNT,
        npu_registers.PERF_FREE_CNT + 4,
    }
)

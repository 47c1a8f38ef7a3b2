"""BAR 4, the buttress: power, clocks, reset of the NPU, and its interrupt mask.

Sources: Linux, drivers/accel/ivpu/ivpu_hw_btrs.c (what the driver requests and waits for) and ivpu_hw_btrs_mtl_reg.h
(names). Every transition completes immediately, so no status ever reads "in progress".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic.lab.device import npu_registers

if TYPE_CHECKING:
    from collections.abc import Callable

# Multiples of 2/3 of the 50 MHz reference clock: minimum 466 MHz, efficient 666 MHz, maximum 1.4 GHz.
MIN_RATIO, EFFICIENT_RATIO, MAX_RATIO = 0x0E, 0x14, 0x2A

_FUSES = {
    npu_registers.FMIN_FUSE: MIN_RATIO | EFFICIENT_RATIO << 8,
    npu_registers.FMAX_FUSE: MAX_RATIO,
    npu_registers.TILE_FUSE: 1,
}
_PLAIN = frozenset(
    {
        npu_registers.WP_REQ_PAYLOAD0,
        npu_registers.WP_REQ_PAYLOAD1,
        npu_registers.WP_REQ_PAYLOAD2,
        npu_registers.LOCAL_INT_MASK,
        npu_registers.PLL_ENABLE,
    }
)
# Errors are never reported, so these registers, which the driver reads and clears, are always zero.
_ZERO = frozenset(
    {
        npu_registers.INTERRUPT_TYPE,
        npu_registers.INTERRUPT_STAT,
        npu_registers.WP_REQ_CMD,
        npu_registers.WP_DOWNLOAD,
        npu_registers.VPU_IP_RESET,
        npu_registers.VPU_TELEMETRY_OFFSET,
        npu_registers.VPU_TELEMETRY_SIZE,
        npu_registers.VPU_TELEMETRY_ENABLE,
        npu_registers.ATS_ERR_LOG_0,
        npu_registers.ATS_ERR_LOG_1,
        npu_registers.ATS_ERR_CLEAR,
        npu_registers.UFI_ERR_LOG,
        npu_registers.UFI_ERR_CLEAR,
        npu_registers.LNL_VPU_STATUS,
    }
)


class Buttress:
    """The registers of BAR 4.

    Args:
        is_idle: Whether the NPU is idle.
        on_ip_reset: Resets the NPU.
        on_unmask: Called when interrupts are unmasked.
        on_unknown: Called for an access to a register that does not exist.

    """

    def __init__(
        self,
        is_idle: Callable[[], bool],
        on_ip_reset: Callable[[], None],
        on_unmask: Callable[[], None],
        on_unknown: Callable[[int], None],
    ) -> None:
        self._is_idle = is_idle
        self._on_ip_reset = on_ip_reset
        self._on_unmask = on_unmask
        self._on_unknown = on_unknown
        self._registers: dict[int, int] = {}
        self.ratio = 0
        self.masked = True
        self._computed: dict[int, Callable[[], int]] = {
            npu_registers.CURRENT_PLL: lambda: self.ratio,
            npu_registers.PLL_STATUS: lambda: npu_registers.PLL_LOCKED if self.ratio else 0,
            npu_registers.VPU_STATUS: lambda: (
                (npu_registers.STATUS_READY if self.ratio else 0)
                | (npu_registers.STATUS_IDLE if self._is_idle() else 0)
            ),
            npu_registers.GLOBAL_INT_MASK: lambda: int(self.masked),
        }
        self.reset()

    def reset(self) -> None:
        """Restore the power-on state: no clock, interrupts masked."""
        self._registers = {npu_registers.LOCAL_INT_MASK: 0xFFFFFFFF, npu_registers.VPU_D0I3_CONTROL: 0}
        self.ratio = 0
        self.masked = True

    def read(self, offset: int) -> int:
        """Read a 32-bit register."""
        if offset in self._computed:
            return self._computed[offset]()
        if offset in _PLAIN or offset == npu_registers.VPU_D0I3_CONTROL:
            return self._registers.get(offset, 0)
        if offset not in _ZERO and offset not in _FUSES:
            self._on_unknown(offset)
        return _FUSES.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        """Write a 32-bit register."""
        if offset == npu_registers.WP_REQ_CMD:
            if value & npu_registers.WP_SEND:
                # The work point is the requested frequency; 0 turns the NPU's clock off.
                self.ratio = self._registers.get(npu_registers.WP_REQ_PAYLOAD1, 0) & npu_registers.RATIO_MASK
        elif offset == npu_registers.VPU_IP_RESET:
            if value & npu_registers.IP_RESET_TRIGGER:
                self._on_ip_reset()
        elif offset == npu_registers.GLOBAL_INT_MASK:
            self.masked = bool(value & 1)
            if not self.masked:
                self._on_unmask()
        elif offset == npu_registers.VPU_D0I3_CONTROL:
            self._registers[offset] = value & ~npu_registers.D0I3_IN_PROGRESS
        elif offset in _PLAIN:
            self._registers[offset] = value
        elif offset not in _ZERO and offset not in _FUSES and offset not in self._computed:
            self._on_unknown(offset)

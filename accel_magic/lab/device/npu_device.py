"""The device: connects its parts, and contains every `GuestFault`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from accel_magic.lab.device import npu_registers
from accel_magic.lab.device.buttress import Buttress
from accel_magic.lab.device.commands import Commands
from accel_magic.lab.device.fault_injection import Faults
from accel_magic.lab.device.firmware import Firmware
from accel_magic.lab.device.guest_fault import GuestFault
from accel_magic.lab.device.guest_memory import GuestMemory
from accel_magic.lab.device.ipc import Ipc
from accel_magic.lab.device.log import Log
from accel_magic.lab.device.metrics import Metrics
from accel_magic.lab.device.mmio import HostInterface
from accel_magic.lab.device.mmu import Mmu
from accel_magic.lab.device.models import Models
from accel_magic.lab.device.pci import ConfigSpace
from accel_magic.lab.device.scheduler import Scheduler
from accel_magic.lab.device.statistics import Statistics
from accel_magic.lab.device.timers import Timers

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.lab.device.jobs import Job

JOB_US = 500
BAR_SIZES = {0: npu_registers.BAR0_SIZE, 4: npu_registers.BAR4_SIZE}


def microseconds() -> int:
    """Monotonic time in microseconds."""
    return time.monotonic_ns() // 1000


class EmulatedNpu:
    """An NPU on a PCI bus.

    Args:
        raise_interrupt: Sends one MSI to the guest.
        job_us: Least duration of a job, in microseconds.
        faults: Faults to inject.
        statistics: Counts to add to; None for new ones.
        log: Log; None for warnings on stderr.
        clock: Returns the time in microseconds; replaced by tests.

    Attributes:
        memory: The guest's memory; initially empty.
        config: PCI configuration space.
        statistics: Counts so far.
        timers: Pending actions; the server calls `run_due` when they are due.
        models: The process that executes models; the server calls `receive` when it has answered.

    """

    def __init__(
        self,
        raise_interrupt: Callable[[], None],
        *,
        job_us: int = JOB_US,
        faults: Faults | None = None,
        statistics: Statistics | None = None,
        log: Log | None = None,
        clock: Callable[[], int] = microseconds,
    ) -> None:
        self._raise_interrupt = raise_interrupt
        self.memory = GuestMemory()
        self.statistics = Statistics() if statistics is None else statistics
        self.timers = Timers(clock)
        self._log = Log() if log is None else log
        self._faults = Faults() if faults is None else faults
        self._host = HostInterface(clock)
        self._mmu = Mmu(self.memory, self._host.registers)
        self._ipc = Ipc(self._mmu, self.timers, self._message_arrived, self.guard)
        self.models = Models(self.timers, self._log)
        self._scheduler = Scheduler(
            self._mmu,
            Commands(self._mmu, self.timers, self.models, statistics=self.statistics, log=self._log, guard=self.guard),
            self.timers,
            faults=self._faults,
            statistics=self.statistics,
            log=self._log,
            job_us=job_us,
            on_done=self._job_done,
            guard=self.guard,
        )
        compute = self._scheduler.engines[0]
        metrics = Metrics(
            self._mmu,
            self.timers,
            lambda: (self.statistics.jobs["done"], compute.busy_us, compute.heartbeat),
            self.guard,
        )
        self._firmware = Firmware(
            mmu=self._mmu,
            ipc=self._ipc,
            scheduler=self._scheduler,
            metrics=metrics,
            timers=self.timers,
            faults=self._faults,
            statistics=self.statistics,
            log=self._log,
            on_fault=self._count,
            guard=self.guard,
        )
        self._buttress = Buttress(
            lambda: self._scheduler.idle, self._ip_reset, self.interrupts_changed, self.unknown_register
        )
        self.config = ConfigSpace(
            self._request_fault, lambda: (self.statistics.messages_sent, self.statistics.last_lost)
        )
        self._show_fault()

    # Called for QEMU's requests

    def reset(self) -> None:
        """Reset everything, as at a machine reset."""
        self.statistics.boots["resets"] += 1
        self._ip_reset()
        self._buttress.reset()
        self.config.reset()

    def read(self, bar: int, offset: int, size: int) -> bytes:
        """Read 1 to 8 bytes of a BAR; an invalid access reads as zero and is counted."""
        self.statistics.mmio["reads"] += 1
        if not self._is_access(bar, offset, size, "read"):
            return bytes(max(size, 0))
        value = 0
        start, words = offset & ~3, b""
        for word in range(start, offset + size, 4):
            value = self._host.read(word, self) if bar == 0 else self._buttress.read(word)
            words += (value & 0xFFFFFFFF).to_bytes(4, "little")
        return words[offset - start : offset - start + size]

    def write(self, bar: int, offset: int, data: bytes) -> None:
        """Write 4 or 8 bytes of a BAR, low word first; an invalid access is counted and ignored."""
        self.statistics.mmio["writes"] += 1
        if not self._is_access(bar, offset, len(data), "write", smallest=4):
            return
        for at in range(0, len(data), 4):
            value = int.from_bytes(data[at : at + 4], "little")
            if bar == 0:
                self.guard(lambda at=at, value=value: self._host.write(offset + at, value, self))  # type: ignore[misc]
            else:
                self._buttress.write(offset + at, value)

    def _is_access(self, bar: int, offset: int, size: int, verb: str, *, smallest: int = 1) -> bool:
        # Naturally aligned, as on the bus: whole words, or within one. Registers do not accept partial writes.
        good = (
            size in {1, 2, 4, 8}
            and size >= smallest
            and offset % size == 0
            and 0 <= offset <= BAR_SIZES.get(bar, 0) - size
        )
        if not good:
            self._count(GuestFault("mmio", f"{verb} of {size} bytes at {offset:#x} of BAR {bar}"))
        return good

    # Containment of guest faults

    def guard(self, action: Callable[[], None]) -> None:
        """Run an action; a `GuestFault` in it is counted, logged and suppressed."""
        try:
            action()
        except GuestFault as fault:
            self._count(fault)

    def _count(self, fault: GuestFault) -> None:
        self.statistics.guest_faults[fault.kind] += 1
        self._log.warning(f"guest fault {fault}")

    # Actions behind the registers: `mmio.Behind`

    def fifo_level(self) -> int:
        """Return the number of entries in the IPC FIFO."""
        return self._ipc.level

    def fifo_pop(self) -> int:
        """Remove and return the oldest entry of the IPC FIFO."""
        return self._ipc.pop()

    def ipc_receive(self, address: int) -> None:
        """Receive a message from the driver."""
        self._firmware.receive(address)

    def doorbell(self, index: int) -> None:
        """Ring a doorbell."""
        self._scheduler.ring(index)

    def boot(self, entry: int) -> None:
        """Start the firmware."""
        try:
            self._firmware.boot(entry)
        finally:
            self._show_fault()  # a fault for a limited number of boots may have ended

    def mmu_commands(self) -> None:
        """Process new MMU commands."""
        self._mmu.consume_commands()

    def interrupts_changed(self) -> None:
        """Raise the MSI if an interrupt is pending and unmasked."""
        if self._host.pending and not self._buttress.masked:
            self.statistics.interrupts += 1
            self._raise_interrupt()

    def unknown_register(self, offset: int) -> None:
        """Count an access to a register that does not exist."""
        self.statistics.mmio["unknown"] += 1
        self._log.event(f"no register at {offset:#x}")

    def _message_arrived(self) -> None:
        self._host.signal()
        self.interrupts_changed()

    def _job_done(self, job: Job) -> None:
        self._firmware.job_done(job)

    def _ip_reset(self) -> None:
        self._log.event("reset of the NPU")
        self._firmware.reset()
        self._host.reset()

    def _request_fault(self, fault: int, argument: int) -> None:
        self._log.event(f"fault {fault} with argument {argument} requested in PCI configuration space")
        self.guard(lambda: self._faults.request(fault, argument))

    def _show_fault(self) -> None:
        self.config.show_fault(self._faults.fault, self._faults.argument)

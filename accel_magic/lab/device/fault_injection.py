"""Fault injection for teaching and tests: in single jobs, and in the device as a whole.

Faults are requested with the command-line option `--fault NAME=VALUE`, in the first bytes of a job's command buffer, or
through a vendor-specific PCI capability that root in the guest can write.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel_magic.errors import ProbeError
from accel_magic.lab.device.guest_fault import GuestFault

if TYPE_CHECKING:
    from collections.abc import Iterable

MAGIC = 0x464C4D41  # the bytes "AMLF"
JOB_REQUEST = struct.Struct("<IIQ")  # magic, kind, argument

SLOW, HANG, LOSE, DUPLICATE = 1, 2, 3, 4
JOB_FAULTS = {"slow-job": SLOW, "hang-job": HANG, "lose-job": LOSE, "duplicate-job": DUPLICATE}

NONE, NO_BOOT, SLOW_BOOT, LOSE_IPC, DUPLICATE_IPC = 0, 1, 2, 3, 4
DEVICE_FAULTS = {"no-boot": NO_BOOT, "slow-boot": SLOW_BOOT, "lose-ipc": LOSE_IPC, "duplicate-ipc": DUPLICATE_IPC}


@dataclass(frozen=True)
class JobFault:
    """Fault of one job.

    Attributes:
        kind: SLOW, HANG, LOSE or DUPLICATE; 0 for none.
        argument: Microseconds until completion, for SLOW.

    """

    kind: int = 0
    argument: int = 0


def in_commands(start: bytes) -> JobFault:
    """Parse the request at the start of a command buffer; no fault if the magic is missing.

    Raises:
        GuestFault: The magic is present, but the kind is unknown.

    """
    magic, kind, argument = JOB_REQUEST.unpack_from(start)
    if magic != MAGIC:
        return JobFault()
    if kind not in JOB_FAULTS.values():
        raise GuestFault("fault-request", f"unknown job fault {kind}")
    return JobFault(kind, argument)


class Faults:
    """The requested faults and their remaining effect.

    Attributes:
        fault: The device's fault, NONE to DUPLICATE_IPC, as shown by the PCI capability.
        argument: Its argument.

    """

    def __init__(self) -> None:
        self.fault = NONE
        self.argument = 0
        self._jobs: dict[int, JobFault] = {}
        self._device: dict[int, int] = {}
        self._failed_boots = 0
        self._replies = 0

    @classmethod
    def parse(cls, options: Iterable[str]) -> Faults:
        """Parse texts such as `hang-job=3`, `slow-job=5:200000`, `no-boot=1`, `slow-boot=900000`, `lose-ipc=4`.

        Jobs are numbered from 1 over the device's lifetime. Device faults may be combined; the PCI capability shows the
        last one, and a write to it replaces them all.

        Raises:
            ProbeError: One of them is invalid.

        """
        faults = cls()
        for option in options:
            name, _, value = option.partition("=")
            first, colon, second = value.partition(":")
            good = first.isdecimal() and (second.isdecimal() if name == "slow-job" else not colon)
            if not good or len(value) > 24 or (name not in JOB_FAULTS and name not in DEVICE_FAULTS):
                raise ProbeError(
                    f"--fault {option}: unknown fault",
                    why="faults are hang-job=N, lose-job=N, duplicate-job=N, slow-job=N:MICROSECONDS, no-boot=BOOTS "
                    "(0: all), slow-boot=MICROSECONDS, lose-ipc=N and duplicate-ipc=N (every Nth reply)",
                    fix="for example: --fault hang-job=3 --fault no-boot=1",
                    code="npu.unknown-fault",
                )
            if name in JOB_FAULTS:
                faults._jobs[int(first)] = JobFault(JOB_FAULTS[name], int(second or 0))
            else:
                faults._device[DEVICE_FAULTS[name]] = int(first)
                faults.fault, faults.argument = DEVICE_FAULTS[name], min(int(first), 0xFFFFFFFF)
        return faults

    def request(self, fault: int, argument: int) -> None:
        """Replace the device's faults with one, as a write to the PCI capability does.

        Raises:
            GuestFault: The fault is unknown; the capability shows it, but it has no effect.

        """
        self.fault, self.argument = fault, argument
        self._device = {}
        self._failed_boots = self._replies = 0
        if fault not in {NONE, *DEVICE_FAULTS.values()}:
            raise GuestFault("fault-request", f"unknown device fault {fault}")
        if fault != NONE:
            self._device[fault] = argument

    def of_job(self, number: int) -> JobFault:
        """The fault that the command line requests for job `number`."""
        return self._jobs.get(number, JobFault())

    def boot_fails(self) -> bool:
        """Count a boot; returns whether it is to fail (never be answered)."""
        boots = self._device.get(NO_BOOT)
        if boots is None:
            return False
        self._failed_boots += 1
        if 0 < boots <= self._failed_boots:
            del self._device[NO_BOOT]
            if self.fault == NO_BOOT:
                self.fault = self.argument = NONE
        return True

    def boot_delay_us(self) -> int:
        """Delay of the boot message, in microseconds."""
        return self._device.get(SLOW_BOOT, 0)

    def copies_of_reply(self) -> int:
        """How many times to send the firmware's next reply: 0, 1 or 2."""
        lose, duplicate = self._device.get(LOSE_IPC, 0), self._device.get(DUPLICATE_IPC, 0)
        if not lose and not duplicate:
            return 1
        self._replies += 1
        if lose and self._replies % lose == 0:
            return 0
        return 2 if duplicate and self._replies % duplicate == 0 else 1

"""Job queues in guest memory, the jobs taken from them, and the engines that run the jobs.

Source: Linux, drivers/accel/ivpu/vpu_jsm_api.h. An engine's heartbeat counts the microseconds in which it was not
stuck; the driver's timeout checks it (ivpu_pm.c).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel_magic.lab.device import jsm_messages
from accel_magic.lab.device.guest_fault import GuestFault

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.lab.device.commands import JobWork
    from accel_magic.lab.device.fault_injection import JobFault
    from accel_magic.lab.device.timers import Timer

LARGEST_QUEUE = 1 << 20
NORMAL_BAND = jsm_messages.BANDS.index("normal")


class JobQueue:
    """A job queue in guest memory.

    Attributes:
        ssid: The context of its jobs' addresses.
        number: Its number; 0 in OS mode.
        base: Address of its header, in the global context.
        size: Size of header and slots, in bytes.
        engine: Index of the engine that runs its jobs.
        band: Priority, an index into `messages.BANDS`.
        doorbell: Its doorbell; None if it has none.
        suspended: Whether the driver has suspended it, so that no jobs are taken.
        rung: Whether it may hold jobs that were not taken yet.
        served: Serial number of the last job taken from it; the queue with the lowest is next.

    """

    __slots__ = ("band", "base", "doorbell", "engine", "number", "rung", "served", "size", "ssid", "suspended")

    def __init__(self, ssid: int, number: int, base: int, size: int, engine: int) -> None:
        slots = (size - jsm_messages.JOB_QUEUE_HEADER_SIZE) // jsm_messages.JOB_SLOT_SIZE
        if slots < 1 or size > LARGEST_QUEUE or engine >= len(jsm_messages.ENGINES):
            raise GuestFault("job-queue", f"{size} bytes at {base:#x} for engine {engine}")
        self.ssid = ssid
        self.number = number
        self.base = base
        self.size = size
        self.engine = engine
        self.band = NORMAL_BAND
        self.doorbell: int | None = None
        self.suspended = False
        self.rung = False
        self.served = 0

    @property
    def slots(self) -> int:
        """Number of slots: one more than the jobs that fit."""
        return (self.size - jsm_messages.JOB_QUEUE_HEADER_SIZE) // jsm_messages.JOB_SLOT_SIZE


@dataclass(frozen=True)
class Job:
    """A job taken from a queue.

    Attributes:
        serial: Number over the device's lifetime, from 1.
        number: The driver's number for it.
        queue: Its queue.
        doorbell: The queue's doorbell when it was taken.
        fault: The fault requested for it.
        status: JSM status to report to the driver.

    """

    serial: int
    number: int
    queue: JobQueue
    doorbell: int
    fault: JobFault
    status: int


class Engine:
    """One engine: its current job, what is left of that job, and its heartbeat.

    Args:
        index: Its number.
        clock: Returns the time in microseconds.

    """

    def __init__(self, index: int, clock: Callable[[], int]) -> None:
        self.index = index
        self._clock = clock
        self.job: Job | None = None
        self.timer: Timer | None = None
        self.work: JobWork | None = None
        self.stopped = False
        # Starts at 1: the driver considers an engine stuck unless the heartbeat exceeds the last value, initially 0.
        self._beats = 1
        self._since: int | None = clock()
        self._busy = 0
        self._started = 0

    @property
    def busy_us(self) -> int:
        """Microseconds in which the engine had a job, since the device started."""
        return self._busy + (self._clock() - self._started if self.job is not None else 0)

    def take(self, job: Job) -> None:
        """Start a job."""
        self.job, self._started = job, self._clock()

    @property
    def heartbeat(self) -> int:
        """Microseconds in which the engine was not stuck, since the device started."""
        return self._beats + (self._clock() - self._since if self._since is not None else 0)

    def hang(self) -> None:
        """Stop the heartbeat."""
        self._beats, self._since = self.heartbeat, None

    @property
    def hung(self) -> bool:
        """Whether the heartbeat is stopped."""
        return self._since is None

    def free(self) -> None:
        """Drop the current job; the heartbeat continues from its current value."""
        self._beats, self._since = self.heartbeat, self._clock()
        self._busy = self.busy_us
        self.job = self.timer = self.work = None

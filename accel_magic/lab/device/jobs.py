"""What the scheduler deals in: queues of jobs in the guest's memory, jobs taken from them, engines that work them off.

Source: Linux, drivers/accel/ivpu/vpu_jsm_api.h. An engine's heartbeat counts microseconds in which it was not stuck:
that is what the driver's timeout looks at (ivpu_pm.c).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel_magic.lab.device import messages as jsm
from accel_magic.lab.device.guest_fault import GuestFault

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.lab.device.faults import JobFault
    from accel_magic.lab.device.timers import Timer

LARGEST_QUEUE = 1 << 20
NORMAL_BAND = jsm.BANDS.index("normal")


class Queue:
    """A queue of jobs in the guest's memory.

    Attributes:
        ssid: The context its jobs' addresses belong to.
        number: Its number; 0 in OS mode.
        base: Address of its header, in the global context.
        size: Bytes of header and slots.
        engine: Which engine works it off.
        band: Priority, an index into `messages.BANDS`.
        doorbell: Whose ring wakes it; None before there is one.
        suspended: Whether the driver wants none of its jobs taken.
        rung: Whether it may hold jobs that were not taken yet.
        served: When it was last served, in jobs: the one that waits longest is next.

    """

    __slots__ = ("band", "base", "doorbell", "engine", "number", "rung", "served", "size", "ssid", "suspended")

    def __init__(self, ssid: int, number: int, base: int, size: int, engine: int) -> None:
        slots = (size - jsm.JOB_QUEUE_HEADER_SIZE) // jsm.JOB_SLOT_SIZE
        if slots < 1 or size > LARGEST_QUEUE or engine >= len(jsm.ENGINES):
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
        """How many jobs fit, and one more."""
        return (self.size - jsm.JOB_QUEUE_HEADER_SIZE) // jsm.JOB_SLOT_SIZE


@dataclass(frozen=True)
class Job:
    """A job that was taken.

    Attributes:
        serial: Its number over the device's life, from 1.
        number: The driver's number for it.
        queue: Where it came from.
        doorbell: The queue's doorbell then.
        fault: What was asked to happen to it.
        status: What the driver is told: a JSM status.

    """

    serial: int
    number: int
    queue: Queue
    doorbell: int
    fault: JobFault
    status: int


class Engine:
    """One engine: what it executes, and its heartbeat.

    Args:
        index: Its number.
        clock: Microseconds.

    """

    def __init__(self, index: int, clock: Callable[[], int]) -> None:
        self.index = index
        self._clock = clock
        self.job: Job | None = None
        self.timer: Timer | None = None
        self.stopped = False
        # From 1: the driver takes a heartbeat that is not above its last one, at first 0, for a stuck engine.
        self._beats = 1
        self._since: int | None = clock()
        self._busy = 0
        self._started = 0

    @property
    def busy_us(self) -> int:
        """Microseconds in which the engine had a job, since the device started."""
        return self._busy + (self._clock() - self._started if self.job is not None else 0)

    def take(self, job: Job) -> None:
        """Have a job."""
        self.job, self._started = job, self._clock()

    @property
    def heartbeat(self) -> int:
        """Microseconds in which the engine was not stuck, since the device started."""
        return self._beats + (self._clock() - self._since if self._since is not None else 0)

    def hang(self) -> None:
        """Stop the heartbeat where it is."""
        self._beats, self._since = self.heartbeat, None

    @property
    def hung(self) -> bool:
        """Whether the heartbeat stands."""
        return self._since is None

    def free(self) -> None:
        """Forget the job; the heartbeat goes on from where it stands."""
        self._beats, self._since = self.heartbeat, self._clock()
        self._busy = self.busy_us
        self.job = self.timer = None

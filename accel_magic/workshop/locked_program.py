"""The program of exercise 7: workers that share a lock, and measure themselves how long they sleep and wait for it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Work = Callable[["Program"], object]

UNDER_LOCK: Final = ("fetch", "parse", "audit")
"""Steps that are done under the lock, and need not be."""
STORE, REPORT = "store", "report"
"""The step that needs the lock, and the one that is done without it."""
_LONGEST_S: Final = 30


@dataclass(frozen=True)
class Parameters:
    """What is hidden about a program.

    Attributes:
        workers: Number of threads.
        rounds: Rounds of each.
        culprit: Name of the step that takes long.
        sleep_ms: How long each step sleeps.
        compute_ms: How long each step under the lock computes.

    """

    workers: int
    rounds: int
    culprit: str
    sleep_ms: Mapping[str, float]
    compute_ms: float


class Stopwatch:
    """Sums up how long something took, by the program's own clock, in any thread."""

    def __init__(self) -> None:
        self._times_s: list[float] = []
        self._own = threading.local()

    def __enter__(self) -> Self:
        self._own.start = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self._times_s.append(time.perf_counter() - self._own.start)

    @property
    def ms(self) -> float:
        """The sum so far."""
        return 1e3 * sum(self._times_s)


class TimedLock:
    """A lock that measures how long threads wait for it."""

    def __init__(self) -> None:
        self.waited = Stopwatch()
        self._lock = threading.Lock()
        self._holder: int | None = None

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Wait until no other thread has the lock, and take it."""
        with self.waited:
            self._lock.acquire()
        self._holder = threading.get_ident()

    def release(self) -> None:
        """Give it back."""
        self._holder = None
        self._lock.release()

    def is_held(self) -> bool:
        """Whether the calling thread has it."""
        return self._holder == threading.get_ident()


@dataclass
class Program:
    """One run of a program: what its workers call, and what it notes about them.

    Attributes:
        parameters: How long the steps take.
        lock: The lock that `store` needs.
        slept: Time in `time.sleep`.
        done: Name and record of each step that was done.
        stored_unlocked: Records that were stored without the lock.
        cpu_ms: CPU time of each worker.
        wall_ms: Time of the whole.
        errors: What workers raised.

    """

    parameters: Parameters
    lock: TimedLock = field(default_factory=TimedLock)
    slept: Stopwatch = field(default_factory=Stopwatch)
    done: list[tuple[str, int]] = field(default_factory=list)
    stored_unlocked: list[int] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    wall_ms: float = 0.0
    errors: list[Exception] = field(default_factory=list)

    @property
    def rounds(self) -> int:
        """Number of records that each worker has to work on."""
        return self.parameters.rounds

    def fetch(self, number: int) -> str:
        """Fetch a line of text."""
        with self.slept:
            time.sleep(self._seconds("fetch"))
        self._compute("fetch", number)
        return f"record {number}"

    def parse(self, line: str) -> int:
        """Make a record from a line."""
        record = int(line.removeprefix("record "))
        with self.slept:
            time.sleep(self._seconds("parse"))
        self._compute("parse", record)
        return record

    def audit(self, record: int) -> None:
        """Check a record."""
        with self.slept:
            time.sleep(self._seconds("audit"))
        self._compute("audit", record)

    def store(self, record: int) -> None:
        """Store a record: only one worker may do so at a time, so this needs the lock."""
        if not self.lock.is_held():
            self.stored_unlocked.append(record)
        self.done.append((STORE, record))

    def report(self, number: int) -> None:
        """Report that a record was stored."""
        with self.slept:
            time.sleep(self._seconds(REPORT))
        self.done.append((REPORT, number))

    def run(self, work: Work) -> None:
        """Run all workers.

        Args:
            work: What each does.

        Raises:
            Exception: What the first worker raised.
            TimeoutError: They did not end.

        """
        threads = [
            threading.Thread(target=self._worker, args=(work,), name=f"worker {at}", daemon=True)
            for at in range(self.parameters.workers)
        ]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, start + _LONGEST_S - time.perf_counter()))
        self.wall_ms = 1e3 * (time.perf_counter() - start)
        if self.errors:
            raise self.errors[0]
        if any(thread.is_alive() for thread in threads):
            raise TimeoutError(f"the workers did not end within {_LONGEST_S} s: is the lock given back?")

    def is_complete(self) -> bool:
        """Whether each worker did each step of each round once."""
        steps = (*UNDER_LOCK, STORE, REPORT)
        expected = {(step, at): self.parameters.workers for step in steps for at in range(self.rounds)}
        return Counter(self.done) == expected

    def _worker(self, work: Work) -> None:
        try:
            work(self)
        except Exception as error:  # noqa: BLE001 - whatever the student's function raises
            self.errors.append(error)
        self.cpu_ms.append(1e3 * time.thread_time())

    def _seconds(self, step: str) -> float:
        return self.parameters.sleep_ms[step] / 1e3

    def _compute(self, step: str, record: int) -> None:
        self.done.append((step, record))
        end = time.thread_time() + self.parameters.compute_ms / 1e3
        while time.thread_time() < end:
            pass

"""The traces that a session has attached, and whether their user stays within the limits."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Final

from accel_magic.broker import peer_identity
from accel_magic.broker.broker_messages import Detached
from accel_magic.broker.usage_table import RATES, Claim
from accel_magic.kernel import bpf_syscalls
from accel_magic.kernel.mapped_memory import map_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from accel_magic.broker.broker_policy import UserLimits
    from accel_magic.broker.usage_table import Share
    from accel_magic.kernel.attachment import Attachment

LOOK_S: Final = 1.0
"""Time between two looks at running traces."""
_STUCK_S: Final = 30
"""Time without a look after which the kernel ends the session, and with it its traces."""


class Running:
    """A trace, from its attachment to its end.

    Args:
        attachment: What was attached.
        probes: As the user wrote them.

    Attributes:
        attachment: What was attached.
        probes: As the user wrote them.
        claim: What it takes of its user's limits.
        started: Time of the attachment, s since 1970.
        rates: Its hits per second and its share of a processor, at the last look.
        over: Why its probes are detached already: the limit that was exceeded, `duration_s`, `hits_per_s` or
            `processor_share`, or `process`, which has ended; '' while they are attached.

    """

    def __init__(self, attachment: Attachment, probes: tuple[str, ...]) -> None:
        self.attachment, self.probes, self.claim = attachment, probes, Claim.of(attachment.plan)
        self.started = time.time()
        self.over = ""
        self.rates = dict.fromkeys(RATES, 0.0)
        self._since = self._looked = time.monotonic()
        self._counters = map_value(attachment.counters_fd, attachment.layout.counters)["hits"]
        self._hits, self._run_ns = 0, 0
        self._notes: tuple[str, ...] = ()
        self._left: tuple[str, ...] = ()
        self._measuring = _measure()

    @property
    def hits(self) -> int:
        """Hits until now; a user cannot change this number."""
        return int(self._counters.sum())

    @property
    def duration_s(self) -> float:
        """Time since the attachment, s."""
        return time.monotonic() - self._since

    def look(self) -> None:
        """Measure the rates since the last look."""
        now = time.monotonic()
        took, hits, run_ns = now - self._looked, self.hits, self.attachment.run_ns()
        self.rates = {"hits_per_s": (hits - self._hits) / took, "processor_share": (run_ns - self._run_ns) / took / 1e9}
        self._looked, self._hits, self._run_ns = now, hits, run_ns

    def exceed(self, limit: str, why: str) -> None:
        """Detach the probes because of a limit."""
        after = f"the broker ended this trace after {self.duration_s:.1f} s, and nothing was counted after that"
        self._detach(limit)
        self._notes += (f"{after}: {why}",)

    def process_ended(self) -> None:
        """Detach the probes, because the traced process has ended."""
        if not self.over:
            self._detach("process")

    def end(self) -> Detached:
        """Detach the probes and close the maps."""
        if not self.over:
            self._detach("")
        self.attachment.close()
        if self._measuring >= 0:
            os.close(self._measuring)
        return Detached(notes=self._notes, left=self._left)

    def _detach(self, over: str) -> None:
        self.over, self.rates = over, dict.fromkeys(RATES, 0.0)
        self._notes = self.attachment.notes()
        self._left = self.attachment.detach()


def _measure() -> int:
    """Have the kernel measure run times, if this process may; -1 if not."""
    try:
        return bpf_syscalls.measure_programs()
    except OSError:
        return -1


class RunningTraces:
    """All traces of a session.

    A thread looks at them each second, so that no request, however long it takes, lets one exceed a limit. If the
    thread itself cannot run, the kernel ends the session.

    Args:
        limits: How much the user's traces may do.
        share: Where the session publishes what its traces do.
        watched: Descriptor of the traced process, from `peer.watch`.
        note: Called with the number and the limit of a trace that exceeds one.

    """

    def __init__(self, limits: UserLimits, share: Share, watched: int, note: Callable[[int, str], None]) -> None:
        self._limits, self._share, self._watched, self._note = limits, share, watched, note
        self._traces: dict[int, Running] = {}
        self._lock = threading.RLock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._next = 1
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def __len__(self) -> int:
        """Return the number of traces."""
        return len(self._traces)

    def __iter__(self) -> Iterator[tuple[int, Running]]:
        """Iterate over numbers and traces."""
        return iter([*self._traces.items()])

    def __getitem__(self, number: int) -> Running:
        """Return a trace. Raises KeyError."""
        return self._traces[number]

    @property
    def claim(self) -> Claim:
        """What they take of their user's limits."""
        return sum((running.claim for running in self._traces.values()), Claim())

    def add(self, running: Running) -> int:
        """Look after a trace from now on; return its number."""
        with self._lock:
            number, self._next = self._next, self._next + 1
            self._traces[number] = running
            if self._thread is None:
                self._thread = threading.Thread(target=self._look_on, daemon=True)
                self._thread.start()
            return number

    def end(self, number: int) -> Detached:
        """End a trace; return its notes."""
        with self._lock:
            answer = self._traces.pop(number).end()
            self._share.publish(self.claim)
            return answer

    def process_ended(self) -> None:
        """Detach all probes, because the traced process has ended."""
        with self._lock:
            for running in self._traces.values():
                running.process_ended()

    def close(self) -> None:
        """Stop looking."""
        self._closing.set()

    def _look_on(self) -> None:
        while not self._closing.wait(LOOK_S):
            signal.setitimer(signal.ITIMER_REAL, _STUCK_S)
            with self._lock:
                if all(running.over for running in self._traces.values()):
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    self._share.publish_rates(dict.fromkeys(RATES, 0.0))
                    self._thread = None
                    return
                if peer_identity.has_ended(self._watched):
                    self.process_ended()
                self._look()

    def _look(self) -> None:
        """Measure all traces, and end one that exceeds a limit."""
        for number, running in self:
            if not running.over:
                running.look()
                if running.duration_s > self._limits.duration_s:
                    self._exceed(number, "duration_s", running.duration_s)
        for name in RATES:
            self._publish()
            total = self._share.total(name)
            if total > getattr(self._limits, name) and self._share.is_largest(name):
                self._exceed(max(self._traces, key=lambda number: self._traces[number].rates[name]), name, total)
        self._publish()

    def _publish(self) -> None:
        self._share.publish_rates(
            {name: sum(running.rates[name] for running in self._traces.values()) for name in RATES}
        )

    def _exceed(self, number: int, name: str, value: float) -> None:
        running, most = self._traces[number], getattr(self._limits, name)
        whose = "the trace" if name == "duration_s" else "the user's traces"
        running.exceed(name, f"the limit {name} is {most:,g}, and {whose} had {value:,.3g}")
        self._note(number, name)

"""A trace that a session has attached, and whether it stays within its limits."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Final

from accel_magic.kernel import bpf
from accel_magic.kernel.mapped import map_value

if TYPE_CHECKING:
    from accel_magic.broker.policy import Limits
    from accel_magic.kernel.attachment import Attachment

LOOK_S: Final = 1.0
"""Time between two looks at a running trace."""


class Running:
    """A trace, from its attachment to its end.

    Args:
        attachment: What was attached.
        probes: As the user wrote them.
        limits: How much it may do.

    Attributes:
        attachment: What was attached.
        probes: As the user wrote them.
        started: Time of the attachment, s since 1970.
        over: Why its probes are detached already: the limit that it exceeded, `duration_s`, `hits_per_s` or
            `processor_share`, or `process`, which has ended; '' while they are attached.

    """

    def __init__(self, attachment: Attachment, probes: tuple[str, ...], limits: Limits) -> None:
        self.attachment, self.probes, self._limits = attachment, probes, limits
        self.started = time.time()
        self.over = ""
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

    def look(self) -> bool:
        """Detach the probes if the trace has exceeded a limit since the last look. Returns whether it just did."""
        now = time.monotonic()
        if self.over or now - self._looked < LOOK_S / 2:
            return False
        took, hits, run_ns = now - self._looked, self.hits, self.attachment.run_ns()
        limits = self._limits
        done = {
            "duration_s": (self.duration_s, limits.duration_s),
            "hits_per_s": ((hits - self._hits) / took, limits.hits_per_s),
            "processor_share": ((run_ns - self._run_ns) / took / 1e9, limits.processor_share),
        }
        self._looked, self._hits, self._run_ns = now, hits, run_ns
        self.over = next((name for name, (value, most) in done.items() if value > most), "")
        if not self.over:
            return False
        value, most = done[self.over]
        self._detach()
        limit = f"its limit {self.over} is {most:,g}, and the trace had {value:,.3g}"
        after = f"the broker ended this trace after {self.duration_s:.1f} s, and nothing was counted after that"
        self._notes += (f"{after}: {limit}",)
        return True

    def process_ended(self) -> None:
        """Detach the probes, because the traced process has ended."""
        if not self.over:
            self.over = "process"
            self._detach()

    def end(self) -> dict[str, Any]:
        """Detach the probes and close the maps; return notes for the user, and those on links that are left."""
        if not self.over:
            self._detach()
        self.attachment.close()
        if self._measuring >= 0:
            os.close(self._measuring)
        return {"notes": self._notes, "left": self._left}

    def _detach(self) -> None:
        self._notes = self.attachment.notes()
        self._left = self.attachment.detach()


def _measure() -> int:
    """Have the kernel measure run times, if this process may; -1 if not."""
    try:
        return bpf.measure_programs()
    except OSError:
        return -1

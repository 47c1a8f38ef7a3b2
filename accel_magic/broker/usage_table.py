"""How much of the limits each session uses: numbers in memory that the service shares with its sessions.

Limits are a user's, who may have many sessions: each publishes its own numbers, and adds up those of its user.
"""

from __future__ import annotations

import mmap
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.probes.plan import Plan

_NOBODY: Final = -1
_CLAIMED: Final = ("rate_hz", "places", "buffer_mib")
RATES: Final = ("hits_per_s", "processor_share")
"""What is measured while traces run; the rest is claimed before one is attached."""
_REFUSALS: Final = "refusals_until_s"
_COLUMNS: Final = (*_CLAIMED, *RATES, _REFUSALS)
_ROW: Final = np.dtype([("uid", "<i8"), *((name, "<f8") for name in _COLUMNS)])


@dataclass(frozen=True)
class Claim:
    """What traces take from when they are attached until they end.

    Attributes:
        rate_hz: Samples per second of a processor.
        places: Probe points.
        buffer_mib: Ring buffers, MiB.

    """

    rate_hz: float = 0
    places: float = 0
    buffer_mib: float = 0

    @classmethod
    def of(cls, plan: Plan) -> Claim:
        """Return what a plan takes."""
        points = plan.kernel_points
        buffers = plan.request.buffer_mib if plan.records_events else 0
        return cls(sum(point.rate_hz for point in points), len(points), buffers)

    def __add__(self, other: Claim) -> Claim:
        """Return what both take."""
        return Claim(*(getattr(self, name) + getattr(other, name) for name in _CLAIMED))


class UsageTable:
    """A row for each session; must be created before the processes that share it.

    Args:
        rows: Maximum number of sessions.

    """

    def __init__(self, rows: int) -> None:
        self._rows: NDArray[np.void] = np.frombuffer(mmap.mmap(-1, max(rows, 1) * _ROW.itemsize), _ROW)
        self._rows["uid"] = _NOBODY

    def take(self, uid: int) -> Share:
        """Take a free row for a session of a user; there is one, because the number of sessions is limited."""
        number = int(np.flatnonzero(self._rows["uid"] == _NOBODY)[0])
        self._rows[number] = (uid, *(0 for _ in _COLUMNS))
        return Share(self._rows, number)


class Share:
    """The row of a session.

    Args:
        rows: Those of all sessions.
        number: Which one it is.

    """

    def __init__(self, rows: NDArray[np.void], number: int) -> None:
        self._rows, self._number = rows, number
        self._fence = threading.Lock()

    def give_back(self) -> None:
        """Let another session have the row: this one has ended."""
        self._rows["uid"][self._number] = _NOBODY

    def publish(self, claim: Claim) -> None:
        """Set what the session's traces take."""
        self._set({name: getattr(claim, name) for name in _CLAIMED})

    def publish_rates(self, rates: dict[str, float]) -> None:
        """Set what the session's traces did in the last second, by the names in `RATES`."""
        self._set(rates)

    def publish_refusals(self, until_s: float) -> None:
        """Set up to when the lines of the audit about refusals are used up (`audit.Refusals.until_s`)."""
        self._set({_REFUSALS: until_s})

    @property
    def refusals_until_s(self) -> float:
        """What was published last; 0 if nothing."""
        return float(self._rows[_REFUSALS][self._number])

    def _set(self, values: dict[str, float]) -> None:
        for name, value in values.items():
            self._rows[name][self._number] = value
        with self._fence:  # a memory barrier: of two sessions that publish at once, at least one sees both
            pass

    def claimed(self) -> Claim:
        """Return what all traces of the user take."""
        return Claim(*(self.total(name) for name in _CLAIMED))

    def total(self, name: str) -> float:
        """Sum of a column over the user's sessions."""
        return float(self._rows[name][self._of_user()].sum())

    def is_largest(self, name: str) -> bool:
        """Whether this session has the largest number in a column of all sessions of the user; the first of equals."""
        values = np.where(self._of_user(), self._rows[name], -1.0)
        return int(values.argmax()) == self._number

    def _of_user(self) -> NDArray[np.bool_]:
        mine: NDArray[np.bool_] = self._rows["uid"] == self._rows["uid"][self._number]
        return mine

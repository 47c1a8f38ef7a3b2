"""Tenants that share a GPU: what each wants to run, and when."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic.errors import ProbeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_TENANTS: Final = 256
MOST_JOBS: Final = 1_000_000
"""Of one tenant in one run."""
MOST_TIMESLICE_US: Final = 60_000_000
_UNITS: Final = {"us": 1.0, "µs": 1.0, "ms": 1e3, "s": 1e6}
_TENANT: Final = re.compile(r"([A-Za-z_][\w-]{0,14})(?:\*(\d{1,3}))?:(.+)")
_OPTION: Final = re.compile(r"(work|every|start|asks)=(\d+(?:\.\d+)?)(us|µs|ms|s)|(random)")


@dataclass(frozen=True)
class Tenant:
    """A process that submits jobs to the GPU.

    Attributes:
        name: Its name, at most 15 bytes; several may have the same.
        work_us: What a job needs of the GPU, in µs.
        every_us: Time between jobs, in µs; 0 for one that submits the next job when the last has ended.
        random: Whether times between jobs are exponential with that mean, instead of all equal.
        start_us: When the first job comes; a random moment within `every_us` is added.
        asks_us: The time slice that its library asks for after the task was made, as CUDA does; 0 for none.

    """

    name: str
    work_us: float
    every_us: float = 0.0
    random: bool = False
    start_us: float = 0.0
    asks_us: float = 0.0

    def arrivals(self, duration_us: float, random: np.random.Generator) -> NDArray[np.float64]:
        """Draw when jobs come, ascending, in µs below `duration_us`; one that has no `every_us` has its first only."""
        if not self.every_us:
            return np.array([self.start_us]) if self.start_us < duration_us else np.empty(0)
        count = int(min((duration_us - self.start_us) / self.every_us + 1, MOST_JOBS)) if duration_us > 0 else 0
        first = self.start_us + random.uniform(0, self.every_us)
        if not self.random:
            times: NDArray[Any] = first + np.arange(max(count, 0)) * self.every_us
        else:
            gaps = random.exponential(self.every_us, int(max(count, 0) * 1.2 + 50))
            times = self.start_us + np.cumsum(gaps)
        found: NDArray[np.float64] = times[times < duration_us][:MOST_JOBS]
        return found


def parse(text: str) -> tuple[Tenant, ...]:
    """Read tenants: "critical*2:work=50us,every=10ms batch*4:work=5ms"; other options are `random`, `start=`, `asks=`.

    Raises:
        ProbeError: It is not that, or there are none, or too many.

    """
    found: list[Tenant] = []
    for word in text.split():
        matched = _TENANT.fullmatch(word)
        options = [_OPTION.fullmatch(option) for option in matched[3].split(",")] if matched else []
        values = {one[1]: float(one[2]) * _UNITS[one[3]] for one in options if one and one[1]}
        if not matched or None in options or not 0 < values.get("work", 0) < math.inf:
            raise _error(f"{word!r:.60} is not a tenant")
        tenant = Tenant(
            matched[1],
            values["work"],
            values.get("every", 0.0),
            any(one and one[4] for one in options),
            values.get("start", 0.0),
            values.get("asks", 0.0),
        )
        if not 0 <= tenant.asks_us <= MOST_TIMESLICE_US or 0 < tenant.asks_us < 1:
            raise _error(f"{word!r:.60} asks for a time slice that is not one of 1 µs to 60 s")
        found += [tenant] * int(matched[2] or 1)
    if not 0 < len(found) <= MOST_TENANTS:
        raise _error(f"there are {len(found)} tenants, of 1 to {MOST_TENANTS}")
    return tuple(found)


def _error(what: str) -> ProbeError:
    return ProbeError(
        what,
        why="a tenant is NAME:work=TIME, or NAME*COUNT:work=TIME,every=TIME,random; names have up to 15 characters",
        fix='write for instance "critical*2:work=50us,every=10ms batch*4:work=5ms"',
        code="policy.bad-tenant",
    )

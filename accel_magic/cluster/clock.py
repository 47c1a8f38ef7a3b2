"""Relate the clocks of many machines to one of them, the reference.

In one exchange the reference reads its CLOCK_MONOTONIC, asks a node for the node's, and reads its own again: the node's
clock was read between the two. The narrowest of many exchanges is used. Exchanges at the start and the end of a trace
give a `Line`, which maps the node's times to the reference's and states the error of the result. Two events closer
together than their errors have no known order (`order`).

Errors assume that the difference between two clocks changes linearly between the exchanges, and nowhere faster than
`DRIFT`. A time service that changes a clock's rate during a trace violates this: usually by parts of 1 ppm, but by up
to 500 ppm while it corrects a wrong clock. A suspended machine violates it too; its CLOCK_BOOTTIME shows that.
"""

from __future__ import annotations

import math
import re
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self, get_args

import numpy as np

from accel_magic.cluster.adjtimex import synchronization

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

EXCHANGES: Final = 256
"""Exchanges of which the narrowest is used."""
DRIFT: Final = 1200e-6
"""Largest drift between two machines: on each, a crystal is off by at most 100 ppm, and the kernel corrects its rate by
at most 500 ppm."""
LARGEST_NS: Final = 4_000_000_000_000_000_000
"""Largest time that is accepted, 126 years; sums of two fit into int64."""
UNKNOWN_NS: Final = LARGEST_NS
"""Error of a time whose error is not known, in arrays: no order follows from it."""

Order = Literal["before", "after", "unknown"]
How = Literal[
    "exchanges at start and end",
    "exchanges at the start only",
    "exchanges that disagree",
    "wall clocks",
    "the same machine",
]
"""How a line was found. Exchanges disagree if no drift up to DRIFT explains them, or if a machine was suspended between
them: a clock stood still (also while a virtual machine is paused or migrated), or was set back by a restart."""

_READS: Final = 16
_LARGEST_RATE: Final = 1e-2
_READ_NS: Final = 1
"""Clocks are read in whole ns."""
_MAPPED_NS: Final = 2
"""So are the times of events, and mapped times are rounded."""
_SAME_NS: Final = 1000
"""Differences between CLOCK_REALTIME and CLOCK_MONOTONIC that are equal within this, and the time that reading both
took, may belong to one clock."""
_BOOT_ID: Final = re.compile(r"(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})?")
_NAMESPACE: Final = re.compile(r"time:\[(\d+)\]")


@dataclass(frozen=True)
class Reading:
    """The clocks of a node, read together.

    Attributes:
        monotonic_ns: CLOCK_MONOTONIC, in the middle of the reading.
        realtime_ns: CLOCK_REALTIME.
        tai_ns: CLOCK_TAI; the same as CLOCK_REALTIME if the machine does not know the number of leap seconds.
        boottime_ns: CLOCK_BOOTTIME, which, unlike CLOCK_MONOTONIC, goes on while the machine is suspended.
        width_ns: How long the reading took: the clocks were read within half of it around `monotonic_ns`.
        synchronized: Whether the kernel considers CLOCK_REALTIME synchronized.
        estimated_error_ns: The time service's estimate of the error of CLOCK_REALTIME; 0 if it states none.
        max_error_ns: Its bound.
        boot_id: The kernel's boot id, '' if unknown.
        time_namespace: Inode of the process's time namespace, 0 if unknown.

    Raises:
        ValueError: A value has the wrong type or is out of range.

    """

    monotonic_ns: int
    realtime_ns: int
    tai_ns: int
    boottime_ns: int = 0
    width_ns: int = 0
    synchronized: bool = False
    estimated_error_ns: int = 0
    max_error_ns: int = 0
    boot_id: str = ""
    time_namespace: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name.endswith("_ns"):
                _check_whole(field.name, getattr(self, field.name), 0, LARGEST_NS)
        _check_whole("time_namespace", self.time_namespace, 0, (1 << 64) - 1)
        if not isinstance(self.synchronized, bool):
            raise ValueError("synchronized is not a truth value")  # noqa: TRY004 - of a file
        if not (isinstance(self.boot_id, str) and _BOOT_ID.fullmatch(self.boot_id)):
            raise ValueError("boot_id is not a boot id")

    @property
    def wall_error_ns(self) -> int | None:
        """Bound of the error of CLOCK_REALTIME; None if it is not synchronized or the time service states none.

        systemd-timesyncd sets both errors to 0, of which only the bound grows again until the next update:
        without an estimate, the bound is not one.
        """
        if not (self.synchronized and self.estimated_error_ns):
            return None
        return max(self.max_error_ns, self.estimated_error_ns)

    @property
    def ahead_ns(self) -> int:
        """How far CLOCK_REALTIME is ahead of CLOCK_MONOTONIC; changes only when CLOCK_REALTIME is set."""
        return self.realtime_ns - self.monotonic_ns

    def slept_ns(self, later: Reading) -> int:
        """How long the machine was suspended between this and a later reading; 0 if not for longer than both took."""
        slept = (later.boottime_ns - later.monotonic_ns) - (self.boottime_ns - self.monotonic_ns)
        return slept if slept > self.width_ns + later.width_ns + _SAME_NS else 0

    def to_json(self) -> dict[str, Any]:
        """Return an object for `json`; `from_json` reads it."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Read the output of `to_json`. Raises ValueError if it is anything else."""
        return cls(**_checked_keys(cls, value))


@dataclass(frozen=True)
class ClockExchange:
    """The reference's time before and after a node was asked for its time; all on CLOCK_MONOTONIC, in ns.

    Attributes:
        before_ns: The reference's time before.
        node_ns: The node's time, read between the two.
        after_ns: The reference's time after.
        count: Number of exchanges of which this one is the narrowest.

    Raises:
        ValueError: A value has the wrong type or is out of range.

    """

    before_ns: int
    node_ns: int
    after_ns: int
    count: int = 1

    def __post_init__(self) -> None:
        _check_whole("before_ns", self.before_ns, 0, LARGEST_NS)
        _check_whole("node_ns", self.node_ns, 0, LARGEST_NS)
        _check_whole("after_ns", self.after_ns, self.before_ns, LARGEST_NS)
        _check_whole("count", self.count, 1, LARGEST_NS)

    @property
    def round_trip_ns(self) -> int:
        """How long the exchange took."""
        return self.after_ns - self.before_ns


@dataclass(frozen=True)
class ClockLine:
    """How a node's CLOCK_MONOTONIC relates to the reference's.

    Attributes:
        offset_ns: How far the reference is ahead of the node when the node's clock shows `at_ns`.
        drift: How much the reference gains on the node, dimensionless: 1e-6 is 1 ppm, 1 us per second.
        at_ns: First node time for which `error_ns` holds.
        until_ns: Last node time for which it holds.
        error_ns: Largest error of a mapped time between the two; None if unknown.
        drift_error: Largest error of `drift`: before `at_ns` and after `until_ns`, the error grows by this per ns.
        exchanges: Number of exchanges made.
        how: How the line was found.

    Raises:
        ValueError: A value has the wrong type or is out of range.

    """

    offset_ns: int
    drift: float
    at_ns: int
    until_ns: int
    error_ns: int | None
    drift_error: float
    exchanges: int
    how: How

    def __post_init__(self) -> None:
        _check_whole("offset_ns", self.offset_ns, -LARGEST_NS, LARGEST_NS)
        _check_whole("at_ns", self.at_ns, 0, LARGEST_NS)
        _check_whole("until_ns", self.until_ns, self.at_ns, LARGEST_NS)
        _check_whole("exchanges", self.exchanges, 0, LARGEST_NS)
        if self.error_ns is not None:
            _check_whole("error_ns", self.error_ns, 0, UNKNOWN_NS)
        _check_rate("drift", self.drift, -_LARGEST_RATE)
        _check_rate("drift_error", self.drift_error, 0)
        if self.how not in get_args(How):
            raise ValueError(f"how is not one of {', '.join(get_args(How))}")

    def to_reference(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Map times of the node, int64 ns of any shape, to the reference's clock.

        Raises:
            ValueError: A time is beyond LARGEST_NS.

        """
        times = _within(times)
        # Only the correction is a floating-point number: of 100 days at 100 ppm it is 1e12 ns, exact to 1e-4 ns.
        correction = np.rint((times - self.at_ns) * self.drift).astype(np.int64)
        mapped: NDArray[np.int64] = times + self.offset_ns + correction
        return mapped

    def error_at(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Largest error of each of these mapped times of the node, ns; UNKNOWN_NS if unknown.

        Raises:
            ValueError: A time is beyond LARGEST_NS.

        """
        times = _within(times)
        if self.error_ns is None:
            return np.full(times.shape, UNKNOWN_NS, np.int64)
        outside = np.maximum(np.maximum(self.at_ns - times, times - self.until_ns), 0)
        grown = np.ceil(outside * self.drift_error).astype(np.int64)
        errors: NDArray[np.int64] = np.minimum(self.error_ns + grown, UNKNOWN_NS)
        return errors

    def to_json(self) -> dict[str, Any]:
        """Return an object for `json`; `from_json` reads it."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Read the output of `to_json`. Raises ValueError if it is anything else."""
        return cls(**_checked_keys(cls, value))


def read() -> Reading:
    """Read this process's clocks; the narrowest of several attempts."""
    now = time.clock_gettime_ns
    clocks = (time.CLOCK_MONOTONIC, time.CLOCK_REALTIME, time.CLOCK_TAI, time.CLOCK_BOOTTIME, time.CLOCK_MONOTONIC)
    attempts = [tuple(map(now, clocks)) for _ in range(_READS)]
    before, realtime, tai, boottime, after = min(attempts, key=lambda attempt: attempt[-1] - attempt[0])
    stated = synchronization()
    boot_id, namespace = _identity()
    return Reading(
        monotonic_ns=before + (after - before) // 2,
        realtime_ns=realtime,
        tai_ns=tai,
        boottime_ns=boottime,
        width_ns=after - before,
        synchronized=stated.synchronized,
        estimated_error_ns=stated.estimated_error_ns,
        max_error_ns=stated.max_error_ns,
        boot_id=boot_id,
        time_namespace=namespace,
    )


def answer() -> int:
    """CLOCK_MONOTONIC of the calling process, ns: what a node does in an exchange."""
    return time.monotonic_ns()


def exchange(
    ask: Callable[[], int], count: int = EXCHANGES, *, now: Callable[[], int] = time.monotonic_ns
) -> ClockExchange:
    """Compare a node's clock with this one; the narrowest of `count` exchanges.

    Args:
        ask: Has the node run `answer` and returns the result.
        count: Number of exchanges, at least 1.
        now: This machine's CLOCK_MONOTONIC, ns.

    Raises:
        ValueError: The node did not answer with a time.

    """
    if count < 1:
        raise ValueError("count must be at least 1")
    return min((ClockExchange(now(), ask(), now(), count) for _ in range(count)), key=lambda one: one.round_trip_ns)


def line(first: ClockExchange, last: ClockExchange | None, slept_ns: int = 0) -> ClockLine:
    """Draw a line through the exchanges at the start and the end of a trace.

    Between the two exchanges, the error is half the round trip of the worse one. If they are so close together that
    an offset without drift has a smaller error, because clocks drift by at most DRIFT, the drift is taken as 0.

    Args:
        first: The exchange at the start.
        last: The exchange at the end; None if there was none. Then the error grows by DRIFT from the first.
        slept_ns: How long the node and the reference were suspended between the two, together: nothing is known of the
            moment, so the error is increased by this.

    """
    start = _bounds_of(first)
    if last is None:
        return start.alone(first.count, "exchanges at the start only")
    return start.through(_bounds_of(last), first.count + last.count, "exchanges at start and end", slept_ns)


def same_machine() -> ClockLine:
    """Line of a node whose clock is the reference's (`same_clock`)."""
    return ClockLine(0, 0.0, 0, 0, 0, 0.0, 0, "the same machine")


def same_clock(one: Reading, other: Reading) -> bool:
    """Whether CLOCK_MONOTONIC is the same clock in the processes that read these.

    They must share the boot id and the time namespace. Virtual machines restored from one snapshot may share both, so
    their wall clocks must also be equally far ahead. False if in doubt, for example if a wall clock was set between the
    readings.
    """
    if not one.boot_id or (one.boot_id, one.time_namespace) != (other.boot_id, other.time_namespace):
        return False
    return abs(one.ahead_ns - other.ahead_ns) <= one.width_ns + other.width_ns + _SAME_NS


def by_wall_clock(node: Reading, reference: Reading, last: tuple[Reading, Reading] | None = None) -> ClockLine:
    """Relate clocks without exchanges, on the assumption that CLOCK_REALTIME is the same on both machines.

    The error is the sum of what the time services of both machines state; unknown if one of them states nothing.

    Args:
        node: A reading of the node.
        reference: A reading of the reference.
        last: Later readings of both, in this order: the error does not grow between the readings.

    Raises:
        ValueError: The wall clocks are more than LARGEST_NS apart.

    """
    start = _bounds_by_wall_clock(node, reference)
    if start is None:
        offset = node.ahead_ns - reference.ahead_ns
        return ClockLine(offset, 0.0, node.monotonic_ns, node.monotonic_ns, None, DRIFT, 0, "wall clocks")
    end = _bounds_by_wall_clock(*last) if last else None
    if last is None or end is None:
        return start.alone(0, "wall clocks")
    return start.through(end, 0, "wall clocks", node.slept_ns(last[0]) + reference.slept_ns(last[1]))


def order(a_ns: int, a_error_ns: int | None, b_ns: int, b_error_ns: int | None) -> Order:
    """Order of the events a and b, of different nodes, on the reference's clock.

    Errors of one node's events are not independent: events of the same node are ordered by the node's own times.

    Args:
        a_ns: Mapped time of a.
        a_error_ns: Its largest error; None if unknown.
        b_ns: Mapped time of b.
        b_error_ns: Its largest error; None if unknown.

    Returns:
        "before" if a certainly happened before b, "after" if after it.

    """
    if a_error_ns is None or b_error_ns is None:
        return "unknown"
    apart, within = b_ns - a_ns, a_error_ns + b_error_ns
    if abs(apart) <= within:
        return "unknown"
    return "before" if apart > 0 else "after"


def orders(
    a_ns: NDArray[np.int64], a_error_ns: NDArray[np.int64], b_ns: NDArray[np.int64], b_error_ns: NDArray[np.int64]
) -> NDArray[np.int8]:
    """Order of many pairs of events (see `order`): -1 if a happened before b, 1 if after it, 0 if unknown.

    Args:
        a_ns: Mapped times, int64, within LARGEST_NS; all four have the same shape or are broadcast.
        a_error_ns: Their largest errors; UNKNOWN_NS if unknown.
        b_ns: Mapped times.
        b_error_ns: Their largest errors.

    """
    apart = _within(a_ns) - _within(b_ns)
    signs: NDArray[np.int8] = np.where(np.abs(apart) > _within(a_error_ns) + _within(b_error_ns), np.sign(apart), 0)
    return signs.astype(np.int8)


@dataclass(frozen=True)
class _Bounds:
    """When the node's clock shows `at`, the reference is ahead of it by `offset`, give or take `half`; ns."""

    at: int
    offset: int
    half: int

    def alone(self, exchanges: int, how: How) -> ClockLine:
        """Line through these bounds: the drift is unknown."""
        return ClockLine(self.offset, 0.0, self.at, self.at, self.half + _MAPPED_NS, DRIFT, exchanges, how)

    def through(self, other: _Bounds, exchanges: int, how: How, slept: int) -> ClockLine:
        """Line through these and other bounds, between which clocks stood still for `slept` ns."""
        one, two = sorted((self, other), key=lambda bounds: bounds.at)
        passed, gained, worse = two.at - one.at, two.offset - one.offset, max(one.half, two.half)
        # The offset at any time between the two is within both bounds, widened by what it can have drifted.
        drifted = math.ceil(passed * DRIFT)
        low = max(one.offset - one.half, two.offset - two.half) - drifted
        high = min(one.offset + one.half, two.offset + two.half) + drifted
        half = -((low - high) // 2)
        if low > high or slept:
            offset, drift, drift_error = one.offset + gained // 2, 0.0, DRIFT
            half = -(-abs(gained) // 2) + worse + drifted + slept
            how = "exchanges that disagree" if exchanges else how
        elif half < worse or abs(gained) >= 2 * DRIFT * passed:
            offset, drift, drift_error = (low + high) // 2, 0.0, DRIFT
        else:
            offset, drift, half = one.offset, gained / passed, worse
            drift_error = min((one.half + two.half) / passed, abs(drift) + DRIFT)
        error = min(half + _MAPPED_NS, UNKNOWN_NS)
        return ClockLine(offset, drift, one.at, two.at, error, drift_error, exchanges, how)


def _bounds_of(one: ClockExchange) -> _Bounds:
    middle = one.before_ns + one.round_trip_ns // 2
    return _Bounds(one.node_ns, middle - one.node_ns, -(-one.round_trip_ns // 2) + _READ_NS)


def _bounds_by_wall_clock(node: Reading, reference: Reading) -> _Bounds | None:
    """Bounds by the wall clocks; None if one of them has an unknown error."""
    errors = node.wall_error_ns, reference.wall_error_ns
    if errors[0] is None or errors[1] is None:
        return None
    read_within = -(-node.width_ns // 2) - (-reference.width_ns // 2) + _READ_NS
    return _Bounds(node.monotonic_ns, node.ahead_ns - reference.ahead_ns, errors[0] + errors[1] + read_within)


def _identity(proc: Path = Path("/proc")) -> tuple[str, int]:
    """Boot id and inode of the time namespace of this process; '' and 0 if unknown."""
    try:
        boot_id = (proc / "sys/kernel/random/boot_id").read_text("ascii").strip()
    except (OSError, ValueError):
        boot_id = ""
    try:
        namespace = _NAMESPACE.fullmatch(str((proc / "self/ns/time").readlink()))
    except OSError:  # before Linux 5.6 there are none
        namespace = None
    return boot_id if _BOOT_ID.fullmatch(boot_id) else "", int(namespace[1]) if namespace else 0


def _within(times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the times as int64. Raises ValueError if sums of them may not fit."""
    times = np.asarray(times, np.int64)
    if times.size and not (int(times.min()) >= -LARGEST_NS and int(times.max()) <= LARGEST_NS):
        raise ValueError(f"a time is beyond {LARGEST_NS} ns")
    return times


def _check_whole(name: str, value: object, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{name} is not a whole number from {least} to {most}")


def _check_rate(name: str, value: object, least: float) -> None:
    if type(value) not in (int, float) or not least <= value <= _LARGEST_RATE:  # type: ignore[operator]
        raise ValueError(f"{name} is not a number from {least} to {_LARGEST_RATE}")


def _checked_keys(cls: type[Reading | ClockLine], value: object) -> dict[str, Any]:
    """Return a JSON object whose keys are the fields of the class. Raises ValueError."""
    names = {field.name for field in fields(cls)}
    if not isinstance(value, dict) or value.keys() != names:
        raise ValueError(f"not an object with {', '.join(sorted(names))}")
    return value

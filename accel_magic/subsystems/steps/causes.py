"""What threads did in given intervals: driver, page faults, waits by reason, and otherwise the CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.analysis.waits import PAGE_FAULT
from accel_magic.subsystems.steps.coverage import Coverage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.subsystems.steps.coverage import Ints

CPU: Final = "CPU"
DRIVER: Final = "driver"
FAULT: Final = PAGE_FAULT
OTHER_WAITS: Final = "other waits"
_MOST_REASONS: Final = 12


@dataclass(frozen=True)
class Spans:
    """Intervals of threads.

    Attributes:
        thread: (N,) int64 number of the thread, dense over all nodes.
        start: (N,) int64 ns.
        end: (N,) int64 ns.

    """

    thread: Ints
    start: Ints
    end: Ints

    def of(self, threads: Ints) -> Spans:
        """Those of some threads."""
        kept = np.isin(self.thread, threads)
        return Spans(self.thread[kept], self.start[kept], self.end[kept])

    def and_(self, other: Spans) -> Spans:
        """Both together."""
        return Spans(
            np.concatenate([self.thread, other.thread]),
            np.concatenate([self.start, other.start]),
            np.concatenate([self.end, other.end]),
        )


@dataclass(frozen=True)
class Activity:
    """What was traced of the threads of all ranks; None: not traced.

    Attributes:
        driver: Calls of functions of drivers.
        faults: Page faults.
        waits: Times off the CPU, with `reasons`: (N,) codes of `names`.

    """

    driver: Spans | None = None
    faults: Spans | None = None
    waits: Spans | None = None
    reasons: Ints | None = None
    names: tuple[str, ...] = ()


def accounts(intervals: Spans, apart: Spans, activity: Activity) -> dict[str, Ints]:
    """Divide the time of threads within intervals.

    Time in which several of them apply counts for the first: waits for collectives (`apart`, which is left out),
    drivers, page faults, waits.

    Args:
        intervals: Of the threads in question.
        apart: What is left out.
        activity: What was traced.

    Returns:
        (N,) ns per cause: `DRIVER` and `FAULT` if traced, each reason of a wait, and, only if waits were traced, `CPU`.

    """
    threads = np.unique(intervals.thread)
    taken = apart.of(threads)
    before = left_out = _within(taken, intervals)
    found: dict[str, Ints] = {}
    for name, spans in ((DRIVER, activity.driver), (FAULT, activity.faults)):
        if spans is not None:
            taken = taken.and_(spans.of(threads))
            upto = _within(taken, intervals)
            found[name] = upto - before
            before = upto
    for name, spans in _by_reason(activity, threads):
        found[name] = found.get(name, 0) + _within(taken.and_(spans), intervals) - before
    if activity.waits is not None:
        found[CPU] = intervals.end - intervals.start - left_out - sum(found.values(), np.zeros(len(before), np.int64))
    return found


def _within(spans: Spans, intervals: Spans) -> Ints:
    covered = Coverage(spans.thread, spans.start, spans.end)
    return covered.within(intervals.thread, intervals.start, intervals.end)


def _by_reason(activity: Activity, threads: Ints) -> Iterator[tuple[str, Spans]]:
    """Waits of these threads by reason; the least important reasons together."""
    waits, reasons = activity.waits, activity.reasons
    if waits is None or reasons is None:
        return
    chosen = np.isin(waits.thread, threads) & (reasons >= 0)
    code, thread, start, end = (part[chosen] for part in (reasons, waits.thread, waits.start, waits.end))
    totals = np.bincount(code, (end - start).astype(np.float64), len(activity.names))
    shown = [int(one) for one in np.argsort(-totals, kind="stable")[:_MOST_REASONS] if totals[one] > 0]
    for one in shown:
        rows = code == one
        yield activity.names[one], Spans(thread[rows], start[rows], end[rows])
    rest = ~np.isin(code, shown)
    if rest.any():
        yield OTHER_WAITS, Spans(thread[rest], start[rest], end[rest])

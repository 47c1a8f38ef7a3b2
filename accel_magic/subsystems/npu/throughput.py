"""Jobs over time: how many are submitted and completed in each interval, and how many are in flight at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from pandas.tseries.frequencies import to_offset

from accel_magic.errors import ProbeError
from accel_magic.subsystems.npu.jobs import REFUSED, UNKNOWN
from accel_magic.subsystems.npu.jobs import jobs as find_jobs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.analysis.driver_trace import DriverTrace

_SECOND = 1e9
_MOST_INTERVALS = 10_000_000


def throughput(trace: DriverTrace, freq: str = "100ms", jobs: pd.DataFrame | None = None) -> pd.DataFrame:
    """Count jobs over time.

    Args:
        trace: The trace.
        freq: Length of an interval, as a pandas offset (`"100ms"`, `"1s"`).
        jobs: Result of `jobs`; computed if not given.

    Returns:
        One row per interval from the start of the trace to its end; the last may be shorter, and its rates are over its
        actual length. Indexed by `time_ns` int64, its start: `submitted`, `done` int64 jobs; `submitted_per_s`,
        `done_per_s` float64; `in_flight` int64 at its start, `in_flight_mean` float64 over its time, `in_flight_max`
        int64. Jobs whose completion the trace cannot show count as submitted, but never as in flight. No rows without
        times.

    Raises:
        ProbeError: `freq` is not a duration, or results in more than 10 million intervals.

    """
    step = _length(freq)
    duration = _duration(trace)
    frame = find_jobs(trace) if jobs is None else jobs
    count = -(-duration // step)
    if count > _MOST_INTERVALS:
        raise ProbeError(
            f"{freq!r} would make {count:,} intervals",
            why=f"the trace is {duration / _SECOND:.1f} s long",
            fix="use a longer interval",
            code="rates.too-many-steps",
        )
    starts = np.arange(count) * step
    taken = frame[frame["status"] != REFUSED]
    submitted = _per_interval(taken["submitted_ns"], step, count)
    done = _per_interval(taken["done_ns"], step, count)
    at, depth = in_flight(trace, frame)
    edges = np.append(starts, duration)
    place = np.searchsorted(at, starts, side="right") - 1
    whole = np.append(0.0, np.cumsum(np.diff(at) * depth[:-1]))  # jobs times ns until each change
    before = np.searchsorted(at, edges, side="right") - 1
    integral = whole[before] + (edges - at[before]) * depth[before]
    lengths = np.diff(edges)
    seconds = lengths / _SECOND
    return pd.DataFrame(
        {
            "submitted": submitted,
            "done": done,
            "submitted_per_s": submitted / seconds,
            "done_per_s": done / seconds,
            "in_flight": depth[place],
            "in_flight_mean": np.diff(integral) / lengths,
            "in_flight_max": np.maximum(depth[place], _highest(at, depth, step, count)),
        },
        index=pd.Index(starts, dtype="int64", name="time_ns"),
    )


def in_flight(trace: DriverTrace, jobs: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number of jobs in flight, from the entry of their submission to their completion, as a step function.

    Args:
        trace: The trace.
        jobs: Result of `jobs`.

    Returns:
        (changes,) int64 ns, ascending and distinct, the first 0; (changes,) int64 jobs from each to the next. Jobs
        started before the trace are in flight from 0 on, jobs without a recorded end until the end of the trace.

    """
    start, end = _spans(trace, jobs)
    ended = end[end < _duration(trace)]
    times = np.concatenate([[0], start, ended])
    steps = np.repeat([0, 1, -1], [1, len(start), len(ended)])
    at, place = np.unique(times, return_inverse=True)
    return at, np.cumsum(np.bincount(place, weights=steps, minlength=len(at))).astype(np.int64)


def concurrency(trace: DriverTrace, jobs: pd.DataFrame | None = None) -> pd.DataFrame:
    """Measure how long each number of jobs was in flight at once.

    Args:
        trace: The trace.
        jobs: Result of `jobs`; computed if not given.

    Returns:
        Indexed by `in_flight` int64, from 0 to the maximum: `time_ns` int64, `share` float64 of the trace. The times
        add up to the trace's duration. No rows without times.

    """
    frame = find_jobs(trace) if jobs is None else jobs
    duration = _duration(trace)
    at, depth = in_flight(trace, frame)
    lengths = np.diff(np.append(at, duration))
    total = np.zeros(depth.max() + 1 if duration else 0, np.int64)
    if duration:
        np.add.at(total, depth, lengths)
    return pd.DataFrame({"time_ns": total, "share": total / max(duration, 1)}).rename_axis("in_flight")


def _length(freq: str) -> int:
    try:
        step = to_offset(freq).nanos
    except ValueError as error:
        raise ProbeError(
            f"invalid interval {freq!r}",
            why=str(error),
            fix="write it like '100ms' or '1s'",
            code="rates.bad-step",
        ) from None
    if step <= 0:
        raise ProbeError(
            f"invalid interval {freq!r}",
            why="it is not positive",
            fix="write it like '100ms' or '1s'",
            code="rates.bad-step",
        )
    return int(step)


def _duration(trace: DriverTrace) -> int:
    """Duration of the trace, or time of its last event if that is later; 0 without times."""
    if not trace.timed:
        return 0
    last = int(trace.events["time_ns"].iloc[-1]) + 1 if len(trace.events) else 0
    return max(trace.duration_ns, last)


def _has_span(jobs: pd.DataFrame) -> pd.Series[bool]:
    return ~jobs["status"].isin([REFUSED, UNKNOWN])


def _spans(trace: DriverTrace, jobs: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """When each job was submitted and when it ended, ns."""
    jobs = jobs[_has_span(jobs)]
    start = jobs["submitted_ns"].fillna(jobs["queued_ns"]).fillna(jobs["doorbell_ns"]).to_numpy(np.int64, na_value=0)
    return start, jobs["done_ns"].to_numpy(np.int64, na_value=_duration(trace))


def _per_interval(times: pd.Series[int], step: int, count: int) -> NDArray[np.int64]:
    return np.bincount(times.dropna().to_numpy(np.int64) // step, minlength=count)[:count]


def _highest(at: NDArray[np.int64], depth: NDArray[np.int64], step: int, count: int) -> NDArray[np.int64]:
    """(intervals,) the maximum after any change within each interval, 0 if nothing changes."""
    most = np.zeros(count, np.int64)
    inside = at < count * step
    np.maximum.at(most, at[inside] // step, depth[inside])
    return most

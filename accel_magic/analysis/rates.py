"""Hits per second over time, from the events if every hit was recorded, else from the sampled counters."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
from pandas.tseries.frequencies import to_offset

from accel_magic.errors import ProbeError, ResultError
from accel_magic.recording import dataset

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.probes.plan import Plan
    from accel_magic.recording.recording import Recording

MAX_CELLS = 20_000_000
_STEPS = 'write it as "10ms" or "1s"'


def rates(recording: Recording, freq: str, source: Literal["auto", "samples"] = "auto") -> pd.DataFrame:
    """Hits per second in steps of `freq` that cover the whole duration.

    Args:
        recording: What was traced.
        freq: Width of a step, a pandas offset such as `"10ms"`.
        source: `"auto"` bins the events if every hit was recorded as one, else distributes each increase of the
            counter samples evenly over its interval; `"samples"` never decodes the events.

    Returns:
        float64 hits/s, indexed by the start of each step (Timedelta since the start of the trace), one column per
        probe point, named by `point_labels`. The last step ends with the trace and is divided by its own, possibly
        shorter, width.

    Raises:
        ProbeError: `freq` is not a positive width, or so small that the frame would have over 20 million values.
        ResultError: The trace was imported and has no times.

    """
    check_timed(recording, "rates")
    duration = max(recording.duration_ns, 1)
    step = _step_ns(freq)
    if duration // step * len(recording.plan.points) > MAX_CELLS:
        raise ProbeError(
            f"rates({freq!r}) would have {duration // step:,} rows of {len(recording.plan.points):,} functions",
            why=f"the trace lasts {duration / 1e9:.3g} s",
            fix="use a longer step",
            code="rates.too-many-steps",
        )
    edges = np.append(np.arange(0, duration, step, dtype=np.int64), duration)
    all_recorded = 0 < recording.event_count == int(recording.hits.sum())
    hits = _binned(recording, edges, step) if all_recorded and source == "auto" else _spread(recording, edges)
    return pd.DataFrame(
        hits / (np.diff(edges)[:, None] / 1e9),
        index=pd.TimedeltaIndex(edges[:-1].astype("m8[ns]"), name="time"),
        columns=pd.Index(point_labels(recording.plan), name="function"),
    )


def check_timed(recording: Recording, what: str) -> None:
    """Raise ResultError if the recording has no times, which `what` needs."""
    if recording.imported is not None and not recording.timed:
        raise ResultError(
            f"there are no {what} in this trace",
            why=f"it was imported from {recording.imported.format} that has no times",
            fix='record with times, e.g. printf("%llu %s\\n", nsecs, probe) in bpftrace; see docs/import.md',
            code="result.no-times",
        )


def point_labels(plan: Plan) -> tuple[str, ...]:
    """Label each probe point with its function; if functions share a name, add the probe, then the id."""
    labels = [point.function for point in plan.points]
    for tails in ([f" ({point.probe})" for point in plan.points], [f" #{point.id}" for point in plan.points]):
        seen = Counter(labels)
        labels = [label + tail if seen[label] > 1 else label for label, tail in zip(labels, tails, strict=True)]
    return tuple(labels)


def _step_ns(freq: str) -> int:
    try:
        step = pd.Timedelta(to_offset(freq)).value  # type: ignore[arg-type]  # raises for calendar offsets
    except (ValueError, TypeError) as error:
        raise ProbeError(f"invalid time step {freq!r}", why=str(error), fix=_STEPS, code="rates.bad-step") from None
    if step <= 0:
        raise ProbeError(f"invalid time step {freq!r}", why="it is not positive", fix=_STEPS, code="rates.bad-step")
    return int(step)


def _binned(recording: Recording, edges: NDArray[np.int64], step: int) -> NDArray[np.float64]:
    """Count the events of each point between `edges`: (steps, points)."""
    steps, points = len(edges) - 1, len(recording.plan.points)
    counts = np.zeros(steps * points, np.int64)
    for events in dataset.batches(recording, ("time_ns", "point")):
        row = np.clip(events.columns["time_ns"].values.astype(np.int64) // step, 0, steps - 1)
        cell = row * points + events.columns["point"].values.astype(np.int64)
        counts += np.bincount(cell, minlength=steps * points)
    return counts.reshape(steps, points).astype(np.float64)


def _spread(recording: Recording, edges: NDArray[np.int64]) -> NDArray[np.float64]:
    """Hits of each point between `edges`, each sampled increase spread evenly over its interval: (steps, points)."""
    times = np.minimum(recording.samples.times_ns, edges[-1])
    return np.stack(
        [np.diff(np.interp(edges, times, counter)) for counter in recording.samples.hits.T.astype(np.float64)], axis=1
    )

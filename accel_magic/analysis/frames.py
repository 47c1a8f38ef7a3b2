"""The events of a recording as a pandas DataFrame, column by column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pandas.arrays import BooleanArray, FloatingArray, IntegerArray

from accel_magic.analysis.waits import wait_column
from accel_magic.kernel import buckets
from accel_magic.kernel.stacks.stack_table import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from accel_magic.analysis.by_stack import CombinedStacks
    from accel_magic.recording.recording import EventColumn, Recording

LATENCY = ("mean_ns", "p50_ns", "p90_ns", "p99_ns", "max_ns")
LEADING = ("time_ns", "pid", "tid", "cpu", "comm", "duration_ns")


def events_frame(recording: Recording, stacks: CombinedStacks | None = None) -> pd.DataFrame:
    """One row per recorded event, in order of time.

    Args:
        recording: Source of the events.
        stacks: The events' stacks, if they have any.

    Returns:
        `time_ns` int64 (ns since the start), `probe`, `function` categories, `pid`, `tid` int32, `cpu` int16, `comm`
        category, `duration_ns` float64 (ns, NaN where not measured; only with a latency probe), `stack` Int32 (only
        with stacks; NA if an event has none), `wait` category (only with an `offcpu` probe), then every other column
        of the recording as nullable integers or categories. The frame owns its memory.

    """
    columns = recording.events.columns
    points = recording.plan.points
    ids = columns["point"].values
    data: dict[str, Any] = {
        "time_ns": columns["time_ns"].values,
        "probe": _by_point(ids, (point.probe for point in points)),
        "function": _by_point(ids, (point.function for point in points)),
        "pid": columns["pid"].values,
        "tid": columns["tid"].values,
        "cpu": columns["cpu"].values,
        "comm": _extra(columns["comm"]),
    }
    if "duration_ns" in columns:
        data["duration_ns"] = _duration(columns["duration_ns"])
    data |= {name: _extra(column) for name, column in wait_column(recording).items()}
    if stacks is not None:
        data["stack"] = IntegerArray(stacks.of_events.copy(), stacks.of_events < 0)
    shown = {*LEADING, "point", *COLUMNS}
    data |= {name: _extra(column) for name, column in columns.items() if name not in shown}
    return pd.DataFrame(data)


def counts_frame(recording: Recording) -> pd.DataFrame:
    """The exact counts: see `TraceResult.counts`."""
    points = recording.plan.points
    frame = pd.DataFrame(
        {
            "probe": [point.probe for point in points],
            "function": [point.function for point in points],
            "hits": recording.hits.astype(np.int64),
            "lost": recording.lost.astype(np.int64),
            "rate": recording.hits / max(recording.duration_ns / 1e9, 1e-9),
        }
    )
    # A USDT probe has a point for each place that it was compiled into.
    summed = frame.groupby(["probe", "function"], sort=False).sum()
    if not recording.timed:
        summed["rate"] = np.nan
    return summed.sort_values("hits", ascending=False, kind="stable")


def latency_frame(recording: Recording) -> pd.DataFrame:
    """The latencies measured in the kernel: see `TraceResult.latency`."""
    histograms = recording.histograms
    rows: list[dict[str, Any]] = []
    for row, point in enumerate(recording.plan.latency_points):
        counts = histograms.counts[row]
        total = int(counts.sum())
        others = max(int(recording.hits[point.id]) - int(recording.unpaired[point.id]) - total, 0)
        largest = int(histograms.max_ns[row])
        filled = np.flatnonzero(counts)
        rows.append(
            {
                "probe": point.probe,
                "function": point.function,
                "count": total,
                "mean_ns": float(histograms.total_ns[row]) / total if total else np.nan,
                **{
                    name: min(buckets.quantile(counts, q), largest) if total else np.nan
                    for name, q in (("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99))
                },
                "max_ns": float(largest) if total else np.nan,
                "unfinished": 0 if point.partly_measured else others,
                "only_counted": others if point.partly_measured else 0,
                "histogram": pd.Series(counts[filled].astype(np.int64), index=buckets.EDGES[filled]),
            }
        )
    names = ["probe", "function", "count", *LATENCY, "unfinished", "only_counted", "histogram"]
    return pd.DataFrame(rows, columns=names).set_index(["probe", "function"])


def _by_point(ids: NDArray[np.generic], names: Iterable[str]) -> pd.Categorical:
    """Category of each row from its point's id: one table lookup for all rows."""
    numbers: dict[str, int] = {}
    table = [numbers.setdefault(name, len(numbers)) for name in names]
    # The narrowest code type, so that pandas uses the array without a copy.
    codes = np.array(table, dtype=np.min_scalar_type(-max(len(numbers), 1)))
    return pd.Categorical.from_codes(codes[ids], categories=pd.Index(list(numbers), dtype="str"))


def _duration(column: EventColumn) -> NDArray[np.float64]:
    durations = column.values.astype(np.float64)
    if column.valid is not None:
        durations[~column.valid] = np.nan
    return durations


def _extra(column: EventColumn) -> Any:
    """Convert a column to categories, or to a nullable array of the same width; missing rows are NA."""
    values, valid = column.values, column.valid
    if column.categories is not None:
        codes: Any = values if valid is None else np.where(valid, values, -1)
        return pd.Categorical.from_codes(codes, categories=pd.Index(column.categories, dtype="str"))
    missing = np.zeros(len(values), np.bool_) if valid is None else ~valid
    array = {"b": BooleanArray, "f": FloatingArray}.get(values.dtype.kind, IntegerArray)
    return array(np.ascontiguousarray(values), missing)

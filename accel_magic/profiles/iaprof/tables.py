"""Data frames of an iaprof profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from accel_magic.profiles.iaprof.model import METRICS, REASONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from accel_magic.profiles.iaprof.model import IaprofProfile


def samples(profile: IaprofProfile) -> pd.DataFrame:
    """One row per `eustall` line.

    Columns: `interval` (its number), `time_ns` (when it began, since the profile's start), `kernel` (symbol, category),
    `kernel_id` (row of `kernels` by number), `offset` uint64, `instruction` (category), the ten reasons int64, `total`.
    """
    return _lines(profile, np.arange(len(profile.stalls))).assign(
        **{reason: profile.stalls.counts[:, column] for column, reason in enumerate(REASONS)},
        total=profile.stalls.counts.sum(axis=1),
    )


def reasons(profile: IaprofProfile) -> pd.DataFrame:
    """One row per `eustall` line and reason with a sample: the columns of `samples` up to `instruction`, then these.

    Columns: `reason` (category of `REASONS`), `samples` int64.
    """
    rows, columns = np.nonzero(profile.stalls.counts)
    return _lines(profile, rows).assign(
        reason=_category(REASONS, columns),
        samples=profile.stalls.counts[rows, columns],
    )


def intervals(profile: IaprofProfile) -> pd.DataFrame:
    """One row per interval.

    Columns: `interval`, `time_ns` and `length_ns` (since the profile's start), `end_ns` (on CLOCK_MONOTONIC),
    `samples`, `active` and `stalled` int64, `frequency_MHz` and `busy_percent` Int64, NA where it has no such line.
    """
    found = profile.intervals
    by_reason = np.zeros((len(found.number), len(REASONS)), np.int64)
    np.add.at(by_reason, profile.runs.interval[profile.stalls.run], profile.stalls.counts)
    return pd.DataFrame(
        {
            "interval": found.number,
            "time_ns": found.start_ns,
            "length_ns": found.lengths_ns,
            "end_ns": found.end_ns,
            "samples": by_reason.sum(axis=1),
            "active": by_reason[:, 0],
            "stalled": by_reason[:, 1:].sum(axis=1),
            **{name.replace("-", "_"): _of_interval(profile, place) for place, name in enumerate(METRICS)},
        }
    )


def metrics(profile: IaprofProfile) -> pd.DataFrame:
    """One row per `metric` line: `interval`, `time_ns`, `name` (category), `value` int64."""
    rows = profile.metrics.interval
    return pd.DataFrame(
        {
            "interval": profile.intervals.number[rows],
            "time_ns": profile.intervals.start_ns[rows],
            "name": _category(METRICS, profile.metrics.name),
            "value": profile.metrics.value,
        }
    )


def kernels(profile: IaprofProfile) -> pd.DataFrame:
    """One row per kernel, the most samples first.

    Columns: `kernel_id`, `symbol`, `file`, `comm`, `pid`, `cpu_stack`, `address` uint64, `samples` int64, `share` of
    all samples, `intervals` (in how many it was sampled).
    """
    per_run = np.zeros(len(profile.runs.kernel), np.int64)
    np.add.at(per_run, profile.stalls.run, profile.stalls.counts.sum(axis=1))
    count = len(profile.kernels)
    weights = np.zeros(count, np.int64)
    np.add.at(weights, profile.runs.kernel, per_run)
    seen = pd.Series(profile.runs.interval).groupby(profile.runs.kernel).nunique().reindex(range(count), fill_value=0)
    table = pd.DataFrame(
        {
            "kernel_id": np.arange(count),
            "symbol": [kernel.symbol for kernel in profile.kernels],
            "file": [kernel.file for kernel in profile.kernels],
            "comm": [kernel.comm for kernel in profile.kernels],
            "pid": np.array([kernel.pid for kernel in profile.kernels], np.int64),
            "cpu_stack": [kernel.cpu_stack for kernel in profile.kernels],
            "address": np.array([kernel.address for kernel in profile.kernels], np.uint64),
            "samples": weights,
            "share": weights / max(profile.total, 1),
            "intervals": seen.to_numpy(np.int64),
        }
    )
    return table.sort_values("samples", ascending=False, kind="stable", ignore_index=True)


def _lines(profile: IaprofProfile, rows: NDArray[np.intp]) -> pd.DataFrame:
    stalls = profile.stalls
    runs = stalls.run[rows]
    interval = profile.runs.interval[runs]
    kernel = profile.runs.kernel[runs]
    return pd.DataFrame(
        {
            "interval": profile.intervals.number[interval],
            "time_ns": profile.intervals.start_ns[interval],
            "kernel": _category([one.symbol for one in profile.kernels], kernel),
            "kernel_id": kernel,
            "offset": stalls.offset[rows],
            "instruction": _category(profile.instructions, stalls.instruction[rows]),
        }
    )


def _category(texts: Sequence[str], codes: NDArray[Any]) -> Any:
    """Texts by code as a categorical; several codes may have one text."""
    distinct = list(dict.fromkeys(texts))
    numbers = {text: number for number, text in enumerate(distinct)}
    places = np.array([numbers[text] for text in texts], np.int32)
    return pd.Categorical.from_codes(places[codes] if len(codes) else np.zeros(0, np.int32), pd.Index(distinct))


def _of_interval(profile: IaprofProfile, name: int) -> pd.arrays.IntegerArray:
    """Value of a metric in each interval, the last one where there are several."""
    values = pd.array([None] * len(profile.intervals.number), dtype="Int64")
    rows = np.flatnonzero(profile.metrics.name == name)
    values[profile.metrics.interval[rows]] = profile.metrics.value[rows]
    return values

"""Store an iaprof profile as part of one of our files: plain JSON types with packed columns.

Nothing read is executed, and inconsistent data is rejected, so that the tables can rely on their input.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic.recording.packing import pack_numbers, unpack_numbers
from accel_magic.recording.profile import Lost, kind_of_loss
from accel_magic.subsystems.iaprof.profile import (
    METRICS,
    MOST,
    MOST_ADDRESS,
    MOST_NS,
    MOST_PID,
    REASONS,
    IaprofProfile,
    Intervals,
    LaunchedKernel,
    MetricLines,
    Runs,
    StallLines,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_COLUMNS: Final[Mapping[str, Mapping[str, type[np.integer[Any]]]]] = {
    "intervals": {"number": np.int64, "end_ns": np.int64},
    "runs": {"interval": np.int32, "kernel": np.int32},
    "stalls": {"run": np.int32, "offset": np.uint64, "instruction": np.int32, "counts": np.int64},
    "metrics": {"interval": np.int32, "name": np.uint8, "value": np.int64},
}
_WIDTHS: Final = {"counts": len(REASONS)}
"""Numbers per row, for columns with more than one."""


def to_dict(profile: IaprofProfile) -> dict[str, Any]:
    """Plain JSON types; `from_dict` is the inverse."""
    parts = {name: getattr(profile, name) for name in _COLUMNS}
    return {
        "rows": {name: len(getattr(part, next(iter(_COLUMNS[name])))) for name, part in parts.items()},
        "columns": {
            name: {column: pack_numbers(getattr(part, column).astype(dtype)) for column, dtype in columns.items()}
            for (name, columns), part in zip(_COLUMNS.items(), parts.values(), strict=True)
        },
        "kernels": [list(kernel) for kernel in profile.kernels],
        "instructions": list(profile.instructions),
        "dropped": dict(profile.dropped),
        "notes": list(profile.notes),
        "lost": [list(lost) for lost in profile.lost],
        "subsample": profile.subsample,
        "started": profile.started,
        "machine": dict(profile.machine),
    }


def from_dict(data: dict[str, Any]) -> IaprofProfile:
    """Build it back from `to_dict`.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: `data` has the wrong form or is inconsistent.

    """
    columns = {
        name: {
            column: _column(data["columns"][name][column], dtype, _whole(data["rows"][name]), _WIDTHS.get(column, 1))
            for column, dtype in dtypes.items()
        }
        for name, dtypes in _COLUMNS.items()
    }
    profile = IaprofProfile(
        intervals=Intervals(**columns["intervals"]),
        kernels=tuple(map(_kernel, data["kernels"])),
        instructions=tuple(map(_text, data["instructions"])),
        runs=Runs(**columns["runs"]),
        stalls=StallLines(**columns["stalls"]),
        metrics=MetricLines(**columns["metrics"]),
        dropped=MappingProxyType({_text(reason): _whole(count) for reason, count in data["dropped"].items()}),
        notes=tuple(map(_text, data["notes"])),
        lost=tuple(Lost(_whole(count), _text(why), *map(kind_of_loss, kind)) for count, why, *kind in data["lost"]),
        subsample=_whole(data["subsample"]),
        started=_text(data["started"]),
        machine=MappingProxyType({_text(name): _text(value) for name, value in data["machine"].items()}),
    )
    _check(profile)
    return profile


def _column(text: str, dtype: type, rows: int, width: int) -> NDArray[Any]:
    values = unpack_numbers(text, dtype, rows * width)
    return values.reshape(rows, width) if width > 1 else values


def _kernel(values: list[Any]) -> LaunchedKernel:
    address, comm, pid, stack, file, symbol = values
    return LaunchedKernel(
        _whole(address, MOST_ADDRESS), _text(comm), _whole(pid, MOST_PID), _text(stack), _text(file), _text(symbol)
    )


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"{value!r:.60} is not text")
    return value


def _whole(value: Any, most: int = MOST) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{value!r:.60} is not a valid count")
    return value


def _check(profile: IaprofProfile) -> None:
    """Raise ValueError if rows refer to missing rows or are out of order."""
    intervals, runs, stalls, metrics = profile.intervals, profile.runs, profile.stalls, profile.metrics
    for name, values, count in (
        ("interval", runs.interval, len(intervals.number)),
        ("kernel", runs.kernel, len(profile.kernels)),
        ("run", stalls.run, len(runs.kernel)),
        ("instruction", stalls.instruction, len(profile.instructions)),
        ("interval", metrics.interval, len(intervals.number)),
        ("metric", metrics.name, len(METRICS)),
    ):
        if len(values) and not 0 <= int(values.min()) <= int(values.max()) < count:
            raise ValueError(f"a row refers to {name} {values.max()} of {count}")
    for ordered in (intervals.number, intervals.end_ns, runs.interval, stalls.run, metrics.interval):
        if (ordered[1:] < ordered[:-1]).any():
            raise ValueError("its rows are not in order")
    for numbers in (intervals.number, intervals.end_ns, stalls.counts, metrics.value):
        if (numbers < 0).any():
            raise ValueError("a number is negative")
    if (intervals.end_ns > MOST_NS).any():
        raise ValueError("an interval ends too late")
    if float(stalls.counts.sum(dtype=np.float64)) > MOST / 2 and sum(stalls.counts.ravel().tolist()) > MOST:
        raise ValueError("the sum of all samples is over 2^63 - 1")

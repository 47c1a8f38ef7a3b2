"""The steps of all ranks, from the marks in their events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.errors import ResultError
from accel_magic.subsystems.steps import marks, torch
from accel_magic.subsystems.steps.coverage import Coverage, Ints

if TYPE_CHECKING:
    from collections.abc import Collection

RANK: Final = ("node", "host", "rank", "pid")
"""Columns that identify a rank: a process of a node."""

STEPS: Final = {
    "node": "category",
    "host": "category",
    "rank": "Int64",
    "pid": "int64",
    "tid": "int64",
    "step": "int64",
    "repeat": "int64",
    "time_ns": "int64",
    "duration_ns": "Int64",
    "waiting_ns": "Int64",
    "own_ns": "Int64",
}
"""Columns of the steps."""


def processes(frame: pd.DataFrame) -> Ints:
    """Number of each row's process, (N,): dense, in the order of nodes and process ids."""
    return _processes(frame)[0]


def _processes(*frames: pd.DataFrame) -> list[Ints]:
    """Numbers of the rows' processes, the same ones for all frames."""
    known = pd.Index(dict.fromkeys(name for frame in frames for name in frame["node"].cat.categories))
    keys = []
    for frame in frames:
        table = np.append(known.get_indexer(frame["node"].cat.categories), -1).astype(np.int64)
        keys.append(table[frame["node"].cat.codes.to_numpy()] << 32 | frame["pid"].to_numpy(np.int64))
    number = pd.factorize(np.concatenate(keys), sort=True)[0].astype(np.int64)
    return np.split(number, np.cumsum([len(key) for key in keys])[:-1])


def numbers(frame: pd.DataFrame, columns: list[str]) -> Ints:
    """Number of each row's combination of values, (N,): dense, in any order."""
    return np.asarray(frame.groupby(columns, observed=True, sort=False).ngroup(), np.int64)


def steps_of(events: pd.DataFrame, lossy: Collection[str] = ()) -> pd.DataFrame:
    """Find the steps: from each mark to the next one of the same process.

    Marks are those of `accel_magic.step(n)`; if there are none, the steps of PyTorch's optimizers, numbered from 0 in
    each process.

    Args:
        events: Events of all nodes on one clock, with `node`, `host` and `rank`.
        lossy: Nodes that lost marks: a step that is not followed by the next number then has no length.

    Returns:
        The columns `STEPS`, one row per mark, by process and time: `repeat` counts earlier steps of the process with
        the same number. `duration_ns` is NA for a process's last mark. `waiting_ns` (NA) and `own_ns` are as without
        collectives: see `with_waiting`.

    """
    own = events[events["probe"] == marks.PROBE] if marks.STEP in events else events[:0]
    if len(own):
        found = own[[*RANK, "tid", "time_ns"]].assign(step=integers(own, marks.STEP))
    else:
        found = _of_optimizers(events)
    found = found.assign(_process=processes(found)).sort_values(["_process", "time_ns"], kind="stable")
    process, time, number = (found[name].to_numpy(np.int64) for name in ("_process", "time_ns", "step"))
    ended = np.zeros(len(found), np.bool_)
    ended[:-1] = process[1:] == process[:-1]
    if lossy:
        follows = np.zeros(len(found), np.bool_)
        follows[:-1] = number[1:] == number[:-1] + 1
        ended &= follows | ~found["node"].isin(list(lossy)).to_numpy()
    length = np.zeros(len(found), np.int64)
    length[:-1] = np.diff(time)
    duration = pd.arrays.IntegerArray(np.where(ended, length, 0), ~ended)
    table = found.assign(
        repeat=found.groupby(["_process", "step"], sort=False).cumcount().to_numpy(),
        duration_ns=duration,
        waiting_ns=None,
        own_ns=duration,
    )
    return table[list(STEPS)].astype(STEPS).reset_index(drop=True)


def _of_optimizers(events: pd.DataFrame) -> pd.DataFrame:
    rows = events[events["probe"] == torch.STEPS]
    if torch.NAME in rows and len(rows):
        names = texts(rows, torch.NAME).cat
        chosen = [str(name).startswith(torch.OPTIMIZER) for name in names.categories]
        rows = rows[np.append(chosen, False)[names.codes.to_numpy()].astype(np.bool_)]
    found = rows[[*RANK, "tid", "time_ns"]]
    number = found.groupby(["node", "pid"], observed=True, sort=False).cumcount()
    return found.assign(step=number.to_numpy(np.int64))


def integers(rows: pd.DataFrame, column: str) -> Ints:
    """Values of a captured column, (N,): 0 where it is missing. Addresses of user space fit.

    Raises:
        ResultError: It has other values.

    """
    if column not in rows:
        return np.zeros(len(rows), np.int64)
    if not pd.api.types.is_integer_dtype(rows[column].dtype):
        raise _bad(column, "integers")
    return rows[column].fillna(0).to_numpy(rows[column].dtype.name.lower()).astype(np.int64)


def texts(rows: pd.DataFrame, column: str) -> pd.Series[str]:
    """Values of a captured column of texts, a categorical.

    Raises:
        ResultError: It has other values.

    """
    if not isinstance(rows[column].dtype, pd.CategoricalDtype):
        raise _bad(column, "texts")
    return rows[column]


def _bad(column: str, what: str) -> ResultError:
    return ResultError(
        f"the column {column} of the events is not one of {what}",
        why="another column of that name was captured, or the recording is damaged",
        fix="trace again without --args that have this name",
        code="stragglers.bad-column",
    )


def with_waiting(steps: pd.DataFrame, collectives: pd.DataFrame) -> pd.DataFrame:
    """Subtract from each step the time in which the process waited in collectives: `waiting_ns` and `own_ns`."""
    mine, theirs = _processes(steps, collectives)
    start, end = waited(collectives)
    covered = Coverage(theirs, start, end)
    time = steps["time_ns"].to_numpy(np.int64)
    length = steps["duration_ns"].fillna(0).to_numpy(np.int64)
    known = steps["duration_ns"].notna().to_numpy()
    waiting = covered.within(mine, time, time + length)
    return steps.assign(
        waiting_ns=pd.arrays.IntegerArray(waiting, ~known), own_ns=pd.arrays.IntegerArray(length - waiting, ~known)
    )


def waited(collectives: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Start and end of the wait for each collective, (N,) int64 ns; equal if nothing waited for it."""
    start = collectives["wait_ns"].fillna(0).to_numpy(np.int64)
    end = collectives["end_ns"].fillna(0).to_numpy(np.int64)
    known = (collectives["wait_ns"].notna() & collectives["end_ns"].notna()).to_numpy()
    return np.where(known, start, 0), np.where(known, np.maximum(start, end), 0)

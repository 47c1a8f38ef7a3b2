"""The collectives of all ranks, from the events of PyTorch's functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.subsystems.steps import torch
from accel_magic.subsystems.steps.steps import RANK, integers, processes, texts

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from accel_magic.subsystems.steps.coverage import Ints

COLLECTIVES: Final = {
    "node": "category",
    "host": "category",
    "rank": "Int64",
    "pid": "int64",
    "tid": "int64",
    "group": "str",
    "operation": "category",
    "number": "Int64",
    "time_ns": "int64",
    "wait_ns": "Int64",
    "end_ns": "Int64",
    "failed": "bool",
}
"""Columns of the collectives."""

ONLY_GROUP: Final = "the only group"
"""Name of a group that was made before the trace began, where each process used one."""
_KINDS: Final = (
    torch.MADE,
    torch.ENQUEUED,
    torch.FINISHED,
    torch.FAILED,
    torch.WAIT,
    torch.WAIT_FOR_ALL,
    torch.GROUP_MADE,
    torch.GROUP_NAMED,
)
_MADE, _ENQUEUED, _FINISHED, _FAILED, _WAIT, _WAIT_FOR_ALL, _GROUP_MADE, _GROUP_NAMED = range(len(_KINDS))
_CAPTURED: Final = (torch.WORK, torch.GROUP, torch.OPERATION, torch.NUMBER, torch.GROUP_NAME)
_PARTS: Final = (torch.COLLECTIVES, torch.GROUPS, torch.WAITS)


def collectives_of(events: pd.DataFrame, *, waits: bool = True, lossy: Collection[str] = ()) -> pd.DataFrame:
    """Find the collectives: one row per call and rank.

    Args:
        events: Events of all nodes on one clock, with `node`, `host` and `rank`.
        waits: Whether `torch:waits` was traced; otherwise each rank waits from the call to the end.
        lossy: Nodes that lost events of collectives.

    Returns:
        The columns `COLLECTIVES`, by time: `group` is the process group's name (`""` if it was made before the trace
        began and its process used others), `number` the collective's place in it: by order, or if events were lost or
        the group was made before, PyTorch's own number (NA without a group). `time_ns` is the call, `wait_ns` when a
        thread began to wait for it (NA: none did), `end_ns` when it was complete in this process (NA: not before the
        trace ended).

    """
    names = events["function"].cat.categories
    table = np.array([*(_kind(name) for name in names), -1])
    kinds = table[events["function"].cat.codes.to_numpy()]
    kinds = np.where(events["probe"].isin(_PARTS).to_numpy(), kinds, -1)
    chosen = np.flatnonzero(kinds >= 0)
    if not (kinds[chosen] == _MADE).any():
        return pd.DataFrame(columns=list(COLLECTIVES)).astype(COLLECTIVES)
    columns = [name for name in (*RANK, "tid", "time_ns", *_CAPTURED) if name in events]
    rows = events[columns].iloc[chosen]
    kind, process, time = kinds[chosen], processes(rows), rows["time_ns"].to_numpy(np.int64)
    work = integers(rows, torch.WORK)
    made, ends = _lives(kind, process, work)
    calls = rows.iloc[made]
    start = time[made]
    end_at = np.where(ends[_FINISHED] >= 0, ends[_FINISHED], ends[_FAILED])
    group, named = _groups(rows, kind, process, time, made=made, enqueued=ends[_ENQUEUED])
    operation = integers(calls, torch.OPERATION)
    operations = pd.Categorical.from_codes(
        np.where(operation < len(torch.OPERATIONS), operation, -1), categories=pd.Index(torch.OPERATIONS)
    )
    waiting_at = np.where(ends[_WAIT] >= 0, time[ends[_WAIT]], _next_wait_for_all(kind, process, time, made))
    wait = waiting_at if waits else start
    found = calls[[*RANK, "tid", "time_ns"]].assign(
        group=group,
        operation=operations,
        wait_ns=pd.arrays.IntegerArray(np.maximum(wait, 0), wait < 0),
        end_ns=pd.arrays.IntegerArray(np.where(end_at >= 0, time[end_at], 0), end_at < 0),
        failed=(ends[_FAILED] >= 0) & (ends[_FINISHED] < 0),
    )
    by_order = found.assign(_process=process[made]).groupby(["_process", "group"], sort=False).cumcount()
    own = integers(calls, torch.NUMBER)
    lost = bool(lossy) and bool(calls["node"].isin(list(lossy)).any())
    number = np.where(named & (not lost), by_order.to_numpy(np.int64), own)
    found["number"] = pd.arrays.IntegerArray(number, (group == "").astype(np.bool_))
    return found[list(COLLECTIVES)].astype(COLLECTIVES).reset_index(drop=True)


def _kind(function: str) -> int:
    return next((at for at, start in enumerate(_KINDS) if str(function).startswith(start)), -1)


def _lives(kind: Ints, process: Ints, work: Ints) -> tuple[Ints, dict[int, Ints]]:
    """Follow each work object from where it was made until another one is made at its address.

    Args:
        kind: (N,) kinds of the events, in order of time.
        process: (N,) processes.
        work: (N,) addresses.

    Returns:
        (M,) rows where objects are made, in order; and by kind (M,) the first row of it in the object's life, or -1.

    """
    rows = np.flatnonzero(np.isin(kind, (_MADE, _ENQUEUED, _FINISHED, _FAILED, _WAIT)))
    address, addresses = pd.factorize(work[rows])
    key = process[rows] * len(addresses) + address
    by_object = np.argsort(key, kind="stable")
    order, key = rows[by_object], key[by_object]
    is_made = kind[order] == _MADE
    last = np.maximum.accumulate(np.where(is_made, np.arange(len(order)), -1))
    same = (last >= 0) & (key == key[last])
    made = np.flatnonzero(kind == _MADE)
    place = np.full(len(kind), -1, np.int64)
    place[made] = np.arange(len(made))
    life = np.where(same, place[order[last]], -1)
    ends = {}
    for one in (_ENQUEUED, _FINISHED, _FAILED, _WAIT):
        rows = np.flatnonzero((kind[order] == one) & (life >= 0))
        lives, first = np.unique(life[rows], return_index=True)
        ends[one] = np.full(len(made), -1, np.int64)
        ends[one][lives] = order[rows[first]]
    return made, ends


def _next_wait_for_all(kind: Ints, process: Ints, time: Ints, made: Ints) -> Ints:
    """Time at which each collective's process next waits for all gradients, (M,) int64; -1 if it does not."""
    rows = np.flatnonzero(kind == _WAIT_FOR_ALL)
    if not len(rows):
        return np.full(len(made), -1, np.int64)
    order = rows[np.lexsort((time[rows], process[rows]))]
    span = int(time.max()) + 1
    at = np.searchsorted(process[order] * span + time[order], process[made] * span + time[made])
    there = np.minimum(at, len(order) - 1)
    same = (at < len(order)) & (process[order[there]] == process[made])
    return np.where(same, time[order[there]], -1)


def _groups(
    rows: pd.DataFrame, kind: Ints, process: Ints, time: Ints, *, made: Ints, enqueued: Ints
) -> tuple[NDArray[np.object_], NDArray[np.bool_]]:
    """Name of each collective's group, '' if unknown; and whether the trace saw how the group was made."""
    address = integers(rows, torch.GROUP)
    known = _named_groups(rows, kind, process, time, address)
    calls = pd.DataFrame(
        {"process": process[made], "address": np.where(enqueued >= 0, address[enqueued], 0), "time": time[made]}
    )
    found = pd.merge_asof(calls, known, on="time", by=["process", "address"])
    names = found["name"].fillna("").to_numpy(object, copy=True)
    named = names != ""
    unknown = calls.loc[~named & (calls["address"] != 0), ["process", "address"]]
    if not named.any() and not unknown.duplicated("process")[~unknown.duplicated()].any():
        names[(calls["address"] != 0).to_numpy()] = ONLY_GROUP
    return names, named


def _named_groups(rows: pd.DataFrame, kind: Ints, process: Ints, time: Ints, address: Ints) -> pd.DataFrame:
    """Groups that were made while the trace ran: `process`, `address`, `time`, `name`; by time."""
    empty = {"process": "int64", "address": "int64", "time": "int64", "name": "object"}
    if torch.GROUP_NAME not in rows:
        return pd.DataFrame(columns=list(empty)).astype(empty)
    thread = rows["tid"].to_numpy(np.int64)
    made, named = np.flatnonzero(kind == _GROUP_MADE), np.flatnonzero(kind == _GROUP_NAMED)
    groups = pd.DataFrame(
        {"process": process[made], "thread": thread[made], "address": address[made], "time": time[made]}
    )
    given = texts(rows.iloc[named], torch.GROUP_NAME).astype("str").to_numpy(object)
    names = pd.DataFrame({"process": process[named], "thread": thread[named], "time": time[named], "name": given})
    found = pd.merge_asof(groups, names, on="time", by=["process", "thread"], direction="forward").dropna()
    again = found.groupby(["process", "name"]).cumcount().to_numpy()
    found["name"] = [f"{name} (made again: {n})" if n else name for name, n in zip(found["name"], again, strict=True)]
    return found[list(empty)].astype(empty)

"""How late each rank is at each step or collective, and what it did instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import pandas as pd

from accel_magic.errors import ResultError
from accel_magic.subsystems.steps.causes import CPU, DRIVER, FAULT, Activity, Spans, accounts
from accel_magic.subsystems.steps.steps import RANK, numbers, processes, waited

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from accel_magic.subsystems.steps.coverage import Ints

By = Literal["step", "collective"]
LATE_NS: Final = 1_000_000

TABLE: Final = {
    "node": "category",
    "host": "category",
    "rank": "Int64",
    "pid": "int64",
    "matched": "int64",
    "late": "int64",
    "unknown": "int64",
    "mean_late_ns": "Float64",
    "p50_late_ns": "Float64",
    "max_late_ns": "Int64",
    "total_late_ns": "int64",
    "cause": "string",
    "cpu_ns": "Float64",
    "waiting_ns": "Float64",
    "driver_ns": "Float64",
    "fault_ns": "Float64",
}
"""Columns of the table of ranks."""
_OF_COLLECTIVES: Final = {"waited_for_late_ns": "Float64", "transfer_ns": "Float64"}


@dataclass(frozen=True)
class Clocks:
    """The clocks of the nodes, by name.

    Attributes:
        error_ns: Error of each; None: unknown.
        same: A value that nodes with the same clock share.

    """

    error_ns: Mapping[str, int | None]
    same: Mapping[str, object]


@dataclass(frozen=True)
class Matched:
    """How many steps or collectives could be compared.

    Attributes:
        by: What was compared.
        matched: Those of at least two ranks.
        complete: Those of all ranks.
        total: All that any rank has.
        ranks: Number of ranks.

    """

    by: By
    matched: int
    complete: int
    total: int
    ranks: int

    def __str__(self) -> str:
        """Say so in words."""
        what = f"{self.by}{'s' * (self.total != 1)}"
        return f"{self.matched:,} of {self.total:,} {what} matched ({self.complete:,} on all {self.ranks:,} ranks)"


@dataclass(frozen=True)
class Lateness:
    """How late each rank was.

    Attributes:
        matched: How many steps or collectives could be compared.
        rows: One row per rank and step or collective; see `by_step` and `by_collective`.
        table: One row per rank, the one with the most late time first: `TABLE`. `matched` counts steps or collectives,
            `late` those at least `late_ns` late, `unknown` those for which the clocks do not tell. `mean_late_ns`,
            `p50_late_ns` and `max_late_ns` are of all that are known (negative: ahead of the others), `total_late_ns`
            of the late ones. `cpu_ns`, `waiting_ns`, `driver_ns`, `fault_ns` are means over the late ones: how much
            more than the median of the other ranks (NA: not traced); `cause` is what increased the most, with the
            reason of a wait. By collective also `waited_for_late_ns` and `transfer_ns`, means over all that matched:
            waiting for the last rank, and the rest.
        late_ns: From when on a rank counts as late.
        notes: What limits the answer.

    """

    matched: Matched
    rows: pd.DataFrame
    table: pd.DataFrame
    late_ns: int
    notes: tuple[str, ...]


def by_step(
    steps: pd.DataFrame,
    collectives: pd.DataFrame | None = None,
    activity: Activity | None = None,
    *,
    threads: Mapping[tuple[str, int], int] | None = None,
    late_ns: int = LATE_NS,
) -> Lateness:
    """Compare the ranks' own times of each step: its length without the waits for collectives.

    A rank is late by its own time minus the median of the other ranks' own times of the same step. Steps are the same
    if they have the same number, and are the same repetition of it in their processes. Only lengths are compared, so
    clocks do not matter.

    Args:
        steps: `steps.STEPS`; `with_waiting` if collectives were traced.
        collectives: `collectives.COLLECTIVES`; None if they were not traced.
        activity: What else was traced, for `cause`.
        threads: Numbers of threads in `activity`, by node and tid.
        late_ns: From when on a rank counts as late.

    Returns:
        `rows` has the columns of `steps` that are known, with `late_ns` (Int64; NA if no other rank has the step) and
        `ranks`, the number of ranks that have it.

    Raises:
        ResultError: No step can be compared.

    """
    ranks = steps.groupby(["node", "pid"], observed=True).ngroups
    rows = steps[steps["own_ns"].notna()].reset_index(drop=True)
    keys = numbers(rows, ["step", "repeat"])
    total = int(numbers(steps, ["step", "repeat"]).max()) + 1
    own = rows["own_ns"].to_numpy(np.int64)
    others, count = median_of_others(keys, own)
    rows = rows.assign(late_ns=pd.arrays.IntegerArray(own - others, count < 2), ranks=count)
    matched = _matched("step", keys, count, ranks, total)
    start = rows["time_ns"].to_numpy(np.int64)
    end = start + rows["duration_ns"].to_numpy(np.int64)
    notes = () if collectives is not None else (
        "collectives were not traced: if ranks wait for each other in a step, all look as late as the latest one",
    )  # fmt: skip
    causes = _causes(rows, keys, (start, end), collectives, activity=activity, threads=threads)
    table = _table(rows, np.zeros(len(rows), np.bool_), causes, late_ns)
    return Lateness(matched, rows, table, late_ns, (*notes, *_not_traced(activity)))


def by_collective(
    collectives: pd.DataFrame,
    clocks: Clocks,
    activity: Activity | None = None,
    *,
    threads: Mapping[tuple[str, int], int] | None = None,
    late_ns: int = LATE_NS,
) -> Lateness:
    """Compare when ranks call each collective.

    A rank is late by the time of its call minus the median of the other ranks' times. Calls are of the same collective
    if they have the same group and number, and the same operation. Lateness within the error of the clocks is unknown:
    the rank's error and the largest one of the others, unless all have the same clock.

    Args:
        collectives: `collectives.COLLECTIVES`.
        clocks: The clocks of the nodes.
        activity: What else was traced, for `cause`: what a rank did since its previous collective was complete.
        threads: Numbers of threads in `activity`, by node and tid.
        late_ns: From when on a rank counts as late.

    Returns:
        `rows` has the columns of `collectives`, with `late_ns` (Int64; NA if no other rank has it, or unknown),
        `error_ns` (Float64, infinite if unknown), `waited_for_late_ns` (from the call to the last rank's),
        `transfer_ns` (from there to the end; both Int64, of those that matched) and `ranks`.

    Raises:
        ResultError: No collective can be compared.

    """
    ranks = collectives.groupby(["node", "pid"], observed=True).ngroups
    numbered = collectives[collectives["number"].notna()].reset_index(drop=True)
    keys = numbers(numbered, ["group", "number"])
    # The same place in a group with different operations: the ranks' orders differ, so nothing is known of it.
    operations = np.asarray(numbered["operation"].cat.codes, np.int64)
    agree = _lowest(keys, operations) == -_lowest(keys, -operations)
    total = (int(keys.max()) + 1 if len(keys) else 0) + len(collectives) - len(numbered)
    rows, keys = numbered[agree].reset_index(drop=True), keys[agree]
    time = rows["time_ns"].to_numpy(np.int64)
    others, count = median_of_others(keys, time)
    matched = _matched("collective", keys, count, ranks, total)
    error = _errors(rows, keys, clocks)
    late = time - others
    unknown = (count >= 2) & (np.abs(late) < error)
    end = rows["end_ns"].fillna(0).to_numpy(np.int64)
    last = -_lowest(keys, -time)
    complete = rows["end_ns"].notna().to_numpy() & (count >= 2)
    rows = rows.assign(
        late_ns=pd.arrays.IntegerArray(late, (count < 2) | unknown),
        error_ns=pd.array(error, "Float64"),
        waited_for_late_ns=pd.arrays.IntegerArray(last - time, count < 2),
        transfer_ns=pd.arrays.IntegerArray(np.maximum(end - last, 0), ~complete),
        ranks=count,
    )
    notes = []
    if len(numbered) < len(collectives):
        notes.append(
            f"{len(collectives) - len(numbered):,} calls belong to groups that were made before the trace began"
        )
    if not agree.all():
        notes.append(f"{int((~agree).sum()):,} calls have another operation at their place than other ranks")
    causes = _causes(rows, keys, (_free_since(rows), time), collectives, activity=activity, threads=threads)
    table = _table(rows, unknown, causes, late_ns)
    means = rows.groupby(["node", "pid"], observed=True)[list(_OF_COLLECTIVES)].mean()
    table = table.join(means, on=["node", "pid"]).astype(_OF_COLLECTIVES)
    return Lateness(matched, rows, table, late_ns, (*notes, *_not_traced(activity)))


def median_of_others(keys: Ints, values: Ints) -> tuple[Ints, Ints]:
    """Median of the values of each row's key without the row itself.

    Args:
        keys: (N,) dense.
        values: (N,).

    Returns:
        (N,) medians, the mean of the middle two rounded down; 0 where there is no other row; and (N,) rows of the key.

    """
    order = np.lexsort((values, keys))
    sizes = np.bincount(keys)
    starts = np.cumsum(sizes) - sizes
    size, start = sizes[keys[order]], starts[keys[order]]
    place = np.arange(len(order)) - start
    ordered: Ints = values[order]

    def other(at: Ints) -> Ints:
        """The value at a place among the others, in order."""
        found: Ints = ordered[np.minimum(start + at + (at >= place), len(ordered) - 1)]
        return found

    left = np.maximum(size - 1, 1)
    low, high = other((left - 1) // 2), other(left // 2)
    median = np.where(size > 1, low + (high - low) // 2, 0)
    result, count = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    result[order], count[order] = median, size
    return result, count


def _lowest(keys: Ints, values: Ints) -> Ints:
    """Smallest value of each row's key."""
    lowest = np.full(int(keys.max()) + 1 if len(keys) else 0, np.iinfo(np.int64).max)
    np.minimum.at(lowest, keys, values)
    found: Ints = lowest[keys]
    return found


def _matched(by: By, keys: Ints, count: Ints, ranks: int, total: int) -> Matched:
    compared = len(np.unique(keys[count >= 2]))
    if not compared:
        raise ResultError(
            f"no {by} of two ranks matches",
            why=f"{total:,} {by}s of {ranks:,} rank{'s' * (ranks != 1)} were recorded, and no two have the same number",
            fix="mark the same steps in all ranks: accel_magic.step(number)"
            if by == "step"
            else "start the trace before torch.distributed.init_process_group, with the probes torch",
            code="stragglers.no-match",
        )
    return Matched(by, compared, len(np.unique(keys[count >= ranks])), total, ranks)


def _errors(rows: pd.DataFrame, keys: Ints, clocks: Clocks) -> NDArray[np.float64]:
    """By how much each row's time may be off, relative to those of the others; infinite if unknown."""
    names = rows["node"].cat.categories
    known = [clocks.error_ns.get(name) for name in names]
    table = np.array([np.inf if error is None else error for error in known], np.float64)
    identical = {value: at for at, value in enumerate(dict.fromkeys(clocks.same.get(name) for name in names))}
    clock = np.array([identical[clocks.same.get(name)] for name in names], np.int64)
    codes = rows["node"].cat.codes.to_numpy()
    own, mine = table[codes], clock[codes]
    largest = np.zeros(int(keys.max()) + 1)
    np.maximum.at(largest, keys, own)
    shared = _lowest(keys, mine) == -_lowest(keys, -mine)
    return np.where(shared, 0.0, own + largest[keys])


def _free_since(rows: pd.DataFrame) -> Ints:
    """End of the previous collective of each row's process, but not after its call; of the first, its call."""
    process, time = processes(rows), rows["time_ns"].to_numpy(np.int64)
    end = rows["end_ns"].fillna(rows["time_ns"]).to_numpy(np.int64)
    order = np.lexsort((time, process))
    since = time[order].copy()
    same = process[order][1:] == process[order][:-1]
    since[1:][same] = np.minimum(end[order][:-1][same], since[1:][same])
    result = np.empty_like(since)
    result[order] = since
    return result


def _causes(
    rows: pd.DataFrame,
    keys: Ints,
    own: tuple[Ints, Ints],
    collectives: pd.DataFrame | None,
    *,
    activity: Activity | None,
    threads: Mapping[tuple[str, int], int] | None,
) -> dict[str, Ints]:
    """By how much each row's time by cause is more than the median of the other rows with its key, (N,) ns each."""
    if activity is None:
        return {}
    known = threads or {}
    names = rows["node"].astype("str").tolist()
    thread = np.array([known.get(pair, -1) for pair in zip(names, rows["tid"].tolist(), strict=True)], np.int64)
    spans = Spans(np.where(thread < 0, len(known), thread), *own)
    found = accounts(spans, _apart(rows, spans.thread, collectives), activity)
    return {name: values - median_of_others(keys, values)[0] for name, values in found.items()}


def _apart(rows: pd.DataFrame, thread: Ints, collectives: pd.DataFrame | None) -> Spans:
    """Waits for collectives, as spans of all threads of their processes that have rows."""
    none = np.zeros(0, np.int64)
    if collectives is None:
        return Spans(none, none, none)
    pairs = rows[["node", "pid"]].astype({"node": "str"}).assign(thread=thread).drop_duplicates()
    start, end = waited(collectives)
    own = pd.DataFrame(
        {"node": collectives["node"].astype("str"), "pid": collectives["pid"], "start": start, "end": end}
    )
    joined = own.merge(pairs, on=["node", "pid"])
    return Spans(*(joined[name].to_numpy(np.int64) for name in ("thread", "start", "end")))


def _table(rows: pd.DataFrame, unknown: NDArray[np.bool_], causes: Mapping[str, Ints], late_ns: int) -> pd.DataFrame:
    value = rows["late_ns"].astype("Float64")
    is_late = (rows["late_ns"] >= late_ns).fillna(value=False).to_numpy(np.bool_)
    own = rows[list(RANK)].assign(
        matched=rows["ranks"].to_numpy() >= 2,
        late=is_late,
        unknown=unknown,
        value=value,
        lateness=np.where(is_late, rows["late_ns"].fillna(0).to_numpy(np.int64), 0),
    )
    grouped = own.groupby(["node", "pid"], observed=True, sort=True)
    table = grouped.agg(
        host=("host", "first"),
        rank=("rank", "first"),
        matched=("matched", "sum"),
        late=("late", "sum"),
        unknown=("unknown", "sum"),
        mean_late_ns=("value", "mean"),
        p50_late_ns=("value", "median"),
        max_late_ns=("value", "max"),
        total_late_ns=("lateness", "sum"),
    ).reset_index()
    means = own.assign(**causes)[is_late].groupby(["node", "pid"], observed=True)[list(causes)].mean()
    found = [_cause(dict(zip(causes, row, strict=True))) for row in means.to_numpy(np.float64).tolist()]
    missing = dict.fromkeys(("cause", "cpu_ns", "waiting_ns", "driver_ns", "fault_ns"))
    by_rank = pd.DataFrame([{**missing, **row} for row in found], index=means.index, columns=list(missing))
    table = table.join(by_rank, on=["node", "pid"])
    # Ranks that are never late have no time that they spent instead.
    table = table.astype({name: kind for name, kind in TABLE.items() if name not in {"node", "host"}})
    table = table.sort_values(["total_late_ns", "mean_late_ns"], ascending=False, kind="stable", ignore_index=True)
    return table[list(TABLE)]


def _cause(means: Mapping[str, float]) -> dict[str, Any]:
    """Columns of one rank, from the mean increase of each cause."""
    waits = {name: value for name, value in means.items() if name not in {CPU, DRIVER, FAULT}}
    # Without waits, neither they nor the CPU are known, and what is known may not be the cause.
    largest = max(means, key=lambda name: means[name]) if CPU in means else None
    return {
        "cause": largest if largest is not None and means[largest] > 0 else None,
        "cpu_ns": means.get(CPU),
        "waiting_ns": sum(waits.values()) if CPU in means else None,
        "driver_ns": means.get(DRIVER),
        "fault_ns": means.get(FAULT),
    }


def _not_traced(activity: Activity | None) -> Sequence[str]:
    if activity is not None and activity.waits is not None:
        return ()
    return ("waits were not traced, so causes are unknown: add the probe offcpu",)

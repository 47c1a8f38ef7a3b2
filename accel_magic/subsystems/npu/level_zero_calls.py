"""Where the time of a program's calls goes, and whether they did what the API map says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from accel_magic.analysis.thread_events import signed32
from accel_magic.npu_interface import level_zero
from accel_magic.subsystems.npu.contexts import NONE
from accel_magic.subsystems.npu.families import API, FENCE, IOCTL, IPC, LAYERS
from accel_magic.subsystems.npu.layers import ENDS_WAIT, RECEIVE, STARTS_WAIT, WAIT, layers
from accel_magic.subsystems.npu.objects import SUBMITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from accel_magic.analysis.driver_trace import DriverTrace

ENTRIES: Final = ("ivpu_open", "ivpu_postclose")
"""Entries to the driver that are not ioctls and have their own function."""
NOT_READY: Final = 1  # ze_result_t: "not ready" is not a failure
EXTRA, MISSING = "not expected", "missing"


def api_summary(trace: DriverTrace, steps: pd.DataFrame | None = None) -> pd.DataFrame:
    """Sum up the calls that a program made: Level Zero calls, and ioctls made without Level Zero.

    Args:
        trace: A trace with times.
        steps: Its steps (`layers`); computed if not given.

    Returns:
        One row per call, most time first; index `call`. `layer` category; `calls`, `failed` int64; `total_ns`,
        `p50_ns`, `p99_ns` float64 of its duration, and the parts of the total: `user_ns` in the program and its
        libraries, `ioctl_ns` in the driver (including opening and closing the device), `device_ns` waiting there for
        the device (a job's end, a reply of the firmware). A wait without further details counts as a whole. `ioctls`,
        `jobs` int64: number below the call. What is below a nested call counts for both.

    """
    if steps is None:
        steps = layers(trace)
    layer = _layers(steps)
    duration = np.nan_to_num(steps["duration_ns"].to_numpy(np.float64))
    entries = (layer == IOCTL) | _named(steps, *ENTRIES)
    parts = pd.DataFrame({"ioctl_ns": np.where(entries, duration, 0.0)}, index=steps.index)
    parts["device_ns"] = _waiting(trace, steps, layer, duration)
    parts["ioctls"] = (layer == IOCTL).astype(np.int64)
    parts["jobs"] = _submissions(steps, layer)
    inside = steps["inside"].to_numpy()
    totals = _summed_outwards(parts, inside)
    own = (layer == API) | ((layer == IOCTL) & (_around(inside, layer, np.arange(len(steps)), API) == NONE))
    calls = totals[own].assign(total_ns=duration[own], failed=_failed(trace, steps[own]))
    calls["ioctl_ns"] -= calls["device_ns"]
    calls["user_ns"] = np.where(layer[own] == API, calls["total_ns"] - calls["ioctl_ns"] - calls["device_ns"], 0.0)
    calls["call"], calls["layer"] = steps["name"][own].astype("str"), layer[own]
    grouped: Any = calls.groupby("call")
    table: pd.DataFrame = grouped[["failed", "total_ns", "user_ns", "ioctl_ns", "device_ns", "ioctls", "jobs"]].sum()
    codes: Any = pd.Categorical.from_codes(grouped["layer"].first(), categories=pd.Index(LAYERS))
    table.insert(0, "layer", codes)
    table.insert(1, "calls", grouped.size())
    table.insert(4, "p50_ns", grouped["total_ns"].quantile(0.5))
    table.insert(5, "p99_ns", grouped["total_ns"].quantile(0.99))
    return table.sort_values("total_ns", ascending=False, kind="stable")


def unexpected(trace: DriverTrace, steps: pd.DataFrame | None = None) -> pd.DataFrame:
    """Compare what happened below each call with the map of Level Zero (`npu_interface.level_zero`).

    Args:
        trace: A trace with times.
        steps: Its steps (`layers`); computed if not given.

    Returns:
        One row per difference; none if everything matches the map. `call` and `below` str; `kind`: "not expected"
        (occurred `seen` times, but is not in the map) or "missing" (`seen` of the calls did not have it, although it
        was traced and they succeeded; not reported if events were lost); `calls` int64: number of calls checked.

    """
    if steps is None:
        steps = layers(trace)
    found = [*_extra(steps)]
    if not trace.lost:
        found += _missing(trace, steps)
    return pd.DataFrame(found, columns=["call", "below", "kind", "seen", "calls"])


def _extra(steps: pd.DataFrame) -> Iterator[tuple[str, str, str, int, int]]:
    layer, inside = _layers(steps), steps["inside"].to_numpy(np.intp)
    entries = np.flatnonzero(_named(steps, *level_zero.HANDLERS))
    around = _around(inside, layer, entries, API)
    below = pd.DataFrame(
        {
            "call": steps["name"].iloc[around[around >= 0]].astype("str").to_numpy(),
            "handler": steps["name"].iloc[entries[around >= 0]].astype("str").to_numpy(),
        }
    )
    counted: dict[Any, int] = below.value_counts(sort=False).to_dict()
    for (call, handler), seen in counted.items():
        known = level_zero.BY_NAME.get(call)
        if known is not None and level_zero.HANDLERS[handler] not in known.ever:
            calls = int((_named(steps, call) & (layer == API)).sum())
            yield call, handler, EXTRA, int(seen), calls


def _missing(trace: DriverTrace, steps: pd.DataFrame) -> Iterator[tuple[str, str, str, int, int]]:
    layer, inside = _layers(steps), steps["inside"].to_numpy(np.intp)
    managed = trace.saw("ivpu_cmdq_submit_ioctl")
    expected = {
        (API, call.name): [level_zero.ENTRIES[entry].handler for entry in call.always(managed=managed)]
        for call in level_zero.CALLS
    } | {(IOCTL, entry.handler): list(entry.below) for entry in level_zero.ENTRIES.values()}
    present = set(steps["name"].cat.categories)
    for (kind, call), below in expected.items():
        traced = [function for function in below if trace.saw(function)]
        if call not in present or not traced:
            continue
        callers = np.flatnonzero(_named(steps, call) & (layer == kind))
        callers = callers[~_failed(trace, steps.iloc[callers])]
        for function in traced if len(callers) else ():
            did = _around(inside, layer, np.flatnonzero(_named(steps, function)), kind)
            without = int((~np.isin(callers, did)).sum())
            if without:
                yield call, function, MISSING, without, len(callers)


def _layers(steps: pd.DataFrame) -> NDArray[np.int8]:
    """(steps,) int8: layer code of each step."""
    return np.asarray(steps["layer"].cat.codes, np.int8)


def _named(steps: pd.DataFrame, *names: str) -> NDArray[np.bool_]:
    """(steps,) bool: steps with these names."""
    requested = np.append(steps["name"].cat.categories.isin(names), False)
    chosen: NDArray[np.bool_] = requested[steps["name"].cat.codes.to_numpy()]
    return chosen


def _around(inside: NDArray[np.intp], layer: NDArray[np.int8], steps: NDArray[np.intp], to: int) -> NDArray[np.intp]:
    """(steps,) innermost enclosing step of layer `to`, -1 if none."""
    found = inside[steps]
    while len(wrong := np.flatnonzero((found >= 0) & (layer[found] != to))):
        found[wrong] = inside[found[wrong]]
    return found


def _waiting(
    trace: DriverTrace, steps: pd.DataFrame, layer: NDArray[np.int8], duration: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(steps,) float64 ns: what each step adds to the time that an ioctl waits for the device."""
    start, inside = steps["start_ns"].to_numpy(np.int64), steps["inside"].to_numpy(np.intp)
    waited = np.where((layer == IPC) & _named(steps, RECEIVE), duration, 0.0)
    # A wait begins and ends in one ioctl, and waits do not overlap.
    for edge, sign in ((STARTS_WAIT, -1.0), (ENDS_WAIT, 1.0)):
        rows = np.flatnonzero((layer == FENCE) & _named(steps, edge) & (inside >= 0))
        waited[rows] = sign * start[rows]
    if not trace.saw(STARTS_WAIT):
        whole = _named(steps, WAIT)
        waited[whole] = duration[whole]
    return waited


def _submissions(steps: pd.DataFrame, layer: NDArray[np.int8]) -> NDArray[np.int64]:
    submissions: NDArray[np.int64] = (_named(steps, *SUBMITS) & (layer == IOCTL)).astype(np.int64)
    return submissions


def _summed_outwards(parts: pd.DataFrame, inside: NDArray[np.intp]) -> pd.DataFrame:
    """Add each step's values to everything that encloses it."""
    totals = parts.to_numpy(np.float64)
    sums = totals.copy()
    rows = np.flatnonzero(totals.any(axis=1))
    outer = inside[rows]
    while len(rows := rows[outer >= 0]):
        outer = outer[outer >= 0]
        np.add.at(sums, outer, totals[rows])
        outer = inside[outer]
    return pd.DataFrame(sums, index=parts.index, columns=parts.columns).astype({"ioctls": np.int64, "jobs": np.int64})


def _failed(trace: DriverTrace, steps: pd.DataFrame) -> NDArray[np.bool_]:
    """(steps,) bool: calls that returned an error."""
    result = signed32(trace.column("retval", steps["row"].to_numpy(np.intp), np.int64))
    known = trace.events["retval"].notna().to_numpy(np.bool_)[steps["row"]] if "retval" in trace.events else False
    api = steps["layer"].cat.codes.to_numpy() == API
    failed: NDArray[np.bool_] = known & np.where(api, (result != 0) & (result != NOT_READY), result < 0)
    return failed

"""Which call of the driver made which launch that an adapter has seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Times = NDArray[np.int64]

_MATCHED: Final = ("pid", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
_NAME_BYTES: Final = 63
"""Of a name that the kernel engine reads."""


def matched(api: pd.DataFrame, launches: pd.DataFrame, *, complete: bool) -> pd.DataFrame:
    """Fill `launch`, and the kernel's full name, of the calls that made a launch.

    Process, shape and, where both are known, the kernel's name have to be the same. Then the call lies between the
    adapter's two time stamps; or, where the adapter notes launches as the device begins them, they are in the order of
    the calls: whichever joins more. Each call makes one launch.

    Args:
        api: Columns as in `recording.API`, times on the same base as those of the launches.
        launches: Columns as in `recording.LAUNCHES`.
        complete: Whether all calls are there; if not, their order says nothing.

    Returns:
        A copy.

    """
    calls = api[(api["kind"] == "launch") & api["grid_x"].notna() & (api["result"] == "CUDA_SUCCESS")]
    if not len(calls) or not len(launches):
        return api
    asked, made = (frame[list(_MATCHED)].to_numpy(np.int64) for frame in (launches, calls))
    _, number = np.unique(np.vstack([asked, made]), axis=0, return_inverse=True)
    of_launch, of_call = np.split(number.reshape(-1), [len(asked)])
    start = launches["time_ns"].to_numpy(np.int64)
    end = start + launches["host_ns"].to_numpy(np.int64)
    when = calls["time_ns"].to_numpy(np.int64)
    names, known = launches["name"].str[:_NAME_BYTES].to_numpy(), calls["kernel"].to_numpy()
    launch = np.full(len(calls), -1)

    for shape in np.unique(of_call):
        rows, columns = np.flatnonzero(of_launch == shape), np.flatnonzero(of_call == shape)
        rows = rows[np.argsort(start[rows], kind="stable")]
        for name in pd.unique(known[columns]):
            own = rows[(names[rows] == name) | (name == "")]
            same = columns[known[columns] == name]
            taken = _around(start[own], end[own], when[same])
            if complete and name:
                # A kernel that runs for long lies around calls that came after its own.
                taken = max(taken, _in_order(start[own], when[same]), key=lambda found: int((found >= 0).sum()))
            launch[same[taken >= 0]] = own[taken[taken >= 0]]
    found = pd.Series(pd.NA, index=api.index, dtype="Int64")
    found.loc[calls.index[launch >= 0]] = launch[launch >= 0]
    full = found.map(launches["name"]).astype("object")
    return api.assign(launch=found, kernel=full.where(found.notna(), api["kernel"]).astype(api["kernel"].dtype))


def _around(start: Times, end: Times, when: Times) -> Times:
    """(calls,) place of the launch whose stretch each call, in order of time, is the first one left in; -1 for none."""
    found = np.full(len(when), -1)
    free = 0
    for place, first in enumerate(np.searchsorted(when, start)):
        free = max(free, int(first))
        if free < len(when) and when[free] <= end[place]:
            found[free] = place
            free += 1
    return found


def _in_order(start: Times, when: Times) -> Times:
    """(calls,) place of the launch of each call, where each launch begins after its call; -1 from where that fails."""
    count = min(len(start), len(when))
    follows = np.logical_and.accumulate(start[:count] >= when[:count])
    return np.append(np.where(follows, np.arange(count), -1), np.full(len(when) - count, -1))

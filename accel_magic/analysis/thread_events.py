"""Which call of a thread contains an event, and which request a reply belongs to.

Rows are indices into `DriverTrace.events`, which is ordered by time. Both searches sort and never loop over events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.analysis.driver_trace import DriverTrace

    Rows = NDArray[np.intp]

NONE = -1
INT_BITS = 0xFFFFFFFF
SIGN_BIT = 0x80000000


def latest(trace: DriverTrace, calls: Rows, moments: Rows) -> Rows:
    """Find each moment's newest earlier call on the same thread.

    Args:
        trace: The trace.
        calls: (calls,) rows of the calls, ascending.
        moments: (moments,) rows of the moments.

    Returns:
        (moments,) index into `calls` of the newest that the moment's thread entered before it; -1 if there is none, and
        everywhere if the trace has no times, because a list of calls does not distinguish threads.

    """
    found = np.full(len(moments), NONE, np.intp)
    if not len(calls) or not len(moments) or not trace.timed:
        return found
    tid, pid = (trace.events[name].to_numpy() for name in ("tid", "pid"))
    rows = np.concatenate([moments, calls])
    number = np.concatenate([np.full(len(moments), NONE), np.arange(len(calls))])
    order = np.argsort(rows, kind="stable")  # a moment that is a call's own entry comes before that call
    thread = pd.factorize(tid[rows])[0]
    small = thread.astype(np.uint16) if thread.max() < np.iinfo(np.uint16).max else thread
    order = order[np.argsort(small[order], kind="stable")]
    place = np.where(number[order] >= 0, np.arange(len(order)), 0)
    newest = order[np.maximum.accumulate(place)]
    of_row = np.empty(len(rows), np.intp)
    of_row[order] = number[newest]
    found = of_row[: len(moments)]
    call = calls[found]
    same = (found >= 0) & (tid[call] == tid[moments]) & (pid[call] == pid[moments])
    return np.where(same, found, NONE)


def inside(trace: DriverTrace, calls: Rows, moments: Rows) -> Rows:
    """Find the call that contains each moment. Calls of one thread must not be nested.

    Args and result are those of `latest`. A call of unknown duration is assumed to last until the thread's next.
    """
    found = latest(trace, calls, moments)
    ends = end_ns(trace, calls)
    time = trace.events["time_ns"].to_numpy()
    over = np.zeros(len(found), np.bool_) if not len(calls) else time[moments] > ends[found]
    return np.where(over, NONE, found)


def end_ns(trace: DriverTrace, rows: Rows) -> NDArray[np.float64]:
    """(rows,) float64 ns: when these calls returned; infinite if their duration is unknown."""
    duration = trace.column("duration_ns", rows)
    start = trace.events["time_ns"].to_numpy()[rows]
    return np.where(np.isnan(duration), np.inf, start + duration)


def answers(
    asked_id: NDArray[Any], asked_at: NDArray[Any], answer_id: NDArray[Any], answer_at: NDArray[Any]
) -> tuple[Rows, Rows]:
    """Pair requests with replies that carry the same id; ids may be reused.

    Args:
        asked_id: (requests,) integer ids.
        asked_at: (requests,) times, in any common unit.
        answer_id: (answers,) integer ids.
        answer_at: (answers,) times.

    Returns:
        (requests,) index of the first answer after each request and before the next request with its id, -1 if none;
        (answers,) index of the newest request before each answer, -1 if none: several answers may have the same.

    """
    requested, given = len(asked_id), len(answer_id)
    ids = np.concatenate([asked_id, answer_id])
    at = np.concatenate([asked_at, answer_at])
    is_answer = np.repeat([False, True], [requested, given])
    order = np.lexsort((is_answer, at, ids))
    ids, is_answer = ids[order], is_answer[order]
    number = np.where(order < requested, order, order - requested)
    places = np.arange(len(order))
    newest = np.maximum.accumulate(np.where(is_answer, NONE, places)) if len(order) else places
    known = is_answer & (newest >= 0)
    known &= ids == ids[newest]
    to_request, to_answer = np.full(given, NONE, np.intp), np.full(requested, NONE, np.intp)
    to_request[number[known]] = number[newest[known]]
    first = known & (newest == places - 1)
    to_answer[number[newest[first]]] = number[first]
    return to_answer, to_request


def newest_before(key: NDArray[Any], at: NDArray[Any], asked_key: NDArray[Any], asked_at: NDArray[Any]) -> Rows:
    """(asked,) index of the newest item with the asked key at or before the asked time, -1 if none."""
    return answers(key, at, asked_key, asked_at)[1]


def pick(values: Rows, places: Rows) -> Rows:
    """(places,) the values at these indices; -1 where the index is -1."""
    return np.where(places >= 0, np.append(values, NONE)[places], NONE)


def signed32(register: NDArray[np.int64]) -> NDArray[np.int64]:
    """(n,) return values of functions that return `int`: the upper half of the register is not part of them."""
    low = register & INT_BITS
    return low - ((low & SIGN_BIT) << 1)


def nullable(values: NDArray[Any], known: NDArray[np.bool_] | bool, dtype: str = "Int64") -> pd.arrays.IntegerArray:
    """Integers with NA where unknown."""
    numbers = np.asarray(values)
    missing = ~np.broadcast_to(known, numbers.shape)
    plain = np.where(missing, 0, numbers).astype(dtype.lower())
    return pd.arrays.IntegerArray(plain, missing.copy())


def known_at(trace: DriverTrace, name: str, rows: Rows) -> NDArray[np.bool_]:
    """(rows,) bool: whether these events have a value in this column."""
    if name not in trace.events:
        return np.zeros(len(rows), np.bool_)
    return trace.events[name].iloc[rows].notna().to_numpy()


def captured(trace: DriverTrace, name: str, rows: Rows, dtype: str = "Int64") -> pd.arrays.IntegerArray:
    """(rows,) values of a column as nullable integers; NA if it is missing or the row is -1."""
    if name not in trace.events or not len(trace.events):
        return nullable(np.zeros(len(rows)), known=False, dtype=dtype)
    here = trace.events[name].iloc[rows]
    return nullable(here.to_numpy(dtype.lower(), na_value=0), (rows >= 0) & here.notna().to_numpy(), dtype)

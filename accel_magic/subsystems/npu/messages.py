"""Messages between driver and firmware: when each was sent, by whom, and its reply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.analysis.thread_events import NONE, captured, newest_before, nullable
from accel_magic.npu_interface.firmware_messages import JOB_DONE, NAMES, REPLIES, SENDERS
from accel_magic.subsystems.npu.contexts import interrupts
from accel_magic.subsystems.npu.polls import newest, polls, reads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.analysis.driver_trace import DriverTrace

    Rows = NDArray[np.intp]
    Numbers = NDArray[np.int64]


BOOT: Final = "BOOT"
"""The firmware's first message: it has booted. This message is not one of the interface's types and has no number."""


def name_of(number: int) -> str:
    """Name of a type; its number if unknown."""
    return NAMES.get(number, f"0x{number:04x}")


TO, FROM = "to NPU", "from NPU"

OF_FIRMWARE: Final = 0x2000
"""Types from here on are the firmware's; smaller ones are the driver's."""

HAND_OVER: Final = "ivpu_hw_ip_ipc_tx_set"
"""Puts a message into the device's queue."""
TAKE: Final = "ivpu_hw_ip_ipc_rx_addr_get"
"""Takes a message out of the queue of received messages."""
LOOK: Final = "ivpu_hw_ip_ipc_rx_count_get"
"""Checks whether there is one, before the first and after each."""
SEEN: Final = "ivpu_jsm_msg_dump"
"""Called with each message of the interface, when it is sent and right after it was taken."""
ASKS: Final = ("ivpu_ipc_send", "ivpu_ipc_send_receive_internal")
"""Called with each outgoing request; compilers inline one or the other."""
RECEIVE: Final = "ivpu_ipc_receive"
ANSWERED: Final = "ivpu_ipc_consumer_del"
"""Ends the wait for a reply, with or without one."""
JOB_CALLBACK: Final = "ivpu_job_done_callback"

_REPLIES: Final = np.array(sorted(set(REPLIES.values())))


@dataclass(frozen=True)
class _Content:
    """Contents of messages; each array has one element per message.

    Attributes:
        kind: Type, -1 if unknown.
        request: Number of the request, -1 if unknown.
        asker: Row of a call of the requesting thread, -1 if unknown.

    """

    kind: Numbers
    request: Numbers
    asker: Rows


def messages(trace: DriverTrace, loops: pd.DataFrame | None = None) -> pd.DataFrame:
    """List the messages to and from the firmware, in order of time.

    Args:
        trace: The trace.
        loops: Its polling loops, if already known.

    Returns:
        One row per message. `time_ns` (Int64, NA without times), `direction` ("to NPU", "from NPU"), `msg_type` (Int64,
        NA if unknown, and for the firmware's first message, which has none), `name` ("BOOT" for that one; NA if
        unknown), `request_id` (Int64; replies carry their request's; NA if not captured), `pid` and `tid` (Int64) of
        the requesting thread, also for replies; NA for unsolicited messages and without times; `in_poll`: taken by a
        loop that polled for it; `first_row` (int64).

    """
    sent, passed = _sent(trace)
    taken, seen = _taken(trace)
    first = (seen == NONE) & _by_thread(trace, taken)
    requested = _requests(trace, sent, passed)
    exception = _arrivals(trace, requested, taken, seen, first)
    boot = np.append(np.zeros(len(sent), np.bool_), first)
    rows = np.concatenate([sent, taken])
    kind = np.where(boot, NONE, np.concatenate([requested.kind, exception.kind]))
    request = np.where(boot, NONE, np.concatenate([requested.request, exception.request]))
    asker = np.where(boot, NONE, np.concatenate([requested.asker, exception.asker]))
    if not trace.timed:
        asker[:] = NONE
    table = pd.DataFrame(
        {
            "time_ns": nullable(trace.events["time_ns"].to_numpy()[rows], trace.timed),
            "direction": pd.Categorical([TO] * len(sent) + [FROM] * len(taken), [TO, FROM]),
            "msg_type": nullable(kind, kind >= 0),
            "name": _names(kind, boot),
            "request_id": nullable(request, request >= 0),
            "pid": captured(trace, "pid", asker),
            "tid": captured(trace, "tid", asker),
            "in_poll": np.isin(rows, _taken_by_loops(trace, polls(trace) if loops is None else loops, taken)),
            "first_row": rows.astype(np.int64),
        }
    )
    return table.sort_values("first_row", ignore_index=True)


def _sent(trace: DriverTrace) -> tuple[Rows, Rows]:
    """Rows of requests, in order, and (requests,) rows of the calls that captured their contents, -1 if none.

    A hit of either call can be missed; the other then provides the contents.
    """
    given, passed = trace.rows(HAND_OVER), trace.rows(SEEN, *ASKS)
    kind = trace.column("msg_type", passed, np.int64)
    passed = passed[(kind >= 0) & (kind < OF_FIRMWARE)]
    by = newest(trace, np.union1d(passed, given), given)
    by = np.where(np.isin(by, passed), by, NONE)
    alone = np.setdiff1d(passed[trace.mask(SEEN)[passed]], by)
    return _in_order(np.concatenate([given, alone]), np.concatenate([by, alone]))


def _taken(trace: DriverTrace) -> tuple[Rows, Rows]:
    """Rows of received messages, in order, and (messages,) rows of the calls that captured them, -1 if none.

    A message's contents are captured by what its CPU and thread do before they check for more.
    """
    given, seen = trace.rows(TAKE), trace.rows(SEEN)
    both = np.union1d(trace.rows(TAKE, LOOK), seen)
    cpu, tid = (trace.events[name].to_numpy()[both] for name in ("cpu", "tid"))
    order = np.argsort(cpu, kind="stable")
    after = both[order][1:]
    after = np.where((np.diff(cpu[order]) == 0) & (np.diff(tid[order]) == 0) & np.isin(after, seen), after, NONE)
    found = np.full(len(both), NONE, np.intp)
    found[order[:-1]] = after
    by = found[np.searchsorted(both, given)]
    alone = np.setdiff1d(seen[trace.column("msg_type", seen, np.int64) >= OF_FIRMWARE], by)
    return _in_order(np.concatenate([given, alone]), np.concatenate([by, alone]))


def _in_order(rows: Rows, by: Rows) -> tuple[Rows, Rows]:
    """Sort both by `rows`."""
    order = np.argsort(rows)
    return rows[order], by[order]


def _requests(trace: DriverTrace, sent: Rows, passed: Rows) -> _Content:
    """Contents of requests: as captured, else from the function that sent them."""
    askers = trace.rows(*SENDERS)
    # If several requests follow one such function, only the first is its own.
    function = np.append(trace.codes, NONE)[newest(trace, np.union1d(askers, sent), sent)]
    by_function = np.array([SENDERS.get(name, NONE) for name in trace.names] + [NONE])[function]
    kind = _at(trace, "msg_type", passed)
    return _Content(np.where(kind >= 0, kind, by_function), _at(trace, "request_id", passed), sent)


def _arrivals(trace: DriverTrace, requested: _Content, taken: Rows, seen: Rows, first: NDArray[np.bool_]) -> _Content:
    """Contents of received messages: as captured, else from how they were handled."""
    kind, request = _at(trace, "msg_type", seen), _at(trace, "request_id", seen)
    asker = _askers(requested, taken, np.where(np.isin(kind, _REPLIES), request, NONE))
    unknown = np.flatnonzero((kind < 0) & ~first)
    handled = _done_about(trace, requested, taken[~first])
    place = np.cumsum(~first) - 1
    kind[unknown], request[unknown], asker[unknown] = (
        values[place[unknown]] for values in (handled.kind, handled.request, handled.asker)
    )
    return _Content(kind, np.where(np.isin(kind, _REPLIES), request, NONE), asker)


def _askers(requested: _Content, taken: Rows, request: Numbers) -> Rows:
    """(taken,) row of the newest request with each reply's number, -1 if none."""
    found = newest_before(requested.request, requested.asker, request, taken)
    return np.where((request >= 0) & (found >= 0), np.append(requested.asker, NONE)[found], NONE)


def _at(trace: DriverTrace, name: str, rows: Rows) -> Numbers:
    """(rows,) values of a column, -1 if it is missing or the row is -1."""
    values = captured(trace, name, rows)
    return values.to_numpy(np.int64, na_value=NONE)


def _done_about(trace: DriverTrace, requested: _Content, taken: Rows) -> _Content:
    """Infer contents from what was done next, if exactly one thing was done before the next message arrived.

    A completed job is called back; a reply is received, in traces that captured that, else the wait for it ends.
    """
    ended, answers = _endings(trace, requested)
    callbacks = trace.rows(JOB_CALLBACK)
    at = np.concatenate([ended, callbacks])
    order = np.argsort(at, kind="stable")
    done = np.searchsorted(at[order], np.append(taken, len(trace.events)))
    each = np.diff(done)
    before = np.append(1, each)[: len(each)]
    which = np.append(order, NONE)[np.where((each == 1) & (before >= 1), done[:-1], len(order))]
    unasked = np.full(len(callbacks) + 1, NONE)
    return _Content(
        np.concatenate([answers.kind, np.full(len(callbacks), JOB_DONE), [NONE]])[which],
        np.concatenate([answers.request, unasked])[which],
        np.concatenate([answers.asker, unasked])[which],
    )


def _endings(trace: DriverTrace, requested: _Content) -> tuple[NDArray[np.float64], _Content]:
    """Positions of replies to requests, as the rows that follow them; and the replies."""
    receives = trace.rows(RECEIVE)
    kind = _at(trace, "msg_type", receives)
    if trace.timed and (kind >= 0).any():
        result, took = trace.column("retval", receives), trace.column("duration_ns", receives)
        answered = (result == 0) & (kind > 0) & ~np.isnan(took)
        rows = receives[answered]
        time = trace.events["time_ns"].to_numpy()
        ended = np.searchsorted(time, time[rows] + took[answered].astype(np.int64), side="right")
        return ended - 0.5, _Content(kind[answered], _at(trace, "request_id", rows), rows)
    ends = trace.rows(ANSWERED)
    by = newest(trace, np.union1d(ends, requested.asker), ends)
    waited = np.isin(by, requested.asker)
    ends, by = ends[waited], by[waited]
    request = requested.kind[np.searchsorted(requested.asker, by)]
    replies = np.asarray(pd.Series(request).map(REPLIES).fillna(NONE), np.int64)
    return ends.astype(np.float64), _Content(replies, np.full(len(ends), NONE, np.int64), by)


def _by_thread(trace: DriverTrace, taken: Rows) -> NDArray[np.bool_]:
    """(taken,) bool: may be the firmware's first message, which a thread polls for; others come with an interrupt."""
    if not trace.timed:
        return np.full(len(taken), trace.saw(SEEN))
    return np.asarray(interrupts(trace, trace.events["tid"].to_numpy())[taken] == NONE, np.bool_)


def _taken_by_loops(trace: DriverTrace, loops: pd.DataFrame, taken: Rows) -> Rows:
    """Rows of the messages that the last round of a polling loop took."""
    rows, groups, _ = reads(trace)
    of_row = np.full(len(trace.events) + 1, NONE, np.intp)
    of_row[rows] = groups
    last = of_row[loops["last_row"].to_numpy(np.intp) - 1]
    looked = of_row[newest(trace, np.sort(rows), taken)]
    return taken[(looked >= 0) & np.isin(looked, last)]


def _names(kind: Numbers, boot: NDArray[np.bool_]) -> pd.Series[str]:
    """(messages,) type names."""
    names = {number: name_of(number) for number in np.unique(kind).tolist() if number >= 0}
    return pd.Series(kind).map(names).astype("str").mask(boot, BOOT)

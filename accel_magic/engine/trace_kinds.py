"""Registry of the kinds of traces that run in this process."""

from __future__ import annotations

import threading
from typing import Final, Literal

from accel_magic import forks
from accel_magic.errors import TraceStateError

Kind = Literal["ktrace", "gputrace", "flame", "gpupolicy"]
"""Kind of a trace; one trace of each kind may run at a time."""

_MORE: Final[dict[Kind, str]] = {
    "ktrace": "put all probes on one %%ktrace line",
    "gputrace": "put all tools on one %%gputrace line",
    "flame": "remove the inner one: the outer one includes its samples",
    "gpupolicy": "attach one policy at a time",
}
"""Fixes for starting a second trace of a kind."""
_running: set[Kind] = set()
_claiming = threading.Lock()


def _forget_in_child() -> None:
    """In a forked child: no trace is running, whatever the parent is doing."""
    global _claiming  # noqa: PLW0603 - the lock's owner may not be in this process
    _claiming = threading.Lock()
    _running.clear()


forks.in_child(_forget_in_child)


def claim(kind: Kind) -> None:
    """Register this as the running trace of its kind. Raises TraceStateError if there is another one."""
    with _claiming:
        if kind in _running:
            raise already_running(kind)
        _running.add(kind)


def already_running(kind: Kind) -> TraceStateError:
    """Error for a second trace of a kind."""
    return TraceStateError(
        f"a %%{kind} trace is already running in this process",
        why="only one trace of each kind can run at a time; traces of different kinds can be nested",
        fix=f"{_MORE[kind]}, or run the inner trace in a separate cell",
        code="trace.already-running",
    )


def release(kind: Kind) -> None:
    """Allow the next trace of this kind to start."""
    with _claiming:
        _running.discard(kind)

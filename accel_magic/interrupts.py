"""Defer signal handlers during operations that must not be interrupted halfway."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    Handler: TypeAlias = Callable[[int, FrameType | None], Any]

T = TypeVar("T")
_REALTIME: Final = getattr(signal, "SIGRTMIN", signal.NSIG)
_SIGNALS: Final = tuple(int(number) for number in signal.valid_signals() if number < _REALTIME)
"""Without real-time signals: programs that use them have handlers that do not raise."""


@contextlib.contextmanager
def uninterrupted() -> Iterator[list[int]]:
    """Defer signal handlers written in Python, most importantly that of SIGINT, until the block ends.

    Handlers of the signals that arrived run at the end of the block, once each, and may raise, as SIGINT's does: by
    then something outside the block must own what the block created. Python runs handlers in the main thread only, so
    in other threads there is nothing to defer.

    Yields:
        The numbers of the signals that have arrived so far.

    """
    exception: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield exception
        return
    handlers = _handlers()
    over = False

    def put_off(number: int, frame: FrameType | None) -> None:
        if over:  # code in the block mistook this handler for the user's and kept it
            handlers[number](number, frame)
        else:
            exception.append(number)

    try:
        for number in handlers:
            signal.signal(number, put_off)
        yield exception
    finally:
        _put_back(list(handlers.items()), put_off)
        over = True
        _run([(number, handlers[number]) for number in dict.fromkeys(exception)])


def until_interrupted(work: Callable[[], T], otherwise: Callable[[], T]) -> T:
    """Do work that an interrupt can end, even within `uninterrupted`.

    An interrupt during the work ends it, and is still delivered when the `uninterrupted` block ends.

    Args:
        work: What to do.
        otherwise: What to do instead after an interrupt; it is not interrupted itself.

    """
    put_off = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(put_off):
        return work()
    armed = True

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal armed
        put_off(number, frame)
        if armed:
            armed = False
            raise KeyboardInterrupt

    try:
        try:
            signal.signal(signal.SIGINT, interrupt)
            return work()
        finally:
            armed = False
    except KeyboardInterrupt:
        return otherwise()
    finally:
        signal.signal(signal.SIGINT, put_off)


def _handlers() -> dict[int, Handler]:
    """Python handlers by signal, without signals that are ignored or have their default action."""
    found = {number: signal.getsignal(number) for number in _SIGNALS}
    return {number: handler for number, handler in found.items() if callable(handler)}


def _put_back(handlers: list[tuple[int, Handler]], instead_of: Handler) -> None:
    """Restore handlers, except where another has been installed in the meantime.

    A restored handler may run at any moment and raise; the others are still restored.
    """
    try:
        while handlers:
            number, handler = handlers[0]
            if signal.getsignal(number) is instead_of:
                signal.signal(number, handler)
            handlers.pop(0)
    finally:
        if handlers:
            _put_back(handlers, instead_of)


def _run(handlers: list[tuple[int, Handler]]) -> None:
    """Run all handlers, even if one raises."""
    try:
        while handlers:
            number, handler = handlers.pop()
            handler(number, None)
    finally:
        if handlers:
            _run(handlers)

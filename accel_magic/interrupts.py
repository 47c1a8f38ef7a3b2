"""Putting signals off while something must not stay half done."""

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
_SIGNALS: Final = tuple(int(number) for number in signal.valid_signals() if number < signal.SIGRTMIN)
"""Real-time signals are for those who send them: programs that do have handlers for them that do not raise."""


@contextlib.contextmanager
def uninterrupted() -> Iterator[list[int]]:
    """Put off the signal handlers that are written in Python, that of an interrupt above all, until the block ends.

    Handlers of the signals that came run at the end of the block, once each, and may raise, as an interrupt's does: by
    then something outside the block must own what the block made. Python runs handlers in the main thread only, so in
    other threads there is nothing to put off.

    Yields:
        The numbers of the signals that have come so far.

    """
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    handlers = _handlers()
    over = False

    def put_off(number: int, frame: FrameType | None) -> None:
        if over:  # what the block called took this handler for the user's and kept it
            handlers[number](number, frame)
        else:
            came.append(number)

    try:
        for number in handlers:
            signal.signal(number, put_off)
        yield came
    finally:
        _put_back(list(handlers.items()), put_off)
        over = True
        _run([(number, handlers[number]) for number in dict.fromkeys(came)])


def until_interrupted(work: Callable[[], T], otherwise: Callable[[], T]) -> T:
    """Do work that an interrupt may end, although interrupts are put off.

    An interrupt at any moment of the work is answered here, and besides comes at the end of the block that puts
    interrupts off.

    Args:
        work: What to do.
        otherwise: What to do instead once an interrupt has come; another one does not end it.

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
    """Handlers in Python by signal; not those of signals that are ignored or end the process."""
    found = {number: signal.getsignal(number) for number in _SIGNALS}
    return {number: handler for number, handler in found.items() if callable(handler)}


def _put_back(handlers: list[tuple[int, Handler]], instead_of: Handler) -> None:
    """Install handlers again, except where another has been installed meanwhile.

    One that is back already may run at any moment and raise: the others are put back all the same.
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
    """Run handlers, all of them even if one raises."""
    try:
        while handlers:
            number, handler = handlers.pop()
            handler(number, None)
    finally:
        if handlers:
            _run(handlers)

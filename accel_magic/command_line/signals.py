"""Signals that end a trace, held back so that they come between two steps and never in the middle of one."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType


class HeldSignals:
    """Blocks SIGINT, SIGTERM and SIGHUP in this thread and in all that it starts; `wait` takes them.

    SIGHUP is left alone where it is ignored: `nohup` asks for that.
    """

    def __init__(self) -> None:
        ignores_hangup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        self._ending = {signal.SIGINT, signal.SIGTERM, *(() if ignores_hangup else (signal.SIGHUP,))}
        self._held = {*self._ending, signal.SIGCHLD}
        self.before: set[signal.Signals] = set()
        """Those that were blocked before, as a child process should have it."""

    def __enter__(self) -> Self:
        """Block them."""
        self.before = {signal.Signals(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, self._held)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drop those that came too late to matter, and let the next ones through."""
        while signal.sigtimedwait(self._held, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, self.before)

    def come(self) -> signal.struct_siginfo | None:
        """Take one that has come; None where none has."""
        return signal.sigtimedwait(self._ending, 0)

    def wait(self, ended: Callable[[], bool], seconds: float | None = None) -> signal.struct_siginfo | None:
        """Wait until a child process has ended, for so many seconds at most, or until a signal comes.

        Args:
            ended: Whether it has; asked whenever a child of this process changes its state.
            seconds: None for no limit.

        Returns:
            The signal; None if none came.

        """
        until = None if seconds is None else time.monotonic() + seconds
        while not ended():
            if until is None:
                came: signal.struct_siginfo | None = signal.sigwaitinfo(self._held)
            else:
                came = signal.sigtimedwait(self._held, max(until - time.monotonic(), 0.0))
            if came is None or came.si_signo != signal.SIGCHLD:
                return came
        return None

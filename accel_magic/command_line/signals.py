"""Signals that end a trace, blocked so that they are handled between two steps, never during one."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType


class HeldSignals:
    """Blocks SIGINT, SIGTERM and SIGHUP in this thread and in those it starts; `wait` receives them.

    SIGHUP stays ignored if it was ignored, as under `nohup`.
    """

    def __init__(self) -> None:
        ignores_hangup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        self._ending = {signal.SIGINT, signal.SIGTERM, *(() if ignores_hangup else (signal.SIGHUP,))}
        self._held = {*self._ending, signal.SIGCHLD}
        self.before: set[signal.Signals] = set()
        """The signals that were blocked before; a child process should start with these."""

    def __enter__(self) -> Self:
        """Block them."""
        self.before = {signal.Signals(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, self._held)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drop pending signals and restore the signal mask."""
        while signal.sigtimedwait(self._held, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, self.before)

    def come(self) -> signal.struct_siginfo | None:
        """Receive a pending signal; None if there is none."""
        return signal.sigtimedwait(self._ending, 0)

    def wait(self, ended: Callable[[], bool], seconds: float | None = None) -> signal.struct_siginfo | None:
        """Wait until a child process has ended, a signal arrives, or the time is over.

        Args:
            ended: Whether the child has ended; called whenever a child of this process changes its state.
            seconds: Time limit; None for no limit.

        Returns:
            The signal; None if none arrived.

        """
        until = None if seconds is None else time.monotonic() + seconds
        while not ended():
            if until is None:
                exception: signal.struct_siginfo | None = signal.sigwaitinfo(self._held)
            else:
                exception = signal.sigtimedwait(self._held, max(until - time.monotonic(), 0.0))
            if exception is None or exception.si_signo != signal.SIGCHLD:
                return exception
        return None

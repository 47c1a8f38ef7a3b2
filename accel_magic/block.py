"""What every trace is to its user: something around a block or a function, with a result; and the newest result."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar

from accel_magic import machine, session
from accel_magic.errors import TraceStateError
from accel_magic.kernel.own_threads import at_work

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from accel_magic.results.base import Result
    from accel_magic.traces.recording import Outcome

P = ParamSpec("P")
R = TypeVar("R")
ResultT = TypeVar("ResultT", bound="Result")

_last: Result | None = None


def last() -> Result:
    """Return the newest result of this process. Raises TraceStateError when there is none."""
    if _last is None:
        raise TraceStateError("nothing has been traced yet", fix="run a %%ktrace cell, or accel_magic.trace(...)")
    return _last


def newest() -> Result | None:
    """Return the newest result of this process; None when there is none."""
    return _last


def keep(result: Result) -> None:
    """Make a result the newest."""
    global _last  # noqa: PLW0603 - accel_magic.last
    _last = result


def outcome_of(error: BaseException | None) -> Outcome:
    """How the traced code ended."""
    if error is None:
        return "ok"
    return "interrupted" if isinstance(error, KeyboardInterrupt) else "error"


class Block(ABC, Generic[ResultT]):
    """A trace around a block or a function: `prepare`, `attach`, `go`, then `stop`, or `abort` at any time.

    Traces nest if their kinds differ. What one of them does here is `at_work`, so that it is in no other.

    As a context manager it traces the block; `result` then holds what was traced, also when the block raised. As a
    decorator it traces every call; each result is `accel_magic.last`.

    Args:
        save: Write the result to this Parquet file.

    """

    replayed: None = None
    imported: None = None

    def __init__(self, save: str | Path | None = None) -> None:
        self._save = save
        self._result: ResultT | None = None

    @abstractmethod
    def prepare(self) -> object:
        """Find what will be traced; nothing is attached yet."""

    @abstractmethod
    def attach(self, show: Callable[[list[Any]], None] | None = None) -> None:
        """Attach it, `show` receives live samples from a thread; where that fails nothing is left attached."""

    @abstractmethod
    def go(self) -> None:
        """The traced code starts here."""

    def halt(self) -> None:
        """The traced code has ended; `stop` follows, after the `halt` of other traces of the same code."""

    @abstractmethod
    def stop(self, outcome: Outcome = "ok", value: object = None) -> ResultT:
        """Detach, keep the result, save it where that was asked for. Raises KeyboardInterrupt if one came meanwhile."""

    @abstractmethod
    def abort(self) -> None:
        """Detach without a result; harmless when nothing is attached."""

    @abstractmethod
    def again(self) -> Self:
        """Make another trace of the same."""

    @property
    @abstractmethod
    def _running(self) -> bool:
        """Whether it is attached."""

    @property
    def machine(self) -> dict[str, str]:
        """Describe this machine, as the result will."""
        return machine.describe()

    @property
    def result(self) -> ResultT:
        """What was traced. Raises TraceStateError until the block has ended."""
        if self._result is None:
            raise TraceStateError(
                "this trace has no result yet",
                why="it is still running" if self._running else "its block was not entered",
                fix="ask after the `with` block",
            )
        return self._result

    def _end(
        self, result: ResultT, write: Callable[[str | Path], object] | None = None, *, interrupted: bool
    ) -> ResultT:
        """Keep the result, write it where that was asked for, and raise KeyboardInterrupt where one came meanwhile."""
        self._result = result
        keep(result)
        if write is not None and self._save is not None:
            write(self._save)
        if interrupted:
            raise KeyboardInterrupt
        return result

    def _warm_up(self) -> None:
        """Start what takes a while, so that it comes up while the trace is prepared."""
        session.warm_up()

    def __enter__(self) -> Self:
        with at_work():
            self._warm_up()
            self.prepare()
            self.attach()
            try:
                self.go()
            except BaseException:
                self.abort()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with at_work():
            self.stop(outcome_of(error))

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Trace every call of a function."""

        @functools.wraps(function)
        def traced(*args: P.args, **kwargs: P.kwargs) -> R:
            with self.again():
                return function(*args, **kwargs)

        return traced

"""Base classes of everything that runs around a piece of code (traces and replays), and the newest result."""

from __future__ import annotations

import functools
import os
import weakref
from abc import ABC, abstractmethod
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, ParamSpec, Self, TypeVar

from accel_magic import machine
from accel_magic.engine import trace_kinds
from accel_magic.engine.helper_processes import warm_up
from accel_magic.errors import AccelMagicError, RecordingError, TraceStateError, typed_shortage
from accel_magic.interrupts import uninterrupted
from accel_magic.kernel.own_threads import at_work
from accel_magic.recording import result_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from accel_magic.banners import Imported, Replayed
    from accel_magic.recording.recording import Outcome
    from accel_magic.result_bases.base import Result

P = ParamSpec("P")
R = TypeVar("R")
ResultT = TypeVar("ResultT", bound="Result")
AttachedT = TypeVar("AttachedT")

_MAX_ATTEMPTS: Final = 100
"""Interrupts in quick succession that the end of a trace survives."""

_last: Result | None = None


def last() -> Result:
    """Return the newest result of this process. Raises TraceStateError if there is none."""
    if _last is None:
        raise TraceStateError(
            "nothing has been traced yet", fix="run a %%ktrace cell, or accel_magic.trace(...)", code="trace.none-yet"
        )
    return _last


def keep(result: Result | None) -> None:
    """Make a result the newest; None: as if nothing had been traced."""
    global _last  # noqa: PLW0603 - accel_magic.last
    _last = result


def outcome_of(error: BaseException | None) -> Outcome:
    """How the traced code ended."""
    if error is None:
        return "ok"
    return "interrupted" if isinstance(error, KeyboardInterrupt) else "error"


def add_note(error: BaseException, ours: BaseException) -> None:
    """Add a note to the user's own error, which is raised on, that ending the trace failed too."""
    error.add_note(f"accel_magic: ending the trace also failed: {type(ours).__name__}: {ours}")


def _not_running() -> TraceStateError:
    return TraceStateError("this trace is not running", fix="attach it first", code="trace.not-running")


class Steps(ABC, Generic[ResultT, AttachedT]):
    """Base of what runs around a piece of code: `prepare`, `attach`, `go`, then `halt` and `stop`; or `abort` any time.

    Whatever raises and whenever an interrupt arrives, nothing stays attached, and traced code has a result.

    Traces nest if their kinds differ. A trace's own work here runs inside `at_work`, so that other traces exclude it.
    `AttachedT` is what a kind of trace has while it is attached.

    Args:
        kind: The kind of trace; only one of each kind can run.

    """

    def __init__(self, kind: trace_kinds.Kind) -> None:
        self.kind: trace_kinds.Kind = kind
        self.on_result: Callable[[ResultT], object] | None = None
        """Called with the result before an interrupt can arrive."""
        self.newest = True
        """Whether the result becomes `accel_magic.last`."""
        self._undo = ExitStack()
        self._owner = os.getpid()
        self.start_ns = 0
        """CLOCK_MONOTONIC of `go`."""
        self._attached: AttachedT | None = None
        self._result: ResultT | None = None

    of_nodes: ClassVar[bool] = False
    """Whether its live samples are those of a cluster's nodes."""
    replayed: Replayed | None = None
    imported: Imported | None = None

    def rest(self) -> None:
        """Wait for the rest of what runs along with the code, after the code has ended: of replays."""

    @property
    @abstractmethod
    def machine(self) -> dict[str, str]:
        """`accel_magic.machine.describe()` of the machine that is or was traced."""

    @property
    def result(self) -> ResultT:
        """The result. Raises TraceStateError until the trace has ended."""
        if self._result is None:
            raise TraceStateError(
                "this trace has no result yet",
                why="it is still running" if self.running else "its block was not entered",
                fix="read `result` after the `with` block",
                code="trace.no-result",
            )
        return self._result

    @property
    def running(self) -> bool:
        """Whether the trace is attached."""
        return self._attached is not None

    @property
    def attached(self) -> AttachedT:
        """What is attached. Raises TraceStateError if nothing is."""
        if self._attached is None:
            raise _not_running()
        return self._attached

    @property
    def has_result(self) -> bool:
        """Whether the trace has ended with a result."""
        return self._result is not None

    @abstractmethod
    def prepare(self) -> object:
        """Find what will be traced; nothing is attached yet."""

    def check(self) -> None:
        """Check what would otherwise fail after the code has run. Raises an AccelMagicError."""

    def attach(self, show: Callable[[list[Any]], None] | None = None) -> None:
        """Attach everything; `show` receives live samples in a thread. If this fails, nothing stays attached."""
        if self.running:
            raise trace_kinds.already_running(self.kind)
        self._owner, self._result = os.getpid(), None
        try:
            with uninterrupted():
                trace_kinds.claim(self.kind)
                self._undo.callback(trace_kinds.release, self.kind)
            with typed_shortage():
                self._attached = self._attach(show)
        except BaseException:
            self.abort()
            raise

    @abstractmethod
    def _attach(self, show: Callable[[list[Any]], None] | None) -> AttachedT:
        """Attach everything, and register in `_undo` how to detach each part: an interrupt may arrive at any time."""

    @abstractmethod
    def go(self) -> None:
        """The traced code starts here."""

    def halt(self) -> None:
        """The traced code has ended; `stop` follows, after the `halt` of other traces of the same code.

        May be called repeatedly, and when nothing is attached.
        """

    def stop(self, outcome: Outcome = "ok", value: object = None) -> ResultT:
        """Detach, keep the result, and save it if asked. An interrupt that arrives meanwhile is raised at the end.

        Raises:
            TraceStateError: The trace is not running, or belongs to the parent of this forked process.
            RecordingError: The result cannot be saved. It is kept in memory anyway.

        """
        attached = self.attached
        if self._owner != os.getpid():
            raise TraceStateError(
                "this trace belongs to the parent of this process",
                why="a forked child left the traced block; its hits count, but only the parent can end the trace",
                fix="end the child inside the block, with os._exit()",
                code="trace.in-child",
            )
        self.halt()
        try:
            with uninterrupted():
                try:
                    self._result = result = self._finish(attached, outcome, value)
                    if self.newest:
                        keep(result)
                    if self.on_result is not None:
                        self.on_result(result)
                finally:
                    self._take_down()
        except BaseException as raised:
            if self._result is not None:
                try:
                    self._save_result(self._result)
                except AccelMagicError as error:
                    add_note(raised, error)
            raise
        self._save_result(result)
        return result

    @abstractmethod
    def _finish(self, attached: AttachedT, outcome: Outcome, value: object) -> ResultT:
        """Detach and make the result. Interrupts are deferred meanwhile, and `_undo` always runs afterwards."""

    def _save_result(self, result: ResultT) -> None:
        """Save the result if asked."""

    def end(self, error: BaseException | None, value: object = None) -> BaseException | None:
        """Stop after the code has ended, even if interrupts arrive before `stop` has begun its work.

        Args:
            error: What the code raised.
            value: The code's own value.

        Returns:
            The interrupt or error of stopping; the caller decides between it and the code's own error.

        """
        exception: BaseException | None = None
        for _ in range(_MAX_ATTEMPTS):
            try:
                self.stop(outcome_of(error if exception is None else exception), value)
            except BaseException as raised:  # noqa: BLE001 - see above
                exception = raised if exception is None or isinstance(exception, Exception) else exception
                if not self.running or self._owner != os.getpid():
                    break
            else:
                break
        return exception

    def abort(self) -> None:
        """Detach without a result; does nothing if nothing is attached, or in a forked child."""
        if self._owner == os.getpid():
            with uninterrupted():
                self._take_down()

    def _take_down(self) -> None:
        self._attached = None
        self._undo.close()  # runs every step, whatever one of them raises


class _Exit:
    """The `__exit__` of a block, which ends the trace even if an interrupt arrives before its first line.

    A `with` statement looks up `__exit__` before it calls `__enter__`, and drops the reference however the block is
    left. Dropping the object returned here ends the trace if it is still running.
    """

    def __get__(self, block: Block[Any, Any] | None, owner: type[Block[Any, Any]]) -> Callable[..., None]:
        if block is None:
            return owner._leave  # noqa: SLF001 - of the same module
        leave = functools.partial(owner._leave, block)  # noqa: SLF001
        if not block.running:  # else it was looked up inside the block
            block._guard = weakref.ref(leave, block._left)  # noqa: SLF001
        return leave


class Block(Steps[ResultT, AttachedT]):
    """A trace around a block or a function.

    As a context manager it traces the block; `result` then has the result, even if the block raised. As a decorator it
    traces every call; each result becomes `accel_magic.last`.

    Args:
        save: Write the result to this Parquet file.

    Raises:
        ProbeError: `save` ends like a file of another format.

    """

    KIND: ClassVar[trace_kinds.Kind]
    """The kind of this class's traces; only one of each kind can run."""

    def __init__(self, save: str | Path | None = None) -> None:
        super().__init__(self.KIND)
        if save is not None:
            result_files.check_ending(save)
        self._save = save
        self._guard: weakref.ref[object] | None = None

    @abstractmethod
    def again(self) -> Self:
        """Make another trace with the same arguments."""

    @property
    def machine(self) -> dict[str, str]:
        """Describe this machine as the result will."""
        return machine.describe()

    def check(self) -> None:
        """Check that the result can be saved. Raises RecordingError."""
        if self._save is not None:
            result_files.check(self._save)

    def _save_result(self, result: ResultT) -> None:
        if self._save is None:
            return
        try:
            result.to_parquet(self._save)
        except RecordingError as error:
            raise RecordingError(
                error.what,
                why=error.why,
                fix=f"{error.fix}; the result is kept: accel_magic.last.to_parquet('FILE.parquet') saves it",
                code=error.code,
            ) from error

    def _warm_up(self) -> None:
        """Start the helper processes, which takes a while, before the trace is prepared."""
        warm_up()

    def __enter__(self) -> Self:
        if self.running:
            raise trace_kinds.already_running(self.kind)
        self._owner = os.getpid()
        try:
            with at_work():
                with typed_shortage():
                    self._warm_up()
                    self.prepare()
                    self.check()
                self.attach()
                self.go()
            return self  # noqa: TRY300 - an interrupt may arrive until it has returned
        except BaseException:
            self.abort()
            self._guard = None
            raise

    __exit__ = _Exit()

    def _leave(
        self,
        kind: type[BaseException] | None,  # noqa: ARG002 - the protocol's
        error: BaseException | None,
        trace: TracebackType | None,  # noqa: ARG002
    ) -> None:
        with at_work():
            exception = self.end(error)
        self._guard = None  # an interrupt in the weak reference's callback would be lost
        if exception is None:
            return
        if error is None or not isinstance(exception, Exception):
            raise exception  # an interrupt names the block's own error as its context
        add_note(error, exception)

    def _left(self, _: object) -> None:
        """End the trace if it is still running after its block was left."""
        if self.running:
            self.end(KeyboardInterrupt())

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Trace every call of a function."""

        @functools.wraps(function)
        def traced(*args: P.args, **kwargs: P.kwargs) -> R:
            with self.again():
                return function(*args, **kwargs)

        return traced

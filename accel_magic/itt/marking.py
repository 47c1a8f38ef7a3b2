"""Tasks of Python code."""

from __future__ import annotations

import ctypes
import functools
import os
from contextlib import ContextDecorator, suppress
from functools import cache as remember
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from accel_magic.errors import MachineError
from accel_magic.itt import collector

if TYPE_CHECKING:
    from collections.abc import Callable

DOMAIN: Final = "python"
"""Domain of tasks of Python code."""


class task(ContextDecorator):  # noqa: N801 - used like a function
    """Mark a stretch of Python code as a task, for the probe `itt:python:NAME`.

    ```python
    with accel_magic.task("preprocess"):
        ...
    ```

    Outside of traces, it costs less than a microsecond. Tasks of one thread must be nested, so do not `await` inside.

    Args:
        name: Name of the task; it also works as a decorator.

    """

    __slots__ = ("_handle", "_library")
    _OWN_FRAMES: ClassVar[int] = 1
    """Innermost Python frames of its end that are not part of a stack."""

    def __init__(self, name: str) -> None:
        self._library = _library(os.getpid())
        self._handle = 0 if self._library is None else self._library.accel_magic_itt_name(name.encode())

    def __enter__(self) -> Self:
        if self._library is not None:
            self._library.accel_magic_itt_begin(self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        if self._library is not None:
            self._library.accel_magic_itt_end(self._OWN_FRAMES)


class CallTask(task):
    """The task of a function that `marked` has wrapped."""

    __slots__ = ()
    _OWN_FRAMES: ClassVar[int] = 2


def marked(
    original: Callable[..., Any],
    task_of: Callable[..., CallTask],
    before: Callable[[], Any] = lambda: None,
    after: Callable[..., object] = lambda *_: None,
    raised: CallTask | None = None,
) -> Callable[..., Any]:
    """Wrap a function so that each call is a task. Flame graphs leave the wrapper's frames out (`analysis.flame`).

    Args:
        original: The function.
        task_of: Returns a call's task, from the positional arguments.
        before: Called before each call; returns something for `after`.
        after: Called after each call that succeeded, outside of its task, with what `before` returned, the result, the
            positional arguments and the dictionary of the others.
        raised: A task within the call's, after the function has raised an exception.

    """

    @functools.wraps(original)
    def call(*arguments: Any, **options: Any) -> Any:
        state = before()
        with task_of(*arguments):
            try:
                result = original(*arguments, **options)
            except Exception:
                if raised is not None:
                    with raised:
                        pass
                raise
        after(state, result, arguments, options)
        return result

    return call


@remember
def _library(_process: int) -> ctypes.PyDLL | None:
    """Return the collector, called without releasing the GIL; None if this machine has none."""
    with suppress(MachineError, OSError):
        collector.require(())
        library = ctypes.PyDLL(os.environ[collector.VARIABLE])
        library.accel_magic_itt_name.argtypes = [ctypes.c_char_p]
        library.accel_magic_itt_name.restype = ctypes.c_void_p
        library.accel_magic_itt_begin.argtypes = [ctypes.c_void_p]
        return library
    return None

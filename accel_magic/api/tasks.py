"""Tasks of the user's own Python code, and collecting those of libraries outside a notebook."""

from __future__ import annotations

import ctypes
import os
from contextlib import ContextDecorator, suppress
from functools import cache as remember
from typing import Self

from accel_magic.errors import MachineError
from accel_magic.itt import collector


def collect_tasks() -> None:
    """Have libraries that are imported from now on report their ITT tasks, as `%load_ext accel_magic` does.

    Child processes that are started from now on report theirs too.

    Raises:
        MachineError: The collector is not part of this installation and cannot be compiled, or another tool's is set.

    """
    collector.require(())


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

    def __init__(self, name: str) -> None:
        self._library = _library(os.getpid())
        self._handle = 0 if self._library is None else self._library.accel_magic_itt_name(name.encode())

    def __enter__(self) -> Self:
        if self._library is not None:
            self._library.accel_magic_itt_begin(self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        if self._library is not None:
            self._library.accel_magic_itt_end()


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

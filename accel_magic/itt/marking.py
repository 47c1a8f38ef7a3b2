"""Tasks of Python code."""

from __future__ import annotations

import ctypes
import os
from contextlib import ContextDecorator, suppress
from functools import cache as remember
from typing import ClassVar, Final, Self

from accel_magic.errors import MachineError
from accel_magic.itt import collector

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
    OWN_FRAMES: ClassVar[int] = 1
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
            self._library.accel_magic_itt_end(self.OWN_FRAMES)


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

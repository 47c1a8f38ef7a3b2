"""Tasks of Python code: marked by the user, and functions of libraries that are tasks while they are traced.

A return probe on a C++ function would be the other way to time a library's function, but an exception that passes
through the function would then end the process: the kernel replaces the return address, so that the exception's
handler is not found.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from contextlib import ContextDecorator, suppress
from fnmatch import fnmatchcase
from functools import cache as remember
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from accel_magic.errors import MachineError
from accel_magic.itt import collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

DOMAIN: Final = "python"
FUNCTIONS: Final = (("openvino", "Core", "compile_model"), ("openvino", "Core", "import_model"))
"""Module, class and method of the functions that are tasks `MODULE.METHOD` while they are traced."""


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


class MarkedFunctions:
    """Makes `FUNCTIONS` tasks, if their module is imported, and undoes it."""

    def __init__(self) -> None:
        self._made: list[tuple[Any, str, Any, Any]] = []

    def make(self, domains: Iterable[str]) -> None:
        """Mark the functions, if any of the globs of domains matches theirs."""
        if not any(fnmatchcase(DOMAIN, domain) for domain in domains):
            return
        for module, kind, name in FUNCTIONS:
            owner = getattr(sys.modules.get(module), kind, None)
            original = getattr(owner, name, None)
            if original is not None:
                marked = _marked(original, f"{module}.{name}")
                self._made.append((owner, name, original, marked))
                setattr(owner, name, marked)

    def undo(self) -> None:
        """Restore the functions, unless somebody else has replaced them since. Can be called repeatedly."""
        while self._made:
            owner, name, original, marked = self._made.pop()
            if getattr(owner, name, None) is marked:
                setattr(owner, name, original)


class _Call(task):
    """A task that is ended by the function below."""

    __slots__ = ()
    _OWN_FRAMES: ClassVar[int] = 2


def _marked(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    whole = _Call(name)

    @functools.wraps(original)
    def call(*arguments: Any, **options: Any) -> Any:
        with whole:
            return original(*arguments, **options)

    return call

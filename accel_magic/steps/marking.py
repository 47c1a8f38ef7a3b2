"""`accel_magic.step(n)`: mark the start of a step in the calling process."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from accel_magic.errors import MachineError
from accel_magic.steps.library import library

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_tracers: Sequence[int] = (1,)
"""The number of tracers of the probe: its semaphore, once the library is loaded."""
_fire: Callable[[int], object] | None = None


def step(number: int) -> None:
    """Mark the start of a step, for the probe `steps`.

    ```python
    for number, batch in enumerate(batches):
        accel_magic.step(number)
        ...
    ```

    A step lasts until the next mark of the same process, so mark once more after the loop if the last one matters.
    While nobody traces, a call reads one number in memory. Without a C compiler, where the package has no compiled
    library, nothing is marked; a trace of `steps` is then an error that says so.

    Args:
        number: Of the step: a 64-bit integer. Steps of several processes are compared by their numbers, and by order
            where a number is repeated.

    Raises:
        TypeError: It is not a number.

    """
    if _tracers[0]:
        _mark(int(number))


def _mark(number: int) -> None:
    global _fire  # noqa: PLW0603 - loaded once, when first used
    if _fire is None:
        _fire = _loaded()
    _fire(number)


def _loaded() -> Callable[[int], object]:
    """Load the library; from then on `_tracers` is its semaphore."""
    global _tracers  # noqa: PLW0603
    with suppress(MachineError, OSError):
        loaded = ctypes.PyDLL(os.fspath(library()))  # called without releasing the GIL
        loaded.accel_magic_semaphore.restype = ctypes.POINTER(ctypes.c_ushort * 1)
        loaded.accel_magic_step.argtypes = [ctypes.c_int64]
        loaded.accel_magic_step.restype = None
        _tracers = memoryview(loaded.accel_magic_semaphore().contents).cast("B").cast("H")
        fire: Callable[[int], object] = loaded.accel_magic_step
        return fire
    _tracers = (0,)
    return lambda _: None

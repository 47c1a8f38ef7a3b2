"""What numba's kernels have in common, on a GPU and on the simulated device."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from accel_magic.ptx.model import SourceLine

if TYPE_CHECKING:
    from collections.abc import Callable


NAME = "Numba-CUDA"


def origin(function: Any) -> SourceLine | None:
    """Where a Python function begins."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return SourceLine(code.co_filename, code.co_firstlineno) if code else None


def method(call: Callable[..., Any]) -> Callable[..., Any]:
    """Make a plain function of a bound method, which as a class attribute gets its object."""

    def called_on(self: Any, *arguments: Any, **named: Any) -> Any:
        return call(self, *arguments, **named)

    return called_on

"""Code shared by the adapters of Numba for GPUs and for the simulated device."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from accel_magic.ptx.model import SourceLine

if TYPE_CHECKING:
    from collections.abc import Callable


NAME = "Numba-CUDA"


def origin(function: Any) -> SourceLine | None:
    """Return the first line of a Python function."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return SourceLine(code.co_filename, code.co_firstlineno) if code else None


def method(call: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a callable in a plain function: as a class attribute, it is called with the instance."""

    def called_on(self: Any, *arguments: Any, **named: Any) -> Any:
        return call(self, *arguments, **named)

    return called_on

"""Code shared by the adapters of Numba for GPUs and for the simulated device."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from accel_magic.ptx.ptx_model import SourceLine

if TYPE_CHECKING:
    from collections.abc import Callable


NAME = "Numba-CUDA"
_NEEDS_DRIVER = (
    "accel_magic: Numba compiles kernels with a signature where they are defined, and needs a CUDA driver for it\n"
    "  fix: define them in the cell that %%gputrace --device cpu traces, or remove the signature: "
    "@cuda.jit without one compiles at the first launch"
)


def advice(error: BaseException | None) -> str:
    """Return what to do about an error of a cell; '' if it is not Numba's for a missing CUDA driver."""
    kind = type(error)
    missing = kind.__name__ == "CudaSupportError" and kind.__module__.startswith("numba")
    return _NEEDS_DRIVER if missing else ""


def origin(function: Any) -> SourceLine | None:
    """Return the first line of a Python function."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return SourceLine(code.co_filename, code.co_firstlineno) if code else None


def method(call: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a callable in a plain function: as a class attribute, it is called with the instance."""

    def called_on(self: Any, *arguments: Any, **named: Any) -> Any:
        return call(self, *arguments, **named)

    return called_on

"""Trace kernels, drivers, libraries and accelerators with eBPF from a Jupyter cell.

`%load_ext accel_magic` brings the magics; `trace(...)` does the same with no notebook. Names are loaded on first use,
so importing the package costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accel_magic._version import __version__
from accel_magic.errors import (
    AccelMagicError,
    MachineError,
    ProbeError,
    ProgramError,
    RecordingError,
    TraceStateError,
)

if TYPE_CHECKING:
    from accel_magic.api import Options, Trace, trace
    from accel_magic.flames.options import FlameOptions
    from accel_magic.flames.result import FlameResult
    from accel_magic.flames.trace import FlameTrace, flame
    from accel_magic.gpu.result import GpuResult
    from accel_magic.gpu.trace import GpuTrace, gputrace
    from accel_magic.opening import open_result
    from accel_magic.playback import replay
    from accel_magic.profiles.compare import ProfileComparison
    from accel_magic.profiles.iaprof.result import IaprofResult
    from accel_magic.profiles.result import ProfileResult
    from accel_magic.program import ProgramResult, ProgramTrace, trace_program
    from accel_magic.traces.result import TraceResult

    open = open_result  # noqa: A001 - accel_magic.open

# Without `open`: a star import must not replace the builtin. `accel_magic.open` is public all the same.
__all__ = [
    "AccelMagicError",
    "FlameOptions",
    "FlameResult",
    "FlameTrace",
    "GpuResult",
    "GpuTrace",
    "IaprofResult",
    "MachineError",
    "Options",
    "ProbeError",
    "ProfileComparison",
    "ProfileResult",
    "ProgramError",
    "ProgramResult",
    "ProgramTrace",
    "RecordingError",
    "Trace",
    "TraceResult",
    "TraceStateError",
    "__version__",
    "flame",
    "gputrace",
    "load_ipython_extension",
    "replay",
    "trace",
    "trace_program",
    "unload_ipython_extension",
]

_LAZY = {
    "Options": ("accel_magic.api", "Options"),
    "Trace": ("accel_magic.api", "Trace"),
    "trace": ("accel_magic.api", "trace"),
    "FlameOptions": ("accel_magic.flames.options", "FlameOptions"),
    "FlameResult": ("accel_magic.flames.result", "FlameResult"),
    "FlameTrace": ("accel_magic.flames.trace", "FlameTrace"),
    "flame": ("accel_magic.flames.trace", "flame"),
    "GpuResult": ("accel_magic.gpu.result", "GpuResult"),
    "GpuTrace": ("accel_magic.gpu.trace", "GpuTrace"),
    "gputrace": ("accel_magic.gpu.trace", "gputrace"),
    "replay": ("accel_magic.playback", "replay"),
    "IaprofResult": ("accel_magic.profiles.iaprof.result", "IaprofResult"),
    "ProfileComparison": ("accel_magic.profiles.compare", "ProfileComparison"),
    "ProfileResult": ("accel_magic.profiles.result", "ProfileResult"),
    "ProgramResult": ("accel_magic.program", "ProgramResult"),
    "ProgramTrace": ("accel_magic.program", "ProgramTrace"),
    "trace_program": ("accel_magic.program", "trace_program"),
    "TraceResult": ("accel_magic.traces.result", "TraceResult"),
    "open": ("accel_magic.opening", "open_result"),
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use; `last` is always the newest result."""
    from importlib import import_module

    if name == "last":
        return import_module("accel_magic.block").last()
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _LAZY[name]
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext accel_magic`."""
    from accel_magic.magics.extension import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext accel_magic`."""
    from accel_magic.magics.extension import unload

    unload(shell)

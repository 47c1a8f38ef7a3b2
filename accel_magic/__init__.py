"""Trace kernels, drivers, libraries and accelerators with eBPF from a Jupyter cell.

`%load_ext accel_magic` registers the magics; `trace(...)` does the same without a notebook. Names are loaded on first
use, so importing the package is cheap.
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
    ResultError,
    TraceStateError,
)

if TYPE_CHECKING:
    from accel_magic.api.driver_policy import DriverPolicy, attach_policy
    from accel_magic.api.flame_options import FlameOptions
    from accel_magic.api.flame_trace import FlameTrace
    from accel_magic.api.gpupolicy import gpupolicy, gpuschedule
    from accel_magic.api.gputrace import GpuTrace
    from accel_magic.api.lab import trace_lab
    from accel_magic.api.open import open_result
    from accel_magic.api.probe_trace import Trace
    from accel_magic.api.program_trace import ProgramTrace, trace_program
    from accel_magic.api.replay import replay
    from accel_magic.api.tasks import collect_tasks
    from accel_magic.api.trace_options import Options
    from accel_magic.api.tracing import flame, gputrace, trace
    from accel_magic.itt.marking import task
    from accel_magic.result_bases.base import Result
    from accel_magic.result_bases.comparison import GpuComparison, PolicyComparison, ProfileComparison, TraceComparison
    from accel_magic.result_bases.profile import ProfileResult
    from accel_magic.results.driver_result import DriverResult
    from accel_magic.results.flame_result import FlameResult, SampledResult
    from accel_magic.results.gpu_result import GpuResult
    from accel_magic.results.policy_result import PolicyResult
    from accel_magic.results.program_result import ProgramResult
    from accel_magic.results.scheduling_result import ScheduleResult
    from accel_magic.results.trace_result import TraceResult
    from accel_magic.steps.marking import step
    from accel_magic.subsystems.iaprof.result import IaprofResult

    open = open_result  # noqa: A001 - accel_magic.open

# `open` is left out because a star import must not replace the builtin; `accel_magic.open` is still public.
__all__ = [
    "AccelMagicError",
    "DriverPolicy",
    "DriverResult",
    "FlameOptions",
    "FlameResult",
    "FlameTrace",
    "GpuComparison",
    "GpuResult",
    "GpuTrace",
    "IaprofResult",
    "MachineError",
    "Options",
    "PolicyComparison",
    "PolicyResult",
    "ProbeError",
    "ProfileComparison",
    "ProfileResult",
    "ProgramError",
    "ProgramResult",
    "ProgramTrace",
    "RecordingError",
    "Result",
    "ResultError",
    "SampledResult",
    "ScheduleResult",
    "Trace",
    "TraceComparison",
    "TraceResult",
    "TraceStateError",
    "__version__",
    "attach_policy",
    "collect_tasks",
    "flame",
    "gpupolicy",
    "gpuschedule",
    "gputrace",
    "load_ipython_extension",
    "replay",
    "step",
    "task",
    "trace",
    "trace_lab",
    "trace_program",
    "unload_ipython_extension",
]

_LAZY = {
    "DriverPolicy": ("accel_magic.api.driver_policy", "DriverPolicy"),
    "DriverResult": ("accel_magic.results.driver_result", "DriverResult"),
    "attach_policy": ("accel_magic.api.driver_policy", "attach_policy"),
    "PolicyComparison": ("accel_magic.result_bases.comparison", "PolicyComparison"),
    "PolicyResult": ("accel_magic.results.policy_result", "PolicyResult"),
    "ScheduleResult": ("accel_magic.results.scheduling_result", "ScheduleResult"),
    "gpupolicy": ("accel_magic.api.gpupolicy", "gpupolicy"),
    "gpuschedule": ("accel_magic.api.gpupolicy", "gpuschedule"),
    "Options": ("accel_magic.api.trace_options", "Options"),
    "Trace": ("accel_magic.api.probe_trace", "Trace"),
    "trace": ("accel_magic.api.tracing", "trace"),
    "FlameOptions": ("accel_magic.api.flame_options", "FlameOptions"),
    "FlameResult": ("accel_magic.results.flame_result", "FlameResult"),
    "FlameTrace": ("accel_magic.api.flame_trace", "FlameTrace"),
    "flame": ("accel_magic.api.tracing", "flame"),
    "GpuComparison": ("accel_magic.result_bases.comparison", "GpuComparison"),
    "GpuResult": ("accel_magic.results.gpu_result", "GpuResult"),
    "GpuTrace": ("accel_magic.api.gputrace", "GpuTrace"),
    "gputrace": ("accel_magic.api.tracing", "gputrace"),
    "collect_tasks": ("accel_magic.api.tasks", "collect_tasks"),
    "replay": ("accel_magic.api.replay", "replay"),
    "step": ("accel_magic.steps.marking", "step"),
    "task": ("accel_magic.itt.marking", "task"),
    "IaprofResult": ("accel_magic.subsystems.iaprof.result", "IaprofResult"),
    "ProfileComparison": ("accel_magic.result_bases.comparison", "ProfileComparison"),
    "ProfileResult": ("accel_magic.result_bases.profile", "ProfileResult"),
    "ProgramResult": ("accel_magic.results.program_result", "ProgramResult"),
    "ProgramTrace": ("accel_magic.api.program_trace", "ProgramTrace"),
    "trace_lab": ("accel_magic.api.lab", "trace_lab"),
    "trace_program": ("accel_magic.api.program_trace", "trace_program"),
    "Result": ("accel_magic.result_bases.base", "Result"),
    "SampledResult": ("accel_magic.results.flame_result", "SampledResult"),
    "TraceComparison": ("accel_magic.result_bases.comparison", "TraceComparison"),
    "TraceResult": ("accel_magic.results.trace_result", "TraceResult"),
    "open": ("accel_magic.api.open", "open_result"),
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use. `last` is always the newest result; `doctor` is a module."""
    from importlib import import_module

    if name == "last":
        return import_module("accel_magic.api.block").last()
    if name == "doctor":
        return import_module("accel_magic.api.doctor")
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _LAZY[name]
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def load_ipython_extension(shell: Any) -> None:
    """Implement `%load_ext accel_magic`."""
    from accel_magic.magics.extension import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Implement `%unload_ext accel_magic`."""
    from accel_magic.magics.extension import unload

    unload(shell)

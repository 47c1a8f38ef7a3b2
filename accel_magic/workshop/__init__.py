"""The workshop: ten exercises that a student solves in a notebook, with checks, hints and progress.

    from accel_magic.workshop import begin, check, hint, predict, progress, reset, solve
    exercise = begin("jobs")

A check compares the student's answers with a truth that does not come from the student's trace: counts of the workload
itself, of the emulated device, of OpenVINO, or numpy. Names are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accel_magic.workshop.session import begin, check, hint, predict, progress, reset, solve

__all__ = ["begin", "check", "hint", "predict", "progress", "reset", "solve"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from accel_magic.workshop import session

    return getattr(session, name)

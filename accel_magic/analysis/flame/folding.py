"""Which Python frames below the traced code are irrelevant: the notebook's, and the tracer's own."""

from __future__ import annotations

import re
from typing import Final

from accel_magic.kernel.stacks.frames import Frame, FrameKind

TRACER: Final = Frame("[accel_magic]")
"""Replaces the frames of the tracer's own work during the trace."""
_RUNS_CELL: Final = re.compile(r"(.*/)?accel_magic/magics/cell(_runner)?\.py")  # cell.py in recordings of version 0.1
_CELL: Final = re.compile(r"cell \[\d+\]|(.*/)?ipykernel_\d+/\d+\.py|<ipython-input-.*>")
_TRACER: Final = re.compile(r"(.*/)?accel_magic/(?!lab/).*")
_WRAPPER: Final = re.compile(r"(.*/)?accel_magic/itt/marking\.py")
"""Has the functions that wrap those of libraries, so that their calls are tasks."""
_STARTS_AND_ENDS: Final = re.compile(r"(.*/)?accel_magic/(api/(block|flame(_trace)?)|magics/traced)\.py")
"""Modules that start and end traces around the traced code."""
_CALLS_TRACED: Final = "Block.__call__.<locals>.traced"
"""Their function that calls the traced code itself, if that is decorated."""
_CUT: Final = re.compile(r"\[callers beyond \d+ frames\]")
_NOTEBOOK: Final = re.compile(r"(.*/)?(ipykernel|IPython|tornado|zmq|jupyter_client|ipykernel_launcher\.py)(/.*)?")
_BELOW: Final = re.compile(
    r"(.*/)?(threading|selectors|runpy|queue|socket|asyncio/.*|concurrent/futures/.*|contextlib)(\.py)?|<frozen runpy>"
)
"""Modules of the standard library that can be below any code."""
_TASKS_OF: Final = re.compile(r"(.*/)?(distributed/threadpoolexecutor|ipyparallel/engine/kernel)\.py")
_RUNS_TASK: Final = re.compile(
    rf"{_TASKS_OF.pattern}|(.*/)?(distributed/(_concurrent_futures_thread|utils|worker)|dask/_task_spec)\.py"
)
"""Modules with which workers of clusters run tasks, in a row; the first one is in a thread for tasks."""
_OF_ENGINE: Final = Frame("<module>", FrameKind.PYTHON, "<string>", 1)
"""What an ipyparallel engine executes to call a function."""


def notebooks_own(thread: str) -> bool:
    """Whether a thread without Python is the notebook's, by its kernel name: ZeroMQ's threads."""
    return thread.startswith("ZMQbg/")


def folded(frames: tuple[Frame, ...]) -> tuple[Frame, ...] | None:
    """Leave out the frames below the traced code.

    Args:
        frames: Of a stack, outermost first; Python's come first.

    Returns:
        The frames from the cell's own `<module>` inward, in a thread from its first frame of a cell, in a worker of a
        cluster from its task's first frame; only `TRACER` for the tracer's own work; None for the notebook's own
        threads; other stacks unchanged.

    """
    frames = tuple(frame for frame in frames if not _WRAPPER.fullmatch(frame.module))
    python = [frame.module for frame in frames if frame.kind == FrameKind.PYTHON]
    runs = max((at for at, module in enumerate(python, 1) if _RUNS_CELL.fullmatch(module)), default=0)
    within = frames[runs : len(python)]
    if any(_STARTS_AND_ENDS.fullmatch(frame.module) and frame.name != _CALLS_TRACED for frame in within):
        return (TRACER,)
    if runs:
        # An audit hook of the tracer runs before the cell's first line.
        cells = len(python) > runs and not _TRACER.fullmatch(python[runs])
        return frames[runs:] if cells else (TRACER,)
    first = next((at for at, module in enumerate(python) if _CELL.fullmatch(module)), None)
    if first is not None:
        # The cell's first call may be among the callers that the kernel did not record.
        cut = _CUT.fullmatch(frames[0].name) and not any(map(_NOTEBOOK.fullmatch, python[:first]))
        return frames if cut else frames[first:]
    task = _task(frames)
    if task:
        return frames[task:]
    own = next((module for module in python if not _BELOW.fullmatch(module)), "")
    if _TRACER.fullmatch(own):
        return (TRACER,)
    return None if _NOTEBOOK.fullmatch(own) else frames


def _task(frames: tuple[Frame, ...]) -> int:
    """Return the place of the first frame of a task in a worker of a cluster; 0 if there is none."""
    first = next((at for at, frame in enumerate(frames) if _TASKS_OF.fullmatch(frame.module)), len(frames))
    for at, frame in enumerate(frames[first:], first):
        if not _RUNS_TASK.fullmatch(frame.module) and frame != _OF_ENGINE:
            return at if frame.kind == FrameKind.PYTHON and not _BELOW.fullmatch(frame.module) else 0
    return 0

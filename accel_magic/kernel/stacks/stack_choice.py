"""Choose the stacks that a trace records: those requested, or those that this machine supports."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, get_args

from accel_magic.errors import MachineError, ProbeError
from accel_magic.kernel.load import shared_functions
from accel_magic.probes.plan import StackKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from accel_magic.probes.plan import Plan, ProbePoint, Stacks, TraceRequest


AUTO: Final = "auto"
KINDS: Final[tuple[StackKind, ...]] = get_args(StackKind)


def choose(request: TraceRequest, points: tuple[ProbePoint, ...]) -> tuple[tuple[StackKind, ...], tuple[str, ...]]:
    """Choose the stacks of a request's events.

    Returns:
        The kinds, and a note if some are unavailable and were not requested by name.

    Raises:
        ProbeError: An unknown kind, or a request for counts only.
        MachineError: Python stacks were requested by name, but this Python's frames cannot be found.

    """
    requested = request.stacks
    if requested in (False, "", ()):
        return (), ()
    if request.mode == "count":
        raise ProbeError(
            "stacks belong to events, and --mode count records none",
            why="the kernel only counts the hits",
            fix="remove --stacks, or use --mode auto",
            code="stacks.need-events",
        )
    in_kernel = any(point.kind != "itt" for point in points)
    if is_automatic(requested):
        return _all(points, in_kernel=in_kernel)
    kinds = _kinds(
        requested.split(",") if isinstance(requested, str) else requested if isinstance(requested, tuple) else ()
    )
    if "kernel" in kinds and not in_kernel:
        raise ProbeError(
            "ITT tasks have no kernel stacks",
            why="they begin and end in the traced process, without entering the kernel",
            fix="use --stacks=user,python",
            code="stacks.itt",
        )
    if "python" in kinds:
        _require_python(points)
    return kinds, ()


def is_automatic(requested: Stacks) -> bool:
    """Whether all available stacks were requested, without naming them."""
    return requested in (True, AUTO)


def task_stacks(plan: Plan) -> bool:
    """Whether the records of ITT tasks have stacks."""
    return bool(plan.records_events and plan.task_points and set(plan.stacks) - {"kernel"})


def _all(points: tuple[ProbePoint, ...], *, in_kernel: bool) -> tuple[tuple[StackKind, ...], tuple[str, ...]]:
    kinds = tuple(kind for kind in KINDS if kind != "kernel" or in_kernel)
    try:
        _require_python(points)
    except MachineError as error:
        why = f": {error.why}" if error.why else ""
        return tuple(kind for kind in kinds if kind != "python"), (f"no Python stacks: {error.what}{why}",)
    return kinds, ()


def _kinds(words: Iterable[str]) -> tuple[StackKind, ...]:
    named = [word.strip() for word in words]
    unknown = [word for word in named if word not in KINDS]
    if unknown:
        raise ProbeError(
            f"there are no {unknown[0]!r} stacks",
            fix=f"write --stacks={','.join(KINDS)} or some of these",
            code="stacks.unknown-kind",
        )
    return tuple(kind for kind in KINDS if kind in named)


def _require_python(points: tuple[ProbePoint, ...]) -> None:
    """Raise MachineError if Python stacks are not available."""
    from accel_magic.kernel.stacks import python_layout

    scopes = {point.scope for point in points}
    if all(one.name == "pid" or one.pid not in (0, os.getpid()) for one in scopes):
        raise MachineError(
            "Python stacks can be recorded only in this process",
            why="the scope is another process, which may run a different Python",
            fix="use --stacks=kernel,user",
            code="stacks.python-elsewhere",
        )
    python_layout.layout()


def most_frames() -> int:
    """Maximum recorded frames, even if the kernel's limit is higher."""
    return _MOST_FRAMES if shared_functions.has_loops() else _MOST_FRAMES_WITHOUT_LOOPS


_MOST_FRAMES: Final = 4096


_MOST_FRAMES_WITHOUT_LOOPS: Final = 256
"""For kernels without bpf_loop: they verify each step over a stack's words separately."""

"""Which stacks a trace takes: what was asked for, or what this machine allows."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias, get_args

from accel_magic.errors import MachineError, ProbeError
from accel_magic.probes.plan import Plan, StackKind

if TYPE_CHECKING:
    from collections.abc import Iterable

Asked: TypeAlias = "bool | str | tuple[str, ...]"
"""True or `auto` for all that can be had; or kinds, as names or joined by commas."""
AUTO: Final = "auto"
KINDS: Final[tuple[StackKind, ...]] = get_args(StackKind)


def with_stacks(plan: Plan, asked: Asked) -> Plan:
    """Let a plan take stacks, with a note where some cannot be had that were not asked for by name.

    Raises:
        ProbeError: An unknown kind, or a plan that records no events.
        MachineError: Python's stacks were asked for by name, and this Python's frames cannot be found.

    """
    if asked in (False, "", ()):
        return plan
    if not plan.records_events:
        raise ProbeError(
            "stacks belong to events, and --mode count records none",
            why="the kernel counts hits without keeping anything of each",
            fix="leave out --stacks, or use --mode auto",
            code="stacks.need-events",
        )
    if asked in (True, AUTO):
        return _all(plan)
    kinds = _kinds(asked.split(",") if isinstance(asked, str) else asked if isinstance(asked, tuple) else ())
    if "python" in kinds:
        _require_python(plan)
    return replace(plan, stacks=kinds)


def _all(plan: Plan) -> Plan:
    try:
        _require_python(plan)
    except MachineError as error:
        why = f": {error.why}" if error.why else ""
        without = tuple(kind for kind in KINDS if kind != "python")
        return replace(plan, stacks=without, notes=(*plan.notes, f"no Python stacks: {error.what}{why}"))
    return replace(plan, stacks=KINDS)


def _kinds(words: Iterable[str]) -> tuple[StackKind, ...]:
    named = [word.strip() for word in words]
    unknown = [word for word in named if word not in KINDS]
    if unknown:
        raise ProbeError(
            f"there are no {unknown[0]!r} stacks",
            fix=f"--stacks={','.join(KINDS)}, or some of these",
            code="stacks.unknown-kind",
        )
    return tuple(kind for kind in KINDS if kind in named)


def _require_python(plan: Plan) -> None:
    """Raise MachineError where there cannot be stacks of Python."""
    from accel_magic.kernel import python_layout

    scopes = {point.scope for point in plan.points}
    if all(one.name == "pid" or one.pid not in (0, os.getpid()) for one in scopes):
        raise MachineError(
            "Python's frames are found in this process alone",
            why="the scope is another process, whose Python may be another",
            fix="--stacks=kernel,user",
            code="stacks.python-elsewhere",
        )
    python_layout.layout()

"""Making a trace's plan: here, or through the broker if this process has no privilege and there is one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from accel_magic.broker import broker_socket
from accel_magic.errors import MachineError, ProbeError
from accel_magic.kernel.stacks import stack_choice
from accel_magic.patching import choice
from accel_magic.probes import grammar
from accel_magic.probes.matching import make_plan

if TYPE_CHECKING:
    from accel_magic.probes.plan import Plan, ProbePoint, StackKind, TraceRequest


def make(request: TraceRequest, pid: int | None = None) -> Plan:
    """Match probes.

    Args:
        request: What to trace.
        pid: The process of the scope `self`; None for this one.

    Raises:
        ProbeError: A probe or option is invalid or not allowed, or a probe matches nothing.
        MachineError: This machine lacks something that the trace needs.

    """
    if _is_local(request) or not broker_socket.needed():
        return choice.choose(make_plan(request, pid=pid, stacks=stack_choice.choose))
    own, others = choice.split(request)
    patched = _patched(own) if pid is None and _has_probes(own) else None
    if patched is not None and not _has_probes(others):
        return replace(patched, request=request)
    from accel_magic.broker import broker_client

    if (error := _unreachable()) is not None:
        return _without_broker(error, request, pid)
    if pid not in (None, broker_client.traced_pid()):
        raise ProbeError(
            "another process cannot be traced through the broker",
            why="it traces only the process that asks, with its threads and descendants",
            fix="start it in a traced block with subprocess.run(...), or with: accel-magic trace ... -- PROGRAM",
            code="broker.not-allowed",
        )
    if patched is None:
        return broker_client.plan(request, stacks=_without_kernel)
    return _merged(request, broker_client.plan(others, stacks=_without_kernel), patched)


def _has_probes(request: TraceRequest) -> bool:
    return any(not text.startswith("!") for text in request.texts)


def _patched(request: TraceRequest) -> Plan | None:
    """The plan of functions that are patched; None if none can be, which the broker may then probe."""
    try:
        plan = choice.choose(make_plan(request, stacks=stack_choice.choose))
    except MachineError:
        return None
    return plan if plan.patched_points else None


def _merged(request: TraceRequest, kernel: Plan, patched: Plan) -> Plan:
    """One plan of what the broker attaches and what is patched."""
    points = (*kernel.kernel_points, *patched.patched_points, *kernel.task_points)
    return replace(
        kernel,
        request=request,
        points=tuple(replace(point, id=number) for number, point in enumerate(points)),
        skipped=(*kernel.skipped, *patched.skipped),
        notes=tuple(dict.fromkeys((*kernel.notes, *patched.notes))),
    )


def _without_kernel(
    request: TraceRequest, points: tuple[ProbePoint, ...]
) -> tuple[tuple[StackKind, ...], tuple[str, ...]]:
    """Choose stacks that the broker allows."""
    kinds, notes = stack_choice.choose(request, points)
    if "kernel" in kinds and not stack_choice.is_automatic(request.stacks):
        raise ProbeError(
            "kernel stacks are not allowed through the broker",
            why="they would show the kernel's addresses to every user",
            fix="use --stacks=user,python",
            code="broker.not-allowed",
        )
    return tuple(kind for kind in kinds if kind != "kernel"), notes


def _unreachable() -> MachineError | None:
    """Why nothing can be asked of the broker: it has ended, or this user may not connect to it; None if it can."""
    from accel_magic.broker import broker_client

    try:
        broker_client.connection()
    except MachineError as error:
        return error
    return None


def _without_broker(error: MachineError, request: TraceRequest, pid: int | None) -> Plan:
    """Make the plan of what needs neither privilege nor a broker; raise the error if something else is left."""
    note = f"only tasks are traced: {error.what} ({error.why})"
    try:
        plan = make_plan(request, pid=pid, stacks=stack_choice.choose, notes=(note,))
    except MachineError:  # a probe needs privilege to be matched
        raise error from None
    if plan.kernel_points:
        raise error
    return plan


def _is_local(request: TraceRequest) -> bool:
    """Whether no broker is needed: all are tasks, or one is invalid, which `make_plan` reports."""
    try:
        return all(spec.kind == "itt" for spec in grammar.parse_all(request.specs))
    except ProbeError:
        return True

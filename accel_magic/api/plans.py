"""Making a trace's plan: here, or through the broker if this process has no privilege and there is one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from accel_magic.broker import broker_client
from accel_magic.broker.broker_messages import TraceRequest
from accel_magic.errors import MachineError, ProbeError
from accel_magic.kernel.stacks.stack_choice import with_stacks
from accel_magic.probes import grammar
from accel_magic.probes.matching import make_plan

if TYPE_CHECKING:
    from accel_magic.kernel.stacks.stack_choice import Asked
    from accel_magic.probes.plan import Plan


def make(probes: tuple[str, ...], *, stacks: Asked = False, pid: int | None = None, **options: Any) -> Plan:
    """Match probes.

    Args:
        probes: As on the `%%ktrace` line.
        stacks: Stacks to record.
        pid: The process of the scope `self`; None for this one.
        **options: Those of `make_plan`.

    Raises:
        ProbeError: A probe or option is invalid or not allowed, or a probe matches nothing.
        MachineError: This machine lacks something that the trace needs.

    """
    if _is_local(probes) or not broker_client.needed():
        return with_stacks(make_plan(probes, pid=pid, **options), stacks)
    if (error := _unreachable()) is not None:
        return with_stacks(_without_broker(error, probes, pid, options), stacks)
    if pid not in (None, broker_client.traced_pid()):
        raise ProbeError(
            "another process cannot be traced through the broker",
            why="it traces only the process that asks, with its threads and descendants",
            fix="start it in a traced block with subprocess.run(...), or with: accel-magic trace ... -- PROGRAM",
            code="broker.not-allowed",
        )
    scope = options.pop("scope", None)
    plan = broker_client.plan(TraceRequest(probes, scope="" if scope is None else str(scope), **options))
    plan = with_stacks(plan, stacks)
    if "kernel" not in plan.stacks:
        return plan
    if stacks is not True and stacks != "auto":
        raise ProbeError(
            "kernel stacks are not allowed through the broker",
            why="they would show the kernel's addresses to every user",
            fix="use --stacks=user,python",
            code="broker.not-allowed",
        )
    return replace(plan, stacks=tuple(kind for kind in plan.stacks if kind != "kernel"))


def _unreachable() -> MachineError | None:
    """Why nothing can be asked of the broker: it has ended, or this user may not connect to it; None if it can."""
    try:
        broker_client.connection()
    except MachineError as error:
        return error
    return None


def _without_broker(error: MachineError, probes: tuple[str, ...], pid: int | None, options: dict[str, Any]) -> Plan:
    """Make the plan of what needs neither privilege nor a broker; raise the error if something else is left."""
    try:
        plan = make_plan(probes, pid=pid, **options)
    except MachineError:  # a probe needs privilege to be matched
        raise error from None
    if plan.kernel_points:
        raise error
    return replace(plan, notes=(*plan.notes, f"only tasks are traced: {error.what} ({error.why})"))


def _is_local(probes: tuple[str, ...]) -> bool:
    """Whether no broker is needed: all are tasks, or one is invalid, which `make_plan` reports."""
    try:
        return all(spec.kind == "itt" for spec in grammar.parse_all(probes))
    except ProbeError:
        return True

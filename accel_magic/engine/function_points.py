"""The part of a live trace in this process: functions that are patched instead of probed by the kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from accel_magic.errors import MachineError, ProbeError
from accel_magic.kernel import clock
from accel_magic.kernel.attach.record_payloads import payload_of, record_size
from accel_magic.kernel.attachment import NO_RECORDS, RING_HEADER, PointLayout
from accel_magic.patching import choice, library, patched_functions, refusals
from accel_magic.patching.recipes import NotPatchableError
from accel_magic.probes.plan import RETURN_KINDS, Skipped

if TYPE_CHECKING:
    from contextlib import ExitStack

    from accel_magic.collecting.rings import PythonFrames
    from accel_magic.kernel.attachment import RecordLayout
    from accel_magic.patching.patched_functions import PatchedTrace
    from accel_magic.probes.plan import Plan, ProbePoint


def attach(plan: Plan, python: PythonFrames | None, undo: ExitStack) -> tuple[PatchedTrace | None, Plan]:
    """Patch the functions of a plan; nothing is counted yet.

    Args:
        plan: What to trace.
        python: Where this process's Python keeps its frames, if Python stacks are recorded.
        undo: Receives what puts the original code back.

    Returns:
        The trace of these functions, None if there are none; and the plan without those that could not be patched.

    Raises:
        MachineError: They cannot be patched.
        ProbeError: None of them can be, and there are no other points.

    """
    if not plan.patched_points:
        return None, plan
    if why := refusals.of_process(library.loaded()):
        raise MachineError(
            "functions cannot be patched",
            why=why,
            fix="use --uprobes=kernel, as root or through the broker",
            code="patching.refused",
        )
    maps, about_returns = patched_functions.own_code(), refusals.of_returns()
    chosen, skipped = [], []
    for point in plan.patched_points:
        try:
            patchable = choice.patchable(plan, point, maps, about_returns)
            chosen.append((point, _patched(plan, point, patchable)))
        except NotPatchableError as error:
            skipped.append(Skipped(point.function, str(error)))
    try:
        trace = patched_functions.PatchedTrace(
            [patched for _, patched in chosen],
            first_id=len(plan.kernel_points),
            record_bytes=RING_HEADER.itemsize + max((_record_bytes(plan, point) for point, _ in chosen), default=0),
            buffer_bytes=int(plan.request.buffer_mib * (1 << 20)),
            records=plan.records_events,
            shift_ns=-clock.shift().ns,
            children=plan.request.children,
            walks_stacks="user" in plan.stacks,
            python=python,
        )
    except OSError as error:
        raise MachineError(
            "functions cannot be patched", why=str(error), fix="use --uprobes=kernel", code="patching.refused"
        ) from None
    undo.callback(trace.close)
    for at in reversed(trace.prepare()):
        point, _ = chosen.pop(at)
        skipped.append(Skipped(point.function, "no free place in memory at the distance that its first bytes need"))
    return trace, _without(plan, [point for point, _ in chosen], skipped)


def _without(plan: Plan, patched: list[ProbePoint], skipped: list[Skipped]) -> Plan:
    """The plan with only these patched points, numbered anew if some are missing."""
    if not skipped:
        return plan
    points = (*plan.kernel_points, *patched, *plan.task_points)
    if not points:
        raise ProbeError(
            "none of the functions can be patched",
            why="; ".join(f"{skip.function}: {skip.why}" for skip in skipped[:3]),
            fix="use --uprobes=kernel, which sets breakpoints",
            code="probe.not-patchable",
        )
    return plan.with_points((replace(point, id=number) for number, point in enumerate(points)), skipped)


def _patched(plan: Plan, point: ProbePoint, patchable: choice.PatchablePoint) -> patched_functions.PatchedPoint:
    records, programs = plan.records(point), patchable.programs
    if point.latency:
        does = library.MEASURED
    elif point.kind in RETURN_KINDS:
        does = library.RETURNED
    else:
        does = library.ENTERED if records or len(programs.fills) else library.COUNTED
    return patched_functions.PatchedPoint(
        function=patchable.function,
        does=does,
        tests=programs.tests,
        fills=programs.fills,
        counts_at_return=programs.counts_at_return,
        records=records,
        latency=point.latency,
    )


def _record_bytes(plan: Plan, point: ProbePoint) -> int:
    return record_size(payload_of(point, plan.stacks)) if plan.records(point) else 0


def layout_with(layout: RecordLayout, plan: Plan, trace: PatchedTrace) -> RecordLayout:
    """The layout of records with those of the patched functions, which have a ring of their own."""
    if not plan.records_events:
        return layout
    ring = len(layout.record_sizes)
    return replace(
        layout,
        record_sizes=(*layout.record_sizes, trace.record_bytes - RING_HEADER.itemsize),
        point_layouts=(
            *layout.point_layouts,
            *(
                PointLayout(ring, payload_of(point, plan.stacks).items) if plan.records(point) else NO_RECORDS
                for point in plan.patched_points
            ),
        ),
    )

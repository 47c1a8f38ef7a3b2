"""Choose how each function of a trace is probed: patched, or by a breakpoint of the kernel."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic.errors import MachineError, ProbeError
from accel_magic.kernel import features
from accel_magic.kernel.attach.record_payloads import payload_of
from accel_magic.patching import hit_code, library, patched_functions, recipes, refusals
from accel_magic.patching.decode import JUMP_BYTES
from accel_magic.patching.recipes import NotPatchableError
from accel_magic.probes import grammar, return_probes
from accel_magic.probes.matching import check_breakpoints
from accel_magic.probes.plan import FUNCTION_KINDS, RETURN_KINDS, Skipped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from accel_magic.patching.hit_code import HitPrograms
    from accel_magic.patching.patched_functions import MappedFunction
    from accel_magic.probes.plan import Plan, ProbePoint, ProbeSpec, TraceRequest, Way

_KINDS: Final = ("uprobe", "uretprobe")
_ANY: Final = "offcpu"
"""A valid probe, without which an exclusion is an error."""


def split(request: TraceRequest) -> tuple[TraceRequest, TraceRequest]:
    """Split what is asked of a process that cannot set breakpoints: what is patched here, and everything else."""
    own: list[str | ProbeSpec] = []
    others: list[str | ProbeSpec] = []
    is_here = request.uprobes != "kernel" and request.scope in ("", "self")
    for word in request.specs:
        parts = [part for part in grammar.parse_all([word, _ANY]) if part.text != _ANY]
        functions = all(part.kind in _KINDS and not part.optional for part in parts)
        (own if is_here and functions else others).append(word)
    return replace(request, specs=tuple(own)), _without_columns(replace(request, specs=tuple(others)))


def _without_columns(request: TraceRequest) -> TraceRequest:
    """Leave out columns of functions, if there are none."""
    kinds = {part.kind for part in grammar.parse_all([*request.specs, _ANY])}
    return request if not kinds.isdisjoint((*FUNCTION_KINDS, "usdt")) else replace(request, args="")


def of_kernel(plan: Plan) -> TraceRequest:
    """The part of a plan's request that is asked of the broker."""
    return split(plan.request)[1] if plan.patched_points else plan.request


@dataclass(frozen=True)
class PatchablePoint:
    """A point that can be patched: where its function is, and what its hits do."""

    function: MappedFunction
    programs: HitPrograms


def choose(plan: Plan) -> Plan:
    """Have the functions of this process patched that can be; the others get a breakpoint if this process may set one.

    Args:
        plan: With points of any kind; those of user-space functions have no `way` yet.

    Returns:
        The plan, with points in the order kernel, patched, tasks. Functions that are probed neither way are skipped.

    Raises:
        ProbeError: Only patched functions were requested, and none can be; or too many need a breakpoint.

    """
    candidates = [point for point in plan.points if point.kind in _KINDS]
    if candidates:
        patched_functions.restore_inherited()
    if not candidates or plan.request.uprobes == "kernel":
        return _with_ways(plan, {point.id: "breakpoint" for point in candidates})
    refused = _refused(plan, candidates)
    may_break = plan.request.uprobes == "auto" and features.privilege_error() is None
    if may_break:
        refused |= _beside(candidates, refused)
    ways: dict[int, Way] = {point.id: "patched" for point in candidates if point.id not in refused}
    if may_break:
        ways.update(dict.fromkeys(refused, "breakpoint"))
        return _with_ways(plan, ways)
    if len(refused) == len(plan.points):
        raise _nothing_patched(plan, refused)
    skipped = [Skipped(point.function, refused[point.id]) for point in candidates if point.id in refused]
    remaining = [point for point in plan.points if point.id not in refused]
    return _with_ways(plan.with_points(remaining, skipped), ways)


def _nothing_patched(plan: Plan, refused: Mapping[int, str]) -> ProbeError | MachineError:
    why = "; ".join(f"{plan.points[number].function}: {reason}" for number, reason in [*refused.items()][:3])
    privilege = features.privilege_error()
    if plan.request.uprobes == "auto" and privilege is not None:
        return MachineError(
            privilege.what, why=f"{privilege.why}; and without: {why}", fix=privilege.fix, code=privilege.code
        )
    return ProbeError(
        "none of the functions can be patched",
        why=why,
        fix="use --uprobes=auto or --uprobes=kernel, which set breakpoints",
        code="probe.not-patchable",
    )


def _with_ways(plan: Plan, ways: Mapping[int, Way]) -> Plan:
    """Set the ways of points, by their ids, and number the points anew: kernel, patched, tasks."""
    points = [replace(point, way=ways.get(point.id, "")) for point in plan.points]
    points.sort(key=lambda point: (point.kind == "itt", point.way == "patched"))
    check_breakpoints(points)
    if not any(map(return_probes.at_return, points)):
        plan = replace(plan, notes=tuple(note for note in plan.notes if not return_probes.is_risk(note)))
    return plan.with_points(replace(point, id=number) for number, point in enumerate(points))


def unavailable() -> str:
    """Why no function of this process can be patched now; '' if some can be."""
    try:
        return refusals.of_process(library.loaded()) or patched_functions.in_use()
    except (MachineError, OSError) as error:
        return str(getattr(error, "what", error))


def _refused(plan: Plan, candidates: Iterable[ProbePoint]) -> dict[int, str]:
    """Why points are not patched, by their ids."""
    if why := unavailable():
        return {point.id: why for point in candidates}
    about_returns = refusals.of_returns()
    maps = patched_functions.own_code()
    refused = {}
    for point in candidates:
        try:
            patchable(plan, point, maps, about_returns)
        except NotPatchableError as error:
            refused[point.id] = str(error)
    return refused


def patchable(
    plan: Plan, point: ProbePoint, maps: Mapping[Path, patched_functions.Code], about_returns: str
) -> PatchablePoint:
    """Find what is needed to patch a point's function.

    Args:
        plan: What is traced.
        point: The point.
        maps: From `own_code`.
        about_returns: From `refusals.of_returns`.

    Raises:
        NotPatchableError: It cannot be patched.

    """
    returns = point.latency or point.kind in RETURN_KINDS
    if returns and about_returns:
        raise NotPatchableError(about_returns)
    if point.scope.name != "self" or point.scope.pid != os.getpid():
        raise NotPatchableError("other processes are traced")
    if point.counted:
        raise NotPatchableError("it is counted by thread")
    try:
        payload = payload_of(point, plan.stacks if plan.records(point) else ())
        programs = hit_code.translate(point, payload, records=plan.records(point))
    except hit_code.UntranslatableError as error:
        raise NotPatchableError(f"its filter or columns: {error}") from None
    code = maps.get(Path(point.target))
    if code is None:
        raise NotPatchableError("its file is not mapped in this process")
    if why := refusals.of_file(Path(point.target)):
        raise NotPatchableError(why)
    file = recipes.code_file(Path(point.target))
    address, moved = file.recipe(point.offset, (point.function, *point.aliases), returns=returns)
    return PatchablePoint(code.function(file, point.offset, address, moved), programs)


def _beside(candidates: Iterable[ProbePoint], refused: Mapping[int, str]) -> dict[int, str]:
    """Functions on pages with those that get a breakpoint, which the kernel sets in the file's pages only."""
    points = list(candidates)
    found: dict[int, str] = {}
    pages = {page for point in points if point.id in refused for page in _pages(point)}
    while True:
        more = [
            point
            for point in points
            if point.id not in refused and point.id not in found and not pages.isdisjoint(_pages(point))
        ]
        if not more:
            return found
        found |= {point.id: "on its page is a function that gets a breakpoint" for point in more}
        pages |= {page for point in more for page in _pages(point)}


def _pages(point: ProbePoint) -> set[tuple[str, int]]:
    """The pages that a patch of a function, or a breakpoint, is on."""
    last = point.offset + JUMP_BYTES - 1
    return {(point.target, place // mmap.PAGESIZE) for place in (point.offset, last)}

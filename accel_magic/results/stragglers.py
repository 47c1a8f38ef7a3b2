"""Stragglers: which rank of a traced job is late, by how much, and what it did instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, get_args

import numpy as np

from accel_magic.analysis.stragglers import collectives, lateness, steps
from accel_magic.analysis.stragglers.causes import Activity, Spans
from accel_magic.analysis.stragglers.lateness import By, Clocks, Lateness
from accel_magic.analysis.waits import FAULTS
from accel_magic.errors import ProbeError, ResultError
from accel_magic.probes.presets import steps as marks
from accel_magic.probes.presets import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    import pandas as pd
    from bokeh.models import Plot

    from accel_magic.analysis.stragglers.coverage import Ints
    from accel_magic.analysis.stragglers.lateness import Matched
    from accel_magic.probes.plan import ProbePoint

_STEPS: Final = (marks.PROBE, torch.STEPS)
_COLLECTIVES: Final = (torch.COLLECTIVES, torch.GROUPS, torch.WAITS)


class Stragglers:
    """Which rank is late at each step or collective.

    Args:
        lateness: How late each rank was.

    """

    def __init__(self, lateness: Lateness) -> None:
        self.lateness = lateness

    @property
    def by(self) -> By:
        """What was compared: "step" or "collective"."""
        return self.lateness.matched.by

    @property
    def matched(self) -> Matched:
        """How many steps or collectives could be compared: `matched` of `total`, `complete` on all `ranks`."""
        return self.lateness.matched

    @property
    def table(self) -> pd.DataFrame:
        """One row per rank, the one with the most late time first.

        Columns: `node`, `host`, `rank`, `pid`; `matched`, `late` (at least `late_ns` late) and `unknown` (the clocks do
        not tell), counts of steps or collectives; `mean_late_ns`, `p50_late_ns`, `max_late_ns` (of all that are known;
        negative: ahead of the others), `total_late_ns` (of the late ones). Of the late ones, by how much more than the
        median of the others, on average: `cpu_ns`, `waiting_ns`, `driver_ns`, `fault_ns` (NA: not traced, or never
        late), and `cause`, the largest one, by its reason if it is a wait. By collective also `waited_for_late_ns` and
        `transfer_ns`: waiting for the last rank, and the time after that; means of all that matched.
        """
        return self.lateness.table

    @property
    def by_step(self) -> pd.DataFrame:
        """One row per step (or collective) and rank.

        The columns of `ClusterResult.steps` (or `.collectives`) with `late_ns` (NA: no other rank has it, or the clocks
        do not tell) and `ranks`, the number of ranks that have it; of collectives also `error_ns`, `waited_for_late_ns`
        and `transfer_ns`.
        """
        return self.lateness.rows

    @property
    def notes(self) -> tuple[str, ...]:
        """What limits the answer."""
        return self.lateness.notes

    def figure(self) -> Plot:
        """Draw how late each rank was at each step or collective; a Bokeh figure."""
        from accel_magic.views.figures.stragglers import lateness as draw

        return draw(self.lateness)

    def __repr__(self) -> str:
        """Return plain text: who is late, how many steps matched, and a row per rank."""
        from accel_magic.views.stragglers import text

        return text(self.lateness)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        """Text and static HTML in one bundle."""
        from accel_magic.views.stragglers import html

        return {"text/plain": repr(self), "text/html": html(self.lateness)}


@dataclass(frozen=True)
class Traced:
    """A trace of many ranks.

    Attributes:
        events: Of all nodes on one clock, with `node`, `host` and `rank`.
        points: The probe points.
        lost: Probes of which each node lost events, by its name.
        clocks: The clocks of the nodes.

    """

    events: pd.DataFrame
    points: tuple[ProbePoint, ...]
    lost: Mapping[str, frozenset[str]]
    clocks: Clocks

    def steps(self, found: pd.DataFrame) -> pd.DataFrame:
        """The steps, given the collectives: see `ClusterResult.steps`."""
        own = steps.steps_of(self.events, self._lossy(_STEPS))
        return steps.with_waiting(own, found) if self._has((torch.COLLECTIVES,)) else own

    def collectives(self) -> pd.DataFrame:
        """The collectives: see `ClusterResult.collectives`."""
        waits = self._has((torch.WAITS,))
        return collectives.collectives_of(self.events, waits=waits, lossy=self._lossy(_COLLECTIVES))

    def stragglers(self, by: By, late_ns: int, own_steps: pd.DataFrame, found: pd.DataFrame) -> Stragglers:
        """Find the stragglers, given the steps and the collectives: see `ClusterResult.stragglers`."""
        if by not in get_args(By):
            raise ProbeError(
                f"by={by!r} is not valid", fix='use by="step" or by="collective"', code="option.unknown-value"
            )
        if by == "step":
            self._check(own_steps, _STEPS, by, "steps torch, and mark steps: accel_magic.step(number)")
            activity, threads = self._activity()
            traced = found if self._has((torch.COLLECTIVES,)) else None
            return Stragglers(lateness.by_step(own_steps, traced, activity, threads=threads, late_ns=late_ns))
        self._check(found, (torch.COLLECTIVES,), by, "torch")
        activity, threads = self._activity()
        return Stragglers(lateness.by_collective(found, self.clocks, activity, threads=threads, late_ns=late_ns))

    def _has(self, probes: Collection[str]) -> bool:
        return any(point.probe in probes for point in self.points)

    def _check(self, found: pd.DataFrame, probes: Collection[str], what: By, add: str) -> None:
        if not self._has(probes):
            raise ResultError(
                f"{what}s were not traced", why=f"none of the probes records them: {', '.join(probes)}",
                fix=f"trace again with the probes {add}", code="stragglers.not-traced",
            )  # fmt: skip
        if not len(found):
            raise ResultError(
                f"no {what} was recorded",
                why=f"the probes {', '.join(probes)} were attached, and none was hit in the traced processes",
                fix=f"trace code that has {what}s: {add}",
                code="stragglers.not-traced",
            )

    def _lossy(self, probes: Collection[str]) -> set[str]:
        """Nodes that lost events of these probes."""
        return {node for node, lost in self.lost.items() if not lost.isdisjoint(probes)}

    def _activity(self) -> tuple[Activity, dict[tuple[str, int], int]]:
        """What was traced of each thread, and the threads' numbers by node and tid."""
        points = self.points
        if not any(map(_is_driver, points)) and not any(map(_is_fault, points)) and not any(map(_is_wait, points)):
            return Activity(), {}
        events = self.events
        numbers = steps.numbers(events, ["node", "tid"])
        first = np.unique(numbers, return_index=True)[1]
        named = zip(events["node"].iloc[first].astype("str"), events["tid"].iloc[first].tolist(), strict=True)
        threads = {pair: number for number, pair in enumerate(named)}
        names: tuple[str, ...] = ()
        waits, rows = self._spans(numbers, _is_wait)
        reasons = None
        if waits is not None:
            column = events["wait"].cat
            reasons, names = np.asarray(column.codes, np.int64)[rows], tuple(map(str, column.categories))
        driver, _ = self._spans(numbers, _is_driver)
        faults, _ = self._spans(numbers, _is_fault)
        return Activity(driver, faults, waits, reasons, names), threads

    def _spans(self, threads: Ints, chosen: Callable[[ProbePoint], bool]) -> tuple[Spans | None, Ints]:
        """Spans of the events of some points, and their rows; None if no such point was traced."""
        events = self.events
        points = {(point.probe, point.function) for point in self.points if chosen(point)}
        if not points:
            return None, np.zeros(0, np.int64)
        probes, functions = events["probe"].cat, events["function"].cat
        wanted = np.zeros((len(probes.categories) + 1, len(functions.categories) + 1), np.bool_)
        for probe, function in points:
            wanted[probes.categories.get_loc(probe), functions.categories.get_loc(function)] = True
        rows = np.flatnonzero(wanted[probes.codes.to_numpy(), functions.codes.to_numpy()])
        start = events["time_ns"].to_numpy(np.int64)[rows]
        length = np.nan_to_num(events["duration_ns"].to_numpy(np.float64)[rows]).astype(np.int64)
        return Spans(threads[rows], start, start + length), rows


def is_used(point: ProbePoint) -> bool:
    """Whether events of a point tell about stragglers."""
    of_ranks = point.probe in (*_STEPS, *_COLLECTIVES)
    return of_ranks or _is_driver(point) or _is_fault(point) or _is_wait(point)


def _is_driver(point: ProbePoint) -> bool:
    """Whether a point measures calls into a driver: functions of a kernel module, or ioctls."""
    in_module = point.kind == "kprobe" and point.target != ""
    return point.latency and (in_module or (point.kind == "tracepoint" and point.function == "sys_enter_ioctl"))


def _is_fault(point: ProbePoint) -> bool:
    return point.latency and point.kind == "kprobe" and point.function in FAULTS


def _is_wait(point: ProbePoint) -> bool:
    return point.kind == "offcpu"

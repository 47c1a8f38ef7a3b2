"""Tables of steps, collectives and stragglers of a trace of many nodes, each computed on first use."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, get_args

import numpy as np

from accel_magic.analysis.waits import FAULTS
from accel_magic.errors import ProbeError, ResultError
from accel_magic.subsystems.steps import collectives, lateness, marks, perfetto, steps, torch
from accel_magic.subsystems.steps.causes import Activity, Spans
from accel_magic.subsystems.steps.lateness import LATE_NS, By, Clocks
from accel_magic.subsystems.steps.stragglers import Stragglers

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    import pandas as pd

    from accel_magic.probes.plan import ProbePoint
    from accel_magic.subsystems.steps.coverage import Ints
    from accel_magic.subsystems.subsystem import NodesTrace

_STEPS: Final = (marks.PROBE, torch.STEPS)
_COLLECTIVES: Final = (torch.COLLECTIVES, torch.GROUPS, torch.WAITS)


class StepTables:
    """Steps, collectives and stragglers.

    Args:
        trace: The trace.

    """

    def __init__(self, trace: NodesTrace) -> None:
        self._trace = trace

    @cached_property
    def events(self) -> pd.DataFrame:
        """The events of all nodes on one clock; if they are too many to load, those that the tables need."""
        return self._trace.load(is_used)

    @cached_property
    def steps(self) -> pd.DataFrame:
        """One row per step and rank, by rank and time; empty if none was marked.

        A rank is a process of a node. Columns: `node`, `host`, `rank`, `pid`, `tid`, `step` (its number), `repeat` (how
        often the rank had this number before), `time_ns` (its start), `duration_ns` (to the next mark; NA for the last
        one), `waiting_ns` (in collectives; NA if they were not traced) and `own_ns` (the rest).
        """
        own = steps.steps_of(self.events, self._lossy(_STEPS))
        return steps.with_waiting(own, self.collectives) if self._has((torch.COLLECTIVES,)) else own

    @cached_property
    def collectives(self) -> pd.DataFrame:
        """One row per collective and rank, by time; empty if there was none.

        Columns: `node`, `host`, `rank`, `pid`, `tid`, `group` (its name; "" if unknown), `operation`, `number` (its
        place in the group; NA without a group), `time_ns` (the call), `wait_ns` (when a thread began to wait for it; NA
        if none did), `end_ns` (NA if it was not complete when the trace ended) and `failed`.
        """
        waits = self._has((torch.WAITS,))
        return collectives.collectives_of(self.events, waits=waits, lossy=self._lossy(_COLLECTIVES))

    def stragglers(self, by: By = "step", *, late_ns: int = LATE_NS) -> Stragglers:
        """Find out which rank is late at each step or collective, by how much, and what it did instead.

        By step, a rank's own time (without waiting in collectives) is compared with the median of the other ranks; by
        collective, the time of its call. What it did instead is known if `offcpu` was traced.

        Args:
            by: "step" or "collective".
            late_ns: From when on a rank counts as late.

        Raises:
            ResultError: Steps or collectives were not traced, none was recorded, or none is there from two ranks.
            ProbeError: `by` is neither.

        """
        if by not in get_args(By):
            raise ProbeError(
                f"by={by!r} is not valid", fix='use by="step" or by="collective"', code="option.unknown-value"
            )
        if by == "step":
            self._check(self.steps, _STEPS, by, "steps torch, and mark steps: accel_magic.step(number)")
            activity, threads = self._activity()
            traced = self.collectives if self._has((torch.COLLECTIVES,)) else None
            return Stragglers(lateness.by_step(self.steps, traced, activity, threads=threads, late_ns=late_ns))
        self._check(self.collectives, (torch.COLLECTIVES,), by, "torch")
        activity, threads = self._activity()
        found = lateness.by_collective(self.collectives, self._clocks(), activity, threads=threads, late_ns=late_ns)
        return Stragglers(found)

    def tracks(self, bases: Mapping[str, int]) -> Iterator[bytes]:
        """Entries of a Perfetto trace: a track of steps and one of collectives beside each process's threads.

        Args:
            bases: What is added to each node's process and thread ids.

        """
        return perfetto.tracks(self.steps, self.collectives, bases)

    def _clocks(self) -> Clocks:
        lines = self._trace.clocks
        return Clocks(
            {name: line.error_ns for name, line in lines.items()},
            {name: (line.offset_ns, line.drift) for name, line in lines.items()},
        )

    def _has(self, probes: Collection[str]) -> bool:
        return any(point.probe in probes for point in self._trace.points)

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
        return {node for node, lost in self._trace.lost.items() if not lost.isdisjoint(probes)}

    def _activity(self) -> tuple[Activity, dict[tuple[str, int], int]]:
        """What was traced of each thread, and the threads' numbers by node and tid."""
        points = self._trace.points
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
        points = {(point.probe, point.function) for point in self._trace.points if chosen(point)}
        if not points:
            return None, np.zeros(0, np.int64)
        probes, functions = events["probe"].cat, events["function"].cat
        requested = np.zeros((len(probes.categories) + 1, len(functions.categories) + 1), np.bool_)
        for probe, function in points:
            requested[probes.categories.get_loc(probe), functions.categories.get_loc(function)] = True
        rows = np.flatnonzero(requested[probes.codes.to_numpy(), functions.codes.to_numpy()])
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

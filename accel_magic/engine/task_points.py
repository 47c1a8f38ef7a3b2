"""The part of a live trace in this process: ITT tasks, whose points are known only when the trace ends."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.collecting import collector_memory
from accel_magic.kernel import clock, scope
from accel_magic.kernel.attachment import HEAD, PayloadItem, PointLayout
from accel_magic.kernel.stacks.stack_choice import task_stacks
from accel_magic.recording.kernel_counts import KernelCounts
from accel_magic.recording.recording import Histograms

if TYPE_CHECKING:
    from contextlib import ExitStack

    from accel_magic.collecting.rings import PythonFrames, RecordedStacks
    from accel_magic.itt.task_records import Task, TaskCounts, TaskTrace
    from accel_magic.kernel.attachment import RecordLayout
    from accel_magic.kernel.stacks.stack_table import RawStacks
    from accel_magic.probes.plan import Plan, ProbePoint

_ITEMS: Final = (
    PayloadItem("duration_ns", "s64", 0),
    PayloadItem("user_stack", "u64", 8),
    PayloadItem("python_stack", "u64", 16),
)
"""The values in a task's record, the last two only in traces with stacks: `struct record` in collecting/area.h."""
PAGE_FAULTS: Final = PayloadItem("page_faults", "u32", -4)
"""The last value of the head, of tasks with page faults."""


def attach(plan: Plan, *, native: bool, undo: ExitStack) -> tuple[TaskTrace, tuple[str, ...]]:
    """Choose the tasks of a plan; nothing is counted yet.

    Args:
        plan: What to trace.
        native: Record native stacks, if the plan has them.
        undo: Receives what ends the trace of tasks.

    Returns:
        The trace of tasks, and notes for the user.

    Raises:
        MachineError: The collector cannot be used.
        TraceStateError: Another trace collects tasks.

    """
    from accel_magic.itt import collector, task_records

    notes = collector.require([point.target for point in plan.task_points])
    trace = task_records.TaskTrace(
        [
            *(
                task_records.Pattern(point.target, point.function, page_faults=point.page_faults, nesting=point.nesting)
                for point in plan.task_points
            ),
            *(task_records.Pattern(pattern.domain, pattern.task, excludes=True) for pattern in plan.exclusions),
        ],
        first_point=len(plan.kernel_points) + len(plan.patched_points),
        buffer_bytes=int(plan.request.buffer_mib * (1 << 20)),
        records=plan.records_events,
        shift_ns=-clock.shift().ns,
        native="user" in plan.stacks and native,
        python=python_frames() if "python" in plan.stacks else None,
    )
    undo.callback(trace.close)
    trace.prepare()
    return trace, tuple(notes)


def python_frames() -> PythonFrames:
    """Where this process's Python keeps its frames. Raises MachineError."""
    from accel_magic.collecting.rings import PythonFrames
    from accel_magic.kernel.stacks import python_layout

    found = python_layout.layout()
    names = {field.name for field in fields(PythonFrames)} - {"hops"}
    return PythonFrames(hops=found.hops, **{name: found.fields()[name] for name in names})


def stacks(found: RecordedStacks) -> RawStacks:
    """Stacks with process ids as the kernel sees them."""
    from accel_magic.kernel.stacks.stack_table import RawStacks

    own = found.pids == os.getpid()
    pids = np.where(own, scope.kernel_pid(os.getpid()), found.pids).astype(np.int32)
    return RawStacks(found.keys, found.kinds, found.starts, found.words, pids, collector_memory.MOST_FRAMES)


@dataclass(frozen=True)
class CountedTasks:
    """What was traced and counted: `plan` has a point per task that was seen, `layout` and `counts` an entry for it."""

    plan: Plan
    layout: RecordLayout
    counts: KernelCounts

    def with_tasks(self, seen: TaskCounts) -> CountedTasks:
        """Replace the probes by the tasks that they selected, followed by the probes that selected none."""
        others = (*self.plan.kernel_points, *self.plan.patched_points)
        probes, first = self.plan.task_points, len(others)
        of = [min(task.pattern, len(probes) - 1) for task in seen.tasks]
        tasks = [
            replace(probes[at], probe=_task_probe(probes[at], task), target=task.domain, function=task.task)
            for at, task in zip(of, seen.tasks, strict=True)
        ]
        tasks += [probe for at, probe in enumerate(probes) if at not in of]
        points = (*others, *(replace(point, id=first + at) for at, point in enumerate(tasks)))
        return CountedTasks(
            self.plan.with_points(points),
            self._layout_with(tasks) if self.plan.records_events else self.layout,
            _joined(self.counts, seen, len(tasks)),
        )

    def _layout_with(self, tasks: list[ProbePoint]) -> RecordLayout:
        layout, ring = self.layout, len(self.layout.record_sizes)
        items = _ITEMS if task_stacks(self.plan) else _ITEMS[:1]
        of_tasks = ((*items, PAGE_FAULTS) if task.page_faults else items for task in tasks)
        return replace(
            layout,
            record_sizes=(*layout.record_sizes, HEAD.itemsize + 8 * len(items)),
            point_layouts=(*layout.point_layouts, *(PointLayout(ring, own) for own in of_tasks)),
        )


def _task_probe(probe: ProbePoint, task: Task) -> str:
    """The probe shown for a task, with its domain; a part of a preset keeps its name."""
    return f"itt:{task.domain}:{probe.function}" if "itt:" in probe.probe else probe.probe


def _joined(counts: KernelCounts, seen: TaskCounts, tasks: int) -> KernelCounts:
    """Counts of the kernel's points, then of the tasks; probes that selected no task have counted nothing."""
    missing, none = tasks - len(seen.tasks), np.zeros(tasks, np.uint64)
    histograms = counts.histograms
    return KernelCounts(
        hits=np.concatenate([counts.hits, np.pad(seen.hits, (0, missing))]),
        lost=np.concatenate([counts.lost, np.pad(seen.lost, (0, missing))]),
        unpaired=np.concatenate([counts.unpaired, none]),
        totals=np.concatenate([counts.totals, none]),
        histograms=Histograms(
            np.concatenate([histograms.counts, np.pad(seen.histograms, ((0, missing), (0, 0)))]),
            np.concatenate([histograms.total_ns, np.pad(seen.total_ns, (0, missing))]),
            np.concatenate([histograms.max_ns, np.pad(seen.longest_ns, (0, missing))]),
        ),
    )

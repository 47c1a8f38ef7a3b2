"""Input of the OpenVINO analyses: the tasks of a trace, sorted out by what they are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.analysis.frames import latency_frame
from accel_magic.analysis.nesting import enclosing
from accel_magic.probes.globs import matcher
from accel_magic.subsystems.openvino import preset

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.probes.plan import ProbePoint
    from accel_magic.recording.recording import Recording

INFERENCE: Final = "inference"
LAYER: Final = "layer"
TYPE: Final = "type"
PRIMITIVE: Final = "primitive"
CREATED: Final = "created"
LOOP: Final = "loop"
STEP: Final = "step"
OTHER: Final = "other"
_KINDS: Final = {
    INFERENCE: preset.INFERENCES,
    LAYER: preset.LAYERS,
    TYPE: preset.TYPES,
    PRIMITIVE: preset.PRIMITIVES,
    CREATED: preset.CREATED,
    LOOP: preset.LOOPS,
}
"""Globs of the domains by kind of task."""
_NAMES: Final = (*_KINDS, STEP)
_PLUGIN: Final = re.compile(r"ov::\w+::(\w+)::")


def kind_of(point: ProbePoint) -> str:
    """Return the kind of a point's tasks; `other` for what is not a task of OpenVINO."""
    if point.kind != "itt":
        return OTHER
    kind = next((kind for kind, glob in _KINDS.items() if matcher(glob)(point.target)), OTHER)
    return STEP if kind == INFERENCE and not point.function.startswith(preset.INFERENCE) else kind


@dataclass(frozen=True)
class OpenVinoTrace:
    """A trace as the input of the analyses.

    Attributes:
        recording: Its source.
        events: `TraceResult.events`: one row per recorded hit, in order of time.

    """

    recording: Recording
    events: pd.DataFrame

    @property
    def points(self) -> tuple[ProbePoint, ...]:
        """The tasks that were seen, and other probe points."""
        return self.recording.plan.points

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """Kind of each point."""
        return tuple(map(kind_of, self.points))

    @property
    def complete(self) -> bool:
        """Whether every task was recorded."""
        return not self.recording.events_lost and not self.recording.limit_reached

    @cached_property
    def totals(self) -> pd.DataFrame:
        """One row per task that was seen, exact: `kind`, `domain`, `name`, and the columns of `TraceResult.latency`."""
        table = latency_frame(self.recording).reset_index(drop=True)
        points = self.recording.plan.latency_points
        kinds = [*map(kind_of, points)]
        for at, (name, values) in enumerate(
            {
                "kind": kinds,
                "domain": [point.target for point in points],
                "name": [point.function for point in points],
            }.items()
        ):
            table.insert(at, name, pd.Series(values, dtype="str"))
        total = self.recording.histograms.total_ns
        table["total_ns"] = total.astype(np.float64)
        return table[(table["kind"] != OTHER) & (table["count"] > 0)].reset_index(drop=True)

    @cached_property
    def tasks(self) -> pd.DataFrame:
        """One row per recorded task of OpenVINO, in order of time.

        Columns: `kind`, `name` (categories), `device` (category: `cpu`, `npu`, ..., '' if the domain names none),
        `pid`, `tid`, `start_ns`, `end_ns`, `duration_ns` (int64).
        """
        point = self.recording.events.columns["point"].values
        chosen = np.flatnonzero(np.array([kind != OTHER for kind in self.kinds])[point])
        events, point = self.events.iloc[chosen], point[chosen]
        start = events["time_ns"].to_numpy()
        duration = events.get("duration_ns", pd.Series(np.zeros(len(events)))).to_numpy().astype(np.int64)
        return pd.DataFrame(
            {
                "kind": pd.Categorical(np.array(self.kinds)[point], categories=[*_NAMES]),
                "name": events["function"].array,
                "device": pd.Categorical(np.array([_device(one.target) for one in self.points])[point]),
                "pid": events["pid"].to_numpy(),
                "tid": events["tid"].to_numpy(),
                "start_ns": start,
                "end_ns": start + duration,
                "duration_ns": duration,
            }
        )

    @cached_property
    def compiled(self) -> pd.DataFrame:
        """One row per outermost call of `Core.compile_model` or `import_model`, and when: `tid`, `start_ns`, ...

        Empty if no Python code of the traced process called them.
        """
        events = self.events[self.events["function"].isin(preset.COMPILED)]
        duration = events.get("duration_ns", pd.Series(np.zeros(len(events)))).to_numpy().astype(np.int64)
        start = events["time_ns"].to_numpy()
        calls = pd.DataFrame(
            {"tid": events["tid"].to_numpy(), "start_ns": start, "end_ns": start + duration, "duration_ns": duration}
        )
        return calls[self.callers(calls) < 0].reset_index(drop=True)

    def of_kind(self, kind: str) -> pd.DataFrame:
        """Rows of `tasks` of one kind, with their index."""
        return self.tasks[self.tasks["kind"] == kind]

    def within(self, outer: pd.DataFrame, inner: pd.DataFrame) -> NDArray[np.intp]:
        """Position in `outer` of the innermost task around each of `inner`, on the same thread; -1 if there is none."""
        return enclosing(
            outer["tid"].to_numpy(),
            outer["start_ns"].to_numpy(),
            outer["end_ns"].to_numpy() + 1,  # tasks of 0 ns, and tasks that end together
            inner["tid"].to_numpy(),
            inner["start_ns"].to_numpy() + 1,
        )

    @staticmethod
    def callers(tasks: pd.DataFrame) -> NDArray[np.intp]:
        """Position of the innermost other task around each task, on the same thread; -1 if there is none."""
        thread, start = tasks["tid"].to_numpy(), tasks["start_ns"].to_numpy()
        return enclosing(thread, start, tasks["end_ns"].to_numpy(), thread, start)


def _device(domain: str) -> str:
    found = _PLUGIN.match(domain)
    return found[1] if found else ""

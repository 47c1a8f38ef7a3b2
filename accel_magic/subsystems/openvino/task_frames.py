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
from accel_magic.subsystems.openvino import preset, primitive_names
from accel_magic.subsystems.openvino.model_names import ModelNames
from accel_magic.subsystems.openvino.waiting_calls import WaitingCalls

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
        """One row per task that was seen, exact: `kind`, `domain`, `name`, and the columns of `TraceResult.latency`.

        These are of the tasks that were measured: of types, the first around each node, and of loops, those outside of
        nodes and primitives. Others have only been counted.
        """
        table = latency_frame(self.recording).reset_index(drop=True)
        points = self.recording.plan.latency_points
        kinds = [*map(kind_of, points)]
        for at, (name, values) in enumerate(
            {
                "kind": kinds,
                "domain": [point.target for point in points],
                "name": [*map(self._name, points)],
            }.items()
        ):
            table.insert(at, name, pd.Series(values, dtype="str"))
        total = self.recording.histograms.total_ns
        table["total_ns"] = total.astype(np.float64)
        hit = self.recording.hits[[point.id for point in points]] > 0
        return table[(table["kind"] != OTHER) & hit].reset_index(drop=True)

    @cached_property
    def tasks(self) -> pd.DataFrame:
        """One row per recorded task of OpenVINO, in order of time.

        Columns: `kind`, `name` (categories), `device` (category: `cpu`, `npu`, ..., '' if the domain names none),
        `pid`, `tid`, `start_ns`, `end_ns`, `duration_ns` (int64), `page_faults` (Int64: of its process meanwhile, in
        any thread; NA if they were not counted).
        """
        point = self.recording.events.columns["point"].values
        chosen = np.flatnonzero(np.array([kind != OTHER for kind in self.kinds])[point])
        events, point = self.events.iloc[chosen], point[chosen]
        start = events["time_ns"].to_numpy()
        duration = events.get("duration_ns", pd.Series(np.zeros(len(events)))).to_numpy().astype(np.int64)
        return pd.DataFrame(
            {
                "kind": pd.Categorical(np.array(self.kinds)[point], categories=[*_NAMES]),
                "name": self._names(point),
                "device": pd.Categorical(np.array([_device(one.target) for one in self.points])[point]),
                "pid": events["pid"].to_numpy(),
                "tid": events["tid"].to_numpy(),
                "start_ns": start,
                "end_ns": start + duration,
                "duration_ns": duration,
                "page_faults": self._page_faults(point, events),
            }
        )

    def _page_faults(self, point: NDArray[np.intp], events: pd.DataFrame) -> pd.Series[int]:
        """Page faults during tasks, given their points."""
        counted = np.array([one.page_faults for one in self.points], bool)[point]
        column = events.get("page_faults", pd.Series(pd.NA, events.index)).astype("Int64").reset_index(drop=True)
        return column.where(pd.Series(counted, column.index))

    def _name(self, point: ProbePoint) -> str:
        """The name of a point's tasks."""
        if kind_of(point) not in {PRIMITIVE, CREATED}:
            return point.function
        return primitive_names.right(point.function, self.recording.machine.get("openvino", ""))

    def _names(self, point: NDArray[np.intp]) -> pd.Categorical[str]:
        """The names of tasks, given their points."""
        names = [*map(self._name, self.points)]
        categories = pd.Index(dict.fromkeys(names), dtype="str")
        return pd.Categorical.from_codes(categories.get_indexer(pd.Index(names))[point], categories=categories)

    @cached_property
    def inferences(self) -> pd.DataFrame:
        """The inferences: the rows of `tasks`, with a new index, and more columns.

        `model`, as `ModelNames` names it; `layers` (number of nodes executed in it, with those that are part of
        another), `layers_ns` (their time, each moment once), `first_ns` and `last_ns` (Int64: when the first of them
        began and the last ended; NA without layers); `stream_ns` (int64: when it could have begun its layers, because
        the layers of its model's other inferences had ended: later than `start_ns` if it waited for a stream).
        """
        found = self.of_kind(INFERENCE).reset_index(drop=True)
        found["model"] = self.names.of(found)
        executions = self.executions if len(found) else self.executions.iloc[:0]
        inside = executions[executions["inference"] >= 0]
        outermost = inside[inside["parent"] < 0]
        spent = np.bincount(outermost["inference"], outermost["duration_ns"], minlength=len(found))
        found["layers"] = np.bincount(inside["inference"], minlength=len(found))
        found["layers_ns"] = spent.astype(np.int64)
        of = outermost.groupby("inference")
        found["first_ns"] = of["start_ns"].min().reindex(found.index).astype("Int64")
        found["last_ns"] = of["end_ns"].max().reindex(found.index).astype("Int64")
        found["stream_ns"] = _stream_ns(found)
        return found

    @property
    def inferences_ns(self) -> float:
        """Time of all inferences, without waiting for streams; NaN without any."""
        found = self.inferences
        worked = (found["end_ns"] - found["stream_ns"]).sum() / max(found["duration_ns"].sum(), 1)
        counted = self.totals.loc[self.totals["kind"] == INFERENCE, "total_ns"].sum()
        return float(counted * (worked or 1)) or np.nan

    @cached_property
    def names(self) -> ModelNames:
        """Names of the models."""
        return ModelNames.of_trace(self.recording, self.of_kind(INFERENCE), self.executions)

    @cached_property
    def executions(self) -> pd.DataFrame:
        """Executions of nodes: the rows of `tasks`, with a new index, and more columns.

        `inference`: row of `inferences` in which it ran; -1 for none: it ran when a model was compiled, for its
        constants, or in an inference that had begun before the trace. `parent`: row of the node that it is part of,
        such as a Loop's; -1 for none. `own_ns`: without the nodes that are part of it. Without any traced inferences,
        `inference` is 0.
        """
        found = self.of_kind(LAYER).reset_index(drop=True)
        inferences = self.of_kind(INFERENCE)
        known = INFERENCE in set(self.totals["kind"])
        found["inference"] = self.within(inferences, found) if known else np.zeros(len(found), np.intp)
        parent = self.callers(found)
        found["parent"] = parent
        spent, nested = found["duration_ns"].to_numpy(), parent >= 0
        found["own_ns"] = spent - np.bincount(parent[nested], spent[nested], minlength=len(found)).astype(np.int64)
        return found

    @cached_property
    def types(self) -> NDArray[np.object_]:
        """Type of each of `executions`, from the task around it, `Convolution::execute`; '' if it is not known.

        These tasks are recorded only around the first execution of a node: others have the type of one in an inference
        of the same name, if there is only one such type, or of any with the node's name.
        """
        executions, around = self.executions, self.of_kind(TYPE)
        places = self.within(around, executions)
        names = np.array([*(str(name).partition("::")[0] for name in around["name"].cat.categories), ""], object)
        codes = around["name"].cat.codes.to_numpy()
        found = names[np.where(places >= 0, codes[places], -1)] if len(codes) else np.full(len(places), "", object)
        inferences = self.of_kind(INFERENCE)["name"].astype(str).to_numpy(object)
        inside = executions["inference"].to_numpy()
        known = inside >= 0 if len(inferences) else np.zeros(len(inside), bool)
        events = pd.DataFrame({"name": executions["name"].astype(str).to_numpy(object), "type": found})
        events["of"] = np.where(known, inferences[np.where(known, inside, 0)] if len(inferences) else "", "")
        for key in (["name", "of"], ["name"]):
            events["type"] = events["type"].where(events["type"] != "", _only_type(events, key))
        return events["type"].to_numpy(object)

    @cached_property
    def waiting_calls(self) -> WaitingCalls:
        """The calls from Python that wait for an inference, and their inferences."""
        calls = self.python_calls((preset.CALL,))
        return WaitingCalls.found(calls, self.inferences, self.within(calls, self.inferences))

    @cached_property
    def compiled(self) -> pd.DataFrame:
        """One row per outermost call from Python that compiled a model or made a pipeline: see `python_calls`."""
        return self.python_calls((*preset.COMPILED, preset.LOADED))

    def python_calls(self, names: tuple[str, ...]) -> pd.DataFrame:
        """One row per outermost call of the Python API whose task's name begins with one of these, in order of time.

        Columns: `name`, `pid`, `tid`, `start_ns`, `end_ns`, `duration_ns`. Empty if no such call was traced.
        """
        functions = self.events["function"]
        chosen = [name for name in functions.cat.categories if str(name).startswith(names)]
        events = self.events[functions.isin(chosen)]
        duration = events.get("duration_ns", pd.Series(np.zeros(len(events)))).to_numpy().astype(np.int64)
        start = events["time_ns"].to_numpy()
        calls = pd.DataFrame(
            {
                "name": events["function"].astype(str).to_numpy(),
                "pid": events["pid"].to_numpy(),
                "tid": events["tid"].to_numpy(),
                "start_ns": start,
                "end_ns": start + duration,
                "duration_ns": duration,
            }
        )
        return calls[self.callers(calls) < 0].reset_index(drop=True)

    @cached_property
    def working(self) -> pd.DataFrame:
        """The rows of `tasks`, in order of time; inferences from when they had a stream to their last layer's end."""
        tasks, inferences = self.tasks, self.inferences
        chosen = (tasks["kind"] == INFERENCE).to_numpy()
        begins, ends = (tasks[edge].to_numpy().copy() for edge in ("start_ns", "end_ns"))
        begins[chosen] = inferences["stream_ns"]
        ends[chosen] = inferences["last_ns"].fillna(inferences["end_ns"])
        return tasks.assign(start_ns=begins, end_ns=ends).sort_values("start_ns", kind="stable")

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


def _only_type(events: pd.DataFrame, key: list[str]) -> pd.Series[str]:
    """The type that executions with the same key have, if it is only one; else ''."""
    pairs = events.loc[events["type"] != "", [*key, "type"]].drop_duplicates().drop_duplicates(key, keep=False)
    joined: pd.Series[str] = events[key].merge(pairs, on=key, how="left")["type"].fillna("")
    return joined


def _stream_ns(inferences: pd.DataFrame) -> pd.Series[int]:
    """When each inference could begin: the last end of another one's layers between its start and its first layer."""
    begins = inferences["start_ns"].copy()
    known = inferences[inferences["first_ns"].notna()]
    for _, own in known.groupby(["pid", "name"], observed=True, sort=False):
        ends = np.sort(own["last_ns"].to_numpy(np.int64))
        last = np.searchsorted(ends, own["first_ns"].to_numpy(np.int64), side="right") - 1
        freed = np.where(last >= 0, ends[np.maximum(last, 0)], 0)
        begins[own.index] = np.maximum(freed, own["start_ns"].to_numpy())
    return begins


def _device(domain: str) -> str:
    found = _PLUGIN.match(domain)
    return found[1] if found else ""

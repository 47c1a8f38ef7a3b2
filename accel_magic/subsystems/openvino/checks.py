"""Checks of the rules (`rules.py`) on a trace of OpenVINO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import pandas as pd

from accel_magic.findings import Evidence, Stretch
from accel_magic.subsystems.openvino import preset
from accel_magic.subsystems.openvino.compiled_models import models_in
from accel_magic.subsystems.openvino.models import most_at_once
from accel_magic.subsystems.openvino.queueing import waited_for_others
from accel_magic.subsystems.openvino.requests import succeeded
from accel_magic.subsystems.openvino.roofline import needed_ns
from accel_magic.subsystems.openvino.task_frames import CREATED, INFERENCE, LAYER, LOOP, STEP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from accel_magic.findings import Rule
    from accel_magic.recording.recording import Recording
    from accel_magic.subsystems.openvino.task_frames import OpenVinoTrace

REFERENCE: Final = "ref"
"""Beginning of the names of reference implementations in the CPU plugin: `ref_any_f32`."""
_NO_OTHER: Final = frozenset(
    {"RNNSeq", "RNNCell", "Input", "Output", "Const", "Reshape", "MemoryInput", "MemoryOutput", "ReadValue", "Assign"}
    | {"Loop", "TensorIterator", "If", "ShapeOf", "Broadcast", "Tile", "Gather", "StridedSlice", "Split", "Concat"}
)
"""Types that have only an implementation of that name: recurrent ones, bodies, and nodes that move memory."""
ENOUGH: Final = 5
"""Inferences or layers below which shares say nothing."""
_NEAR: Final = 2.0
"""Times what its operations and bytes need: a layer that takes less cannot become much faster."""
_MANY: Final = 20
"""Layers of a network whose scheduling matters."""
_FAULT_NS: Final = 1000
_PAGE_MIB: Final = 4 / 1024


class OpenVinoData(Protocol):
    """What the rules read; `accel_magic.subsystems.openvino.tables.OpenVinoTables` implements it."""

    @property
    def trace(self) -> OpenVinoTrace:
        """The tasks."""

    @property
    def recording(self) -> Recording:
        """The whole recording."""

    @property
    def requests(self) -> pd.DataFrame:
        """Return one row per inference, in order of time."""

    @property
    def models(self) -> pd.DataFrame:
        """Return one row per model, most time first; index `model`."""

    @property
    def generations(self) -> pd.DataFrame:
        """Return one row per generation, in order of time."""

    @property
    def tokens(self) -> pd.DataFrame:
        """Return one row per inference that made tokens."""

    @property
    def language_models(self) -> frozenset[str]:
        """Models that made tokens, their tokenizers and detokenizers."""

    @property
    def layers(self) -> pd.DataFrame:
        """Return one row per node, most time first; index `name`."""


@dataclass(frozen=True)
class Needs:
    """What a rule needs from the trace.

    Attributes:
        names: Kinds of tasks, and functions in the kernel; all of them.

    """

    names: tuple[str, ...]

    def __call__(self, openvino: OpenVinoData) -> str:
        """Return those that were not traced, in words; `` if all were."""
        traced = {*openvino.trace.totals["kind"], *(point.function for point in openvino.trace.points)}
        return ", ".join(sorted(_WORDS.get(name, name) for name in {*self.names} - traced))


_WORDS: Final = {
    INFERENCE: "inferences",
    LAYER: "layers",
    CREATED: "primitives that were created",
    LOOP: "parallel loops",
    STEP: "inferences on an NPU",
}


def lacks_implementations(openvino: OpenVinoData) -> str:
    """What is missing to judge implementations: layers, or what OpenVINO says of them."""
    missing = Needs((INFERENCE, LAYER))(openvino)
    if missing:
        return missing
    known = openvino.layers["implementation"] != ""
    return "" if known.any() else "implementations: no Python code of the traced process compiled or holds the model"


def lacks_calls(openvino: OpenVinoData) -> str:
    """What is missing to judge calls of the Python API."""
    missing = Needs((INFERENCE,))(openvino)
    return missing or ("" if openvino.requests["call_ns"].notna().any() else "calls from Python in the traced process")


def lacks_faults(openvino: OpenVinoData) -> str:
    """What is missing to judge page faults of inferences."""
    missing = Needs((INFERENCE,))(openvino)
    return missing or ("" if openvino.requests["faults"].notna().any() else "page faults")


def lacks_yields(openvino: OpenVinoData) -> str:
    """What is missing to judge calls of `sched_yield` between the first inference and the last."""
    missing = Needs((INFERENCE, preset.YIELD))(openvino)
    return missing or ("" if len(_samples_between(openvino)) > 1 else "inferences that last longer together")


def nothing_traced(openvino: OpenVinoData, _: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """OpenVINO was asked for, and reported no task."""
    requested = any(map(preset.names_openvino, openvino.trace.points))
    if requested and not len(openvino.trace.totals):
        yield Evidence({"tasks": 0})


def events_lost(openvino: OpenVinoData, _: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """Tasks were counted that were not recorded."""
    totals = openvino.trace.totals
    tasks, recorded = int(totals["count"].sum()), len(openvino.trace.tasks)
    if recorded < tasks:
        yield Evidence({"lost": tasks - recorded, "tasks": tasks})


def shares(openvino: OpenVinoData) -> pd.Series[float]:
    """Share of each layer in the time of a typical inference: from medians, which a busy machine hardly affects."""
    layers = openvino.layers
    typical = layers["p50_ns"] * layers["executions"] * layers["own_ns"] / layers["total_ns"].clip(lower=1)
    return typical / (typical.sum() or np.nan)


def reorders(openvino: OpenVinoData, rule: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """Layers that convert layouts or precisions take a large share."""
    reorders = openvino.layers["reorder"]
    share = float(shares(openvino)[reorders].sum())
    if share > rule.threshold:
        yield Evidence({"reorders_share": share, "layers": int(reorders.sum())})


def layer_dominates(openvino: OpenVinoData, rule: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """A single layer takes a large share."""
    found = shares(openvino).sort_values(ascending=False)
    if len(found) < ENOUGH or found.iloc[0] <= rule.threshold:
        return
    yield Evidence({"share": float(found.iloc[0]), "layers": len(found), "name": str(found.index[0])})


def slow_implementation(openvino: OpenVinoData, rule: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """Layers with reference implementations take a large share."""
    spent = shares(openvino)[is_slow(openvino)].sort_values(ascending=False)
    if spent.sum() <= rule.threshold:
        return
    yield Evidence({"share": float(spent.sum()), "layers": len(spent), "name": str(spent.index[0])})


def is_slow(openvino: OpenVinoData) -> pd.Series[bool]:
    """Whether each layer has a reference implementation, and takes more than what it needs, if that is known."""
    layers = openvino.layers
    needed = needed_ns(layers, openvino.models, openvino.recording.machine)["needed_ns"].set_axis(layers.index)
    near = layers["flops"].notna() & (layers["p10_ns"] <= _NEAR * needed)
    return layers["implementation"].str.startswith(REFERENCE) & ~layers["type"].isin(_NO_OTHER) & ~near


def first_inference(openvino: OpenVinoData, rule: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """Only of models that were compiled within the trace; otherwise their first inference here is not the first one.

    The one that costs most beyond its later ones is reported.
    """
    created = openvino.trace.of_kind(CREATED)
    others = openvino.language_models  # see `first_prefill`
    worst: tuple[float, Evidence] | None = None
    for model, own in succeeded(openvino.requests).groupby("model", observed=True):
        if model in others or len(own) < ENOUGH or not (created["start_ns"] < own["start_ns"].iloc[0]).any():
            continue
        first, later = float(own["duration_ns"].iloc[0]), float(own["duration_ns"].iloc[1:].median())
        if first / later > rule.threshold and (worst is None or first - later > worst[0]):
            where = (Stretch(int(own["start_ns"].iloc[0]), int(own["end_ns"].iloc[0])),)
            evidence = {"ratio": first / later, "first_ns": first, "later_ns": later}
            worst = first - later, Evidence({**evidence, "model": str(model) or "the model"}, where)
    if worst is not None:
        yield worst[1]


def _outside(openvino: OpenVinoData) -> tuple[float, float]:
    """Median share of an inference's time outside of its layers, and median number of its layers."""
    requests = succeeded(openvino.requests)
    requests = requests[requests["layers"] > 0]
    if not len(requests):
        return 0.0, 0.0
    worked = requests["outside_ns"] + requests["layers_ns"]
    return float((requests["outside_ns"] / worked).median()), float(requests["layers"].median())


def small_layers(openvino: OpenVinoData, rule: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """Much of an inference passes between many layers."""
    share, layers = _outside(openvino)
    if share <= rule.threshold or layers < _MANY:
        return
    executions = openvino.trace.executions
    within = executions["inference"].isin(succeeded(openvino.requests).index)
    median = float(executions.loc[within, "duration_ns"].median())
    advice = _LARGER if _is_stateful(openvino) else _LARGER_OR_MORE
    yield Evidence({"outside_share": share, "layers": layers, "layer_ns": median, "advice": advice})


_LARGER: Final = "Use larger batches, such as several sequences at once; fuse layers when exporting the model."
_LARGER_OR_MORE: Final = (
    "Use larger batches, or several streams (`PERFORMANCE_HINT` THROUGHPUT) with fewer threads each; fuse layers when "
    "exporting the model."
)


def _is_stateful(openvino: OpenVinoData) -> bool:
    """Whether the model with most time keeps state: its inferences cannot overlap."""
    return bool(openvino.models["stateful"].head(1).fillna(value=False).any())


def outside_layers(openvino: OpenVinoData, rule: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """Much of an inference passes outside of layers."""
    share, _ = _outside(openvino)
    requests = succeeded(openvino.requests)
    spent = requests.loc[requests["layers"] > 0, "outside_ns"].median()
    if share > rule.threshold and spent > rule.limits["least_ns"]:
        yield Evidence({"outside_share": share})


def primitives_recreated(openvino: OpenVinoData, rule: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """Inferences after the first create primitives."""
    trace = openvino.trace
    inferences, created = trace.of_kind(INFERENCE), trace.of_kind(CREATED)
    others = trace.inferences["model"].isin(openvino.language_models).to_numpy()  # see `prompt_lengths`
    inferences = inferences[~others]
    of = trace.within(inferences, created)
    first = inferences.groupby("name", observed=True).head(1).index
    is_first = inferences.index.isin(first)
    again = np.unique(of[(of >= 0) & ~is_first[np.maximum(of, 0)]]) if len(inferences) else np.zeros(0, np.intp)
    later = int((~is_first).sum())
    if not later or len(again) / later <= rule.threshold:
        return
    spent = int(created["duration_ns"].to_numpy()[np.isin(of, again)].sum())
    yield Evidence({"inferences": len(again), "all_inferences": later, "created_ns": spent})


def compiled_in_trace(openvino: OpenVinoData, rule: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """Compiling models takes a large share of the trace."""
    spent = openvino.trace.compiled["duration_ns"]
    share = float(spent.sum()) / max(openvino.recording.duration_ns, 1)
    if share > rule.threshold:
        yield Evidence({"models": len(spent), "share": share, "compile_ns": float(spent.sum())})


def device_idle(openvino: OpenVinoData, rule: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """From medians, which a busy machine hardly affects; overlapping inferences leave no gap."""
    requests = openvino.requests.sort_values("start_ns")
    good = succeeded(requests).index
    if len(good) < ENOUGH:
        return
    copied = requests["copy_ns"].fillna(0).where(requests["latency_ns"] == requests["duration_ns"], 0)
    gaps = (requests["start_ns"] - copied - requests["end_ns"].cummax().shift()).clip(lower=0)
    gap, taken = float(gaps[good].median()), float((requests["duration_ns"] + copied)[good].median())
    share = gap / (gap + taken)
    if share > rule.threshold:
        overlap = _NEEDS_THE_LAST if _is_stateful(openvino) else _OVERLAP
        yield Evidence({"idle_share": share, "gap_ns": gap, "inference_ns": taken, "overlap": overlap})


_OVERLAP: Final = "Use `start_async` or `AsyncInferQueue`, and prepare the next input while an inference runs."
_NEEDS_THE_LAST: Final = (
    "Inferences of a model with state need those before them, so they cannot overlap: shorten the work in between, or "
    "serve several sequences at once, each with its own request."
)


def compiled_again(openvino: OpenVinoData, rule: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """The same model is compiled several times within the trace."""
    spent: dict[tuple[str, ...], list[int]] = {}
    for model in models_in(openvino.recording):
        if model.start_ns and int(model.start_ns) >= openvino.recording.start_ns:
            spent.setdefault((model.name, model.file, model.inputs, model.device), []).append(int(model.compile_ns))
    for (name, file, *_), times in spent.items():
        if len(times) > rule.threshold:
            yield Evidence({"times": len(times), "spent_ns": sum(times), "model": name or file or "a model"})


_MORE_STREAMS = "Compile with `PERFORMANCE_HINT` THROUGHPUT, so that there are more streams with fewer threads each."
_STREAMS_OF_THROUGHPUT = (
    "It has the streams that THROUGHPUT chooses for these processors; more (`NUM_STREAMS`) help only if processors are "
    "idle, several inputs per inference (a batch) maybe also otherwise."
)


def stream_wait(openvino: OpenVinoData, rule: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """Requests wait while the streams of their model are busy; a queue that its program fills on purpose is none."""
    for_others = waited_for_others(openvino.requests).fillna(0)
    for name, model in openvino.models.iterrows():
        own = succeeded(openvino.requests)
        waits = (own["latency_ns"] == own["duration_ns"]) | (own["call_ns"] >= own["latency_ns"]).fillna(value=False)
        own = own[(own["model"] == name) & waits]
        waited = for_others[own.index].sum() / max(own["latency_ns"].sum(), 1)
        if len(own) < ENOUGH or waited <= rule.threshold:
            continue
        streams = int(model["streams"]) if pd.notna(model["streams"]) else int(model["streams_used"])
        ends = own["end_ns"].to_numpy()
        at_once = int(most_at_once(ends - own["latency_ns"].to_numpy(), ends))
        evidence = {"queue_share": float(waited), "callers": at_once, "streams": streams}
        more = _STREAMS_OF_THROUGHPUT if model["hint"] == "THROUGHPUT" else _MORE_STREAMS
        yield Evidence({**evidence, "model": str(name), "more": more})


def streams_idle(openvino: OpenVinoData, rule: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """Only for models that ran often."""
    for name, model in openvino.models.iterrows():
        few = model["inferences"] < ENOUGH or pd.isna(model["streams"]) or model["streams"] < 2
        if few or model["streams_used"] / model["streams"] > rule.threshold:
            continue
        streams, used = int(model["streams"]), int(model["streams_used"])
        optimal = streams if pd.isna(model["requests"]) else int(model["requests"])
        yield Evidence({"streams": streams, "used": used, "optimal": optimal, "model": str(name)})


def inputs_copied(openvino: OpenVinoData, rule: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """From the faster calls: others may have waited for Python's lock, and the first one allocates."""
    for name, own in succeeded(openvino.requests).groupby("model", observed=True):
        called = own[own["call_ns"].notna()]
        if len(called) < ENOUGH:
            continue
        whole = called["call_ns"].where(called["call_ns"] > called["duration_ns"], called["duration_ns"])
        copied, spent = float(called["copy_ns"].quantile(0.1)), float(whole.quantile(0.1))
        if copied > rule.limits["least_ns"] and copied / max(spent, 1) > rule.threshold:
            evidence = {"copy_share": copied / spent, "copy_ns": copied, "call_ns": spent}
            yield Evidence({**evidence, "model": str(name) or "the model"})


def too_many_threads(openvino: OpenVinoData, rule: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """More threads than processors work for a large share of the time."""
    share, most = _crowded_share(openvino)
    if share > rule.threshold:
        yield Evidence({"threads": most, "cpus": _cpus(openvino), "crowded_share": share})


def _cpus(openvino: OpenVinoData) -> int:
    return int(openvino.recording.machine.get("cpus", "0") or 0)


def _crowded_share(openvino: OpenVinoData) -> tuple[float, int]:
    """Share of the time, from the first inference to the last, with more working threads than processors; the most."""
    cpus, requests = _cpus(openvino), openvino.requests
    if not cpus or not len(requests):
        return 0.0, 0
    busy, most = _crowded(openvino.trace.working, cpus)
    return busy / max(int(requests["end_ns"].max() - requests["start_ns"].min()), 1), most


def _crowded(tasks: pd.DataFrame, cpus: int) -> tuple[int, int]:
    """Time with more working threads than CPUs, ns, and the largest number of threads that worked at once."""
    starts, ends = [], []
    for _, own in tasks.groupby("tid", sort=False):
        start, end = _merged(own["start_ns"].to_numpy(), own["end_ns"].to_numpy())
        starts.append(start)
        ends.append(end)
    if not starts:
        return 0, 0
    moments = np.concatenate([*starts, *ends])
    steps = np.concatenate([np.ones(sum(map(len, starts)), np.int64), -np.ones(sum(map(len, ends)), np.int64)])
    order = np.lexsort((steps, moments))
    working = np.cumsum(steps[order])
    lengths = np.diff(moments[order], append=moments[order][-1])
    return int(lengths[working > cpus].sum()), int(working.max())


def _merged(start: NDArray[np.int64], end: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Union of intervals that are in order of their starts."""
    reached = np.maximum.accumulate(end)
    first = np.concatenate([[True], start[1:] > reached[:-1]])
    last = np.concatenate([first[1:], [True]])
    return start[first], reached[last]


def first_touch(openvino: OpenVinoData, rule: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """From medians, so that the first inference, which allocates, does not count."""
    requests = succeeded(openvino.requests)
    if len(requests) < ENOUGH:
        return
    faults, spent = float(requests["faults"].median()), float(requests["duration_ns"].median())
    share = faults * _FAULT_NS / max(spent, 1)
    if share > rule.threshold:
        yield Evidence({"faults": faults, "mib": faults * _PAGE_MIB, "share": share})


def npu_host_copies(openvino: OpenVinoData, rule: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """From medians, so that the first inference, which allocates, does not count."""
    trace = openvino.trace
    steps = trace.of_kind(STEP)
    inferences = trace.inferences.loc[succeeded(openvino.requests).index]
    inferences = inferences[inferences["device"] == "npu"]
    outer = steps[steps["name"].isin(preset.NPU_STEPS)]
    inner = steps.loc[~steps["name"].isin(preset.NPU_STEPS)]
    spent = np.zeros(len(inferences))
    for chosen, sign in ((outer, 1), (inner, -1)):
        of = trace.within(inferences, chosen)
        weights = sign * chosen["duration_ns"].to_numpy()[of >= 0]
        spent += np.bincount(of[of >= 0], weights, minlength=len(inferences))
    if len(inferences) < ENOUGH:
        return
    waiting = steps[steps["name"].astype(str) == preset.NPU_WAIT]
    of = trace.within(inferences, waiting)
    weights = waiting["duration_ns"].to_numpy()[of >= 0]
    host = inferences["duration_ns"].to_numpy() - np.bincount(of[of >= 0], weights, minlength=len(inferences))
    share = float(np.median(spent / np.maximum(host, 1)))
    if share > rule.threshold:
        yield Evidence({"copy_share": share, "copy_ns": float(np.median(spent))})


def npu_fallback(openvino: OpenVinoData, rule: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """Inferences run on the CPU although others run on the NPU."""
    requests = openvino.requests
    of_cpu, of_npu = ((requests["device"] == device).to_numpy() for device in ("cpu", "npu"))
    counts = {"inferences": int(of_cpu.sum()), "npu_inferences": int(of_npu.sum())}
    if not of_npu.any() or of_cpu.sum() <= rule.threshold * (of_cpu | of_npu).sum():
        return
    spent = requests["duration_ns"].to_numpy()
    yield Evidence({**counts, "share": float(spent[of_cpu].sum() / spent[of_cpu | of_npu].sum())})


def workers_spin(openvino: OpenVinoData, rule: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """Of all threads, from the first inference to the last, if others want the CPUs.

    Calls are counted, so those in between are known at the samples of the counters: at least so many.
    """
    if _crowded_share(openvino)[0] <= rule.limits["crowded_share"]:
        return
    requests, between = openvino.requests, _samples_between(openvino)
    if len(between) <= 1:
        return
    points = [point.id for point in openvino.trace.points if point.function == preset.YIELD]
    calls = openvino.recording.samples.hits[between[[0, -1]]][:, points].sum(axis=1).astype(np.int64)
    per_inference = float(calls[1] - calls[0]) / len(requests)
    if per_inference > rule.threshold:
        yield Evidence({"per_inference": per_inference})


def _samples_between(openvino: OpenVinoData) -> NDArray[np.intp]:
    """Rows of the counters' samples between the start of the first inference and the end of the last."""
    requests, times = openvino.requests, openvino.recording.samples.times_ns
    if not len(requests):
        return np.zeros(0, np.intp)
    return np.flatnonzero((times >= requests["start_ns"].min()) & (times <= requests["end_ns"].max()))

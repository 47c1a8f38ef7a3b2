"""What to look for in a trace of OpenVINO: the rules as data, and a function for the evidence of each.

Limits are shares of the trace's own times, so they apply to any model and machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from accel_magic.analysis.findings import Findings
from accel_magic.findings import SEVERITIES, BaseRule, Stretch
from accel_magic.probes.presets import openvino as presets
from accel_magic.subsystems.openvino.requests import succeeded
from accel_magic.subsystems.openvino.trace import CREATED, INFERENCE, LAYER, LOOP, STEP

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pandas as pd
    from numpy.typing import NDArray

    from accel_magic.recording.recording import Recording
    from accel_magic.subsystems.openvino.trace import OpenVinoTrace

    Evidence = dict[str, float]

REFERENCE: Final = "ref"
"""Beginning of the names of reference implementations in the CPU plugin: `ref_any_f32`."""
_ENOUGH: Final = 5
"""Inferences or layers below which shares say nothing."""
_MANY: Final = 20
"""Layers of a network whose scheduling matters."""
_FAULT_NS: Final = 1000
_PAGE_MIB: Final = 4 / 1024


class Analysed(Protocol):
    """What the rules read; `accel_magic.subsystems.openvino.tables.OpenVinoTables` implements it."""

    @property
    def trace(self) -> OpenVinoTrace:
        """The tasks."""

    @property
    def recording(self) -> Recording:
        """The whole recording."""

    @property
    def requests(self) -> pd.DataFrame:
        """See `accel_magic.subsystems.openvino.requests`."""

    @property
    def layers(self) -> pd.DataFrame:
        """See `accel_magic.subsystems.openvino.layers`."""


@dataclass(frozen=True)
class Rule(BaseRule):
    """One thing to look for.

    Attributes:
        needs: Kinds of tasks, and functions in the kernel, that must have been traced.
        explained_by: Rules whose finding already explains this one, which is then not reported.

    """

    AREA = "openvino"

    needs: tuple[str, ...] = ()
    explained_by: tuple[str, ...] = ()


RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "nothing-traced",
        "warning",
        "OpenVINO reported no task",
        "Either nothing ran on OpenVINO, or its libraries were loaded before the extension.",
        "Restart the Jupyter kernel and run `%load_ext accel_magic` before OpenVINO compiles a model.",
    ),
    Rule(
        "events-lost",
        "warning",
        "{lost:,.0f} of {tasks:,.0f} tasks were counted but not recorded",
        "Executions, sums and quantiles of layers are exact; requests, types, primitives and threads are incomplete.",
        "Raise `--buffer` or `--max-events`, trace fewer inferences, or only `openvino:layers`.",
    ),
    Rule(
        "reorders",
        "warning",
        "{reorders_share:.0%} of the inference time converts layouts or precisions ({layers:.0f} nodes)",
        "The plugin inserts these nodes where neighboring layers, or the model's inputs and outputs, disagree about "
        "the layout or precision of a tensor. They compute nothing.",
        "Set the input's layout and precision with `PrePostProcessor`, avoid operations that need a plain layout "
        "between convolutions (reshape, transpose), and compare `INFERENCE_PRECISION_HINT` f32 and bf16.",
        threshold=0.1,
        unit="share of the time of all inferences",
        source="a tenth of an inference is the smallest gain that is worth a change to a model",
        needs=(INFERENCE, LAYER),
    ),
    Rule(
        "layer-dominates",
        "note",
        "one of {layers:.0f} layers takes {share:.0%} of the inference time: {name}",
        "Changes to other layers cannot make inferences much faster.",
        "Look at this layer first: its type, shape and precision, and its primitive in `t.openvino.layers`.",
        threshold=0.5,
        unit="share of the time of all inferences",
        source="half: even if all other layers took no time, inferences would be at most twice as fast",
        needs=(INFERENCE, LAYER),
    ),
    Rule(
        "slow-implementation",
        "warning",
        "{share:.0%} of the inference time is spent in {layers:.0f} layers with a reference implementation: {name}",
        "The plugin has no optimized code for their type, precision or layout, and uses plain loops.",
        "Replace the operation by others that do the same, or change its precision; "
        "`t.openvino.layers['implementation']` shows what each layer uses.",
        threshold=0.1,
        unit="share of the time of all inferences",
        source="a tenth of an inference is the smallest gain that is worth a change to a model",
        needs=(INFERENCE, LAYER),
    ),
    Rule(
        "first-inference",
        "note",
        "the first inference took {ratio:.1f} times as long as the later ones",
        "It allocates memory, touches weights for the first time and creates primitives.",
        "Run one inference before you measure, and before users wait for the first answer.",
        threshold=1.3,
        unit="times the median of the later inferences",
        source="convolutional networks on the CPU: 1.5 to 2",
        needs=(INFERENCE, CREATED),
    ),
    Rule(
        "small-layers",
        "warning",
        "{outside_share:.0%} of the inference time passes between {layers:.0f} layers of {layer_ns:,.0f} ns",
        "The layers are so small that calling and scheduling them takes a considerable part of the time.",
        "Use larger batches, or several streams (`PERFORMANCE_HINT` THROUGHPUT) with fewer threads each; fuse layers "
        "when exporting the model.",
        threshold=0.2,
        unit="share of the time of an inference with at least 20 layers",
        source="a fifth; in networks with layers of 20 us it is a few percent",
        needs=(INFERENCE, LAYER),
    ),
    Rule(
        "outside-layers",
        "warning",
        "{outside_share:.0%} of the inference time is outside of layers",
        "The plugin prepares layers for a new shape, copies inputs and outputs, or waits, around the layers.",
        "Use few fixed shapes (`model.reshape(...)`, padded inputs), and tensors that OpenVINO can use without a copy "
        "(`ov.Tensor(array, shared_memory=True)`, `infer(..., share_inputs=True)`).",
        threshold=0.3,
        unit="share of the time of all inferences",
        source="a third: in networks whose inputs are not copied it is a few percent",
        needs=(INFERENCE, LAYER),
        explained_by=("small-layers",),
    ),
    Rule(
        "primitives-recreated",
        "warning",
        "oneDNN primitives were created in {inferences:.0f} of {all_inferences:.0f} inferences after the first",
        "The shape of an input changed, so layers were prepared again, which took {created_ns:,.0f} ns.",
        "Use static shapes, pad inputs to a few sizes, or compile one model per size.",
        threshold=0.05,
        unit="share of the inferences after the first",
        source="one in twenty: a program with static shapes creates none",
        needs=(INFERENCE, CREATED),
    ),
    Rule(
        "compiled-in-trace",
        "note",
        "compiling took {share:.0%} of the trace (calls of compile_model: {models:,.0f})",
        "Each start of the program pays this again, unless the compiled model is cached.",
        "Set `CACHE_DIR`, so that later starts load the compiled model; compile once and keep the compiled model.",
        threshold=0.2,
        unit="share of the trace",
        source="a fifth of the traced time",
    ),
    Rule(
        "device-idle",
        "note",
        "between two inferences, none runs for {idle_share:.0%} of the time",
        "The program waits for each result before it starts the next inference, and does other work in between.",
        "Use `start_async` or `AsyncInferQueue`, and prepare the next input while an inference runs.",
        threshold=0.5,
        unit="share of the typical time from one inference to the next",
        source="half: overlapping both could then double the throughput",
        needs=(INFERENCE,),
    ),
    Rule(
        "too-many-threads",
        "warning",
        "up to {threads:.0f} threads work at once, on {cpus:.0f} CPUs",
        "They take turns, and each waits for the slowest.",
        "Limit the threads of all compiled models together to the number of CPUs (`INFERENCE_NUM_THREADS`, "
        "`NUM_STREAMS`); in a container, OpenVINO may see the host's CPUs.",
        threshold=0.1,
        unit="share of the time, from the first inference to the last, with more working threads than CPUs",
        source="a tenth",
        needs=(INFERENCE, LOOP),
    ),
    Rule(
        "first-touch",
        "warning",
        "{faults:,.0f} page faults per inference: {mib:,.1f} MiB of memory are used for the first time in each",
        "Memory is allocated for an inference and returned to the kernel afterwards, so the next one gets pages that "
        "the kernel has to find and clear first: about 1 us per page of 4 KiB.",
        "Keep one inference request (`compiled.create_infer_request()`) and call it repeatedly, with inputs and "
        "outputs in the same tensors; avoid shapes that grow with each inference.",
        threshold=0.05,
        unit="share of the time of an inference after the first, at 1 us per page fault",
        source="0.5 to 2 us per fault were measured; 5 % is less than the variation between inferences",
        needs=(INFERENCE, presets.FAULT),
    ),
    Rule(
        "npu-host-copies",
        "warning",
        "{copy_share:.0%} of the host's time in inferences on the NPU passes before submitting and after waiting",
        "OpenVINO copies tensors that are in ordinary memory to and from memory of the NPU, on the host's CPU.",
        "Pass less, such as images as u8 that the NPU converts (`PrePostProcessor`), or create tensors in the NPU's "
        "memory once and fill them: `core.get_default_context('NPU').create_host_tensor(type, shape)`.",
        threshold=0.4,
        unit="share of the time of inferences on the NPU, without waiting for it",
        source="two fifths: with small tensors, submitting takes most of that time",
        needs=(INFERENCE, STEP),
    ),
    Rule(
        "npu-fallback",
        "warning",
        "{inferences:,.0f} inferences ran on the CPU beside {npu_inferences:,.0f} on the NPU",
        "HETERO gives operations that the NPU's compiler rejects to the CPU, as models of their own; AUTO uses the CPU "
        "until the NPU has compiled the model.",
        "`core.query_model(model, 'NPU')` names what the NPU accepts; replace the other operations. With AUTO, set "
        "`ENABLE_STARTUP_FALLBACK` to False, or compile for the NPU directly.",
        threshold=0.05,
        unit="share of the inferences",
        source="one in twenty: less is not worth a change to a model",
        needs=(INFERENCE, STEP),
    ),
    Rule(
        "workers-spin",
        "note",
        "worker threads called sched_yield {per_inference:,.0f} times per inference",
        "TBB's workers look for work in a loop before they sleep. On an otherwise idle machine that costs only energy; "
        "beside other work it takes CPU time from it.",
        "Use fewer threads (`INFERENCE_NUM_THREADS`), or asynchronous requests that keep the workers busy.",
        threshold=20.0,
        unit="calls per inference",
        source="workers that find work at once call it a few times",
        needs=(INFERENCE, presets.YIELD),
    ),
)


def diagnose(openvino: Analysed) -> Findings:
    """Check all rules; see `accel_magic.subsystems.npu.diagnosis.diagnose`."""
    seen = {*openvino.trace.totals["kind"], *(point.function for point in openvino.trace.points)}
    lacking = {rule.id: ", ".join(missing) for rule in RULES if (missing := sorted({*rule.needs} - seen))}
    checked = [rule for rule in RULES if rule.id not in lacking]
    found = {rule.id: evidence for rule in checked if (evidence := _CHECKS[rule.id](openvino, rule.threshold))}
    reported = [rule for rule in checked if rule.id in found and not found.keys() & set(rule.explained_by)]
    reported.sort(key=lambda rule: SEVERITIES.index(rule.severity))
    return Findings(
        items=tuple(
            rule.finding(
                {name: float(value) for name, value in found[rule.id].items() if isinstance(value, int | float)},
                found[rule.id],
                _where(openvino, rule.id),
            )
            for rule in reported
        ),
        checked=tuple(rule.id for rule in checked),
        unchecked=MappingProxyType(lacking),
        recording=openvino.recording,
    )


def _where(openvino: Analysed, rule: str) -> tuple[Stretch, ...]:
    """The place of a finding that is about one moment."""
    if rule != "first-inference":
        return ()
    first = openvino.requests.iloc[0]
    return (Stretch(int(first["start_ns"]), int(first["end_ns"])),)


def _nothing_traced(openvino: Analysed, _: float) -> Evidence | None:
    asked = any(map(presets.names_openvino, openvino.trace.points))
    return {"tasks": 0} if asked and not len(openvino.trace.totals) else None


def _events_lost(openvino: Analysed, _: float) -> Evidence | None:
    totals = openvino.trace.totals
    tasks, recorded = int(totals["count"].sum()), len(openvino.trace.tasks)
    return {"lost": tasks - recorded, "tasks": tasks} if recorded < tasks else None


def _shares(openvino: Analysed) -> pd.Series[float]:
    """Share of each layer in the time of a typical inference: from medians, which a busy machine hardly affects."""
    layers = openvino.layers
    typical = layers["p50_ns"] * layers["executions"]
    return typical / (typical.sum() or np.nan)


def _reorders(openvino: Analysed, limit: float) -> Evidence | None:
    reorders = openvino.layers["reorder"]
    share = float(_shares(openvino)[reorders].sum())
    return {"reorders_share": share, "layers": int(reorders.sum())} if share > limit else None


def _layer_dominates(openvino: Analysed, limit: float) -> Mapping[str, object] | None:
    shares = _shares(openvino).sort_values(ascending=False)
    if len(shares) < _ENOUGH or shares.iloc[0] <= limit:
        return None
    return {"share": float(shares.iloc[0]), "layers": len(shares), "name": str(shares.index[0])}


def _slow_implementation(openvino: Analysed, limit: float) -> Mapping[str, object] | None:
    slow = openvino.layers["implementation"].str.startswith(REFERENCE)
    shares = _shares(openvino)[slow].sort_values(ascending=False)
    if shares.sum() <= limit:
        return None
    return {"share": float(shares.sum()), "layers": len(shares), "name": str(shares.index[0])}


def _first_inference(openvino: Analysed, limit: float) -> Evidence | None:
    """Only if the model was compiled within the trace; otherwise its first inference here is not its first one."""
    requests = succeeded(openvino.requests)
    if not len(requests):
        return None
    created = openvino.trace.of_kind(CREATED)
    own = requests.loc[requests["model"] == requests["model"].iloc[0], ["start_ns", "duration_ns"]]
    if len(own) < _ENOUGH or not (created["start_ns"] < own["start_ns"].iloc[0]).any():
        return None
    first, later = float(own["duration_ns"].iloc[0]), float(own["duration_ns"].iloc[1:].median())
    return {"ratio": first / later, "first_ns": first, "later_ns": later} if first / later > limit else None


def _outside(openvino: Analysed) -> tuple[float, float]:
    """Median share of an inference's time outside of its layers, and median number of its layers."""
    requests = succeeded(openvino.requests)
    requests = requests[requests["layers"] > 0]
    if not len(requests):
        return 0.0, 0.0
    return float((requests["outside_ns"] / requests["duration_ns"]).median()), float(requests["layers"].median())


def _small_layers(openvino: Analysed, limit: float) -> Evidence | None:
    share, layers = _outside(openvino)
    if share <= limit or layers < _MANY:
        return None
    median = float(openvino.trace.of_kind(LAYER)["duration_ns"].median())
    return {"outside_share": share, "layers": layers, "layer_ns": median}


def _outside_layers(openvino: Analysed, limit: float) -> Evidence | None:
    share, _ = _outside(openvino)
    return {"outside_share": share} if share > limit else None


def _primitives_recreated(openvino: Analysed, limit: float) -> Evidence | None:
    trace = openvino.trace
    inferences, created = trace.of_kind(INFERENCE), trace.of_kind(CREATED)
    of = trace.within(inferences, created)
    first = inferences.groupby("name", observed=True).head(1).index
    is_first = inferences.index.isin(first)
    again = np.unique(of[(of >= 0) & ~is_first[np.maximum(of, 0)]]) if len(inferences) else np.zeros(0, np.intp)
    later = int((~is_first).sum())
    if not later or len(again) / later <= limit:
        return None
    spent = int(created["duration_ns"].to_numpy()[np.isin(of, again)].sum())
    return {"inferences": len(again), "all_inferences": later, "created_ns": spent}


def _compiled_in_trace(openvino: Analysed, limit: float) -> Evidence | None:
    spent = openvino.trace.compiled["duration_ns"]
    share = float(spent.sum()) / max(openvino.recording.duration_ns, 1)
    return {"models": len(spent), "share": share, "compile_ns": float(spent.sum())} if share > limit else None


def _device_idle(openvino: Analysed, limit: float) -> Evidence | None:
    """From medians, which a busy machine hardly affects; overlapping inferences leave no gap."""
    requests = openvino.requests.sort_values("start_ns")
    if len(requests) < _ENOUGH:
        return None
    gap = float((requests["start_ns"] - requests["end_ns"].cummax().shift()).clip(lower=0).median())
    taken = float(succeeded(requests)["duration_ns"].median())
    share = gap / (gap + taken)
    return {"idle_share": share, "gap_ns": gap, "inference_ns": taken} if share > limit else None


def _too_many_threads(openvino: Analysed, limit: float) -> Evidence | None:
    cpus = int(openvino.recording.machine.get("cpus", "0") or 0)
    if not cpus:
        return None
    busy, most = _crowded(openvino.trace.tasks, cpus)
    requests = openvino.requests
    share = busy / max(int(requests["end_ns"].max() - requests["start_ns"].min()), 1) if len(requests) else 0.0
    return {"threads": most, "cpus": cpus, "crowded_share": share} if share > limit else None


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


def _first_touch(openvino: Analysed, limit: float) -> Evidence | None:
    """From medians, so that the first inference, which allocates, does not count."""
    requests = succeeded(openvino.requests)
    if len(requests) < _ENOUGH:
        return None
    faults, spent = float(requests["faults"].median()), float(requests["duration_ns"].median())
    share = faults * _FAULT_NS / max(spent, 1)
    return {"faults": faults, "mib": faults * _PAGE_MIB, "share": share} if share > limit else None


def _npu_host_copies(openvino: Analysed, limit: float) -> Evidence | None:
    """From medians, so that the first inference, which allocates, does not count."""
    trace = openvino.trace
    steps = trace.of_kind(STEP)
    inferences = trace.of_kind(INFERENCE)
    inferences = inferences[inferences["device"] == "npu"]
    outer = steps[steps["name"].isin(presets.NPU_STEPS)]
    inner = steps.loc[~steps["name"].isin(presets.NPU_STEPS)]
    spent = np.zeros(len(inferences))
    for chosen, sign in ((outer, 1), (inner, -1)):
        of = trace.within(inferences, chosen)
        weights = sign * chosen["duration_ns"].to_numpy()[of >= 0]
        spent += np.bincount(of[of >= 0], weights, minlength=len(inferences))
    if len(inferences) < _ENOUGH:
        return None
    waiting = steps[steps["name"].astype(str) == presets.NPU_WAIT]
    of = trace.within(inferences, waiting)
    weights = waiting["duration_ns"].to_numpy()[of >= 0]
    host = inferences["duration_ns"].to_numpy() - np.bincount(of[of >= 0], weights, minlength=len(inferences))
    share = float(np.median(spent / np.maximum(host, 1)))
    return {"copy_share": share, "copy_ns": float(np.median(spent))} if share > limit else None


def _npu_fallback(openvino: Analysed, limit: float) -> Evidence | None:
    requests = openvino.requests
    of_cpu, of_npu = ((requests["device"] == device).to_numpy() for device in ("cpu", "npu"))
    counts = {"inferences": int(of_cpu.sum()), "npu_inferences": int(of_npu.sum())}
    if not of_npu.any() or of_cpu.sum() <= limit * (of_cpu | of_npu).sum():
        return None
    spent = requests["duration_ns"].to_numpy()
    return {**counts, "share": float(spent[of_cpu].sum() / spent[of_cpu | of_npu].sum())}


def _workers_spin(openvino: Analysed, limit: float) -> Evidence | None:
    """Of all threads, from the first inference to the last."""
    requests, events = openvino.requests, openvino.trace.events
    if not len(requests):
        return None
    spins = events.loc[events["function"] == presets.YIELD, "time_ns"]
    during = spins.between(requests["start_ns"].min(), requests["end_ns"].max())
    per_inference = float(during.sum()) / len(requests)
    return {"per_inference": per_inference} if per_inference > limit else None


_CHECKS: Final[Mapping[str, Callable[[Analysed, float], Mapping[str, object] | None]]] = MappingProxyType(
    {
        "nothing-traced": _nothing_traced,
        "events-lost": _events_lost,
        "reorders": _reorders,
        "layer-dominates": _layer_dominates,
        "slow-implementation": _slow_implementation,
        "first-inference": _first_inference,
        "small-layers": _small_layers,
        "outside-layers": _outside_layers,
        "primitives-recreated": _primitives_recreated,
        "compiled-in-trace": _compiled_in_trace,
        "device-idle": _device_idle,
        "too-many-threads": _too_many_threads,
        "first-touch": _first_touch,
        "npu-host-copies": _npu_host_copies,
        "npu-fallback": _npu_fallback,
        "workers-spin": _workers_spin,
    }
)

"""Checks of the rules about what layers need and what the machine offers (`rules.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pandas as pd

from accel_magic.findings import Evidence
from accel_magic.subsystems.openvino.checks import ENOUGH, Needs, is_slow, shares
from accel_magic.subsystems.openvino.compiled_models import models_in
from accel_magic.subsystems.openvino.machine_facts import CORES, MEMORY_SPEED, UNITS, compute_speeds
from accel_magic.subsystems.openvino.models import most_at_once
from accel_magic.subsystems.openvino.processors import NO_UNITS
from accel_magic.subsystems.openvino.processors import UNITS as FLAGS
from accel_magic.subsystems.openvino.requests import succeeded
from accel_magic.subsystems.openvino.roofline import COMPUTING, MOVING, needed_ns
from accel_magic.subsystems.openvino.task_frames import INFERENCE, LAYER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.findings import Rule
    from accel_magic.subsystems.openvino.checks import OpenVinoData

_STEP_BY_STEP: Final = frozenset({"RNNSeq", "RNNCell"})
"""Types whose operations wait for each other: more processors do not make them faster."""
_SINGLE: Final = "f32"
_BF16_ADVICE: Final = (
    "Compile with `INFERENCE_PRECISION_HINT` bf16, the default on this processor unless `EXECUTION_MODE_HINT` is "
    "ACCURACY, and compare the results."
)
_INT8_ADVICE: Final = "Quantize the model (`nncf.quantize(model, nncf.Dataset(samples))`), and compare the results."


def lacks_work(openvino: OpenVinoData) -> str:
    """What is missing to compare layers with what they need."""
    missing = Needs((INFERENCE, LAYER))(openvino)
    if missing:
        return missing
    if not openvino.layers["flops"].notna().any():
        return "operations of layers: no Python code compiled or holds the model, or its inferences had several shapes"
    machine = openvino.recording.machine
    if MEMORY_SPEED not in machine or not compute_speeds(machine):
        return "how fast the machine computes: no layer was large enough to measure it"
    return ""


def lacks_units(openvino: OpenVinoData) -> str:
    """What is missing to compare precisions."""
    missing = lacks_work(openvino)
    return missing or ("" if UNITS in openvino.recording.machine else "units of the processor")


def lacks_cores(openvino: OpenVinoData) -> str:
    """What is missing to compare threads with cores."""
    missing = Needs((INFERENCE, LAYER))(openvino)
    if not missing and CORES not in openvino.recording.machine:
        missing = "cores of the processor"
    known = openvino.models["threads"].notna()
    return missing or ("" if known.any() else "threads: no Python code of the traced process compiled or holds a model")


def far_below_peak(openvino: OpenVinoData, rule: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """From the fastest tenth of the executions, which a busy machine hardly affects; not those that others explain."""
    layers = openvino.layers.assign(layer_share=shares(openvino)).reset_index()
    needed = needed_ns(openvino.layers, openvino.models, openvino.recording.machine)
    layers["needed_ns"] = needed["needed_ns"].where(needed[COMPUTING].notna())
    layers["ratio"] = layers["p10_ns"] / layers["needed_ns"].clip(lower=1)
    found = layers[
        (layers["ratio"] > rule.threshold)
        & (layers["layer_share"] > rule.limits["least_share"])
        & (layers["p10_ns"] > rule.limits["least_ns"])
        & ~is_slow(openvino).to_numpy()
        & ~layers["type"].isin(_STEP_BY_STEP)
    ].sort_values("layer_share", ascending=False, kind="stable")
    if not len(found):
        return
    first = found.iloc[0]
    numbers = {name: float(first[name]) for name in ("ratio", "needed_ns", "p10_ns", "flops", "bytes")}
    texts = {"name": str(first["name"]), "type": str(first["type"])}
    yield Evidence({**numbers, **texts, "share": float(found["layer_share"].sum()), "layers": len(found)})


def single_precision(openvino: OpenVinoData, rule: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """Layers that the processors limit compute in f32, although the processors have faster units."""
    flags = openvino.recording.machine[UNITS].split()
    units = {FLAGS[flag] for flag in flags if flag in FLAGS}
    if not units or NO_UNITS in flags:
        return
    requested = {model.key for model in models_in(openvino.recording) if model.requested_precision}
    trace = openvino.trace
    meant = {trace.names.labels[instance] for instance, model in trace.names.known.items() if model.key in requested}
    table = openvino.layers.assign(layer_share=shares(openvino)).reset_index()
    limited = computing(openvino) & (table["precision"] == _SINGLE) & ~table["model"].isin(meant)
    share = float(table.loc[limited, "layer_share"].sum())
    if share > rule.threshold:
        advice = _BF16_ADVICE if "bf16" in units else _INT8_ADVICE
        numbers = {"share": share, "layers": int(limited.sum())}
        yield Evidence({**numbers, "units": " and ".join(sorted(units)), "advice": advice})


def computing(openvino: OpenVinoData) -> pd.Series[bool]:
    """Whether the processors limit each layer, and not the memory; with a new index."""
    needed = needed_ns(openvino.layers, openvino.models, openvino.recording.machine)
    return needed[COMPUTING] > needed[MOVING]


def fewer_threads(openvino: OpenVinoData, rule: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """Only of a model that takes most of the time, one inference at a time, in layers that threads can share."""
    requests, cores = succeeded(openvino.requests), int(openvino.recording.machine[CORES])
    every = openvino.requests
    span = int(every["end_ns"].max() - every["start_ns"].min()) if len(every) else 0
    if not span or most_at_once(every["start_ns"].to_numpy(), every["end_ns"].to_numpy()) > 1:
        return
    for name, model in openvino.models.iterrows():
        own = requests[requests["model"] == name]
        few = len(own) < ENOUGH or pd.isna(model["threads"])
        if few or model["threads"] > rule.threshold * cores or own["duration_ns"].sum() * 2 < span:
            continue
        layers = openvino.layers[(openvino.layers["model"] == name) & (openvino.layers["parent"] == "")]
        spent = layers["p50_ns"] * layers["executions"]
        share = float(spent[layers["p50_ns"] >= rule.limits["least_ns"]].sum() / max(spent.sum(), 1))
        if share > rule.limits["least_share"]:
            threads = int(model["threads"])
            yield Evidence({"threads": threads, "cores": cores, "share": share, "model": str(name)})

"""Checks of the rules about the shapes of inputs (`rules.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.findings import Evidence, Stretch
from accel_magic.subsystems.openvino.checks import ENOUGH, Needs
from accel_magic.subsystems.openvino.input_shapes import is_dynamic
from accel_magic.subsystems.openvino.requests import succeeded
from accel_magic.subsystems.openvino.speed_checks import computing
from accel_magic.subsystems.openvino.task_frames import CREATED, INFERENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.findings import Rule
    from accel_magic.subsystems.openvino.checks import OpenVinoData

_SHAPE: Final = re.compile(r"\[([^\],]*)[^\]]*\]")
"""A shape, and its first dimension."""


def lacks_shapes(openvino: OpenVinoData) -> str:
    """What is missing to judge shapes of inputs."""
    missing = Needs((INFERENCE,))(openvino)
    known = openvino.requests["shapes"].notna()
    return missing or ("" if known.any() else "shapes of inputs: only those of calls from Python, or that are static")


def shapes_change(openvino: OpenVinoData, rule: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """What the first inference of each shape takes longer than the later ones; without a model's first inference.

    Of a shape without later inferences, what passes outside of layers in those that create primitives.
    """
    trace = openvino.trace
    creating = np.unique(trace.within(trace.inferences, trace.of_kind(CREATED)))
    for name, every in succeeded(openvino.requests).groupby("model", observed=True):
        own = every[every["shapes"].notna()]
        if len(own) < ENOUGH or own["shapes"].nunique() < 2 or name in openvino.language_models:
            continue
        new = ~own["shapes"].duplicated()
        later = own[~new].groupby("shapes", observed=True)["duration_ns"].median()
        first = own[new].iloc[1:]
        usual = first["shapes"].astype(str).map(later).astype("float64")
        outside = first["outside_ns"].where(first.index.isin(creating) & (first["layers"] > 0), 0)
        spent = float((first["duration_ns"] - usual).fillna(outside).sum())
        share = spent / float(own["duration_ns"].sum())
        if share > rule.threshold:
            where = tuple(Stretch(*map(int, edges)) for edges in zip(first["start_ns"], first["end_ns"], strict=True))
            numbers = {"new": len(first), "inferences": len(own), "spent_ns": spent, "share": share}
            yield Evidence({**numbers, "model": str(name) or "a model"}, where)


def batch_of_one(openvino: OpenVinoData, rule: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """A thread calls a model again and again, each time with a single item, though all its inputs can have several.

    Not if its layers already use the processors: a batch would take as many times as long as it has items.
    """
    for name, model in openvino.models.iterrows():
        own = succeeded(openvino.requests)
        own = own[(own["model"] == name) & (own["call_ns"] >= own["duration_ns"]).fillna(value=False)]
        single = len(own) >= rule.threshold and model["callers"] == 1 and own["shapes"].notna().all()
        if not single or _is_true(model["stateful"]) or name in openvino.language_models:
            continue
        one_each = all(_first_sizes(str(shapes)) == {"1"} for shapes in own["shapes"].unique())
        could = all(map(is_dynamic, _first_sizes(model["inputs"])))
        alike = own["shapes"].value_counts().iloc[0] * 2 > len(own)
        gap = (own["gap_ns"] - own["copy_ns"]).median()
        if one_each and could and alike and gap <= own["call_ns"].median() and not _computing(openvino, str(name)):
            numbers = {"inferences": len(own), "p50_ns": float(own["call_ns"].median())}
            yield Evidence({**numbers, "model": str(name)})


def _first_sizes(shapes: str) -> set[str]:
    """The first dimensions of the inputs, except of scalars."""
    return {*_SHAPE.findall(shapes)} - {""}


def _is_true(value: object) -> bool:
    return not pd.isna(value) and bool(value)  # type: ignore[call-overload]


def _computing(openvino: OpenVinoData, model: str) -> bool:
    """Whether the processors limit most of the time of a model's layers."""
    own = (openvino.layers["model"] == model).to_numpy()
    spent = (openvino.layers["p50_ns"] * openvino.layers["executions"]).to_numpy()
    return bool(spent[own & computing(openvino).to_numpy()].sum() * 2 > spent[own].sum() > 0)

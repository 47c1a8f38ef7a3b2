"""Checks of the rules about language models (`rules.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.findings import Evidence, Stretch
from accel_magic.subsystems.openvino.machine_facts import MEMORY_SPEED
from accel_magic.subsystems.openvino.task_frames import CREATED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.findings import Rule
    from accel_magic.subsystems.openvino.checks import OpenVinoData

_FEW: Final = 3
"""Generations below which the first cannot be compared with the later ones."""
_MOST_SHARE: Final = 1.2
"""Of the memory's speed: weights that are read faster are in a cache, or the machine was busy when it was measured."""


def lacks_generations(openvino: OpenVinoData) -> str:
    """What is missing to judge generations."""
    return "" if len(openvino.generations) else "generations of a language model"


def lacks_prompts(openvino: OpenVinoData) -> str:
    """What is missing to judge prompts."""
    missing = lacks_generations(openvino)
    known = openvino.generations["repeated_share"].notna()
    return missing or ("" if known.any() else "prompts: only those that GenAI's pipelines get as text are compared")


def lacks_weights(openvino: OpenVinoData) -> str:
    """What is missing to judge whether memory limits decoding."""
    missing = lacks_generations(openvino)
    if not missing and MEMORY_SPEED not in openvino.recording.machine:
        missing = "how fast the machine reads memory"
    known = openvino.models["weights_bytes"].reindex(openvino.generations["model"].unique()).notna()
    missing = missing or ("" if known.any() else "sizes of weights")
    reached = pd.Series(dtype=float) if missing else _weights_per_s(openvino)
    speed = float(openvino.recording.machine.get(MEMORY_SPEED, "nan"))
    if len(reached) and (reached > _MOST_SHARE * speed).all():
        return (
            f"the speed of weights in memory: tokens read them at {reached.min() / 1e9:.1f} GB/s, and the memory was "
            f"measured at {speed / 1e9:.1f} GB/s (they are in a cache, or the machine was busy after the trace)"
        )
    return missing


def first_prefill(openvino: OpenVinoData, rule: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """The first answer of a model begins much later than its later ones."""
    for model, own in openvino.generations.groupby("model", sort=False):
        if len(own) < _FEW:
            continue
        first, later = float(own["first_token_ns"].iloc[0]), float(own["first_token_ns"].iloc[1:].median())
        if first / max(later, 1) > rule.threshold and first - later >= rule.limits["least_ns"]:
            begin = int(own["start_ns"].iloc[0])
            evidence = {"ratio": first / later, "first_ns": first, "later_ns": later}
            yield Evidence({**evidence, "model": str(model)}, (Stretch(begin, begin + int(first)),))


def decode_bound(openvino: OpenVinoData, rule: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """Each token needs all weights, and reading them takes most of its inference."""
    speed = float(openvino.recording.machine[MEMORY_SPEED])
    for model, reached in _weights_per_s(openvino).items():
        weights = float(openvino.models["weights_bytes"].loc[str(model)])
        if weights >= rule.limits["least_bytes"] and rule.threshold < reached / speed <= _MOST_SHARE:
            numbers = {"share": reached / speed, "reached_gb": reached / 1e9, "speed_gb": speed / 1e9}
            yield Evidence({**numbers, "weights_gb": weights / 1e9, "model": str(model)})


def _weights_per_s(openvino: OpenVinoData) -> pd.Series[float]:
    """Bytes of weights over the median time of a token, bytes/s, by model; without those whose weights are unknown."""
    tokens = openvino.tokens[openvino.tokens["token"] > 0]
    models = openvino.generations["model"].to_numpy()[tokens["generation"].to_numpy()]
    spent = (tokens["end_ns"] - tokens["start_ns"]).groupby(models).median()
    weights = openvino.models["weights_bytes"].reindex(spent.index).astype("Float64").astype(float)
    return (weights * 1e9 / spent).dropna()


def prompt_repeated(openvino: OpenVinoData, rule: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """Prompts begin as those before them, and a pipeline that keeps no beginnings computes them again."""
    for model, own in openvino.generations.groupby("model", sort=False):
        again = own[~own["prefix_caching"].fillna(value=True).astype(bool)].iloc[1:]
        spent = float((again["prefill_ns"] * again["repeated_share"].fillna(0)).sum())
        share = spent / max(float(own["duration_ns"].sum()), 1)
        if share > rule.threshold:
            repeated = float(again["repeated_share"].mean())
            yield Evidence({"repeated_share": repeated, "spent_ns": spent, "share": share, "model": str(model)})


def prefill_dominates(openvino: OpenVinoData, rule: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """Reading prompts takes more time than making tokens; without the first, which prepares the model."""
    for model, own in openvino.generations.groupby("model", sort=False):
        later = own.iloc[1:] if len(own) > 1 else own
        share = float(later["prefill_ns"].sum() / max(later["duration_ns"].sum(), 1))
        prompt = later["prompt_tokens"].median()
        if share > rule.threshold and pd.notna(prompt):
            numbers = {"share": share, "prompt": float(prompt), "generated": float(later["generated_tokens"].median())}
            yield Evidence({**numbers, "model": str(model)})


def detokenized_often(openvino: OpenVinoData, rule: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """Text is made for each token, which takes a considerable time."""
    for model, own in openvino.generations.groupby("model", sort=False):
        runs, tokens = int(own["detokenizer_inferences"].sum()), int(own["generated_tokens"].sum())
        share = float(own["detokenizer_ns"].fillna(0).sum() / max(own["duration_ns"].sum(), 1))
        if runs > rule.limits["per_token"] * tokens and share > rule.threshold:
            yield Evidence({"runs": runs, "tokens": tokens, "share": share, "model": str(model)})


def prompt_lengths(openvino: OpenVinoData, rule: Rule[OpenVinoData]) -> Iterator[Evidence]:
    """Prompts of new lengths have oneDNN's primitives created, also after the first generation of a model."""
    trace = openvino.trace
    created = trace.of_kind(CREATED)
    for model, own in openvino.generations.groupby("model", sort=False):
        later = own.iloc[1:]
        begins, ends = (later["start_ns"] + offset for offset in (0, later["duration_ns"]))
        spent = np.zeros(len(later))
        for place, (pid, begin, end) in enumerate(zip(later["pid"], begins, ends, strict=True)):
            inside = created[(created["pid"] == pid) & created["start_ns"].between(begin, end)]
            spent[place] = inside["duration_ns"].sum()
        shares = spent / later["first_token_ns"].clip(lower=1).to_numpy()
        again = shares > rule.threshold
        if again.sum() > 1:
            numbers = {"generations": int(again.sum()), "all_generations": len(later), "created_ns": spent[again].sum()}
            yield Evidence({**numbers, "share": float(np.median(shares[again])), "model": str(model)})

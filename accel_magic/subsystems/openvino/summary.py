"""An OpenVINO trace at a glance: inferences, layers, threads and compilation, as text and as HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from accel_magic import terminal
from accel_magic.banners import banners_of
from accel_magic.quantities import NOTHING, count_text, counted_text, duration_text, exact_text, rate_text, share_text
from accel_magic.subsystems.openvino import versions
from accel_magic.subsystems.openvino.queueing import waited_for_others
from accel_magic.subsystems.openvino.requests import succeeded
from accel_magic.subsystems.openvino.task_frames import INFERENCE
from accel_magic.views.element import element_html
from accel_magic.views.findings import brief_text
from accel_magic.views.tables import FormattedTable, aligned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from accel_magic.analysis.findings import Findings
    from accel_magic.recording.recording import Recording
    from accel_magic.subsystems.openvino.tables import OpenVinoTables

    Formats = Mapping[str, Callable[..., str]]

LAYERS: Final = 15
THREADS: Final = 10
GENERATIONS: Final = 10
_MOST: Final = 3
_WORTH_NAMING: Final = 0.01
_NOTHING: Final = "OpenVINO did nothing that this trace has: trace a cell that runs it with %%ktrace openvino"
EVENTS_AT_ONCE: Final = 300_000
"""A number of events that is analyzed in well under a second."""


def summary(openvino: OpenVinoTables) -> str:
    """Lines about inferences, layers and compilation, then tables of layers and threads."""
    lines = [*banners_of(openvino.recording), *(sentences(openvino) or [_NOTHING])]
    for table in _tables(openvino):
        lines += ["", *aligned(table)]
    return terminal.page(lines)


def html(openvino: OpenVinoTables) -> str:
    """The same as one self-contained element."""
    return element_html(
        _tables(openvino),
        banners=banners_of(openvino.recording),
        template="sentences",
        sentences=sentences(openvino) or [_NOTHING],
        findings="",
    )


def brief(recording: Recording, analyze: Callable[[], OpenVinoTables], diagnose: Callable[[], Findings]) -> list[str]:
    """Lines for the result of a traced cell: a summary, and what the diagnosis found.

    Args:
        recording: What was traced.
        analyze: Makes its `OpenVinoTables`.
        diagnose: Makes its findings.

    Returns:
        The lines; empty if analysis would delay the cell's end.

    """
    if recording.event_count > EVENTS_AT_ONCE:
        return []
    found = [brief_text(diagnose())] if recording.event_count else []
    return [*sentences(analyze()), *found]


def answers(recording: Recording, analyze: Callable[[], OpenVinoTables]) -> list[FormattedTable]:
    """Generations and layers, for the result of a traced cell; none if analysis would delay the cell's end."""
    if not 0 < recording.event_count <= EVENTS_AT_ONCE:
        return []
    openvino = analyze()
    made = [generations_table(openvino.generations)] if len(openvino.generations) else []
    return [*made, layers_table(openvino.layers)] if len(openvino.layers) else made


def sentences(openvino: OpenVinoTables) -> list[str]:
    """Summarize inferences, layers and compilation in a line each; omit what was not traced."""
    every = openvino.requests
    groups = sorted(every.groupby("model", observed=True), key=lambda group: -group[1]["duration_ns"].sum())
    lines = [*_generations(openvino)]
    lines += [_inferences(openvino, str(model), own) for model, own in groups[:_MOST]]
    if len(groups) > _MOST:
        others = sum(len(own) for _, own in groups[_MOST:])
        lines.append(
            f"{exact_text(others)} inferences of {exact_text(len(groups) - _MOST)} other models (t.openvino.models)"
        )
    missing = "" if len(every) else versions.what_lacks(openvino.recording.machine.get("openvino", ""))
    return [line for line in (missing, *lines, _recorded(openvino), _layers(openvino), _compiled(openvino)) if line]


def _generations(openvino: OpenVinoTables) -> Iterator[str]:
    """How fast each language model made tokens."""
    for (model, kind), own in openvino.generations.groupby(["model", "kind"], sort=False):
        tokens, prompts = int(own["generated_tokens"].sum()), own["prompt_tokens"]
        count = len(own)
        line = f"{counted_text(count, 'generation')} of {model}"
        line += f" ({kind}): " if kind else ": "
        rate = _rate(own)
        parts = [f"{count_text(rate)} tokens/s"] if rate else []
        parts.append(f"first token after {duration_text(own['first_token_ns'].median())}")
        if own["token_ns"].notna().any():
            parts.append(f"then {duration_text(own['token_ns'].median())} per token")
        medians = " (medians)" if count > 1 else ""
        known = f", {exact_text(int(prompts.sum()))} in prompts" if prompts.notna().all() else ""
        yield f"{line}{', '.join(parts)}{medians}; {exact_text(tokens)} tokens generated{known}"


def _rate(generations: pd.DataFrame) -> float:
    """Tokens per second after the first, of a typical generation; 0 if none has a second token."""
    rates = generations["tokens_per_second"].dropna()
    return float(rates.median()) if len(rates) else 0.0


def _inferences(openvino: OpenVinoTables, model: str, every: pd.DataFrame) -> str:
    """How a model served: rate, latency, streams and callers, and where the time went."""
    requests = succeeded(every)
    count, failed = len(every), len(every) - len(requests)
    named = counted_text(count, "inference") + (f" of {model}" if model else "")
    if failed == count:
        return f"{named}: {'it' if count == 1 else 'all'} failed"
    quantiles = np.quantile(requests["latency_ns"], (0.5, 0.9, 0.99))
    texts = [f"p{level} {duration_text(value)}" for level, value in zip((50, 90, 99), quantiles, strict=True)]
    line = f"{named}: "
    served = openvino.models.to_dict("index").get(model, {})
    if served:
        line += f"{rate_text(served['per_second'])}, "
    line += ", ".join(texts if count > 1 else [duration_text(quantiles[0])])
    if failed:
        line += f" without {exact_text(failed)} that failed"
    return "; ".join([line, *_streams(served), *_parts(requests, waited_for_others(openvino.requests))])


def _streams(model: Mapping[Any, Any]) -> Iterator[str]:
    """How many streams there were, and callers, unless both are one."""
    streams, callers = (0 if pd.isna(model.get(name)) else int(model[name]) for name in ("streams", "callers"))
    if streams > 1 or (streams and callers > 1):
        used = min(int(model["streams_used"]), streams)
        named = f", {counted_text(callers, 'caller')}" if callers else ""
        yield f"{exact_text(used)} of {counted_text(streams, 'stream')} used{named}"


def _parts(requests: pd.DataFrame, for_others: pd.Series[int]) -> Iterator[str]:
    """Shares of the latency: waiting for others, between call and inference, waiting for the NPU, in layers."""
    known = requests[requests["queue_ns"].notna()]
    whole = max(known["latency_ns"].sum(), 1)
    queued, behind = (float(each[known.index].sum() / whole) for each in (requests["queue_ns"], for_others))
    if behind >= _WORTH_NAMING:
        yield f"{share_text(behind)} waiting for others"
    if queued - behind >= _WORTH_NAMING:
        yield f"{share_text(queued - behind)} between start_async and the inference"
    if requests["waiting_ns"].notna().any():
        waited = requests["waiting_ns"].sum() / requests.loc[requests["waiting_ns"].notna(), "duration_ns"].sum()
        yield f"{share_text(waited)} waiting for the NPU"
    if requests["layers"].any():
        worked = requests["layers_ns"].sum() + requests["outside_ns"].sum()
        rest = " of the rest" if queued >= _WORTH_NAMING else ""
        yield f"{share_text(requests['layers_ns'].sum() / worked)}{rest} in layers"


def _recorded(openvino: OpenVinoTables) -> str:
    """How many of the inferences the tables have, if not all."""
    totals = openvino.trace.totals
    every = int(totals.loc[totals["kind"] == INFERENCE, "count"].sum())
    if len(openvino.requests) >= every:
        return ""
    return (
        f"the tables have the first {exact_text(len(openvino.requests))} of {exact_text(every)} inferences: "
        "raise --max-events or --buffer for more"
    )


def _layers(openvino: OpenVinoTables) -> str:
    layers = openvino.layers
    if not len(layers) or layers["share"].isna().all():
        return ""
    slowest = ", ".join(f"{name} {share_text(share)}" for name, share in layers["share"].head(_MOST).items())
    reorders = layers.loc[layers["reorder"], "share"].sum()
    line = f"slowest layers: {slowest}"
    return line + (f"; layout conversions {share_text(reorders)}" if reorders else "")


def _compiled(openvino: OpenVinoTables) -> str:
    table = openvino.compile
    parts = []
    for kind, noun in (
        ("model", "model compiled|models compiled"),
        ("primitive", "oneDNN primitive created|oneDNN primitives created"),
        ("constant", "constant converted|constants converted"),
    ):
        rows = table[table["kind"] == kind]
        if len(rows):
            number, during = int(rows["count"].sum()), int(rows["during_inferences"].sum())
            one, _, several = noun.partition("|")
            text = f"{counted_text(number, one, several)} in {duration_text(rows['total_ns'].sum())}"
            parts.append(text + (f", {exact_text(during)} of them during inferences" if during else ""))
    return "; ".join(parts)


def _tables(openvino: OpenVinoTables) -> list[FormattedTable]:
    made = []
    if len(openvino.generations):
        made.append(generations_table(openvino.generations))
    if len(openvino.layers):
        made.append(layers_table(openvino.layers))
    if len(openvino.threads):
        made.append(threads_table(openvino.threads))
    if len(openvino.compile):
        made.append(compile_table(openvino.compile))
    return made


def generations_table(generations: pd.DataFrame) -> FormattedTable:
    """The first generations."""
    formats: Formats = {
        "model": str,
        "requests": exact_text,
        "prompt_tokens": exact_text,
        "generated_tokens": exact_text,
        "first_token_ns": duration_text,
        "token_ns": duration_text,
        "token_p99_ns": duration_text,
        "tokens_per_second": count_text,
        "prefill_ns": duration_text,
        "decode_ns": duration_text,
    }
    heads = {
        "requests": "prompts",
        "prompt_tokens": "prompt tokens",
        "generated_tokens": "generated",
        "first_token_ns": "first token",
        "token_ns": "per token",
        "token_p99_ns": "p99",
        "tokens_per_second": "tokens/s",
        "prefill_ns": "prefill",
        "decode_ns": "decode",
    }
    return _table("generation", generations, formats, heads, limit=GENERATIONS, names=2)


def layers_table(layers: pd.DataFrame) -> FormattedTable:
    """The layers with most time."""
    how = "implementation" if (layers["implementation"] != "").any() else "primitive"
    formats: dict[str, Callable[..., str]] = {
        "type": str,
        how: str,
        "executions": exact_text,
        "total_ns": duration_text,
        "share": share_text,
        "p50_ns": duration_text,
        "p99_ns": duration_text,
        "threads": "{:.1f}".format,
    }
    if layers["threads"].isna().all():
        del formats["threads"]
    heads = {"total_ns": "total", "p50_ns": "p50", "p99_ns": "p99"}
    return _table("layer", layers, formats, heads, limit=LAYERS, names=3)


def threads_table(threads: pd.DataFrame) -> FormattedTable:
    """The busiest threads."""
    formats: Formats = {
        "comm": str,
        "inferences": exact_text,
        "tasks": exact_text,
        "working_ns": duration_text,
        "working_share": share_text,
        "sleeping_ns": duration_text,
        "yields": exact_text,
        "faults": exact_text,
    }
    shown = {name: text for name, text in formats.items() if threads[name].notna().any()}
    heads = {"working_ns": "working", "working_share": "share", "sleeping_ns": "sleeping"}
    return _table("thread", threads, shown, heads, limit=THREADS, names=2)


def compile_table(created: pd.DataFrame) -> FormattedTable:
    """The primitives whose creation took most time."""
    formats: Formats = {
        "count": exact_text,
        "total_ns": duration_text,
        "max_ns": duration_text,
        "during_inferences": exact_text,
    }
    heads = {"total_ns": "total", "max_ns": "max", "during_inferences": "during inferences"}
    return _table("compiled", created, formats, heads, limit=LAYERS, names=1)


def _table(
    head: str,
    frame: pd.DataFrame,
    formats: Formats,
    heads: Mapping[str, str],
    *,
    limit: int,
    names: int,
) -> FormattedTable:
    top = frame.head(limit)
    columns = [
        [NOTHING if pd.isna(value) else text(value) for value in top[name].tolist()] for name, text in formats.items()
    ]
    return FormattedTable(
        (head, *(heads.get(name, name) for name in formats)),
        tuple(zip(map(str, top.index), *columns, strict=True)),
        names=names,
        more=max(len(frame) - limit, 0),
    )

"""The nodes of the compiled models: time, type, oneDNN primitive, threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from accel_magic.subsystems.openvino import versions
from accel_magic.subsystems.openvino.compiled_models import layers_in, models_in
from accel_magic.subsystems.openvino.input_shapes import is_dynamic
from accel_magic.subsystems.openvino.model_names import INSERTED
from accel_magic.subsystems.openvino.task_frames import LAYER, LOOP, PRIMITIVE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from accel_magic.subsystems.openvino.task_frames import OpenVinoTrace

REORDER: Final = "reorder"
_CONVERTING: Final = "Reorder"
_UNNAMED: Final = "Node"
"""What a node's task says if its class does not report its type: the CPU plugin's `Reorder`, and a few others."""
_TIMES: Final = ["executions", "total_ns", "own_ns", "mean_ns", "p10_ns", "p50_ns", "p99_ns", "max_ns"]
_STATE: Final = r"(ReadValue|Assign)_\d+"
"""Names that OpenVINO gives to nodes that copy the state of a model: they use reorders to copy."""
_DESCRIBED: Final = ("precision", "layout", "implementation")
_WORK: Final = ("flops", "bytes")
_KEY: Final = ["model", "name", "parent"]


def layers(trace: OpenVinoTrace, requests: pd.DataFrame) -> pd.DataFrame:
    """Return one row per node of each model that inferences executed, most time first; index `name`.

    Columns: `model` (its name, as in `requests`; '' if inferences were not traced), `parent` (the node whose body it is
    part of, such as a Loop; '' if none), `type` (of the node in the plugin, '' if not recorded), `primitive` (oneDNN
    primitives that ran in it, '' without any), `precision` and `layout` of its result, `implementation` (such as
    `brgconv_avx512_bf16`; these three are '' unless the traced process held the compiled model or compiled it within
    the trace), `reorder` (whether it only changes a layout or precision), `executions`, `total_ns`, `own_ns` (without
    nodes that are part of it), `mean_ns`, `p10_ns` (of the recorded events), `p50_ns`, `p99_ns`, `max_ns`, `share` (of
    the time of all inferences, without waiting for streams; NaN for parts of another node, so that shares add up to at
    most 1), `threads` (mean number that worked on it; NaN if parallel loops were not traced), `flops` (Int64:
    floating-point operations that one execution needs, two per multiplication with addition, without those of fused
    nodes), `bytes` (Int64: that it reads and writes at least: inputs, weights and outputs), `flops_per_s`,
    `bytes_per_s` (float64: these per second of `p50_ns`). The last four are NA for types whose work is not known
    (`layer_work`), and unless all inferences of the model in this trace had the same shapes.

    Nodes that ran while a model was compiled, for its constants, are in the table `compile`. If events were lost,
    executions, sums and quantiles of a node are still exact, unless nodes of several models, or of a model and one of
    its bodies, have its name: then they are those of the recorded events. Empty for versions of OpenVINO that do not
    tell layers apart.

    Args:
        trace: The trace.
        requests: `t.openvino.requests`.

    """
    executions = trace.executions
    if not versions.names_layers(trace.recording.machine.get("openvino", "")):
        executions = executions.iloc[:0]
    table = _grouped(trace, executions[executions["inference"] >= 0])
    table["share"] = (table["total_ns"] / trace.inferences_ns).where(table["parent"] == "")
    table["reorder"] = _reorders(table)
    varying = _varying(trace, requests)
    for column in _WORK:
        known = pd.to_numeric(table[column].replace("", None)).astype("Int64")
        table[column] = known.where(~table["model"].isin(varying))
        table[f"{column}_per_s"] = (table[column] * 1e9 / table["p50_ns"].clip(lower=1)).astype("float64")
    order = ["model", "parent", "type", "primitive", *_DESCRIBED, "reorder", *_TIMES, "share", "threads"]
    order += [*_WORK, *(f"{column}_per_s" for column in _WORK)]
    return table.set_index("name")[order].sort_values("total_ns", ascending=False, kind="stable")


def _varying(trace: OpenVinoTrace, requests: pd.DataFrame) -> set[str]:
    """Models with dynamic inputs that ran with other shapes than those for which their layers were read."""
    names = requests["model"].astype(str)
    found = set()
    for instance, model in trace.names.known.items():
        name = trace.names.labels[instance]
        shapes = requests.loc[names == name, "shapes"]
        ran = set(map(_dimensions, shapes.dropna().unique()))
        if is_dynamic(model.inputs) and (shapes.isna().any() or ran != {model.ran_shapes} or not model.ran_shapes):
            found.add(name)
    return found


def _dimensions(shapes: str) -> str:
    """The shapes without names, in alphabetical order, as in `CompiledModel.ran_shapes`."""
    return "; ".join(sorted(f"[{shape.rpartition('[')[2]}" for shape in shapes.split("; ")))


def _grouped(trace: OpenVinoTrace, executions: pd.DataFrame) -> pd.DataFrame:
    """One row per node, with everything but shares."""
    names = trace.executions["name"].astype(str).to_numpy()
    parent = executions["parent"].to_numpy()
    models = trace.inferences["model"].astype(str).to_numpy()
    inside = executions["inference"].to_numpy()
    events = pd.DataFrame(
        {
            "model": models[inside] if len(models) else np.full(len(inside), "", object),
            "name": executions["name"].astype(str).to_numpy(),
            "parent": np.where(parent >= 0, names[np.maximum(parent, 0)], "") if len(names) else names,
            "duration_ns": executions["duration_ns"].to_numpy(),
            "own_ns": executions["own_ns"].to_numpy(),
            "type": trace.types[executions.index],
            "primitive": _primitives(trace, executions),
            "threads": _threads(trace, executions),
        }
    )
    groups = events.groupby(_KEY, sort=False)
    table = _times(groups)
    table["threads"] = groups["threads"].mean()
    for column in ("type", "primitive"):
        table[column] = _only(events, column).reindex(table.index, fill_value="")
    table = table.reset_index()
    _make_exact(trace, table)
    _describe(trace, table)
    return table


def _times(groups: pd.api.typing.DataFrameGroupBy[Any, Any]) -> pd.DataFrame:
    duration = groups["duration_ns"]
    return pd.DataFrame(
        {
            "executions": duration.size().astype(np.int64),
            "total_ns": duration.sum().astype(np.float64),
            "own_ns": groups["own_ns"].sum().astype(np.float64),
            "mean_ns": duration.mean(),
            "p10_ns": duration.quantile(0.1),
            "p50_ns": duration.quantile(0.5),
            "p99_ns": duration.quantile(0.99),
            "max_ns": duration.max().astype(np.float64),
        }
    )


def _make_exact(trace: OpenVinoTrace, table: pd.DataFrame) -> None:
    """Take sums and quantiles from the counters, of names whose recorded tasks are all executions of one node."""
    totals = trace.totals[trace.totals["kind"] == LAYER].set_index("name")
    recorded = trace.executions["name"].astype(str).value_counts()
    own = table["executions"].eq(table["name"].map(recorded)) & ~totals.index.has_duplicates
    chosen = table.index[own.to_numpy()]
    counted = totals.reindex(table.loc[chosen, "name"])
    grown = counted["total_ns"].to_numpy() / table.loc[chosen, "total_ns"].clip(lower=1).to_numpy()
    table.loc[chosen, "own_ns"] *= grown
    table.loc[chosen, "executions"] = counted["count"].to_numpy()
    for column in ("total_ns", "mean_ns", "p50_ns", "p99_ns", "max_ns"):
        table.loc[chosen, column] = counted[column].to_numpy()


def _describe(trace: OpenVinoTrace, table: pd.DataFrame) -> None:
    """Set `type` and the columns of `_DESCRIBED` and `_WORK` to what the runtime models say; '' if they say nothing."""
    columns = ["type", *_DESCRIBED, *_WORK]
    known = {
        (layer.model, layer.name): tuple(getattr(layer, column) for column in columns)
        for layer in layers_in(trace.recording)
    }
    keys = {trace.names.labels[instance]: model.key for instance, model in trace.names.known.items()}
    if not models_in(trace.recording):  # a recording from before these were kept
        known = {("", name): described for name, described in _unambiguous(known).items()}
    nothing = ("",) * len(columns)
    rows = [
        known.get((keys.get(model, ""), name), nothing)
        for model, name in zip(table["model"], table["name"], strict=True)
    ]
    reported = pd.DataFrame(rows, columns=columns, index=table.index, dtype="str")
    unknown = table["type"].isin(["", _UNNAMED])  # types in files are not those of the plugin
    better = (reported["type"] != "") & (unknown | (reported["implementation"] != ""))
    table["type"] = reported["type"].where(better, table["type"])
    for column in columns[1:]:
        table[column] = reported[column]


def _unambiguous(known: Mapping[tuple[str, str], tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Descriptions by name, where they are the same in all models."""
    found: dict[str, set[tuple[str, ...]]] = {}
    for (_, name), described in known.items():
        found.setdefault(name, set()).add(described)
    return {name: described.pop() for name, described in found.items() if len(described) == 1}


def _reorders(table: pd.DataFrame) -> pd.Series[bool]:
    """Whether each node only converts: its runtime model says so, or it has no type, and its primitive or name does."""
    unknown = table["type"].isin(["", _UNNAMED])
    named = table["primitive"].eq("") & table["name"].str.contains(INSERTED, regex=True)
    state = table["name"].str.fullmatch(_STATE)
    return table["type"].eq(_CONVERTING) | (unknown & ~state & (table["primitive"].eq(REORDER) | named))


def _primitives(trace: OpenVinoTrace, events: pd.DataFrame) -> NDArray[np.object_]:
    """Names of the primitives that ran within each execution, on its thread."""
    inner = trace.of_kind(PRIMITIVE)
    of = trace.within(events, inner)
    found = np.full(len(events), "", object)
    names = inner["name"].astype(str).to_numpy()
    for name in np.unique(names[of >= 0]):
        rows = np.unique(of[(of >= 0) & (names == name)])
        found[rows] = np.where(found[rows] == "", name, found[rows] + f", {name}")
    return found


def _only(events: pd.DataFrame, column: str) -> pd.Series[str]:
    """The value of each node, if there is only one; an empty value counts only if there is no other."""
    pairs = events[[*_KEY, column]].drop_duplicates()
    pairs = pairs[pairs[column] != ""]
    return pairs.drop_duplicates(_KEY, keep=False).set_index(_KEY)[column]


def _threads(trace: OpenVinoTrace, events: pd.DataFrame) -> NDArray[np.float64]:
    """Number of threads with a parallel loop or primitive during each execution; NaN if none were traced."""
    work = trace.tasks[trace.tasks["kind"].isin([LOOP, PRIMITIVE])]
    if LOOP not in set(trace.totals["kind"]):
        return np.full(len(events), np.nan)
    start, end = events["start_ns"].to_numpy(), events["end_ns"].to_numpy()
    own, number = events["tid"].to_numpy(), np.ones(len(events))
    for tid, tasks in work.groupby("tid", sort=False):
        begins = tasks["start_ns"].to_numpy()
        ends = np.maximum.accumulate(tasks["end_ns"].to_numpy())
        # Some task of this thread overlaps the execution: it began before its end, and ended after its start.
        last = np.searchsorted(begins, end, side="left") - 1
        overlaps = (last >= 0) & (ends[np.maximum(last, 0)] > start)
        number += overlaps & (own != tid)
    return number

"""The nodes of the compiled models: time, type, oneDNN primitive, threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.subsystems.openvino import versions
from accel_magic.subsystems.openvino.compiled_models import layers_in
from accel_magic.subsystems.openvino.requests import model_of
from accel_magic.subsystems.openvino.task_frames import INFERENCE, LAYER, LOOP, PRIMITIVE, TYPE

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from accel_magic.subsystems.openvino.task_frames import OpenVinoTrace

REORDER: Final = "reorder"
_CONVERSIONS: Final = ("Reorder", "Node")
"""Types of nodes that convert; the CPU plugin's `Reorder` reports its base class, `Node`, and no other node does."""
_COLUMNS: Final = ["count", "total_ns", "mean_ns", "p50_ns", "p99_ns", "max_ns"]


def layers(trace: OpenVinoTrace) -> pd.DataFrame:
    """Return one row per node, most time first; index `name`.

    Columns: `type` (of the node in the plugin, '' if not recorded), `model` ('' if several), `primitive` (oneDNN
    primitives that ran in it, '' without any), `precision` and `layout` of its result, `implementation` (such as
    `brgconv_avx512_bf16`; these three are '' unless the traced process held the compiled model), `reorder` (whether it
    only changes a layout or precision), `executions`, `total_ns`, `mean_ns`, `p50_ns`, `p99_ns`, `max_ns`, `share` (of
    the time of all inferences), `threads` (mean number that worked on it; NaN if parallel loops were not traced).
    Executions, sums and quantiles are exact even if events were lost; the rest comes from events, and from what
    OpenVINO says of its compiled models. Empty for versions of OpenVINO that do not tell layers apart.
    """
    totals = trace.totals[trace.totals["kind"] == LAYER].set_index("name")
    if not versions.names_layers(trace.recording.machine.get("openvino", "")):
        totals = totals.iloc[:0]
    table = totals[_COLUMNS].rename(columns={"count": "executions"})
    inferences = trace.totals.loc[trace.totals["kind"] == INFERENCE, "total_ns"].sum()
    table["share"] = table["total_ns"] / (inferences or np.nan)
    events = trace.of_kind(LAYER)
    names = events["name"].astype(str).to_numpy()
    for column, values in {
        "type": _types(trace, events),
        "model": _models(trace, events),
        "primitive": _primitives(trace, events),
    }.items():
        table[column] = _joined(names, values).reindex(table.index, fill_value="")
    reported = _told(trace, table)
    for column in _LAYER_COLUMNS:
        table[column] = reported[column]
    table["type"] = reported["type"].where(reported["type"] != "", table["type"])
    table["reorder"] = (table["primitive"] == REORDER) & (table["type"] == "") | table["type"].isin(
        _CONVERSIONS
    ) & table["primitive"].isin(["", REORDER])
    table["threads"] = pd.Series(_threads(trace, events)).groupby(names).mean().reindex(table.index)
    order = ["type", "model", "primitive", *_LAYER_COLUMNS, "reorder", *(name for name in table if name in _OTHERS)]
    return table[order].sort_values("total_ns", ascending=False)


_LAYER_COLUMNS: Final = ("precision", "layout", "implementation")
_OTHERS: Final = ["executions", "total_ns", "mean_ns", "p50_ns", "p99_ns", "max_ns", "share", "threads"]


def _told(trace: OpenVinoTrace, table: pd.DataFrame) -> pd.DataFrame:
    """`type` and the columns of `_LAYER_COLUMNS` of each layer; '' if not reported, or different between models.

    Layers of several models may have the same name, and tasks have another name of the model than OpenVINO's users.
    """
    columns = ["type", *_LAYER_COLUMNS]
    rows = [(layer.name, *(getattr(layer, column) for column in columns)) for layer in layers_in(trace.recording)]
    known = pd.DataFrame(rows, columns=["name", *columns], dtype="str")
    alike = known.drop_duplicates().drop_duplicates("name", keep=False)
    reported: pd.DataFrame = alike.set_index("name").reindex(table.index, fill_value="")
    return reported


def _types(trace: OpenVinoTrace, events: pd.DataFrame) -> NDArray[np.object_]:
    """Type of each execution, from the task around it: `Convolution::execute`."""
    around = trace.of_kind(TYPE)
    return _names(around, trace.within(around, events), lambda name: name.partition("::")[0])


def _models(trace: OpenVinoTrace, events: pd.DataFrame) -> NDArray[np.object_]:
    around = trace.of_kind(INFERENCE)
    return _names(around, trace.within(around, events), model_of)


def _names(tasks: pd.DataFrame, places: NDArray[np.intp], short: Callable[[str], str]) -> NDArray[np.object_]:
    """Shortened name of the task at each place, '' for -1."""
    categories = [short(str(name)) for name in tasks["name"].cat.categories]
    table = np.array([*categories, ""], object)
    codes = tasks["name"].cat.codes.to_numpy()
    if not len(codes):
        return np.full(len(places), "", object)
    return table[np.where(places >= 0, codes[places], -1)]


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


def _joined(names: NDArray[np.object_], values: NDArray[np.object_]) -> pd.Series[str]:
    """The values of each name, if there is only one; else ''. An empty value counts only if there is no other."""
    pairs = pd.DataFrame({"name": names, "value": values}).drop_duplicates()
    pairs = pairs[pairs["value"] != ""]
    return pairs.drop_duplicates("name", keep=False).set_index("name")["value"]


def _threads(trace: OpenVinoTrace, events: pd.DataFrame) -> NDArray[np.float64]:
    """Number of threads with a parallel loop or primitive during each execution; NaN if none were traced."""
    work = trace.tasks[trace.tasks["kind"].isin([LOOP, PRIMITIVE])]
    if not (work["kind"] == LOOP).any():
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

"""The models of a trace: how fast they served, and what is known of them from their compilation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.subsystems.openvino import preset
from accel_magic.subsystems.openvino.compiled_models import models_in
from accel_magic.subsystems.openvino.model_names import name_of
from accel_magic.subsystems.openvino.requests import succeeded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.subsystems.openvino.compiled_models import CompiledModel
    from accel_magic.subsystems.openvino.task_frames import OpenVinoTrace

_TEXTS: Final = ("device", "precision", "hint")
_NUMBERS: Final = ("streams", "threads", "requests")
_LAST: Final = ("inputs", "outputs")
_SIZES: Final = ("weights_bytes", "compile_ns")
_COUNTED: Final = ("inferences", "failed")
_SERVED: Final = [*_COUNTED, "per_second", "p50_ns", "p90_ns", "p99_ns", "queue_share", "callers", "streams_used"]


def models(trace: OpenVinoTrace, requests: pd.DataFrame) -> pd.DataFrame:
    """Return one row per model that ran inferences or was compiled, most time first; index `model`.

    Columns: `inferences` that succeeded, `failed` (those that are known to have failed). Of those that succeeded:
    `per_second` (from the first start to the last end), `p50_ns`, `p90_ns`, `p99_ns` (of `latency_ns`: with the queue),
    `queue_share` (of these latencies; NaN if queueing is not known), `callers` (threads that called, as far as the
    calls were traced), `streams_used` (inferences that ran at once, at most). Of the compiled model, if the traced
    process compiled or held it, else '' and NA: `file`, `device`, `precision`, `hint`, `streams`, `threads`, `requests`
    (optimal number; Int64), `inputs`, `outputs` (such as `data f32[1,3,224,224]`), `weights_bytes`, `compile_ns`,
    `memory_bytes` (by which compiling enlarged the process; Int64), `layers` (Int64), `cached` (whether it was loaded
    from the cache; boolean), `stateful` (boolean: its inferences depend on earlier ones).

    Args:
        trace: The trace.
        requests: Its inferences.

    """
    groups = requests.groupby("model", observed=True, sort=False)
    rows = {str(name): _served(trace, own) for name, own in groups if name}
    known = {trace.names.labels[instance]: model for instance, model in trace.names.known.items()}
    used = {model.key for model in known.values()}
    unused = [model for model in models_in(trace.recording) if model.key not in used and model.device]
    known |= {f"{name_of(model)} (not used)": model for model in unused}
    names = [*rows, *(name for name in known if name not in rows)]
    served = pd.DataFrame([rows.get(name, {}) for name in names], columns=[*_SERVED, "spent_ns"])
    facts = pd.DataFrame([_facts(known.get(name)) for name in names], columns=[*_facts(None)])
    table = pd.concat([served, facts], axis=1).set_axis(pd.Index(names, name="model", dtype="str"))
    for column in _COUNTED:
        table[column] = table[column].fillna(0).astype(np.int64)
    for column in ("callers", "streams_used", *_NUMBERS, *_SIZES, "memory_bytes", "layers"):
        table[column] = table[column].astype("Int64")
    for column in ("cached", "stateful"):
        table[column] = table[column].astype("boolean")
    return table.sort_values("spent_ns", ascending=False, kind="stable").drop(columns="spent_ns")


def _served(trace: OpenVinoTrace, every: pd.DataFrame) -> dict[str, object]:
    own = succeeded(every)
    counted: dict[str, object] = {"inferences": len(own), "failed": len(every) - len(own)}
    if not len(own):
        return counted
    latency = own["latency_ns"].to_numpy()
    p50, p90, p99 = np.quantile(latency, (0.5, 0.9, 0.99))
    ran = trace.inferences.loc[own.index]
    begins, ends = ran["stream_ns"].to_numpy(), ran["last_ns"].fillna(ran["end_ns"]).to_numpy(np.int64)
    span = int(own["end_ns"].max() - (own["end_ns"] - own["latency_ns"]).min())
    known = own["queue_ns"].notna()
    return {
        **counted,
        "per_second": len(own) * 1e9 / max(span, 1),
        "p50_ns": p50,
        "p90_ns": p90,
        "p99_ns": p99,
        "queue_share": float(own.loc[known, "queue_ns"].sum() / own.loc[known, "latency_ns"].sum())
        if known.any()
        else np.nan,
        "callers": _callers(trace, own),
        "streams_used": most_at_once(begins, ends),
        "spent_ns": float(own["duration_ns"].sum()),
    }


def _callers(trace: OpenVinoTrace, own: pd.DataFrame) -> int | None:
    """Number of threads that called; None if they were not traced."""
    calls, of = trace.python_calls((preset.STARTED,)), trace.waiting_calls.of[own.index]
    threads = set(trace.waiting_calls.calls["tid"].to_numpy()[of[of >= 0]])
    tasks = {name.rpartition("::")[2] for name in trace.inferences.loc[own.index, "name"].astype(str).unique()}
    threads |= set(calls.loc[calls["name"].str.removeprefix(preset.STARTED).str.strip().isin(tasks), "tid"])
    return len(threads) or None


def most_at_once(begins: NDArray[np.int64], ends: NDArray[np.int64]) -> int:
    """Return how many intervals overlap at most."""
    moments = np.concatenate([begins, ends])
    changes = np.concatenate([np.ones(len(begins), np.int64), np.full(len(ends), -1)])
    return int(changes[np.lexsort((changes, moments))].cumsum().max())


def _facts(model: CompiledModel | None) -> dict[str, object]:
    """What is known of a compiled model; columns without a value if it is None."""
    if model is None:
        texts = dict.fromkeys(("file", *_TEXTS, *_LAST), "")
        return texts | dict.fromkeys((*_NUMBERS, *_SIZES, "memory_bytes", "layers", "cached", "stateful"))
    before, after = _number(model.memory_before), _number(model.memory_after)
    return {
        "file": model.file,
        **{name: getattr(model, name) for name in (*_TEXTS, *_LAST)},
        **{name: _number(getattr(model, name)) for name in (*_NUMBERS, *_SIZES, "layers")},
        "memory_bytes": None if before is None or after is None else after - before,
        "cached": {"True": True, "False": False}.get(model.cache),
        "stateful": {"True": True, "False": False}.get(model.stateful),
    }


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None

"""From the kernel engine's events to one row for each call of the driver: what it asked for, in the user's terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.gpu.host_api.results import name_of
from accel_magic.gpu.host_api.users import asked_for
from accel_magic.gpu.recording import API
from accel_magic.probes.presets.cuda import call_of, has_own_stream
from accel_magic.traces.frames import events_frame

if TYPE_CHECKING:
    from accel_magic.gpu.host_api.own import Stretches
    from accel_magic.traces.recording import Recording

_MEMORY_TYPES: Final = {1: "H", 2: "D", 3: "A"}
"""CU_MEMORYTYPE_HOST, _DEVICE, _ARRAY; unified memory (4) may be either."""
_OWN_STREAM: Final = 2
"""CU_STREAM_PER_THREAD: what the stream 0 is in entries for default streams of each thread's own."""
OWN_THREAD: Final = "accel_magic"
"""Name of the threads that this tool has in other processes."""
_SHAPE: Final = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared_bytes")
_LARGEST = np.iinfo(np.int64).max


def calls_of(recording: Recording, own: Stretches, shim: str = "") -> pd.DataFrame:
    """Make a row of each call that came from outside the driver and from outside this tool.

    Args:
        recording: Of the preset `cuda`.
        own: When this tool itself called.
        shim: The library of ours that stands before the driver in child processes; '' for none.

    Returns:
        Columns as in `accel_magic.gpu.recording.API`, in order of time, with `time_ns` on CLOCK_MONOTONIC; `launch` is
        NA everywhere.

    """
    events = events_frame(recording)
    if not len(events):  # it has not the columns that only calls bring
        return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in API.items()})
    events["time_ns"] += recording.start_ns
    tid, time_ns = events["tid"].to_numpy(np.int64), events["time_ns"].to_numpy(np.int64)
    length = events["duration_ns"].to_numpy(np.int64)
    names, kinds = (_each(events, name).to_numpy() for name in ("name", "kind"))
    wraps = np.array([point.target == shim for point in recording.plan.points])
    wrappers = wraps[recording.events.columns["point"].values]
    kept = asked_for(tid, time_ns, length, names=names, kinds=kinds, wrappers=wrappers)
    kept &= ~own.hold(tid, time_ns) & (events["comm"] != OWN_THREAD).to_numpy()
    return _rows(events[kept].reset_index(drop=True))


def _rows(events: pd.DataFrame) -> pd.DataFrame:
    kind = _each(events, "kind")
    codes = _codes(events)
    whole = {
        "time_ns": events["time_ns"],
        "duration_ns": events["duration_ns"].astype("int64"),
        "pid": events["pid"],
        "tid": events["tid"],
        "name": _each(events, "name"),
        "kind": kind,
        "kernel": _kernels(events),
        **{name: _column(events, name) for name in _SHAPE},
        "stream": _streams(events, kind),
        "bytes": _bytes(events, _each(events, "unit"), kind),
        "direction": _directions(events, _each(events, "direction")),
        "waits": _waits(_each(events, "name"), kind),
        "result": codes.map({code: name_of(code) for code in codes.unique().tolist()}),
        "launch": pd.array([pd.NA] * len(events), "Int64"),
    }
    return pd.DataFrame(whole)[list(API)].astype(API)


def _each(events: pd.DataFrame, name: str) -> pd.Series:
    """What the table of calls says of each."""
    known = {symbol: getattr(call_of(symbol), name) for symbol in events["function"].cat.categories}
    return events["function"].map(known).astype("object")


def _codes(events: pd.DataFrame) -> pd.Series:
    """Results: an int, which is the lower half of the register."""
    return pd.Series(events["retval"].to_numpy(np.int64).astype(np.int32), events.index)


def _column(events: pd.DataFrame, name: str) -> pd.Series:
    """A captured column as Int64; what no such number holds is missing, as it is in other calls."""
    if name not in events:
        return pd.Series(pd.NA, index=events.index, dtype="Int64")
    values = events[name].astype("UInt64")
    return values.where((values <= _LARGEST).fillna(value=False)).astype("Int64")


def _streams(events: pd.DataFrame, kind: pd.Series) -> pd.Series:
    """Streams; copies and fills that name none are on the default stream."""
    stream = _column(events, "stream")
    stream = stream.mask(stream.isna() & kind.isin(("copy", "memset")), 0)
    own = events["function"].map({symbol: has_own_stream(symbol) for symbol in events["function"].cat.categories})
    return stream.mask((stream == 0).fillna(value=False) & own.astype("bool"), _OWN_STREAM)


def _bytes(events: pd.DataFrame, unit: pd.Series, kind: pd.Series) -> pd.Series:
    size = _column(events, "bytes") * unit.astype("Int64")
    for name in ("rows", "layers"):
        size *= _column(events, name).fillna(1)
    given_back = (kind == "free").to_numpy()
    if given_back.any() and "address" in events:
        made = events.assign(size=size)[((kind == "alloc") & (_codes(events) == 0)).to_numpy()]
        size = size.mask(given_back, _latest(events, "address", made, "address", "size"))
    return size


def _directions(events: pd.DataFrame, given: pd.Series) -> pd.Series:
    if "from" not in events:
        return given
    ends = [events[name].astype("Int64").map(_MEMORY_TYPES) for name in ("from", "to")]
    return given.mask((given == "") & ends[0].notna() & ends[1].notna(), ends[0] + "to" + ends[1])


def _waits(name: pd.Series, kind: pd.Series) -> pd.Series:
    """Whether a call waits for the device: True for synchronisation and plain copies, NA for what may and may not."""
    queued = name.str.endswith("Async") | kind.isin(("launch", "event", "poll"))
    waits = kind.isin(("sync", "copy")) & ~queued
    return waits.astype("boolean").mask(~waits & ~queued)


def _kernels(events: pd.DataFrame) -> pd.Series:
    """Names of the kernels that calls are about, as they were looked up before; '' where that was not seen."""
    if "handle" not in events or "kernel" not in events:
        return pd.Series("", events.index, dtype="object")
    name = events["kernel"].astype("object").fillna("")
    found = events[(name != "").to_numpy() & (_codes(events) == 0).to_numpy()].assign(found=name)
    if "of" in events:
        turned = events[events["of"].notna()]
        turned = turned.assign(found=_latest(turned, "of", found, "handle", "found"))
        found = pd.concat([found, turned]).dropna(subset=["found"])
    known = _latest(events, "handle", found, "handle", "found")
    known.loc[found.index] = found["found"]
    return name.mask(name == "", known.fillna(""))


def _latest(rows: pd.DataFrame, key: str, made: pd.DataFrame, made_key: str, value: str) -> pd.Series:
    """What the newest of `made`, of the same process and key, says before each row; NA where there is none."""
    columns = made.dropna(subset=[made_key])
    right = pd.DataFrame(
        {
            "time_ns": (columns["time_ns"] + columns["duration_ns"].astype("int64")).to_numpy(np.int64),
            "pid": columns["pid"].to_numpy(np.int64),
            "key": columns[made_key].to_numpy(np.uint64),
            "value": columns[value].to_numpy(),
        }
    ).sort_values("time_ns", kind="stable")
    wanted = rows[rows[key].notna()]
    left = pd.DataFrame(
        {
            "time_ns": wanted["time_ns"].to_numpy(np.int64),
            "pid": wanted["pid"].to_numpy(np.int64),
            "key": wanted[key].to_numpy(np.uint64),
            "row": wanted.index.to_numpy(),
        }
    ).sort_values("time_ns", kind="stable")
    joined: pd.Series = pd.merge_asof(left, right, on="time_ns", by=["pid", "key"]).set_index("row")["value"]
    return joined.reindex(rows.index)

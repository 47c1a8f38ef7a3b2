"""From the kernel engine's events to one row per driver call, in the user's terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.analysis.frames import events_frame
from accel_magic.recording.gpu_data import API
from accel_magic.subsystems.host_api.cuda import call_of, has_own_stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.gpu.host.own_calls import Stretches
    from accel_magic.recording.recording import Recording

    Times = NDArray[np.int64]
    from numpy.typing import NDArray

    Names = NDArray[np.object_]


_MEMORY_TYPES: Final = {1: "H", 2: "D", 3: "A"}
"""CU_MEMORYTYPE_HOST, _DEVICE, _ARRAY; unified memory (4) may be either."""
_OWN_STREAM: Final = 2
"""CU_STREAM_PER_THREAD: the meaning of stream 0 in entry points with per-thread default streams."""
OWN_THREAD: Final = "accel_magic"
"""Name of this tool's threads in other processes."""
_SHAPE: Final = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared_bytes")
_LARGEST = np.iinfo(np.int64).max


def calls_of(recording: Recording, own: Stretches, shim: str = "") -> pd.DataFrame:
    """One row per call that came neither from the driver itself nor from this tool.

    Args:
        recording: Of the preset `cuda`.
        own: When this tool itself called.
        shim: Our library that is loaded in front of the driver in child processes; '' if none.

    Returns:
        Columns as in `accel_magic.recording.gpu_data.API`, in order of time, with `time_ns` on CLOCK_MONOTONIC;
        `launch` is NA everywhere.

    """
    events = events_frame(recording)
    if not len(events):  # the columns that come with calls are missing
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
    """A property of each call, from the table of calls."""
    known = {symbol: getattr(call_of(symbol), name) for symbol in events["function"].cat.categories}
    return events["function"].map(known).astype("object")


def _codes(events: pd.DataFrame) -> pd.Series:
    """Results: an int, the lower half of the register."""
    return pd.Series(events["retval"].to_numpy(np.int64).astype(np.int32), events.index)


def _column(events: pd.DataFrame, name: str) -> pd.Series:
    """A captured column as Int64; values that do not fit are missing, and so are those of other calls."""
    if name not in events:
        return pd.Series(pd.NA, index=events.index, dtype="Int64")
    values = events[name].astype("UInt64")
    return values.where((values <= _LARGEST).fillna(value=False)).astype("Int64")


def _streams(events: pd.DataFrame, kind: pd.Series) -> pd.Series:
    """Streams; copies and fills without one are on the default stream."""
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
    """Whether a call waits for the device: True for synchronization and plain copies, NA if it may or may not."""
    queued = name.str.endswith("Async") | kind.isin(("launch", "event", "poll"))
    waits = kind.isin(("sync", "copy")) & ~queued
    return waits.astype("boolean").mask(~waits & ~queued)


def _kernels(events: pd.DataFrame) -> pd.Series:
    """Kernel names of calls, from the earlier lookup of the kernel; '' if that was not recorded."""
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
    """Value of the newest earlier row of `made` with the same process and key, for each row; NA if there is none."""
    columns = made.dropna(subset=[made_key])
    right = pd.DataFrame(
        {
            "time_ns": (columns["time_ns"] + columns["duration_ns"].astype("int64")).to_numpy(np.int64),
            "pid": columns["pid"].to_numpy(np.int64),
            "key": columns[made_key].to_numpy(np.uint64),
            "value": columns[value].to_numpy(),
        }
    ).sort_values("time_ns", kind="stable")
    requested = rows[rows[key].notna()]
    left = pd.DataFrame(
        {
            "time_ns": requested["time_ns"].to_numpy(np.int64),
            "pid": requested["pid"].to_numpy(np.int64),
            "key": requested[key].to_numpy(np.uint64),
            "row": requested.index.to_numpy(),
        }
    ).sort_values("time_ns", kind="stable")
    joined: pd.Series = pd.merge_asof(left, right, on="time_ns", by=["pid", "key"]).set_index("row")["value"]
    return joined.reindex(rows.index)


_MATCHED: Final = ("pid", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
_NAME_BYTES: Final = 63
"""Length of a name that the kernel engine reads, bytes."""


def matched(api: pd.DataFrame, launches: pd.DataFrame, *, complete: bool) -> pd.DataFrame:
    """Fill in `launch`, and the kernel's full name, for calls that made a launch.

    Process, shape and, if both are known, the kernel's name must match. Then a launch is matched with a call between
    the adapter's two time stamps; or, if the adapter records launches when the device starts them, in order: whichever
    matches more. Each call makes one launch.

    Args:
        api: Columns as in `recording.API`, times on the same base as those of the launches.
        launches: Columns as in `recording.LAUNCHES`.
        complete: Whether all calls are present; if not, their order is not used.

    Returns:
        A copy.

    """
    calls = api[(api["kind"] == "launch") & api["grid_x"].notna() & (api["result"] == "CUDA_SUCCESS")]
    if not len(calls) or not len(launches):
        return api
    requested, made = (frame[list(_MATCHED)].to_numpy(np.int64) for frame in (launches, calls))
    _, number = np.unique(np.vstack([requested, made]), axis=0, return_inverse=True)
    of_launch, of_call = np.split(number.reshape(-1), [len(requested)])
    start = launches["time_ns"].to_numpy(np.int64)
    end = start + launches["host_ns"].to_numpy(np.int64)
    when = calls["time_ns"].to_numpy(np.int64)
    names, known = launches["name"].str[:_NAME_BYTES].to_numpy(), calls["kernel"].to_numpy()
    launch = np.full(len(calls), -1)

    for shape in np.unique(of_call):
        rows, columns = np.flatnonzero(of_launch == shape), np.flatnonzero(of_call == shape)
        rows = rows[np.argsort(start[rows], kind="stable")]
        for name in pd.unique(known[columns]):
            own = rows[(names[rows] == name) | (name == "")]
            same = columns[known[columns] == name]
            taken = _around(start[own], end[own], when[same])
            if complete and name:
                # A long-running kernel's interval also contains later calls.
                taken = max(taken, _in_order(start[own], when[same]), key=lambda found: int((found >= 0).sum()))
            launch[same[taken >= 0]] = own[taken[taken >= 0]]
    found = pd.Series(pd.NA, index=api.index, dtype="Int64")
    found.loc[calls.index[launch >= 0]] = launch[launch >= 0]
    full = found.map(launches["name"]).astype("object")
    return api.assign(launch=found, kernel=full.where(found.notna(), api["kernel"]).astype(api["kernel"].dtype))


def _around(start: Times, end: Times, when: Times) -> Times:
    """(calls,) index of the launch whose interval contains each call as its first free one, in order; -1 if none."""
    found = np.full(len(when), -1)
    free = 0
    for place, first in enumerate(np.searchsorted(when, start)):
        free = max(free, int(first))
        if free < len(when) and when[free] <= end[place]:
            found[free] = place
            free += 1
    return found


def _in_order(start: Times, when: Times) -> Times:
    """(calls,) index of each call's launch, matched in order; -1 from the first launch that starts before its call."""
    count = min(len(start), len(when))
    follows = np.logical_and.accumulate(start[:count] >= when[:count])
    return np.append(np.where(follows, np.arange(count), -1), np.full(len(when) - count, -1))


_CODES: Final = """
    0 SUCCESS, 1 INVALID_VALUE, 2 OUT_OF_MEMORY, 3 NOT_INITIALIZED, 4 DEINITIALIZED, 5 PROFILER_DISABLED,
    6 PROFILER_NOT_INITIALIZED, 7 PROFILER_ALREADY_STARTED, 8 PROFILER_ALREADY_STOPPED, 34 STUB_LIBRARY,
    36 CALL_REQUIRES_NEWER_DRIVER, 46 DEVICE_UNAVAILABLE,
    100 NO_DEVICE, 101 INVALID_DEVICE, 102 DEVICE_NOT_LICENSED,
    200 INVALID_IMAGE, 201 INVALID_CONTEXT, 202 CONTEXT_ALREADY_CURRENT, 205 MAP_FAILED, 206 UNMAP_FAILED,
    207 ARRAY_IS_MAPPED, 208 ALREADY_MAPPED, 209 NO_BINARY_FOR_GPU, 210 ALREADY_ACQUIRED, 211 NOT_MAPPED,
    212 NOT_MAPPED_AS_ARRAY, 213 NOT_MAPPED_AS_POINTER, 214 ECC_UNCORRECTABLE, 215 UNSUPPORTED_LIMIT,
    216 CONTEXT_ALREADY_IN_USE, 217 PEER_ACCESS_UNSUPPORTED, 218 INVALID_PTX, 219 INVALID_GRAPHICS_CONTEXT,
    220 NVLINK_UNCORRECTABLE, 221 JIT_COMPILER_NOT_FOUND, 222 UNSUPPORTED_PTX_VERSION,
    223 JIT_COMPILATION_DISABLED, 224 UNSUPPORTED_EXEC_AFFINITY, 225 UNSUPPORTED_DEVSIDE_SYNC, 226 CONTAINED,
    300 INVALID_SOURCE, 301 FILE_NOT_FOUND, 302 SHARED_OBJECT_SYMBOL_NOT_FOUND, 303 SHARED_OBJECT_INIT_FAILED,
    304 OPERATING_SYSTEM,
    400 INVALID_HANDLE, 401 ILLEGAL_STATE, 402 LOSSY_QUERY,
    500 NOT_FOUND,
    600 NOT_READY,
    700 ILLEGAL_ADDRESS, 701 LAUNCH_OUT_OF_RESOURCES, 702 LAUNCH_TIMEOUT, 703 LAUNCH_INCOMPATIBLE_TEXTURING,
    704 PEER_ACCESS_ALREADY_ENABLED, 705 PEER_ACCESS_NOT_ENABLED, 708 PRIMARY_CONTEXT_ACTIVE,
    709 CONTEXT_IS_DESTROYED, 710 ASSERT, 711 TOO_MANY_PEERS, 712 HOST_MEMORY_ALREADY_REGISTERED,
    713 HOST_MEMORY_NOT_REGISTERED, 714 HARDWARE_STACK_ERROR, 715 ILLEGAL_INSTRUCTION, 716 MISALIGNED_ADDRESS,
    717 INVALID_ADDRESS_SPACE, 718 INVALID_PC, 719 LAUNCH_FAILED, 720 COOPERATIVE_LAUNCH_TOO_LARGE,
    721 TENSOR_MEMORY_LEAK,
    800 NOT_PERMITTED, 801 NOT_SUPPORTED, 802 SYSTEM_NOT_READY, 803 SYSTEM_DRIVER_MISMATCH,
    804 COMPAT_NOT_SUPPORTED_ON_DEVICE, 805 MPS_CONNECTION_FAILED, 806 MPS_RPC_FAILURE, 807 MPS_SERVER_NOT_READY,
    808 MPS_MAX_CLIENTS_REACHED, 809 MPS_MAX_CONNECTIONS_REACHED, 810 MPS_CLIENT_TERMINATED, 811 CDP_NOT_SUPPORTED,
    812 CDP_VERSION_MISMATCH,
    900 STREAM_CAPTURE_UNSUPPORTED, 901 STREAM_CAPTURE_INVALIDATED, 902 STREAM_CAPTURE_MERGE,
    903 STREAM_CAPTURE_UNMATCHED, 904 STREAM_CAPTURE_UNJOINED, 905 STREAM_CAPTURE_ISOLATION,
    906 STREAM_CAPTURE_IMPLICIT, 907 CAPTURED_EVENT, 908 STREAM_CAPTURE_WRONG_THREAD, 909 TIMEOUT,
    910 GRAPH_EXEC_UPDATE_FAILURE, 911 EXTERNAL_DEVICE, 912 INVALID_CLUSTER_SIZE, 913 FUNCTION_NOT_LOADED,
    914 INVALID_RESOURCE_TYPE, 915 INVALID_RESOURCE_CONFIGURATION, 916 KEY_ROTATION, 999 UNKNOWN,
"""

NAMES: Final = {
    int(code): "CUDA_SUCCESS" if code == "0" else f"CUDA_ERROR_{name}"
    for code, name in (entry.split() for entry in _CODES.split(",") if entry.strip())
}
"""Name of each result code."""


def name_of(code: int) -> str:
    """Name of a result code; the number if it is unknown, as from newer drivers."""
    return NAMES.get(code, str(code))


def outermost(tid: Times, start: Times, duration: Times) -> NDArray[np.bool_]:
    """(calls,) whether a call was not made inside another: one entry point of the driver may call another."""
    end = start + duration
    order = np.lexsort((-end, start, tid))
    first = np.diff(tid[order], prepend=-1) != 0
    # Latest end of a thread's earlier calls; an offset puts each thread's times after those of the previous thread.
    groups = np.cumsum(first)
    base = int(start.min()) if len(start) else 0
    span = int(end.max()) - base + 1 if len(end) else 1
    latest = np.maximum.accumulate(groups * span + end[order] - base)
    before = np.append(-1, latest[:-1])
    found = np.empty(len(tid), np.bool_)
    found[order] = first | (groups * span + start[order] - base >= before)
    return found


def asked_for(
    tid: Times, start: Times, duration: Times, *, names: Names, kinds: Names, wrappers: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """(calls,) whether the program itself made a call.

    Args:
        tid: The calls' threads.
        start: Start times, ns.
        duration: Durations, ns.
        names: Names of the calls.
        kinds: Kinds of the calls.
        wrappers: Whether it is a function in front of the driver's, in a traced process. Of the driver's calls inside
            a wrapper, only the wrapped call is the program's; if it was not recorded, the wrapper itself is kept.

    """
    kept = np.zeros(len(tid), np.bool_)
    for rows in (np.flatnonzero(~wrappers), np.flatnonzero(wrappers)):
        kept[rows] = outermost(tid[rows], start[rows], duration[rows])
    around = np.flatnonzero(wrappers & kept)
    for thread in np.unique(tid[around]):
        inside = np.flatnonzero((tid == thread) & ~wrappers & kept)
        inside = inside[np.argsort(start[inside], kind="stable")]
        for row in around[tid[around] == thread]:
            bounds = np.searchsorted(start[inside], (start[row], start[row] + duration[row]))
            made = inside[slice(*bounds)]
            same = made[names[made] == names[row]]
            wrapped = same if len(same) else made[kinds[made] == kinds[row]]
            kept[row] = not len(wrapped)
            kept[made] = False
            kept[wrapped[:1]] = True
    return kept

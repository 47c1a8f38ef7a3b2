"""The NPU's buffers: size, kind, cost and lifetime of each, and how processes use theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from accel_magic.analysis.thread_events import NONE, captured, inside, known_at, newest_before, nullable
from accel_magic.subsystems.npu.objects import (
    BINDS,
    CLOSE_HANDLE,
    CREATE_IOCTLS,
    CREATE_OBJECT,
    FREE,
    SUBMITS,
    closed,
    freed,
    objects,
    refused,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.analysis.driver_trace import DriverTrace
    from accel_magic.subsystems.npu.objects import Objects

    Rows = NDArray[np.intp]

MAP_PAGE = "ivpu_mmu_context_map_page"
OPEN, CLOSE = "ivpu_open", "ivpu_postclose"

USER, DRIVER = "user", "driver"
FREED, ALIVE, EARLIER, UNKNOWN = "freed", "alive at the end", "created before the trace", "not known"
STATES = (FREED, ALIVE, EARLIER, UNKNOWN)

# include/uapi/drm/ivpu_accel.h, DRM_IVPU_BO_*
_PLACES = ((0x1, "high memory"), (0x2, "mappable"), (0x4, "DMA range"), (0x8, "read-only"))
_CACHE_MASK = 0x30000
_CACHE = {0x0: "cached", 0x10000: "uncached", 0x20000: "write-combined"}


def kind(flags: int) -> str:
    """Meaning of DRM_IVPU_BO_* flags, e.g. `mappable, cached`."""
    words = [word for bit, word in _PLACES if flags & bit]
    return ", ".join([*words, _CACHE.get(flags & _CACHE_MASK, "cache mode not known")])


def buffers(trace: DriverTrace) -> pd.DataFrame:
    """Describe every buffer object in the trace, in order of creation.

    Returns:
        One row per object. What the trace does not contain is NA: an address comes from `ivpu_gem_create_object`'s
        return value, and identifies the buffer in all other events.

        `bo` UInt64 address of the kernel's object, `handle` Int64 of its ioctl, `size_bytes` Int64, `flags` Int64,
        `kind` text, `owner` "user", or "driver" for the driver's own buffers (firmware, job queues, preemption),
        `pid` Int64, `comm`, `file` UInt64 address of the open device, `vpu_addr` UInt64 address on the NPU;
        `created_ns` (entry of the ioctl, or of the creation), `create_ns` (duration of the ioctl), `bound_ns` first
        pin or bind, `bind_ns` its duration, `last_used_ns` the newest, `closed_ns` when the program closed the handle,
        `freed_ns`, `lifetime_ns` from `created_ns` to `freed_ns`: Int64 ns;
        `pages` Int64 pages that its binds mapped, `jobs` Int64 submissions it was part of (not the driver's own
        buffers; a lower bound if events were lost);
        `state` one of `STATES`: whether a buffer is alive, or older than the trace, is only known if no hit was lost or
        missed.

    """
    found = objects(trace)
    made, count = found.made, len(found.bo)
    frame = pd.DataFrame(index=pd.RangeIndex(count))
    frame["bo"] = nullable(found.bo, found.bo != 0, "UInt64")
    _describe(frame, found)
    _add_binds(frame, found)
    _add_end(frame, found)
    order = np.argsort(np.append(made, np.full(count - len(made), NONE)), kind="stable")
    return frame.iloc[order].reset_index(drop=True)


def leaks(trace: DriverTrace, frame: pd.DataFrame) -> pd.DataFrame:
    """Find the processes that leave buffers behind.

    A buffer that is alive while its process has the device open is not a leak, so a row is a fact, not a verdict. A
    buffer counts as given back once its handle was closed, even if a job or a mapping kept it a little longer.

    Args:
        trace: The trace.
        frame: Result of `buffers`.

    Returns:
        Indexed by `pid`, one row per process with such buffers: `comm`, `created` user's buffers, `bytes` of them;
        `left`, `left_bytes`: only freed by closing the device (NA if closing handles was not traced, or hits were lost
        or missed);
        `outlived`, `outlived_bytes`: still there although the process closed the device;
        `kept`, `kept_bytes`: alive, used by one job, and never again although the process submitted more jobs.
        All Int64.

    """
    users = frame[(frame["owner"] == USER) & frame["pid"].notna()]
    closed_at = _closed_device(trace, users)
    alive = users["state"] == ALIVE
    last_job = users["pid"].map(_submissions(trace)["last_ns"])
    cases = {
        "left": (users["state"] == FREED) & users["closed_ns"].isna(),
        "outlived": alive & closed_at.notna() & (users["created_ns"] <= closed_at).fillna(value=False),
        "kept": alive & closed_at.isna() & (users["jobs"] == 1) & (users["last_used_ns"] < last_job),
    }
    table = _by_process(users)
    for name, chosen in cases.items():
        some = users[chosen.fillna(value=False).astype(bool)].groupby("pid")["size_bytes"]
        table[name] = some.count().reindex(table.index, fill_value=0).astype("Int64")
        table[f"{name}_bytes"] = some.sum().reindex(table.index, fill_value=0).astype("Int64")
    if not trace.saw(CLOSE_HANDLE) or incomplete(trace):
        table[["left", "left_bytes"]] = pd.NA
    return table[table[list(cases)].fillna(0).any(axis=1)]


def churn(trace: DriverTrace, frame: pd.DataFrame) -> pd.DataFrame:
    """Relate each process's buffers to its jobs.

    Args:
        trace: The trace.
        frame: Result of `buffers`.

    Returns:
        Indexed by `pid`: `comm`, `created` user's buffers, `bytes` of them, `freed`, `jobs` submissions accepted by the
        driver, `created_per_job` float64 (NaN without jobs), `single_use` buffers freed after one job,
        `single_use_bytes`, and their cost: `create_ns`, `bind_ns`, sums over the single-use buffers. Int64.

    """
    users = frame[(frame["owner"] == USER) & frame["pid"].notna()]
    table = _by_process(users)
    groups = users.groupby("pid")
    table["freed"] = groups["freed_ns"].count().astype("Int64")
    table["jobs"] = _submissions(trace)["jobs"].reindex(table.index, fill_value=0).astype("Int64")
    jobs = table["jobs"].to_numpy(np.float64)
    table["created_per_job"] = np.divide(table["created"].to_numpy(np.float64), jobs, where=jobs > 0, out=jobs * np.nan)
    once = users[((users["jobs"] == 1) & (users["state"] == FREED)).fillna(value=False)].groupby("pid")
    sums = {"single_use": once.size(), "single_use_bytes": once["size_bytes"].sum()}
    sums |= {name: once[name].sum() for name in ("create_ns", "bind_ns")}
    for name, values in sums.items():
        table[name] = values.reindex(table.index, fill_value=0).astype("Int64")
    return table


def _describe(frame: pd.DataFrame, found: Objects) -> None:
    """Add the columns known from the creation."""
    trace, made, ioctl = found.trace, found.made, found.ioctl
    requested = ioctl >= 0
    answered = np.where(requested, ioctl, NONE)
    answered[requested] = np.where(refused(trace, ioctl[requested]), NONE, ioctl[requested])
    time = trace.events["time_ns"].to_numpy()
    columns = {
        "handle": captured(trace, "handle", answered),
        "size_bytes": _size(found),
        "flags": captured(trace, "flags", ioctl),
        "vpu_addr": captured(trace, "vpu_addr", answered, "UInt64"),
        "pid": nullable(trace.events["pid"].to_numpy()[made], trace.timed),
        "file": captured(trace, "file", ioctl, "UInt64"),
        "comm": trace.events["comm"].iloc[made].where(np.full(len(made), trace.timed)),
        "created_ns": nullable(time[np.where(requested, ioctl, made)], trace.timed),
        "create_ns": captured(trace, "duration_ns", ioctl),
        "owner": _owner(found),
    }
    for name, values in columns.items():
        frame[name] = pd.Series(values).reset_index(drop=True).reindex(frame.index)
    words = {flags: kind(int(flags)) for flags in frame["flags"].dropna().unique()}
    kinds = frame["flags"].map(words).astype("str").where(frame["flags"].notna(), None)
    imported = np.append(found.imported, np.zeros(len(frame) - len(made), np.bool_))
    frame["kind"] = kinds.where(~imported, "imported")


def _size(found: Objects) -> pd.Series[int]:
    """Size of the object in bytes, whole pages; if unknown, the requested size, rounded up."""
    trace, made, ioctl = found.trace, found.made, found.ioctl
    own = pd.Series(captured(trace, "size", made))
    requested = pd.Series(captured(trace, "size", ioctl))
    rounded = -(-requested // trace.pages) * trace.pages
    return own.where(trace.mask(CREATE_OBJECT)[made], rounded).fillna(rounded)


def _owner(found: Objects) -> pd.Series[Any]:
    """Owner of each: known if ioctls were traced and threads can be distinguished."""
    trace = found.trace
    others = 1 if trace.timed and trace.saw(*CREATE_IOCTLS) else NONE
    codes = np.where(found.users, 0, others)
    return pd.Series(pd.Categorical.from_codes(codes, categories=pd.Index([USER, DRIVER])))


def _add_binds(frame: pd.DataFrame, found: Objects) -> None:
    """Add the first and the newest bind, the pages that binds mapped, and the jobs that the binds were for."""
    trace, count = found.trace, len(frame)
    binds = trace.rows(*BINDS)
    which = found.of(binds)
    time = trace.events["time_ns"].to_numpy()[binds]
    known = np.flatnonzero(which >= 0)
    bound, first = np.unique(which[known], return_index=True)
    first = known[first]
    seen = np.zeros(count, np.bool_)
    seen[bound] = True
    for name, values in {
        "bound_ns": nullable(time[first], trace.timed),
        "bind_ns": captured(trace, "duration_ns", binds[first]),
    }.items():
        frame[name] = pd.Series(values, index=bound).reindex(frame.index)
    newest = np.zeros(count, np.int64)
    np.maximum.at(newest, which[known], time[known])
    frame["last_used_ns"] = nullable(newest, seen & trace.timed)

    has_address = frame["bo"].notna().to_numpy()
    pages = trace.rows(MAP_PAGE)
    of_bind = inside(trace, binds, pages)
    mapped = np.append(which, NONE)[of_bind]
    total = np.bincount(mapped[mapped >= 0], minlength=count)
    frame["pages"] = nullable(total, has_address & trace.saw(MAP_PAGE) & trace.saw(*BINDS))

    submits = trace.rows(*SUBMITS)
    submits = submits[~refused(trace, submits)]
    of_job = inside(trace, submits, binds)
    pairs = np.unique(np.stack([of_job, which])[:, (of_job >= 0) & (which >= 0)], axis=1)
    jobs = np.bincount(pairs[1], minlength=count)
    of_users = (frame["owner"] != DRIVER).to_numpy()
    frame["jobs"] = nullable(jobs, has_address & of_users & trace.saw(*BINDS) & trace.saw(*SUBMITS))


def _add_end(frame: pd.DataFrame, found: Objects) -> None:
    """Add when each was closed and freed, its lifetime and its final state."""
    trace = found.trace
    gone, given_back = freed(found), closed(found)
    time = trace.events["time_ns"].to_numpy()
    for name, rows in (("closed_ns", given_back), ("freed_ns", gone)):
        frame[name] = nullable(np.append(time, 0)[rows], (rows >= 0) & trace.timed)
    frame["lifetime_ns"] = frame["freed_ns"] - frame["created_ns"]
    older = np.arange(len(frame)) >= len(found.made)
    ended = (gone >= 0) | _address_given_again(found)
    whole = not incomplete(trace)
    knows = frame["bo"].notna().to_numpy() & trace.saw(FREE) & whole
    states = np.select([older & whole, older, ended, knows], [EARLIER, UNKNOWN, FREED, ALIVE], UNKNOWN)
    frame["state"] = pd.Categorical(states, STATES)


def incomplete(trace: DriverTrace) -> bool:
    """Whether hits may be missing, so that absence from the trace proves nothing."""
    return bool(trace.lost or trace.missed)


def _address_given_again(found: Objects) -> NDArray[np.bool_]:
    """(objects,) bool: another object was created at the same address, so this one was freed before."""
    order = np.lexsort((found.born, found.bo[: len(found.made)]))
    again = np.zeros(len(found.bo), np.bool_)
    this, after = found.bo[order[:-1]], found.bo[order[1:]]
    again[order[:-1]] = (this == after) & (this != 0)
    return again


def _by_process(users: pd.DataFrame) -> pd.DataFrame:
    """Per process: `comm`, `created` and `bytes` of its buffers."""
    groups = users.groupby("pid")
    table = pd.DataFrame(
        {"comm": groups["comm"].first(), "created": groups.size(), "bytes": groups["size_bytes"].sum()}
    )
    return table.astype({"created": "Int64", "bytes": "Int64"})


def _submissions(trace: DriverTrace) -> pd.DataFrame:
    """Per process: `jobs` submissions accepted by the driver, `last_ns` time of the last."""
    rows = trace.rows(*SUBMITS)
    rows = rows[~refused(trace, rows)]
    groups = trace.events[["pid", "time_ns"]].iloc[rows].groupby("pid")["time_ns"]
    return pd.DataFrame({"jobs": groups.size(), "last_ns": groups.max()})


def _closed_device(trace: DriverTrace, users: pd.DataFrame) -> pd.Series[int]:
    """(users' buffers,) Int64 ns: when the device was closed through which each was created; NA if it was not."""
    time, pid = (trace.events[name].to_numpy() for name in ("time_ns", "pid"))
    opens, closes = trace.rows(OPEN), trace.rows(CLOSE)
    if known_at(trace, "file", closes).any():
        file, made = users["file"].to_numpy(np.uint64, na_value=0), users["created_ns"].to_numpy(np.int64, na_value=0)
        next_close = newest_before(trace.column("file", closes, np.uint64), -time[closes], file, -made)
        return pd.Series(nullable(np.append(time[closes], 0)[next_close], next_close >= 0), index=users.index)
    closed = pd.Series(time[closes], pid[closes]).groupby(level=0).agg(["size", "max"])
    opened = pd.Series(time[opens], pid[opens]).groupby(level=0).size().reindex(closed.index, fill_value=0)
    return users["pid"].map(closed["max"][closed["size"] >= opened]).astype("Int64")

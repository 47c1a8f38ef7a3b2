"""Export a GPU trace as Chrome trace-event JSON for ui.perfetto.dev: host calls, launches, kernels and blocks.

Every process has a track for each thread that called the driver; the device has tracks for its kernels, and one or more
for the blocks of each multiprocessor, because blocks on the same multiprocessor overlap.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.analysis.gpu.host import block_spans, kernel_spans
from accel_magic.analysis.nesting import lanes
from accel_magic.demangle import readable
from accel_magic.errors import ResultError
from accel_magic.formats import trace_event_writer
from accel_magic.formats.trace_event_writer import TraceEvents, process_name, thread_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from accel_magic.analysis.gpu import GpuAnalysis

KERNELS_PID: Final = (1 << 22) + 1
"""Above Linux's largest process id."""
BLOCKS_PID: Final = KERNELS_PID + 1
_NO_THREAD: Final = 0
"""Track of launches reported by a framework, which does not know the thread id."""
_TRACKS: Final = 1 << 12
"""Maximum number of tracks per multiprocessor."""


def export(gpu: GpuAnalysis, path: str | Path) -> Path:
    """Write a GPU trace and return the file's absolute path.

    Entries are slices ('X') with times in microseconds since the start of the trace, to the nanosecond. The arguments
    of a host call are the launched kernel, bytes and the launch; those of kernels and blocks are the launch. A kernel
    whose end is unknown is an instant ('i').

    Raises:
        ResultError: There are no calls, launches, kernels or blocks.
        RecordingError: The path cannot be written to.

    """
    tables = {KERNELS_PID: _kernels(gpu), BLOCKS_PID: _blocks(gpu)}
    host = _host(gpu)
    if not len(host) and not any(map(len, tables.values())):
        raise ResultError(
            "there is nothing to export",
            why="no kernel was launched, and no host call was recorded",
            fix="trace code that launches kernels",
            code="result.no-events",
        )
    recording = gpu.recording
    about = {**recording.machine, "started": recording.started, "device": recording.device}
    if recording.replayed is not None:
        about["replay"] = f"recorded on {recording.replayed.recorded_on}"
    slices = chain.from_iterable(map(_slices, (host, *tables.values())))
    return trace_event_writer.write(path, about, chain(_names(host, tables), slices))


def _host(gpu: GpuAnalysis) -> pd.DataFrame:
    """Calls and launches, with the columns common to all tables."""
    events = gpu.events
    return pd.DataFrame(
        {
            "name": events["name"].where(events["tid"].notna(), events["kernel"].map(readable)),
            "kind": events["kind"],
            "pid": events["pid"].astype("int64"),
            "tid": events["tid"].fillna(_NO_THREAD).astype("int64"),
            "start_ns": events["time_ns"],
            "duration_ns": events["duration_ns"].astype("Int64"),
            "launch": events["launch"],
            "bytes": events["bytes"],
            "kernel": events["kernel"].map(readable),
        }
    )


def _kernels(gpu: GpuAnalysis) -> pd.DataFrame:
    spans = kernel_spans(gpu)
    ends = spans["end_ns"].fillna(spans["start_ns"]).astype("int64")
    return pd.DataFrame(
        {
            "name": spans["name"].map(readable),
            "kind": "kernel",
            "pid": KERNELS_PID,
            "tid": lanes(spans["start_ns"].to_numpy(), ends.to_numpy()),
            "start_ns": spans["start_ns"],
            "duration_ns": spans["end_ns"] - spans["start_ns"],
            "launch": spans["launch"].astype("Int64"),
            "kernel": spans["name"].map(readable),
        }
    )


def _blocks(gpu: GpuAnalysis) -> pd.DataFrame:
    spans = block_spans(gpu).sort_values(["sm", "start_ns"], kind="stable", ignore_index=True)
    lane = np.zeros(len(spans), np.int64)
    for rows in spans.groupby("sm").groups.values():
        own = spans.loc[rows]
        lane[rows] = lanes(own["start_ns"].to_numpy(), own["end_ns"].to_numpy())
    block = spans["block"].astype("int64")
    return pd.DataFrame(
        {
            "name": "block " + block.astype("str"),
            "kind": "block",
            "pid": BLOCKS_PID,
            "tid": spans["sm"].astype("int64") * _TRACKS + np.minimum(lane, _TRACKS - 1),
            "start_ns": spans["start_ns"].astype("int64"),
            "duration_ns": (spans["end_ns"] - spans["start_ns"]).astype("Int64"),
            "launch": spans["launch"].astype("Int64"),
            "kernel": spans["name"].map(readable),
        }
    )


def _names(host: pd.DataFrame, tables: dict[int, pd.DataFrame]) -> Iterator[bytes]:
    """Names of processes and threads."""
    for pid, tid in host[["pid", "tid"]].drop_duplicates().itertuples(index=False):
        thread = f"thread {tid}" if tid != _NO_THREAD else "launches"
        yield process_name(pid, f"process {pid}" if pid else "host", 0)
        yield thread_name(pid, tid, thread)
    for pid, title, thread in ((KERNELS_PID, "kernels", "kernels"), (BLOCKS_PID, "multiprocessors", "SM")):
        tracks = np.unique(tables[pid]["tid"].to_numpy(np.int64))
        if len(tracks):
            yield process_name(pid, title, 0)
        for track in tracks.tolist():
            number = track // _TRACKS if pid == BLOCKS_PID else track
            yield thread_name(pid, track, f"{thread} {number}")


def _slices(table: pd.DataFrame) -> Iterator[bytes]:
    return TraceEvents(
        name=table["name"],
        category=table["kind"],
        time_ns=table["start_ns"].to_numpy(np.int64),
        pid=table["pid"],
        tid=table["tid"],
        args={name: table[name] for name in ("launch", "bytes", "kernel") if name in table},
    ).complete(table["duration_ns"])

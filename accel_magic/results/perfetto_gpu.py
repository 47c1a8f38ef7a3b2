"""Export a GPU trace as Chrome trace-event JSON for ui.perfetto.dev: host calls, launches, kernels and blocks.

Every process has a track for each thread that called the driver; the device has tracks for its kernels, and one or more
for the blocks of each multiprocessor, because blocks on the same multiprocessor overlap.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from accel_magic.analysis.gpu.host import block_spans, kernel_spans
from accel_magic.analysis.nesting import lanes
from accel_magic.demangle import readable
from accel_magic.errors import ResultError
from accel_magic.formats.trace_event import joined, microseconds, plain, texts, to_bytes
from accel_magic.recording.result_files import destination, replacing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

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
    target = destination(path)
    about = {**recording.machine, "started": recording.started, "device": recording.device}
    if recording.replayed is not None:
        about["replay"] = f"recorded on {recording.replayed.recorded_on}"
    with replacing(target) as file:
        file.write(b'{"displayTimeUnit":"ns","otherData":%b,"traceEvents":[' % json.dumps(about).encode("ascii"))
        parts = [*_names(host, tables), *map(_slices, (host, *tables.values()))]
        file.write(b"".join(parts)[1:])  # every entry starts with a comma, which is dropped before the first
        file.write(b"\n]}\n")
    return target


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
        yield _name("process_name", pid, 0, f"process {pid}" if pid else "host")
        yield _name("thread_name", pid, tid, thread)
    for pid, title, thread in ((KERNELS_PID, "kernels", "kernels"), (BLOCKS_PID, "multiprocessors", "SM")):
        tracks = np.unique(tables[pid]["tid"].to_numpy(np.int64))
        if len(tracks):
            yield _name("process_name", pid, 0, title)
        for track in tracks.tolist():
            number = track // _TRACKS if pid == BLOCKS_PID else track
            yield _name("thread_name", pid, track, f"{thread} {number}")


def _name(what: str, pid: int, tid: int, name: str) -> bytes:
    entry = {"name": what, "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}
    return b",\n" + json.dumps(entry, separators=(",", ":")).encode("ascii")


def _slices(table: pd.DataFrame) -> bytes:
    """Build the text of all rows, column by column."""
    if not len(table):
        return b""
    duration = table["duration_ns"]
    known = duration.notna().to_numpy()
    parts: list[Any] = [
        ',\n{"name":',
        _quoted(table["name"]),
        ',"cat":',
        _quoted(table["kind"]),
        texts([',"ph":"i","s":"t"', ',"ph":"X","dur":']).take(known.astype(np.int8)),
        _where(known, microseconds(duration.fillna(0).to_numpy(np.int64))),
        ',"ts":',
        microseconds(table["start_ns"].to_numpy(np.int64)),
        ',"pid":',
        plain(table["pid"].to_numpy(np.int64)),
        ',"tid":',
        plain(table["tid"].to_numpy(np.int64)),
        ',"args":{',
    ]
    for name in ("launch", "bytes"):
        if name in table:
            values = table[name].to_numpy(np.int64, na_value=-1)
            parts.append(_where(values >= 0, joined(f'"{name}":', plain(values), ",")))
    parts += ['"kernel":', _quoted(table["kernel"])]
    return to_bytes(joined(*parts, "}}"))


def _quoted(column: pd.Series) -> Any:
    """Encode texts as JSON, each distinct text only once."""
    codes, different = pd.factorize(column.astype("str"))
    return texts([json.dumps(text) for text in different]).take(codes)


def _where(there: NDArray[np.bool_], values: Any) -> Any:
    """Return the texts where `there` is true, '' elsewhere."""
    return pc.if_else(pa.array(there), values, "")

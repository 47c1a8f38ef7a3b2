"""The processes of a recording: each in whose kernels programs ran has maps of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.gpu.recording import GpuRecording, MapContent

_NAMES = ("pid", "process")


def apart(recording: GpuRecording) -> dict[int, GpuRecording]:
    """Divide a recording by process: kernels, launches and maps of each with instrumented kernels.

    Frames keep their row numbers. Of a single process it is the recording itself; without any instrumented kernel that
    of the first process, which is the notebook's.
    """
    having = list(dict.fromkeys(content.pid for content in recording.maps)) or [0]
    if len(having) == 1:
        return {having[0]: recording}
    return {pid: _part(recording, pid, having) for pid in _ran(recording, having)}


def chosen(recording: GpuRecording) -> list[MapContent]:
    """Maps of the processes with instrumented kernels, and once those that there are only once."""
    having = list(dict.fromkeys(content.pid for content in recording.maps)) or [0]
    ran = _ran(recording, having)
    found, once = [], set()
    for content in sorted(recording.maps, key=lambda content: content.pid not in ran):
        name = content.source, content.spec.name
        common = content.spec.used_by == "both"  # an array of the kernel, the same in all processes
        if (content.pid in ran and not common) or name not in once:
            found.append(content)
        once.add(name)
    return found


def together(frames: Mapping[int, pd.DataFrame]) -> pd.DataFrame:
    """Put the frames of processes one below the other, with a column `pid` first; of one process it is as it is."""
    if len(frames) == 1:
        return next(iter(frames.values()))
    column = next(name for name in _NAMES if all(name not in frame for frame in frames.values()))
    parts = []
    for pid, frame in frames.items():
        part = frame.copy()
        part.insert(0, column, pid)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def _ran(recording: GpuRecording, having: list[int]) -> list[int]:
    """Those of the processes with maps whose kernels have programs in them."""
    kernels = recording.kernels
    owners = {pid if pid in having else having[0] for pid in kernels.loc[kernels["instrumented"], "pid"].tolist()}
    return [pid for pid in having if pid in owners] or having[:1]


def _part(recording: GpuRecording, pid: int, having: list[int]) -> GpuRecording:
    def own(frame: pd.DataFrame) -> pd.DataFrame:
        owner = frame["pid"].where(frame["pid"].isin(having), having[0])
        return frame[owner == pid]

    declared = {(content.source, content.spec.name) for content in recording.maps if content.pid == pid}
    maps = tuple(
        content
        for content in recording.maps
        if content.pid == pid or (content.source, content.spec.name) not in declared
    )
    return replace(recording, maps=maps, kernels=own(recording.kernels), launches=own(recording.launches))

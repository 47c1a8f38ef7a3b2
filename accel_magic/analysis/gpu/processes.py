"""The processes of a recording: each process with instrumented kernels has its own maps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.gpu.maps.map_content import MapContent
    from accel_magic.recording.gpu_data import GpuRecording

_NAMES = ("pid", "process")


def apart(recording: GpuRecording) -> dict[int, GpuRecording]:
    """Divide a recording by process: kernels, launches and maps of each process with instrumented kernels.

    Frames keep their row numbers. For a single process this is the recording itself; without any instrumented kernel,
    the first process's part, which is the notebook's.
    """
    having = list(dict.fromkeys(content.pid for content in recording.maps)) or [0]
    if len(having) == 1:
        return {having[0]: recording}
    return {pid: _part(recording, pid, having) for pid in _ran(recording, having)}


def chosen(recording: GpuRecording) -> list[MapContent]:
    """Maps of the processes with instrumented kernels; shared maps are included once."""
    having = list(dict.fromkeys(content.pid for content in recording.maps)) or [0]
    return _maps_of(recording, _ran(recording, having))


def together(frames: Mapping[int, pd.DataFrame]) -> pd.DataFrame:
    """Concatenate the frames of processes, with `pid` as the first column; a single frame is returned unchanged."""
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
    """Processes with maps whose kernels have programs in them."""
    kernels = recording.kernels
    owners = {pid if pid in having else having[0] for pid in kernels.loc[kernels["instrumented"], "pid"].tolist()}
    return [pid for pid in having if pid in owners] or having[:1]


def _maps_of(recording: GpuRecording, pids: list[int]) -> list[MapContent]:
    """Maps of some processes; shared maps once, as read by the first process, which reads them last."""
    own = {_name(content) for content in recording.maps if content.pid in pids and not _common(content)}
    found: list[MapContent] = []
    once: set[tuple[str, str]] = set()
    for content in recording.maps:
        name = _name(content)
        if content.pid in pids if name in own else name not in once:
            found.append(content)
        once.add(name)
    return found


def _name(content: MapContent) -> tuple[str, str]:
    return content.source, content.spec.name


def _common(content: MapContent) -> bool:
    """Whether it is an array in the kernel, the same for all processes."""
    return content.spec.used_by == "both"


def _part(recording: GpuRecording, pid: int, having: list[int]) -> GpuRecording:
    def own(frame: pd.DataFrame) -> pd.DataFrame:
        owner = frame["pid"].where(frame["pid"].isin(having), having[0])
        return frame[owner == pid]

    maps = tuple(_maps_of(recording, [pid]))
    history = recording.history if pid == having[0] else ()  # of the notebook's own process
    kernels, launches = own(recording.kernels), own(recording.launches)
    return replace(recording, maps=maps, history=history, kernels=kernels, launches=launches)

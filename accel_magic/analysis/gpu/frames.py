"""A GPU recording as DataFrames: the input of analyses and views."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Self

import pandas as pd

from accel_magic.analysis.gpu import prefetches, processes
from accel_magic.gpu.maps import map_access
from accel_magic.gpu.maps.map_content import names_of
from accel_magic.gpu_tools import TOOLS
from accel_magic.recording.gpu_data import API

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.devices.device import DeviceClock
    from accel_magic.recording.gpu_data import GpuRecording


class GpuFrames:
    """DataFrames of one GPU recording, or of one process's part of it; built on first use and kept."""

    def __init__(self, recording: GpuRecording) -> None:
        self.recording = recording

    @property
    def kernels(self) -> pd.DataFrame:
        """One row per kernel seen: number, name, framework, whether it was instrumented, number of sites, launches."""
        return self.recording.kernels

    @property
    def launches(self) -> pd.DataFrame:
        """One row per launch: grid, block, `time_ns` since the start, `host_ns` in the call, `device_ns` or NA."""
        return self.recording.launches

    @property
    def clock(self) -> DeviceClock:
        """Maps the device's times to CLOCK_MONOTONIC."""
        return self.recording.clock

    @property
    def start_ns(self) -> int:
        """Start of the trace on CLOCK_MONOTONIC, ns."""
        return self.recording.start_ns

    @property
    def multiprocessors(self) -> int:
        """Multiprocessors of the device."""
        return self.recording.multiprocessors

    @cached_property
    def api(self) -> pd.DataFrame:
        """One row per CUDA driver call by this process and its children, in order of time."""
        if self.recording.api is None:
            return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in API.items()})
        return self.recording.api

    @property
    def sites(self) -> pd.DataFrame:
        """One row per instrumented place: kernel, kind of place, memory operation, line, instruction."""
        return self.recording.sites

    @cached_property
    def maps(self) -> dict[str, pd.DataFrame]:
        """The programs' maps by name (`TOOL.NAME` if two tools use the same name), with one row per entry."""
        declared = list(dict.fromkeys((content.source, content.spec.name) for content in self.recording.maps))
        return {
            title: self.maps_of(source)[name]
            for title, (source, name) in zip(names_of(declared), declared, strict=True)
        }

    def maps_of(self, source: str) -> dict[str, pd.DataFrame]:
        """The maps of one tool or file, by name."""
        return self._frames[source]

    @cached_property
    def _frames(self) -> dict[str, dict[str, pd.DataFrame]]:
        found: dict[str, dict[str, pd.DataFrame]] = {source: {} for source in self.recording.sources}
        parts: dict[tuple[str, str], dict[int, pd.DataFrame]] = {}
        for content in processes.chosen(self.recording):
            frame = map_access.frame(content.spec, content.raw, self.recording.threads)
            parts.setdefault((content.source, content.spec.name), {})[content.pid] = frame
        for (source, name), frames in parts.items():
            found[source][name] = processes.together(frames)
        return found

    @cached_property
    def prefetches(self) -> pd.DataFrame:
        """Prefetch requests of programs (`gpu_mem_prefetch`), one row each, in the order of their records."""
        found, before = {}, 0
        for pid, part in self.by_process.items():
            maps = {source: part.maps_of(source) for source in part.recording.sources}
            found[pid] = prefetches.table(part, maps, before)
            before += prefetches.count(maps)
        return processes.together(found)

    @cached_property
    def by_process(self) -> dict[int, Self]:
        """The part of each process with instrumented kernels, by process id; for a single process, everything."""
        parts = processes.apart(self.recording)
        return {pid: self if part is self.recording else type(self)(part) for pid, part in parts.items()}

    def lost_by_programs(self) -> Iterator[tuple[str, int]]:
        """The counts in programs' own `lost` variables: tool or file, and count."""
        for source in self.recording.sources:
            for name, frame in self.maps_of(source).items():
                if name.startswith(".bss") and "lost" in frame:
                    yield source, int(frame["lost"].sum())

    @cached_property
    def lost(self) -> int:
        """Records and entries that did not fit into maps, the programs' own counts of losses, and lost host calls."""
        counted = sum(count for _, count in self.lost_by_programs())
        return self.recording.lost + self.recording.api_lost + counted


class ToolFrames(GpuFrames):
    """GpuFrames with the table of each tool."""

    @cached_property
    def tools(self) -> dict[str, pd.DataFrame]:
        """Main table of each requested tool, by name."""
        return {
            source: processes.together(
                {pid: TOOLS[source].table(part, part.maps_of(source)) for pid, part in self.by_process.items()}
            )
            for source in self.recording.sources
            if source in TOOLS
        }

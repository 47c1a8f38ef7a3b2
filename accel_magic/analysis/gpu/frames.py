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
        """As `GpuResult.kernels`."""
        return self.recording.kernels

    @property
    def launches(self) -> pd.DataFrame:
        """As `GpuResult.launches`."""
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
        """As `GpuResult.api`."""
        if self.recording.api is None:
            return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in API.items()})
        return self.recording.api

    @property
    def sites(self) -> pd.DataFrame:
        """As `GpuResult.sites`."""
        return self.recording.sites

    @cached_property
    def maps(self) -> dict[str, pd.DataFrame]:
        """As `GpuResult.maps`."""
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
        """As `GpuResult.prefetches`."""
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
        """As `GpuResult.lost`."""
        counted = sum(count for _, count in self.lost_by_programs())
        return self.recording.lost + self.recording.api_lost + counted


class ToolFrames(GpuFrames):
    """GpuFrames with the table of each tool."""

    @cached_property
    def tools(self) -> dict[str, pd.DataFrame]:
        """As `GpuResult.tools`."""
        return {
            source: processes.together(
                {pid: TOOLS[source].table(part, part.maps_of(source)) for pid, part in self.by_process.items()}
            )
            for source in self.recording.sources
            if source in TOOLS
        }

"""GpuResult: pandas views of a GPU recording, and what can be asked of it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import pandas as pd

from accel_magic.gpu import map_history, map_views, processes
from accel_magic.gpu.recording import API, names_of

if TYPE_CHECKING:
    from pathlib import Path

    from bokeh.model import Model

    from accel_magic.analysis.findings import Findings
    from accel_magic.flames.result import FlameResult
    from accel_magic.gpu.recording import GpuRecording
    from accel_magic.traces.result import TraceResult


class GpuResult:
    """What a cell or block traced with `%%gputrace` returns; frames are built on first use and kept."""

    def __init__(self, recording: GpuRecording, value: object = None) -> None:
        self.recording = recording
        self.value = value
        """The traced cell's own last value."""

    @property
    def machine(self) -> dict[str, str]:
        """Where it was recorded."""
        return self.recording.machine

    @property
    def duration_s(self) -> float:
        """Length of the traced stretch in seconds."""
        return self.recording.duration_ns / 1e9

    @property
    def kernels(self) -> pd.DataFrame:
        """One row per kernel seen: number, name, framework, whether it was instrumented, at how many sites, launches.

        `reason` says why a kernel was not instrumented, or what in it was left alone and why; `file` and `line` say
        where its source begins, where known.
        """
        return self.recording.kernels

    @property
    def launches(self) -> pd.DataFrame:
        """One row per launch: grid, block, `time_ns` since the start, `host_ns` in the call, `device_ns` or NA.

        `pid` and `tid` are the process and the thread that launched, `tid` as kernel traces number it, or NA.
        """
        return self.recording.launches

    @cached_property
    def api(self) -> pd.DataFrame:
        """One row per call of the CUDA driver by this process and its children, in order of time.

        Empty where they were not recorded: `api_off` says why. Columns: `time_ns` since the start,
        `duration_ns`, `pid`, `tid`, `name`, `kind`, `kernel`, grid, block, `shared_bytes`, `stream`, `bytes`,
        `direction`, `waits` (for the device; NA: it may), `result`, `launch` (row of `launches`).
        """
        if self.recording.api is None:
            return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in API.items()})
        return self.recording.api

    @property
    def api_off(self) -> str:
        """Why the driver's calls were not recorded; '' where they were."""
        return self.recording.api_off

    @property
    def sites(self) -> pd.DataFrame:
        """One row per place that programs were put at: kernel, kind of place, memory operation, line, instruction."""
        return self.recording.sites

    @cached_property
    def maps(self) -> dict[str, pd.DataFrame]:
        """The programs' maps by name (`TOOL.NAME` where two tools have one of that name): one row per entry.

        Columns are those of key and value; of a per-thread map `thread` besides (row-major over the grid), rows that
        hold only zeros left out; of a ring buffer the records. Where programs ran in the kernels of several processes
        each of them has maps of its own: the first column is then `pid`.
        """
        declared = list(dict.fromkeys((content.source, content.spec.name) for content in self.recording.maps))
        return {
            title: self.maps_of(source)[name]
            for title, (source, name) in zip(names_of(declared), declared, strict=True)
        }

    @cached_property
    def history(self) -> dict[str, pd.DataFrame]:
        """Maps over time, by the names that they have in `maps`; those that were read with `--every` or `--by-launch`.

        By time: `time_ns` since the start and the map's columns, one row per reading and entry. By launch: `launch` (a
        row of `launches`, -1 outside of them) and `time_ns` (after it), one row per launch and entry that it changed,
        with differences for numbers.
        """
        declared = list(dict.fromkeys((content.source, content.spec.name) for content in self.recording.maps))
        named = dict(zip(declared, names_of(declared), strict=True))
        return {
            named[each.source, each.spec.name]: map_history.frame(each, self.recording.threads)
            for each in self.recording.history
        }

    def maps_of(self, source: str) -> dict[str, pd.DataFrame]:
        """Give the maps of one tool or file, by their names in it."""
        return self._frames[source]

    @cached_property
    def _frames(self) -> dict[str, dict[str, pd.DataFrame]]:
        found: dict[str, dict[str, pd.DataFrame]] = {source: {} for source in self.recording.sources}
        parts: dict[tuple[str, str], dict[int, pd.DataFrame]] = {}
        for content in processes.chosen(self.recording):
            frame = map_views.frame(content.spec, content.raw, self.recording.threads)
            parts.setdefault((content.source, content.spec.name), {})[content.pid] = frame
        for (source, name), frames in parts.items():
            found[source][name] = processes.together(frames)
        return found

    @cached_property
    def by_process(self) -> dict[int, GpuResult]:
        """The part of each process in whose kernels programs ran, by its number; of one process all of this."""
        parts = processes.apart(self.recording)
        return {pid: self if part is self.recording else GpuResult(part) for pid, part in parts.items()}

    @cached_property
    def resources(self) -> pd.DataFrame:
        """What the programs cost each instrumented kernel that ran, as NVIDIA's assembler says; needs no GPU.

        One row per kernel: `name`, and each of `registers`, `spills` (bytes stored and loaded), `stack` (bytes) and
        `occupancy` (0..1, of the first launch's block) as NAME_before and NAME_after.

        Raises:
            MachineError: There is no assembler (nvJitLink or ptxas).
            ProgramError: It does not read a module: its PTX is newer.

        """
        from accel_magic.gpu.costs import costs

        return costs(self.recording)

    @property
    def printed(self) -> tuple[str, ...]:
        """Lines that programs printed on the device, in order."""
        return self.recording.printed

    @property
    def lost(self) -> int:
        """Records and entries for which maps had no room, and what programs count in a variable `lost`; exact."""
        counted = [
            int(frame["lost"].sum())
            for source in self.recording.sources
            for name, frame in self.maps_of(source).items()
            if name.startswith(".bss") and "lost" in frame
        ]
        return self.recording.lost + sum(counted)

    @cached_property
    def tools(self) -> dict[str, pd.DataFrame]:
        """The main table of each tool that was asked for, by the tool's name."""
        from accel_magic.analysis import gpu

        return gpu.tables(self)

    def diagnose(self) -> Findings:
        """Look for what is wrong or worth knowing in what the tools saw: findings with evidence and advice."""
        from accel_magic.analysis import gpu

        return gpu.diagnose(self)

    def timeline(self, *others: TraceResult | FlameResult) -> pd.DataFrame:
        """Put the launches and the events of other traces of the same time in one order of time.

        Args:
            *others: Results of `%%ktrace` and `%%flame` that ran together with this trace.

        Returns:
            One row per launch and event, in order of time: `time_ns` since the start of this trace (negative before
            it), `duration_ns` (of a launch its call; NA where not measured), `pid`, `tid`, `trace` (`gputrace`,
            `ktrace`, `flame`), `name` of the kernel or function, `launch` (the row of `launches`; of an event that of
            the launch which its thread was making, or NA) and `row` (of `launches`, or of the other's `events`).

        Raises:
            ProbeError: A result has no events, or ran at another time.

        """
        from accel_magic.analysis.gpu.timeline import timeline

        return timeline(self, *others)

    def figure(self, kind: str = "", *, beside: TraceResult | FlameResult | None = None) -> Model:
        """Build a Bokeh figure of a tool; '' for the first that was asked for.

        `timeline` shows host calls, launches, kernels and blocks on one axis of time, and what the trace `beside` this
        one recorded of each thread.

        Raises:
            ProbeError: That tool was not traced with, or it saw nothing; the other trace ran at another time.

        """
        from accel_magic.views.gpu_figures import figure

        return figure(self, kind, beside=beside)

    def to_parquet(self, path: str | Path) -> Path:
        """Write everything needed to show this result again into one Parquet file; `accel_magic.open` reads it."""
        from accel_magic.gpu.store import save

        return save(self.recording, path)

    def __repr__(self) -> str:
        """Same text as a terminal shows."""
        from accel_magic.views.gpu import gpu_text

        return gpu_text(self)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        """Text and static HTML in one bundle."""
        from accel_magic.views.gpu import gpu_html, gpu_text

        return {"text/plain": gpu_text(self), "text/html": gpu_html(self)}

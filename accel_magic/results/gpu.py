"""GpuResult: pandas views of a GPU recording, and what can be asked of it."""

from __future__ import annotations

from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

import pandas as pd

from accel_magic.analysis.gpu import GpuAnalysis
from accel_magic.errors import ResultError
from accel_magic.gpu.maps import history as map_history
from accel_magic.gpu.maps.content import names_of
from accel_magic.recording.profile import Lost
from accel_magic.results.base import Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from bokeh.model import Model

    from accel_magic.analysis.gpu.timeline import Beside
    from accel_magic.recording.gpu import GpuRecording
    from accel_magic.results.comparison import GpuComparison
    from accel_magic.results.flame import FlameResult
    from accel_magic.results.taken_apart import Diagnosis
    from accel_magic.results.trace import TraceResult


class GpuResult(Result):
    """What a cell or block traced with `%%gputrace` returns; frames are built on first use and kept."""

    KIND = "a GPU trace"
    LACKS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {
            "plan": (
                "programs were put into GPU kernels, not attached to probe points",
                "look at result.sites for the places, result.kernels for the kernels",
            )
        }
    )

    def __init__(self, recording: GpuRecording, value: object = None) -> None:
        super().__init__(value)
        self.recording = recording
        self.gpu = GpuAnalysis(recording)
        """The recording as frames: what analyses and views of it take."""

    @property
    def machine(self) -> dict[str, str]:
        """Where it was recorded."""
        return self.recording.machine

    @property
    def started(self) -> str:
        """Wall-clock start, ISO 8601 with time zone."""
        return self.recording.started

    @property
    def duration_s(self) -> float:
        """Length of the traced stretch in seconds."""
        return self.recording.duration_ns / 1e9

    @property
    def events(self) -> pd.DataFrame:
        """One row per call of the driver and per launch that no recorded call made, in order of time.

        Columns: `time_ns` since the start, `duration_ns` of the call, `pid`, `tid` (Int64, NA if not known), `kind`
        (launch, copy, memset, alloc, free, sync, event, poll, context or module), `name` (of the call; of a launch
        that an adapter reported, the framework's), `kernel`, `bytes`, `launch` (row of `launches`, or NA), `device_ns`
        (of that launch, or NA).
        """
        return self.gpu.events

    @cached_property
    def counts(self) -> pd.DataFrame:
        """How often each kernel was launched, by its `name`, most first: `hits` and `sites`, the places in it."""
        groups = self.kernels[self.kernels["kernel"] >= 0].groupby("name")
        launched = self.launches.groupby("name").size()
        table = pd.DataFrame({"sites": groups["sites"].sum()})
        table = table.reindex(table.index.union(launched.index, sort=False), fill_value=0).rename_axis("name")
        table.insert(0, "hits", launched.reindex(table.index, fill_value=0).astype("int64"))
        return table.sort_values("hits", ascending=False, kind="stable")

    @property
    def lost(self) -> int:
        """Records and entries that did not fit into maps, what programs count in a variable `lost`, and host calls."""
        return self.gpu.lost

    def _losses(self) -> Iterator[Lost]:
        for content in self.recording.maps:
            yield Lost(content.lost, f"records or entries did not fit into {content.spec.name} of {content.source}")
        for source, count in self.gpu.lost_by_programs():
            yield Lost(count, f"records were dropped by {source}, as its variable `lost` counts")
        yield Lost(self.recording.api_lost, "host calls did not fit into the ring buffer")

    @property
    def kernels(self) -> pd.DataFrame:
        """One row per kernel seen: number, name, framework, whether it was instrumented, at how many sites, launches.

        `reason` says why a kernel was not instrumented, or what in it was left alone and why; `file` and `line` say
        where its source begins, where known.
        """
        return self.gpu.kernels

    @property
    def launches(self) -> pd.DataFrame:
        """One row per launch: grid, block, `time_ns` since the start, `host_ns` in the call, `device_ns` or NA.

        `pid` and `tid` are the process and the thread that launched, `tid` as kernel traces number it, or NA.
        """
        return self.gpu.launches

    @property
    def api(self) -> pd.DataFrame:
        """One row per call of the CUDA driver by this process and its children, in order of time.

        Empty where they were not recorded: `api_off` says why. Columns: `time_ns` since the start,
        `duration_ns`, `pid`, `tid`, `name`, `kind`, `kernel`, grid, block, `shared_bytes`, `stream`, `bytes`,
        `direction`, `waits` (for the device; NA: it may), `result`, `launch` (row of `launches`).
        """
        return self.gpu.api

    @property
    def api_off(self) -> str:
        """Why the driver's calls were not recorded; '' where they were."""
        return self.recording.api_off

    @property
    def sites(self) -> pd.DataFrame:
        """One row per place that programs were put at: kernel, kind of place, memory operation, line, instruction."""
        return self.gpu.sites

    @property
    def maps(self) -> dict[str, pd.DataFrame]:
        """The programs' maps by name (`TOOL.NAME` where two tools have one of that name): one row per entry.

        Columns are those of key and value; of a per-thread map `thread` besides (row-major over the grid), rows that
        hold only zeros left out; of a ring buffer the records. Where programs ran in the kernels of several processes
        each of them has maps of its own: the first column is then `pid`.
        """
        return self.gpu.maps

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
        return self.gpu.maps_of(source)

    @cached_property
    def by_process(self) -> dict[int, GpuResult]:
        """The part of each process in whose kernels programs ran, by its number; of one process all of this."""
        parts = self.gpu.by_process
        return {pid: self if part is self.gpu else GpuResult(part.recording) for pid, part in parts.items()}

    @cached_property
    def resources(self) -> pd.DataFrame:
        """What the programs cost each instrumented kernel that ran, as NVIDIA's assembler says; needs no GPU.

        One row per kernel: `name`, then `registers_before` and `registers_after`, and likewise `spills_before_bytes`
        (stored and loaded), `stack_before_bytes` and `occupancy_before` (0..1, of the first launch's block).

        Raises:
            MachineError: There is no assembler (nvJitLink or ptxas).
            ProgramError: It does not read a module: its PTX is newer.

        """
        from accel_magic.analysis.gpu.costs import costs

        return costs(self.recording)

    @property
    def printed(self) -> tuple[str, ...]:
        """Lines that programs printed on the device, in order."""
        return self.recording.printed

    @property
    def tools(self) -> dict[str, pd.DataFrame]:
        """The main table of each tool that was asked for, by the tool's name."""
        return self.gpu.tools

    def diagnose(self) -> Diagnosis:
        """Look for what is wrong or worth knowing in what the tools saw: findings with evidence and advice."""
        from accel_magic.results.taken_apart import Diagnosis

        return Diagnosis.of(self.gpu.findings)

    def _figures(self) -> Mapping[str, Callable[[], Model]]:
        """One of each tool that was traced with; `timeline`: host calls, launches, kernels and blocks over time."""
        from accel_magic.views.gpu import figures as gpu_figures

        def of(tool: str) -> Callable[[], Model]:
            return lambda: gpu_figures.tool_figure(tool, self.tools[tool])

        drawn = {name: of(name) for name in self.recording.sources if name in self.tools}
        return {**drawn, "timeline": lambda: gpu_figures.timeline_figure(self.gpu)}

    def figure(self, kind: str = "", *, beside: TraceResult | FlameResult | None = None) -> Model:
        """Build a Bokeh figure of a tool; '' for the first that was asked for.

        `timeline` shows host calls, launches, kernels and blocks on one axis of time, and what the trace `beside` this
        one recorded of each thread.

        Raises:
            ResultError: That tool was not traced with, or it saw nothing; the other trace ran at another time.

        """
        if beside is None:
            return super().figure(kind)
        if kind != "timeline":
            raise ResultError(
                "only the timeline can show another trace",
                fix='figure("timeline", beside=...)',
                code="result.no-beside",
            )
        from accel_magic.views.gpu import figures as gpu_figures

        return gpu_figures.timeline_figure(self.gpu, _beside(beside))

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
            ResultError: A result has no events, or ran at another time.

        """
        from accel_magic.analysis.gpu.timeline import timeline

        return timeline(self.gpu, *(_beside(other) for other in others))

    def compare(self, other: Result) -> GpuComparison:
        """Set this trace beside `other` (the baseline): launches and times per kernel, tools' tables, host calls.

        Raises:
            ResultError: `other` is not a GPU trace.

        """
        from accel_magic.results.comparison import compare_gpu

        return compare_gpu(self.gpu, self._check_kind(other, GpuResult).gpu)

    def to_parquet(self, path: str | Path) -> Path:
        """Write everything needed to show this result again into one Parquet file; `accel_magic.open` reads it."""
        from accel_magic.recording.gpu_store import save

        return save(self.recording, path)

    def to_perfetto(self, path: str | Path) -> Path:
        """Write host calls, launches, kernels and blocks as Chrome/Perfetto trace JSON, for ui.perfetto.dev.

        Raises:
            ResultError: Nothing was called, launched or run.

        """
        from accel_magic.results.perfetto_gpu import export

        return export(self.gpu, path)

    def _title(self) -> str:
        return f"{', '.join(self.recording.sources)} on {self.recording.device}"

    def summary(self) -> str:
        """Plain-text result: what ran, what the tools saw, what was found, what was left out."""
        from accel_magic.views.gpu.result import gpu_text

        return gpu_text(self.gpu)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        """Text and static HTML in one bundle."""
        from accel_magic.views.gpu.result import gpu_html

        return {"text/plain": self.summary(), "text/html": gpu_html(self.gpu)}


def _beside(other: Result) -> Beside:
    from accel_magic.analysis.gpu.timeline import Beside
    from accel_magic.recording.recording import Recording

    recording = getattr(other, "recording", None)
    if not isinstance(recording, Recording):
        raise ResultError(
            f"{type(other).__name__} has no events to put beside launches",
            why="only %%ktrace and %%flame record events with times, and %%flame not with its thread sampler",
            fix="pass such a result of the same cell",
            code="result.no-events",
        )
    return Beside(recording, other.events)

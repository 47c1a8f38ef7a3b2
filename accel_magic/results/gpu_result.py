"""GpuResult: pandas views of a GPU recording, with figures, comparison and export."""

from __future__ import annotations

from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

import pandas as pd

from accel_magic.analysis.gpu import GpuAnalysis
from accel_magic.analysis.gpu.nothing import why_empty
from accel_magic.errors import ResultError
from accel_magic.gpu.maps import map_history
from accel_magic.gpu.maps.map_content import names_of
from accel_magic.policies.recorded import trace_of
from accel_magic.recording.profile import Lost
from accel_magic.result_bases.base import Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from bokeh.model import Model

    from accel_magic.analysis.gpu.timeline import Beside
    from accel_magic.policies.page_trace import PageTrace
    from accel_magic.recording.gpu_data import GpuRecording
    from accel_magic.result_bases.comparison import GpuComparison
    from accel_magic.results.flame_result import FlameResult
    from accel_magic.results.trace_result import TraceResult
    from accel_magic.views.diagnosis import Diagnosis


class GpuResult(Result):
    """Result of a cell or block traced with `%%gputrace`; tables are built on first use and cached."""

    KIND = "a GPU trace"
    LACKS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {
            "plan": (
                "programs were inserted into GPU kernels, not attached to probe points",
                "see result.sites for the places and result.kernels for the kernels",
            )
        }
    )

    def __init__(self, recording: GpuRecording, value: object = None) -> None:
        super().__init__(value)
        self.recording = recording
        self.gpu = GpuAnalysis(recording)
        """The recording as data frames, used by analyses and views."""

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
        """Length of the traced time in seconds."""
        return self.recording.duration_ns / 1e9

    @property
    def events(self) -> pd.DataFrame:
        """One row per driver call, and per launch without a recorded call, in order of time.

        Columns: `time_ns` since the start, `duration_ns` of the call, `pid`, `tid` (Int64, NA if unknown), `kind`
        (launch, copy, memset, alloc, free, sync, event, poll, context or module), `name` (of the call; for a launch
        reported by an adapter, the framework), `kernel`, `bytes`, `launch` (row of `launches`, or NA), `device_ns` (of
        that launch, or NA).
        """
        return self.gpu.events

    @cached_property
    def counts(self) -> pd.DataFrame:
        """Launches (`hits`) and number of instrumented places (`sites`) of each kernel, by `name`, most hits first."""
        groups = self.kernels[self.kernels["kernel"] >= 0].groupby("name")
        launched = self.launches.groupby("name").size()
        table = pd.DataFrame({"sites": groups["sites"].sum()})
        table = table.reindex(table.index.union(launched.index, sort=False), fill_value=0).rename_axis("name")
        table.insert(0, "hits", launched.reindex(table.index, fill_value=0).astype("int64"))
        return table.sort_values("hits", ascending=False, kind="stable")

    @property
    def lost(self) -> int:
        """Records and entries that did not fit into maps, the programs' own counts of losses, and lost host calls."""
        return self.gpu.lost

    def _losses(self) -> Iterator[Lost]:
        for content in self.recording.maps:
            yield Lost(content.lost, f"records or entries did not fit into {content.spec.name} of {content.source}")
        for source, count in self.gpu.lost_by_programs():
            yield Lost(count, f"records were dropped by {source}, according to its variable `lost`")
        yield Lost(self.recording.api_lost, "host calls did not fit into the ring buffer")

    @property
    def kernels(self) -> pd.DataFrame:
        """One row per kernel seen: number, name, framework, whether it was instrumented, number of sites, launches.

        `reason` says why the kernel, or a part of it, was not instrumented; `file` and `line` are the start of its
        source, if known.
        """
        return self.gpu.kernels

    @property
    def launches(self) -> pd.DataFrame:
        """One row per launch: grid, block, `time_ns` since the start, `host_ns` in the call, `device_ns` or NA.

        `lanes` are those of a warp; of OpenCL the most of a sub-group, NA if unknown or if blocks have several axes.
        `pid` and `tid` are the launching process and thread; `tid` is the same id as in kernel traces, or NA.
        """
        return self.gpu.launches

    @property
    def api(self) -> pd.DataFrame:
        """One row per CUDA driver call by this process and its children, in order of time.

        Empty if calls were not recorded; `api_off` says why. Columns: `time_ns` since the start, `duration_ns`, `pid`,
        `tid`, `name`, `kind`, `kernel`, grid, block, `shared_bytes`, `stream`, `bytes`, `direction`, `waits` (for the
        device; NA: possibly), `result`, `launch` (row of `launches`).
        """
        return self.gpu.api

    @property
    def api_off(self) -> str:
        """Why driver calls were not recorded; '' if they were."""
        return self.recording.api_off

    @property
    def sites(self) -> pd.DataFrame:
        """One row per instrumented place: kernel, kind of place, memory operation, line, instruction."""
        return self.gpu.sites

    @property
    def maps(self) -> dict[str, pd.DataFrame]:
        """The programs' maps by name (`TOOL.NAME` if two tools use the same name), with one row per entry.

        Columns are those of key and value; for a per-thread map also `thread` (row-major over the grid), without rows
        of zeros; for a ring buffer those of the records. If programs ran in several processes, each of these has its
        own maps, and the first column is `pid`.
        """
        return self.gpu.maps

    @cached_property
    def history(self) -> dict[str, pd.DataFrame]:
        """Maps over time, by their names in `maps`; only those read with `--every` or `--by-launch`.

        By time: `time_ns` since the start and the map's columns, one row per reading and entry. By launch: `launch` (a
        row of `launches`, -1 outside of them) and `time_ns` (after it), one row per launch and changed entry, with
        differences for numbers.
        """
        declared = list(dict.fromkeys((content.source, content.spec.name) for content in self.recording.maps))
        named = dict(zip(declared, names_of(declared), strict=True))
        return {
            named[each.source, each.spec.name]: map_history.frame(each, self.recording.threads)
            for each in self.recording.history
        }

    def maps_of(self, source: str) -> dict[str, pd.DataFrame]:
        """Return the maps of one tool or file, by their names in it."""
        return self.gpu.maps_of(source)

    @cached_property
    def by_process(self) -> dict[int, GpuResult]:
        """Results by process id, for each process in whose kernels programs ran; with one process, this result."""
        parts = self.gpu.by_process
        return {pid: self if part is self.gpu else GpuResult(part.recording) for pid, part in parts.items()}

    @cached_property
    def resources(self) -> pd.DataFrame:
        """Cost of the programs in each instrumented kernel that ran, as reported by NVIDIA's assembler; needs no GPU.

        One row per kernel: `name`, then `registers_before` and `registers_after`, and likewise `spills_before_bytes`
        (stored and loaded), `stack_before_bytes` and `occupancy_before` (0..1, for the first launch's block size).

        Raises:
            MachineError: There is no assembler (nvJitLink or ptxas).
            ProgramError: It cannot read a module because the PTX version is too new.

        """
        from accel_magic.analysis.gpu.costs import costs

        return costs(self.recording)

    @property
    def printed(self) -> tuple[str, ...]:
        """Lines that programs printed on the device, in order."""
        return self.recording.printed

    @property
    def tools(self) -> dict[str, pd.DataFrame]:
        """Main table of each requested tool, by name."""
        return self.gpu.tools

    @cached_property
    def pages(self) -> PageTrace:
        """The pages of memory that kernels accessed, in order, with those that programs asked to prefetch.

        Raises:
            ResultError: The tool `pagetrace` was not used.

        """
        if "pagetrace" not in self.tools:
            raise ResultError(
                "this trace has no pages",
                why="the tool pagetrace was not used",
                fix="trace with %%gputrace pagetrace",
                code="pages.not-recorded",
            )
        return trace_of(self.tools["pagetrace"], self.prefetches, self.recording.device)

    @property
    def prefetches(self) -> pd.DataFrame:
        """Prefetch requests of programs (`gpu_mem_prefetch`), one row each, in the order in which they were recorded.

        Columns: `time_ns` since the start, `launch` (row of `launches`, or -1), `name` (of the kernel), `block` (row by
        row over the grid), `address`, `bytes`, `kernel`, `site`, `program` (the file), `access` (row of
        `tools["pagetrace"]` before which it was made; NA if that tool did not run). Empty if there are none.
        """
        return self.gpu.prefetches

    def diagnose(self) -> Diagnosis:
        """Look for problems and noteworthy facts in the tools' data: findings with evidence and advice."""
        from accel_magic.views.diagnosis import Diagnosis

        return Diagnosis.of(self.gpu.findings)

    def _figures(self) -> Mapping[str, Callable[[], Model]]:
        """One figure per requested tool; `timeline`: host calls, launches, kernels and blocks over time."""
        from accel_magic.views.gpu import gpu_figures

        def of(tool: str) -> Callable[[], Model]:
            return lambda: gpu_figures.tool_figure(tool, self.tools[tool], why_empty(self.gpu, tool))

        drawn = {name: of(name) for name in self.recording.sources if name in self.tools}
        return {**drawn, "timeline": lambda: gpu_figures.timeline_figure(self.gpu)}

    def figure(self, kind: str = "", *, beside: TraceResult | FlameResult | None = None) -> Model:
        """Build a Bokeh figure of a tool; '' for the first requested one.

        `timeline` shows host calls, launches, kernels and blocks on one time axis, together with the threads' events
        from the trace `beside`.

        Raises:
            ResultError: The tool was not requested or has no data, or the other trace ran at another time.

        """
        if beside is None:
            return super().figure(kind)
        if kind != "timeline":
            raise ResultError(
                "only the timeline can show another trace",
                fix='use figure("timeline", beside=...)',
                code="result.no-beside",
            )
        from accel_magic.views.gpu import gpu_figures

        return gpu_figures.timeline_figure(self.gpu, _beside(beside))

    def timeline(self, *others: TraceResult | FlameResult) -> pd.DataFrame:
        """Merge the launches with the events of other traces that ran at the same time.

        Args:
            *others: Results of `%%ktrace` and `%%flame` that ran together with this trace.

        Returns:
            One row per launch and event, in order of time: `time_ns` since the start of this trace (negative before
            it), `duration_ns` (for a launch, of its call; NA if not measured), `pid`, `tid`, `trace` (`gputrace`,
            `ktrace`, `flame`), `name` of the kernel or function, `launch` (row of `launches`; for an event, the launch
            that its thread was making, or NA) and `row` (of `launches`, or of the other result's `events`).

        Raises:
            ResultError: A result has no events, or ran at another time.

        """
        from accel_magic.analysis.gpu.timeline import timeline

        return timeline(self.gpu, *(_beside(other) for other in others))

    def compare(self, other: Result) -> GpuComparison:
        """Compare this trace with `other` (the baseline): launches and times per kernel, tools' tables, host calls.

        Raises:
            ResultError: `other` is not a GPU trace.

        """
        from accel_magic.result_bases.comparison import compare_gpu

        return compare_gpu(self.gpu, self._check_kind(other, GpuResult).gpu)

    def to_parquet(self, path: str | Path) -> Path:
        """Write everything needed to show this result again into one Parquet file; `accel_magic.open` reads it."""
        from accel_magic.recording.gpu_store import save

        return save(self.recording, path)

    def to_perfetto(self, path: str | Path) -> Path:
        """Write host calls, launches, kernels and blocks as Chrome/Perfetto trace JSON, for ui.perfetto.dev.

        Raises:
            ResultError: There are no calls, launches, kernels or blocks.

        """
        from accel_magic.results.perfetto_gpu import export

        return export(self.gpu, path)

    def _title(self) -> str:
        return f"{', '.join(self.recording.sources)} on {self.recording.device}"

    def summary(self) -> str:
        """Return plain text: kernels, tools' tables, findings, and what was left out."""
        from accel_magic.views.gpu.gpu_summary import gpu_text

        return gpu_text(self.gpu)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        """Text and static HTML in one bundle."""
        from accel_magic.views.gpu.gpu_summary import gpu_html

        return {"text/plain": self.summary(), "text/html": gpu_html(self.gpu)}


def _beside(other: Result) -> Beside:
    from accel_magic.analysis.gpu.timeline import Beside
    from accel_magic.recording.recording import Recording

    recording = getattr(other, "recording", None)
    if not isinstance(recording, Recording):
        raise ResultError(
            f"{type(other).__name__} has no events to show with launches",
            why="only %%ktrace, and %%flame with BPF, record events with times",
            fix="pass a result of one of these for the same cell",
            code="result.no-events",
        )
    return Beside(recording, other.events)

"""What a GPU tool consists of besides its program `bpf/gpu/NAME.bpf.c`: a table, rules, a figure and a live counter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pandas as pd

    from accel_magic.devices.device import DeviceClock
    from accel_magic.findings import Rule
    from accel_magic.gpu.program.program_source import LiveColumns
    from accel_magic.gpu_tools.figure import Figure


class Run(Protocol):
    """The part of a GPU recording that tools read; `analysis.gpu.frames.GpuFrames` is one."""

    @property
    def kernels(self) -> pd.DataFrame:
        """One row per kernel; columns: `recording.gpu_data.KERNELS`."""

    @property
    def launches(self) -> pd.DataFrame:
        """One row per launch; columns: `recording.gpu_data.LAUNCHES`."""

    @property
    def sites(self) -> pd.DataFrame:
        """One row per instrumented place; columns: `recording.gpu_data.SITES`."""

    @property
    def clock(self) -> DeviceClock:
        """Maps the device's times to CLOCK_MONOTONIC."""

    @property
    def start_ns(self) -> int:
        """Start of the trace on CLOCK_MONOTONIC, ns."""

    @property
    def multiprocessors(self) -> int:
        """Multiprocessors of the device."""


@dataclass(frozen=True)
class ToolData:
    """What the rules of a tool read.

    Attributes:
        table: The tool's table.
        run: The run that it is about.

    """

    table: pd.DataFrame
    run: Run


@dataclass(frozen=True, kw_only=True)
class Tool:
    """One tool, named like its module and its program.

    Attributes:
        shows: What it shows, in one line.
        table: Makes its table from the run and the frames of its program's maps by name.
        figure: Describes its figure, from a table that is not empty.
        rules: What to look for in the table.
        live: What the live row shows while it runs, beside the records of its rings.
        empty: What it means if the table has no rows although its program ran.

    """

    shows: str
    table: Callable[[Run, Mapping[str, pd.DataFrame]], pd.DataFrame]
    figure: Callable[[pd.DataFrame], Figure]
    rules: tuple[Rule[ToolData], ...]
    live: LiveColumns | None = None
    empty: str = "the kernels that ran recorded nothing"

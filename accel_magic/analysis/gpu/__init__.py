"""Tables of the GPU tools, and findings about them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from accel_magic.analysis.findings import Findings, combined, diagnose
from accel_magic.analysis.gpu import host
from accel_magic.analysis.gpu.frames import ToolFrames
from accel_magic.analysis.gpu.host_checks import API_RULES
from accel_magic.gpu_tools import TOOLS
from accel_magic.gpu_tools.tool import ToolData

if TYPE_CHECKING:
    import pandas as pd


class GpuAnalysis(ToolFrames):
    """The analysis of a GPU recording: what its result and its views show."""

    @cached_property
    def events(self) -> pd.DataFrame:
        """One row per driver call, and per launch without a recorded call, in order of time."""
        return host.events(self)

    @cached_property
    def findings(self) -> Findings:
        """Problems and notes, most severe first: from every tool that ran, and the driver's calls if traced."""
        parts = [diagnose(TOOLS[tool].rules, ToolData(table, self)) for tool, table in self.tools.items()]
        if self.recording.api is not None:
            parts.append(diagnose(API_RULES, ToolData(self.api, self)))
        return combined(parts, self.recording)

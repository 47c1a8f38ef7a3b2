"""Tables of the GPU tools, and findings about them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from accel_magic.analysis.findings import Findings, combined, diagnose
from accel_magic.analysis.gpu import host
from accel_magic.analysis.gpu.frames import ToolFrames
from accel_magic.analysis.gpu.host_checks import API_RULES
from accel_magic.analysis.gpu.nothing import why_no_program_ran
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
        parts = [self._findings_of(tool, table) for tool, table in self.tools.items()]
        if self.recording.api is not None:
            parts.append(diagnose(API_RULES, ToolData(self.api, self)))
        return combined(parts, self.recording)

    def _findings_of(self, tool: str, table: pd.DataFrame) -> Findings:
        """What the rules of a tool find; none is checked if its program did not run."""
        rules = TOOLS[tool].rules
        if not len(table) and why_no_program_ran(self):
            return Findings(unchecked={rule.id: "instrumented kernels that ran" for rule in rules})
        return diagnose(rules, ToolData(table, self))

"""Tables of the GPU tools, and findings about them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from accel_magic.analysis.findings import Findings
from accel_magic.analysis.gpu import host
from accel_magic.analysis.gpu.frames import ToolFrames
from accel_magic.analysis.gpu.host_checks import API_RULES
from accel_magic.demangle import readable
from accel_magic.findings import SEVERITIES
from accel_magic.gpu_tools import TOOLS

if TYPE_CHECKING:
    import pandas as pd

    from accel_magic.findings import Finding
    from accel_magic.gpu_tools.tool import Evidence, Rule


class GpuAnalysis(ToolFrames):
    """The analysis of a GPU recording: what its result and its views show."""

    @cached_property
    def events(self) -> pd.DataFrame:
        """As `GpuResult.events`."""
        return host.events(self)

    @cached_property
    def findings(self) -> Findings:
        """Problems and notes, most severe first."""
        return diagnose(self)


def diagnose(gpu: GpuAnalysis) -> Findings:
    """Check the rules of every tool that ran, and of the driver's calls if they were traced."""
    checked = [(rule, table) for tool, table in gpu.tools.items() for rule in TOOLS[tool].rules]
    if gpu.recording.api is not None:
        checked += [(rule, gpu.api) for rule in API_RULES]
    found = [_finding(rule, evidence) for rule, table in checked for evidence in rule.check(table, rule.threshold, gpu)]
    found.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    return Findings(items=tuple(found), checked=tuple(rule.id for rule, _ in checked), recording=gpu.recording)


def _finding(rule: Rule, evidence: Evidence) -> Finding:
    shown = {name: readable(str(value)) if name == "name" else value for name, value in evidence.items()}
    return rule.finding({name: value for name, value in evidence.items() if not isinstance(value, str)}, shown)

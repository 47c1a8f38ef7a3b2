"""What the GPU tools saw, as tables, and what is wrong with it, as findings."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from accel_magic.analysis.findings import SEVERITIES, Findings
from accel_magic.analysis.gpu import host
from accel_magic.analysis.gpu.checks import CHECKS
from accel_magic.analysis.gpu.rules import RULES
from accel_magic.analysis.gpu.tables import ToolFrames
from accel_magic.demangle import readable

if TYPE_CHECKING:
    import pandas as pd

    from accel_magic.analysis.findings import Finding
    from accel_magic.analysis.gpu.checks import Told
    from accel_magic.analysis.gpu.rules import Rule


class GpuAnalysis(ToolFrames):
    """A GPU recording, taken apart: what results and views of it take."""

    @cached_property
    def events(self) -> pd.DataFrame:
        """As `GpuResult.events`."""
        return host.events(self)

    @cached_property
    def findings(self) -> Findings:
        """What is wrong or worth knowing, worst first."""
        return diagnose(self)


def diagnose(result: GpuAnalysis) -> Findings:
    """Look for everything that the rules of the tools know."""
    seen = result.tools if result.recording.api is None else {**result.tools, "api": result.api}
    found = [
        _finding(rule, told)
        for rule in RULES.values()
        if rule.tool in seen
        for told in CHECKS[rule.id](seen[rule.tool], rule, result)
    ]
    found.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    return Findings(
        items=tuple(found),
        checked=tuple(rule.id for rule in RULES.values() if rule.tool in seen),
        recording=result.recording,
    )


def _finding(rule: Rule, told: Told) -> Finding:
    shown = {name: readable(str(value)) if name == "name" else value for name, value in told.items()}
    return rule.finding({name: value for name, value in told.items() if not isinstance(value, str)}, shown)

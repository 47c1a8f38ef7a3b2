"""What results hand out besides tables, with their display: findings, the NPU driver's trace, stalls."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from accel_magic.analysis.findings import Findings
from accel_magic.analysis.npu import NpuTables
from accel_magic.analysis.stalls import StallTables

if TYPE_CHECKING:
    from bokeh.model import Model


class Diagnosis(Findings):
    """Findings that display themselves in a notebook."""

    @classmethod
    def of(cls, findings: Findings) -> Diagnosis:
        """Make one of the same findings."""
        return cls(findings.items, findings.checked, findings.unchecked, findings.recording)

    def __repr__(self) -> str:
        """Plain text: each finding with its evidence and advice."""
        from accel_magic.views.findings import findings_text

        return findings_text(self)

    def _repr_html_(self) -> str:
        """Show the same as HTML."""
        from accel_magic.views.findings import findings_html

        return findings_html(self)


class Npu(NpuTables):
    """A trace of the NPU driver, taken apart: `TraceResult.npu`."""

    @cached_property
    def findings(self) -> Diagnosis:
        """What is wrong or worth knowing, with evidence; `TraceResult.diagnose`."""
        return Diagnosis.of(super().findings)

    def timeline(self, start_ns: int | None = None, end_ns: int | None = None) -> Model:
        """Bokeh timeline: a row per layer; what is selected filters the tables below it.

        With `start_ns` and `end_ns`, ns since the start, only of that stretch.
        """
        from accel_magic.views.timeline.npu import timeline

        return timeline(self, start_ns, end_ns)

    def __repr__(self) -> str:
        from accel_magic.views.npu.result import summary

        return summary(self)

    def _repr_html_(self) -> str:
        from accel_magic.views.npu.result import html

        return html(self)


class Stalls(StallTables):
    """Where execution units waited, and for what: `IaprofResult.stalls`."""

    @cached_property
    def findings(self) -> Diagnosis:
        """What the profile shows, worst first."""
        return Diagnosis.of(super().findings)

    def __repr__(self) -> str:
        """Plain text: reasons, kernels and instructions with most samples."""
        from accel_magic.views.flame.stalls import tables_text

        return tables_text(self)

    def _repr_html_(self) -> str:
        """Show the same as HTML."""
        from accel_magic.views.flame.stalls import tables_html

        return tables_html(self)

"""Analyses that display themselves: findings, the NPU driver's trace, stalls."""

from __future__ import annotations

from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from accel_magic.analysis.findings import Findings
from accel_magic.analysis.npu import NpuTables
from accel_magic.analysis.openvino import OpenVinoTables
from accel_magic.analysis.stalls import StallTables
from accel_magic.findings import SEVERITIES

if TYPE_CHECKING:
    from bokeh.model import Model


class Diagnosis(Findings):
    """Findings that display themselves in a notebook."""

    @classmethod
    def of(cls, findings: Findings) -> Diagnosis:
        """Wrap findings."""
        return cls(findings.items, findings.checked, findings.unchecked, findings.recording)

    def with_more(self, others: Findings) -> Diagnosis:
        """Return these and other findings about the same trace."""
        items = sorted((*self.items, *others.items), key=lambda finding: SEVERITIES.index(finding.severity))
        unchecked = MappingProxyType({**self.unchecked, **others.unchecked})
        return Diagnosis(tuple(items), (*self.checked, *others.checked), unchecked, self.recording)

    def __repr__(self) -> str:
        """Plain text: each finding with its evidence and advice."""
        from accel_magic.views.findings import findings_text

        return findings_text(self)

    def _repr_html_(self) -> str:
        """Return the same as HTML."""
        from accel_magic.views.findings import findings_html

        return findings_html(self)


class Npu(NpuTables):
    """Analysis of a trace of the NPU driver: `TraceResult.npu`."""

    @cached_property
    def findings(self) -> Diagnosis:
        """Findings with evidence, as returned by `TraceResult.diagnose`."""
        return Diagnosis.of(super().findings)

    def timeline(self, start_ns: int | None = None, end_ns: int | None = None) -> Model:
        """Build a Bokeh timeline with a row per layer; a selection filters the tables below it.

        `start_ns` and `end_ns`, ns since the start, limit it to a time range.
        """
        from accel_magic.views.timeline.npu import timeline

        return timeline(self, start_ns, end_ns)

    def __repr__(self) -> str:
        from accel_magic.views.npu.summary import summary

        return summary(self)

    def _repr_html_(self) -> str:
        from accel_magic.views.npu.summary import html

        return html(self)


class OpenVino(OpenVinoTables):
    """Analysis of a trace of OpenVINO: `TraceResult.openvino`."""

    @cached_property
    def findings(self) -> Diagnosis:
        """Findings with evidence, as returned by `TraceResult.diagnose`."""
        return Diagnosis.of(super().findings)

    def timeline(self, start_ns: int | None = None, end_ns: int | None = None) -> Model:
        """Build a Bokeh timeline of inferences, layers and primitives, and of the NPU's layers if they were traced.

        `start_ns` and `end_ns`, ns since the start, limit it to a time range.
        """
        from accel_magic.views.timeline.npu import timeline

        return timeline(self._npu, start_ns, end_ns)

    def __repr__(self) -> str:
        from accel_magic.views.openvino import summary

        return summary(self)

    def _repr_html_(self) -> str:
        from accel_magic.views.openvino import html

        return html(self)


class Stalls(StallTables):
    """Where and why execution units stalled: `IaprofResult.stalls`."""

    @cached_property
    def findings(self) -> Diagnosis:
        """Findings about the profile, worst first."""
        return Diagnosis.of(super().findings)

    def __repr__(self) -> str:
        """Plain text: reasons, kernels and instructions with most samples."""
        from accel_magic.views.flame.stalls import tables_text

        return tables_text(self)

    def _repr_html_(self) -> str:
        """Return the same as HTML."""
        from accel_magic.views.flame.stalls import tables_html

        return tables_html(self)

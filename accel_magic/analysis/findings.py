"""What an analysis has to say about a trace: findings, each with its evidence, its meaning and what to try."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import nan
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Literal, overload

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.gpu.recording import GpuRecording
    from accel_magic.traces.recording import Recording

Severity = Literal["problem", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("problem", "warning", "note")
"""Worst first: something went wrong; something costs or misleads; worth knowing."""


@dataclass(frozen=True)
class Stretch:
    """A place in the trace.

    Attributes:
        start_ns: Since the start of the trace; 0 where it has no times.
        end_ns: The same; not before `start_ns`.
        first_row: Of `TraceResult.events`; -1 where it is not one event's.
        last_row: The last of them, included.

    """

    start_ns: int
    end_ns: int
    first_row: int = -1
    last_row: int = -1


@dataclass(frozen=True)
class Finding:
    """One thing that a trace shows.

    Attributes:
        id: Name of the rule, e.g. `job-hung`; the key to the documentation.
        code: The same with its area in front, e.g. `npu.job-hung`: unique among the codes of findings and errors.
        severity: `problem`, `warning` or `note`.
        title: What was found, with its count, one line.
        evidence: Numbers from this trace by name. Names end in their unit: `_ns`, `_bytes`, `_share` (0..1), `_ratio`;
            plain counts have none.
        meaning: What it says about the work that was traced.
        advice: What to try.
        threshold: The rule's limit that was passed; NaN where one occurrence is enough.
        unit: Of the threshold, in words.
        source: Where the limit comes from.
        where: Places in the trace, in order of time; empty where it is about all of it.

    """

    id: str
    code: str
    severity: Severity
    title: str
    evidence: Mapping[str, float]
    meaning: str
    advice: str
    threshold: float
    unit: str
    source: str
    where: tuple[Stretch, ...] = ()


@dataclass(frozen=True)
class BaseRule:
    """One thing to look for; each kind of trace adds what its own rules need.

    Attributes:
        AREA: First word of the codes of its findings.
        id: Its name.
        severity: As in `Finding`.
        title: What is said when it is found, with names in braces for what was found: `{lost}`.
        meaning: What it says about the work; braces as in the title.
        advice: What to try; likewise.
        threshold: The limit; NaN where one occurrence is enough.
        unit: Of the limit, in words.
        source: Where the limit comes from.

    """

    AREA: ClassVar[str]

    id: str
    severity: Severity
    title: str
    meaning: str
    advice: str
    threshold: float = nan
    unit: str = ""
    source: str = "one occurrence is enough"

    def finding(
        self, evidence: Mapping[str, float], shown: Mapping[str, object], where: tuple[Stretch, ...] = ()
    ) -> Finding:
        """Say that it was found.

        Args:
            evidence: As in `Finding`.
            shown: What stands in the braces of the texts.
            where: As in `Finding`.

        """
        return Finding(
            id=self.id,
            code=f"{self.AREA}.{self.id}",
            severity=self.severity,
            title=self.title.format_map(shown),
            evidence=MappingProxyType(dict(evidence)),
            meaning=self.meaning.format_map(shown),
            advice=self.advice.format_map(shown),
            threshold=self.threshold,
            unit=self.unit,
            source=self.source,
            where=where,
        )


@dataclass(frozen=True, repr=False)
class Findings(Sequence[Finding]):
    """All findings about a trace, worst first. Empty and so false for a trace with nothing to tell.

    Attributes:
        items: The findings.
        checked: Names of the rules that were looked at.
        unchecked: Names of those that could not be, with what the trace lacks for them.
        recording: What the trace's banners are made from; None for none.

    """

    items: tuple[Finding, ...] = ()
    checked: tuple[str, ...] = ()
    unchecked: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    recording: Recording | GpuRecording | None = None

    def __len__(self) -> int:
        """Count the findings."""
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Finding, ...]: ...
    def __getitem__(self, index: int | slice) -> Finding | tuple[Finding, ...]:
        """Return a finding by its place."""
        return self.items[index]

    @property
    def ids(self) -> tuple[str, ...]:
        """Names of what was found, worst first."""
        return tuple(finding.id for finding in self.items)

    @property
    def table(self) -> pd.DataFrame:
        """One row per finding, indexed by `id`.

        Columns: `code`, `severity`, `title`, `evidence`, `meaning`, `advice`, `start_ns`. `evidence` is a dict;
        `start_ns` (Int64) is the first place's, NA where it is about the whole trace.
        """
        first = [finding.where[0].start_ns if finding.where else pd.NA for finding in self.items]
        return pd.DataFrame(
            {
                "code": pd.array([finding.code for finding in self.items], "str"),
                "severity": pd.Categorical([finding.severity for finding in self.items], SEVERITIES, ordered=True),
                "title": pd.array([finding.title for finding in self.items], "str"),
                "evidence": np.array([dict(finding.evidence) for finding in self.items], dtype=object),
                "meaning": pd.array([finding.meaning for finding in self.items], "str"),
                "advice": pd.array([finding.advice for finding in self.items], "str"),
                "start_ns": pd.array(first, "Int64"),
            },
            index=pd.Index(self.ids, name="id", dtype="str"),
        )

    def __repr__(self) -> str:
        """Plain text: each finding with its evidence and advice."""
        from accel_magic.views.findings import findings_text

        return findings_text(self)

    def _repr_html_(self) -> str:
        """Show the same as HTML."""
        from accel_magic.views.findings import findings_html

        return findings_html(self)

"""A finding about a trace, and the base class of the rules that produce findings."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping


Severity = Literal["problem", "warning", "note"]


SEVERITIES: tuple[Severity, ...] = ("problem", "warning", "note")
"""Most severe first: something failed; something is slow or misleading; worth knowing."""


@dataclass(frozen=True)
class Stretch:
    """A place in the trace.

    Attributes:
        start_ns: Since the start of the trace; 0 if it has no times.
        end_ns: Since the start of the trace; not before `start_ns`.
        first_row: First row of `TraceResult.events`; -1 if the place is not given as events.
        last_row: Last row, inclusive; -1 likewise.

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
        code: The id prefixed with its area, e.g. `npu.job-hung`: unique among the codes of findings and errors.
        severity: `problem`, `warning` or `note`.
        title: One line: what was found, with its count.
        evidence: Numbers from this trace by name. Names end in their unit: `_ns`, `_bytes`, `_share` (0..1), `_ratio`;
            plain counts have none.
        meaning: What it means for the traced work.
        advice: What to try.
        threshold: The rule's limit; NaN if one occurrence is enough.
        unit: Unit of the threshold, in words.
        source: Where the limit comes from.
        where: Places in the trace, in order of time; empty if it concerns the whole trace.

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
    """One thing to look for; each kind of trace adds fields for its own rules.

    Attributes:
        AREA: First word of the codes of its findings.
        id: Name of the rule.
        severity: As in `Finding`.
        title: Title of the finding, with placeholders for its numbers: `{lost}`.
        meaning: What it means for the traced work; placeholders as in the title.
        advice: What to try; placeholders as in the title.
        threshold: The limit; NaN if one occurrence is enough.
        unit: Unit of the limit, in words.
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
        """Create the finding.

        Args:
            evidence: As in `Finding`.
            shown: Values of the placeholders in the texts.
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

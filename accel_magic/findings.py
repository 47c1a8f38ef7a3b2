"""One finding about a trace, and the rules that findings come from."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping


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

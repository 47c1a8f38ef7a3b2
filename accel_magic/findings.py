"""A finding about a trace, and the rules that findings come from."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import nan
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from accel_magic.quantities import duration_text, share_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


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


def by_severity(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort findings, the most severe first; those of a severity keep their order."""
    return tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)))


@dataclass(frozen=True)
class Evidence:
    """What a check found.

    Attributes:
        values: Values of the placeholders in the rule's texts. Numbers are also the evidence of the finding, named as
            there; texts are not.
        where: As in `Finding`.

    """

    values: Mapping[str, float | str] = field(default_factory=lambda: MappingProxyType({}))
    where: tuple[Stretch, ...] = ()


Data = TypeVar("Data")


@dataclass(frozen=True)
class Rule(Generic[Data]):
    """One thing to look for in tables or other data of one type.

    Placeholders in the texts are formatted as by `str.format`; for a number, the format may also be the noun that it
    counts, singular and plural, `{jobs:job|jobs}`; `time` for nanoseconds in a readable unit: `{wait_ns:time}`; or
    `share` for a share of a whole.

    Attributes:
        code: Unique among the codes of findings and errors: the area, a dot, the name of the rule.
        severity: As in `Finding`.
        title: Title of the finding, with placeholders for the values of its evidence: `{lost}`.
        meaning: What it means for the traced work; placeholders as in the title.
        advice: What to try; placeholders as in the title.
        threshold: The limit; NaN if one occurrence is enough.
        unit: Unit of the limit, in words; after "share of", what the limit is a part of.
        source: Where the limit comes from; placeholders as in the title.
        check: Takes the data and the rule; yields the evidence of each finding.
        needs: Takes the data; returns what it lacks for this rule, `` if nothing.
        limits: Further limits by name.
        explained_by: Names of rules of the same area whose findings already explain those of this one, which are then
            not reported.

    """

    code: str
    severity: Severity
    title: str
    meaning: str
    advice: str
    threshold: float = nan
    unit: str = ""
    source: str = "one occurrence is enough"
    check: Callable[[Data, Rule[Data]], Iterable[Evidence]] = field(kw_only=True)
    needs: Callable[[Data], str] = field(default=lambda _: "", kw_only=True)
    limits: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}), kw_only=True)
    explained_by: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def area(self) -> str:
        """What the rule is about, e.g. `npu`."""
        return self.code.rpartition(".")[0]

    @property
    def id(self) -> str:
        """Name of the rule, unique in its area."""
        return self.code.rpartition(".")[2]

    def findings(self, data: Data) -> Iterator[Finding]:
        """Check the rule on data that has what it needs; yield a finding for each piece of evidence."""
        for evidence in self.check(data, self):
            shown = {name: _Shown(value) for name, value in evidence.values.items()}
            yield Finding(
                id=self.id,
                code=self.code,
                severity=self.severity,
                title=self.title.format_map(shown),
                evidence=MappingProxyType(
                    {name: value for name, value in evidence.values.items() if not isinstance(value, str)}
                ),
                meaning=self.meaning.format_map(shown),
                advice=self.advice.format_map(shown),
                threshold=self.threshold,
                unit=self.unit,
                source=self.source.format_map(shown),
                where=evidence.where,
            )


@dataclass(frozen=True)
class _Shown:
    """The value of a placeholder."""

    value: float | str

    def __format__(self, spec: str) -> str:
        one, separator, several = spec.partition("|")
        if spec == "time":
            return duration_text(float(self.value))
        if spec == "share":
            return share_text(float(self.value))
        if not separator:
            return format(self.value, spec)
        return f"{self.value:,.0f} {one if self.value == 1 else several}"

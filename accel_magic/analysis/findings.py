"""Findings of an analysis: each has its evidence, its meaning and what to try."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, overload

import numpy as np
import pandas as pd

from accel_magic.findings import SEVERITIES, Data, Finding, Rule, by_severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from accel_magic.recording.gpu_data import GpuRecording
    from accel_magic.recording.recording import Recording


@dataclass(frozen=True, repr=False)
class Findings(Sequence[Finding]):
    """All findings about a trace, most severe first. Empty, and therefore false, if nothing was found.

    Attributes:
        items: The findings.
        checked: Names of the rules that were checked.
        unchecked: Names of the rules that could not be checked, with what the trace lacks for them.
        recording: Source of the trace's banners; None if there are none.

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
        """Return a finding by its index."""
        return self.items[index]

    @property
    def ids(self) -> tuple[str, ...]:
        """Names of the findings, most severe first."""
        return tuple(finding.id for finding in self.items)

    @property
    def table(self) -> pd.DataFrame:
        """One row per finding, indexed by `id`.

        Columns: `code`, `severity`, `title`, `evidence`, `meaning`, `advice`, `start_ns`. `evidence` is a dict;
        `start_ns` (Int64) is that of the first place, NA if the finding concerns the whole trace.
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


def diagnose(rules: Iterable[Rule[Data]], data: Data, recording: Recording | GpuRecording | None = None) -> Findings:
    """Check rules on data.

    Args:
        rules: The rules; findings of the same severity are in their order.
        data: What the rules read, e.g. the tables of a subsystem.
        recording: As in `Findings`.

    Returns:
        What was found, the most severe first; which rules were checked, and what the data lacks for the others. No
        findings means that none of the checked rules applies.

    """
    rules = tuple(rules)
    missing = {rule.id: why for rule in rules if (why := rule.needs(data))}
    found = {rule.id: tuple(rule.findings(data)) for rule in rules if rule.id not in missing}
    applying = {name for name, findings in found.items() if findings}
    explained = {rule.id for rule in rules if applying & {*rule.explained_by}}
    reported = [finding for name, findings in found.items() if name not in explained for finding in findings]
    return Findings(by_severity(reported), tuple(found), MappingProxyType(missing), recording)


def combined(parts: Iterable[Findings], recording: Recording | GpuRecording | None = None) -> Findings:
    """Combine findings by different rules about the same trace; those of a severity keep their order."""
    parts = tuple(parts)
    return Findings(
        by_severity(finding for part in parts for finding in part),
        tuple(name for part in parts for name in part.checked),
        MappingProxyType({name: why for part in parts for name, why in part.unchecked.items()}),
        recording,
    )

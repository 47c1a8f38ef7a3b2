"""Findings of an analysis: each has its evidence, its meaning and what to try."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, overload

import numpy as np
import pandas as pd

from accel_magic.findings import SEVERITIES, Finding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.recording.gpu import GpuRecording
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

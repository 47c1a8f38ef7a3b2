"""Findings that display themselves."""

from __future__ import annotations

from accel_magic.analysis.findings import Findings


class Diagnosis(Findings):
    """Findings that display themselves in a notebook."""

    @classmethod
    def of(cls, findings: Findings) -> Diagnosis:
        """Wrap findings."""
        return cls(findings.items, findings.checked, findings.unchecked, findings.recording)

    def __repr__(self) -> str:
        """Plain text: each finding with its evidence and advice."""
        from accel_magic.views.findings import findings_text

        return findings_text(self)

    def _repr_html_(self) -> str:
        """Return the same as HTML."""
        from accel_magic.views.findings import findings_html

        return findings_html(self)

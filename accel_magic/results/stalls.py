"""Stalls of execution units that display themselves."""

from __future__ import annotations

from functools import cached_property

from accel_magic.analysis.stalls import StallTables
from accel_magic.views.diagnosis import Diagnosis


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

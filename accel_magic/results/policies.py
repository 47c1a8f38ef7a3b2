"""PolicyResult: what policies of a GPU's driver would have done with a trace of accesses."""

from __future__ import annotations

from functools import cached_property
from math import nan
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from accel_magic.analysis.policies import PolicyTables
from accel_magic.gpu.maps import views as maps
from accel_magic.results.base import Result
from accel_magic.results.taken_apart import Diagnosis

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pandas as pd
    from bokeh.model import Model

    from accel_magic.policies.traces import PageTrace
    from accel_magic.policies.trial import Trials
    from accel_magic.recording.profile import Lost


class PolicyResult(Result):
    """Policies on one trace, with the driver's default and the optimum; tables are built on first use and cached."""

    KIND = "a trial of policies"
    LACKS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {
            "events": ("a trial counts, and keeps no single decision", "use result.over_time, or result.trace.frame()"),
            "plan": ("nothing was traced", "use result.trace"),
            "compare": ("all policies of a trial are compared with each other", "try both policies in one call"),
            "to_parquet": (
                "a trial is repeated exactly from its trace and its policies",
                "save the trace: result.trace.save(path)",
            ),
            "to_perfetto": ("accesses have an order, but no times", "use result.over_time"),
        }
    )

    def __init__(self, trials: Trials, machine: dict[str, str]) -> None:
        super().__init__()
        self.trials, self._machine = trials, machine

    @property
    def machine(self) -> dict[str, str]:
        """Where the model ran."""
        return self._machine

    @property
    def started(self) -> str:
        """Nothing was recorded at any time."""
        return ""

    @property
    def duration_s(self) -> float:
        """Accesses have no times."""
        return nan

    @property
    def trace(self) -> PageTrace:
        """The accesses."""
        return self.trials.trace

    @cached_property
    def _tables(self) -> PolicyTables:
        return PolicyTables(self.trials)

    @property
    def counts(self) -> pd.DataFrame:
        """As `PolicyTables.counts`."""
        return self._tables.counts

    @property
    def optimum(self) -> int:
        """As `PolicyTables.optimum`."""
        return self._tables.optimum

    @property
    def over_time(self) -> pd.DataFrame:
        """As `PolicyTables.over_time`."""
        return self._tables.over_time

    @property
    def curve(self) -> pd.DataFrame:
        """As `PolicyTables.curve`."""
        return self._tables.curve

    def by(self, column: str) -> pd.DataFrame:
        """As `PolicyTables.by`: "tenant", "kernel" or "allocation"."""
        return self._tables.by(column)

    @cached_property
    def maps(self) -> dict[str, dict[str, pd.DataFrame]]:
        """The policies' maps at the end, by policy and name; as `GpuResult.maps`."""
        return {
            trial.name: {content.spec.name: maps.frame(content.spec, content.raw, 1) for content in trial.maps}
            for trial in self.trials.trials
            if trial.maps
        }

    def _losses(self) -> tuple[Lost, ...]:
        return ()

    def diagnose(self) -> Diagnosis:
        """Return findings about the trace and each policy, worst first."""
        return Diagnosis.of(self._tables.findings)

    def _figures(self) -> Mapping[str, Callable[[], Model]]:
        from accel_magic.views.policies import curve, over_time

        return {"misses": lambda: over_time(self._tables), "memory": lambda: curve(self._tables)}

    def summary(self) -> str:
        """Return plain text: headline, and a row per policy."""
        from accel_magic.views.policies import text

        return text(self._tables)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        """Text and static HTML in one bundle."""
        from accel_magic.views.policies import html

        return {"text/plain": self.summary(), "text/html": html(self._tables)}

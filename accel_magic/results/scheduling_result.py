"""ScheduleResult: how tenants would have shared a GPU under scheduling policies."""

from __future__ import annotations

from functools import cached_property
from math import nan
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from accel_magic.analysis.scheduling import SchedulingTables
from accel_magic.gpu.maps import map_access
from accel_magic.gpu.program.helpers import RINGS
from accel_magic.result_bases.base import Result
from accel_magic.views.diagnosis import Diagnosis

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pandas as pd
    from bokeh.model import Model

    from accel_magic.policies.sharing import Sharings
    from accel_magic.recording.profile import Lost


class ScheduleResult(Result):
    """Scheduling policies with the same tenants, beside the driver's default; tables are built on first use."""

    KIND = "a trial of scheduling policies"
    LACKS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {
            "events": ("jobs are modelled, not recorded", "use result.latencies"),
            "plan": ("nothing was traced", "use result.tasks"),
            "compare": ("all policies of a trial are compared with each other", "try both policies in one call"),
            "to_parquet": ("a trial is repeated exactly from its tenants and policies", "keep the cell"),
            "to_perfetto": ("jobs are modelled, not recorded", "use result.latencies"),
        }
    )

    def __init__(self, trials: Sharings, machine: dict[str, str]) -> None:
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
        """Nothing was recorded; the modelled time is `result.trials.duration_us`."""
        return nan

    @cached_property
    def tables(self) -> SchedulingTables:
        """The tables and findings that the other members show."""
        return SchedulingTables(self.trials)

    @property
    def counts(self) -> pd.DataFrame:
        """A row per policy and name of a tenant (the index), in their order."""
        return self.tables.counts

    @property
    def tasks(self) -> pd.DataFrame:
        """A row per policy and tenant."""
        return self.tables.tasks

    @property
    def latencies(self) -> pd.DataFrame:
        """A row per job: `policy`, `run`, `tenant`, `name`, `arrival_us`, `wait_us` and `latency_us`."""
        return self.tables.latencies

    @cached_property
    def maps(self) -> dict[str, dict[str, pd.DataFrame]]:
        """The policies' maps by policy and name, without ring buffers; as `GpuResult.maps`."""
        return {
            trial.name: {
                content.spec.name: map_access.frame(content.spec, content.raw, 1)
                for content in trial.maps
                if content.spec.type not in RINGS
            }
            for trial in self.trials.trials
            if trial.maps
        }

    def _losses(self) -> tuple[Lost, ...]:
        return ()

    def diagnose(self) -> Diagnosis:
        """Return findings about each policy, worst first."""
        return Diagnosis.of(self.tables.findings)

    def _figures(self) -> Mapping[str, Callable[[], Model]]:
        from accel_magic.views.scheduling_view import latencies

        return {"latencies": lambda: latencies(self.tables)}

    def summary(self) -> str:
        """Return plain text: headline, and a row per policy and name of a tenant."""
        from accel_magic.views.scheduling_view import text

        return text(self.tables)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        """Text and static HTML in one bundle."""
        from accel_magic.views.scheduling_view import html

        return {"text/plain": self.summary(), "text/html": html(self.tables)}

"""PolicyResult: what policies of a GPU's driver would have done with a trace of accesses."""

from __future__ import annotations

from functools import cached_property
from math import nan
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from accel_magic.analysis.policies import PolicyTables
from accel_magic.gpu.maps import map_access
from accel_magic.gpu.program.helpers import RINGS
from accel_magic.result_bases.base import Result
from accel_magic.views.diagnosis import Diagnosis

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pandas as pd
    from bokeh.model import Model

    from accel_magic.policies.link_model import LinkModel
    from accel_magic.policies.page_trace import PageTrace
    from accel_magic.policies.trial import Trials
    from accel_magic.recording.profile import Lost
    from accel_magic.result_bases.comparison import PolicyComparison


class PolicyResult(Result):
    """Policies on one trace, with the driver's default and the optimum; tables are built on first use and cached."""

    KIND = "a trial of policies"
    LACKS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {
            "events": ("a trial counts, and keeps no single decision", "use result.over_time, or result.trace.frame()"),
            "plan": ("nothing was traced", "use result.trace"),
            "to_parquet": (
                "a trial is repeated exactly from its trace and its policies",
                "save the trace: result.trace.save(path)",
            ),
            "to_perfetto": ("accesses have an order, but no times", "use result.over_time"),
        }
    )

    def __init__(self, trials: Trials, machine: dict[str, str], link: LinkModel) -> None:
        super().__init__()
        self.trials, self._machine, self.link = trials, machine, link

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
    def tables(self) -> PolicyTables:
        """The tables and findings that the other members show."""
        return PolicyTables(self.trials, self.link)

    @property
    def counts(self) -> pd.DataFrame:
        """A row per policy (the index), most hits first."""
        return self.tables.counts

    @property
    def optimum(self) -> int:
        """Misses of Belady's optimum, which evicts what is needed latest: no policy has fewer."""
        return self.tables.optimum

    @property
    def over_time(self) -> pd.DataFrame:
        """A row per policy and step: `policy`, `step`, `access` (the first), `hits`, `faults`, `misses`; int64."""
        return self.tables.over_time

    @property
    def curve(self) -> pd.DataFrame:
        """Misses by the size of memory: `chunks` (the index), `lru` for every size, `opt` for a few; Int64."""
        return self.tables.curve

    @property
    def blocks(self) -> pd.DataFrame:
        """A row per block of 2 MiB: `block` (number, the index), `accesses`, and evictions by each policy; int64."""
        return self.tables.blocks

    def compare(self, other: Result) -> PolicyComparison:
        """Compare this trial with `other` (the baseline), policy by policy: another memory, trace, engine or mode.

        Raises:
            ResultError: `other` is not a trial of policies.

        """
        from accel_magic.result_bases.comparison import compare_policies

        return compare_policies(self.tables, self._check_kind(other, PolicyResult).tables, self.machine)

    def by(self, column: str) -> pd.DataFrame:
        """Hits and misses of each policy by "tenant", "kernel", "allocation" or "origin"."""
        return self.tables.by(column)

    @cached_property
    def maps(self) -> dict[str, dict[str, pd.DataFrame]]:
        """The policies' maps at the end, by policy and name, without ring buffers; as `GpuResult.maps`."""
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
        """Return findings about the trace and each policy, worst first."""
        return Diagnosis.of(self.tables.findings)

    def _figures(self) -> Mapping[str, Callable[[], Model]]:
        from accel_magic.views.policy_view import curve, over_time

        return {"misses": lambda: over_time(self.tables), "memory": lambda: curve(self.tables)}

    def summary(self) -> str:
        """Return plain text: headline, and a row per policy."""
        from accel_magic.views.policy_view import text

        return text(self.tables)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        """Text and static HTML in one bundle."""
        from accel_magic.views.policy_view import html

        return {"text/plain": self.summary(), "text/html": html(self.tables)}

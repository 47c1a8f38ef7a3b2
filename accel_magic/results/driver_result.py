"""DriverResult: what a policy's maps held before and after code that ran under it in the GPU's driver."""

from __future__ import annotations

from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from accel_magic.analysis.policies import of_lints
from accel_magic.gpu.maps import host_maps, map_access
from accel_magic.result_bases.base import Result
from accel_magic.views.diagnosis import Diagnosis

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from accel_magic.policies.driver_engine import DriverRun, MapState
    from accel_magic.recording.profile import Lost

_REPEAT = "policies are compared on a trace: %gpupolicy with --engine model"


class DriverResult(Result):
    """Code that ran under a policy in the GPU's driver; nothing in it is modelled."""

    KIND = "a policy in the driver"
    LACKS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {
            "events": ("the driver reports no single decision", "let the policy count in maps: result.maps"),
            "counts": (
                "the driver reports no hits, faults, misses or evictions",
                "let the policy count in maps: result.maps; or model them on a trace, with --engine model",
            ),
            "plan": ("nothing was traced", "use %%ktrace nvidia on the same cell"),
            "figure": ("the driver reports nothing over time", "use result.maps"),
            "compare": ("the same code makes other accesses in each run", _REPEAT),
            "to_parquet": ("there is no file format for it", "save the tables of result.maps"),
            "to_perfetto": ("the driver reports no single decision", "use %%ktrace or %%gputrace on the same cell"),
        }
    )

    def __init__(self, run: DriverRun, machine: dict[str, str], value: object = None) -> None:
        super().__init__(value)
        self.run, self._machine = run, machine

    @property
    def machine(self) -> dict[str, str]:
        """Where it ran."""
        return self._machine

    @property
    def started(self) -> str:
        """Wall-clock start of the code."""
        return self.run.started

    @property
    def duration_s(self) -> float:
        """How long the code ran, in seconds; measured."""
        return self.run.duration_ns / 1e9

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about the driver and the maps."""
        return self.run.notes

    @cached_property
    def maps(self) -> dict[str, pd.DataFrame]:
        """The policy's maps after the code, by name: a row per element, or for variables a column for each.

        For maps with a value for each processor: the sum, followed by `NAME_cpu0`, `NAME_cpu1`...
        """
        return {state.spec.name: _frame(state) for state in self.run.after}

    @cached_property
    def maps_before(self) -> dict[str, pd.DataFrame]:
        """The same maps before the policy was attached."""
        return {state.spec.name: _frame(state) for state in self.run.before}

    def _losses(self) -> tuple[Lost, ...]:
        return ()

    def diagnose(self) -> Diagnosis:
        """Return what goes wrong with the policy's code on GPUs."""
        return Diagnosis.of(of_lints(self.run.lints))

    def summary(self) -> str:
        """Return plain text: headline, notes, and a row per map."""
        from accel_magic.views.driver_view import text

        return text(self.run)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        """Text and static HTML in one bundle."""
        from accel_magic.views.driver_view import html

        return {"text/plain": self.summary(), "text/html": html(self.run)}


def _frame(state: MapState) -> pd.DataFrame:
    if state.spec.name.startswith("."):
        return map_access.entries_at(state.spec, np.arange(1), np.ascontiguousarray(state.content.values[:, 0]), 1)
    return host_maps.frame(state.spec, host_maps.packed(state.content))

"""Intel's NPU driver (`intel_vpu`): phases, buffers, jobs, messages, Level Zero calls."""

from __future__ import annotations

from contextlib import nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from accel_magic.probes.presets import is_of
from accel_magic.subsystems.npu.driver import DRIVER, KERNEL_DRIVER
from accel_magic.subsystems.npu.preset import NAME, PRESET
from accel_magic.subsystems.subsystem import Subsystem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    import pandas as pd
    from bokeh.model import Model

    from accel_magic.analysis.findings import Findings
    from accel_magic.analysis.flame.stacks import Stacks
    from accel_magic.checks import Check
    from accel_magic.findings import Rule
    from accel_magic.probes.plan import Plan, ProbePoint
    from accel_magic.recording.profile import ProfileBuilder
    from accel_magic.recording.recording import Recording
    from accel_magic.subsystems.npu.result import Npu
    from accel_magic.views.live.device_counters import LiveItems
    from accel_magic.views.tables import FormattedTable

_WITH_TRACKS: Final = ("ivpu_", "ze")


def _claims(point: ProbePoint) -> bool:
    """Whether the preset asked for it, or it is a function of the driver that other probes selected."""
    return is_of(point.probe, NAME) or point.target == DRIVER


def _tables(recording: Recording, events: pd.DataFrame) -> Npu:
    from accel_magic.subsystems.npu.result import Npu

    return Npu(recording, events)


def _rules() -> Sequence[Rule[Any]]:
    from accel_magic.subsystems.npu.rules import RULES

    return RULES


def _summary(recording: Recording, tables: Callable[[], Npu], findings: Callable[[], Findings]) -> list[str]:
    from accel_magic.subsystems.npu.summary import brief

    return brief(recording, tables, findings)


def _answers(recording: Recording, tables: Callable[[], Npu]) -> list[FormattedTable]:
    from accel_magic.subsystems.npu.summary import answers

    return answers(recording, tables)


def _live(plan: Plan) -> LiveItems | None:
    from accel_magic.subsystems.npu.live_item import NpuHistory

    return NpuHistory.of(plan)


def _timeline(tables: Npu) -> Model:
    return tables.timeline()


def _tracks(recording: Recording, tables: Callable[[], Npu]) -> Iterable[bytes]:
    if not any(point.function.startswith(_WITH_TRACKS) for point in recording.plan.points):
        return ()
    from accel_magic.subsystems.npu.perfetto import layers

    return layers(tables().calls, tables().jobs)


def _family_of(function: str) -> str:
    from accel_magic.subsystems.npu.functions import OTHER, family_of

    family = family_of(function)
    return "" if family == OTHER else family


def _accelerator(builder: ProfileBuilder, recording: Recording, stacks: Stacks) -> list[str]:
    if not any(map(_claims, recording.plan.points)):
        return []
    from accel_magic.subsystems.npu.flame import add_jobs

    return add_jobs(builder, recording, stacks)


def _checks(root: Path) -> AbstractContextManager[Iterable[Check]]:
    from accel_magic.subsystems.npu.doctor import has_npu, libraries

    return nullcontext(libraries(expects_npu=has_npu(root)))


SUBSYSTEM: Final = Subsystem(
    name="npu",
    presets=(PRESET,),
    drivers=(KERNEL_DRIVER,),
    checks=_checks,
    claims=_claims,
    tables=_tables,
    rules=_rules,
    summary=_summary,
    answers=_answers,
    live=_live,
    figures=MappingProxyType({"timeline": _timeline}),
    tracks=_tracks,
    accelerator=_accelerator,
    family_of=_family_of,
)

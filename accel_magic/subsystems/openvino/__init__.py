"""OpenVINO, by its ITT tasks: inferences, layers, compilation, threads."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from accel_magic.probes.presets import is_of
from accel_magic.subsystems.openvino.preset import NAME, PRESET
from accel_magic.subsystems.subsystem import Subsystem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    import pandas as pd
    from bokeh.model import Model

    from accel_magic.analysis.findings import Findings
    from accel_magic.checks import Check, Use
    from accel_magic.findings import Rule
    from accel_magic.probes.plan import Plan, ProbePoint
    from accel_magic.recording.observation import Observer
    from accel_magic.recording.recording import Recording
    from accel_magic.result_bases.compared import Compared
    from accel_magic.subsystems.openvino.result import OpenVino
    from accel_magic.views.live.device_counters import LiveItems
    from accel_magic.views.tables import FormattedTable

_DOMAINS: Final = ("ov::", "dnnl::")
"""What the names of the domains of OpenVINO's and oneDNN's tasks begin with."""


def _claims(point: ProbePoint) -> bool:
    """Whether the preset asked for it, or it is a task of OpenVINO or oneDNN that other probes selected."""
    return is_of(point.probe, NAME) or (point.kind == "itt" and point.target.startswith(_DOMAINS))


def _tables(recording: Recording, events: pd.DataFrame) -> OpenVino:
    from accel_magic.subsystems.openvino.result import OpenVino

    return OpenVino(recording, events)


def _rules() -> Sequence[Rule[Any]]:
    from accel_magic.subsystems.openvino.rules import RULES

    return RULES


def _summary(recording: Recording, tables: Callable[[], OpenVino], findings: Callable[[], Findings]) -> list[str]:
    if not any(map(_claims, recording.plan.points)):
        return []
    from accel_magic.subsystems.openvino.summary import brief

    return brief(recording, tables, findings)


def _answers(recording: Recording, tables: Callable[[], OpenVino]) -> list[FormattedTable]:
    from accel_magic.subsystems.openvino.summary import answers

    return answers(recording, tables)


def _watch() -> None:
    from accel_magic.subsystems.openvino import compilations, pipelines

    compilations.begin()
    pipelines.begin()


def _unwatch() -> None:
    from accel_magic.subsystems.openvino import compilations, pipelines

    compilations.end()
    pipelines.end()


def _compared(ours: OpenVino, baseline: OpenVino) -> Compared:
    from accel_magic.subsystems.openvino.comparing import compared

    return compared(ours, baseline)


def _observer(plan: Plan) -> Observer | None:
    if not any(point.kind == "itt" for point in plan.points):
        return None  # without the imports
    from accel_magic.subsystems.openvino.compiled_models import observer

    return observer(plan)


def _live(plan: Plan) -> LiveItems | None:
    from accel_magic.subsystems.openvino.live_item import OpenVinoHistory

    return OpenVinoHistory.of(plan)


def _tokens(tables: OpenVino) -> Model:
    from accel_magic.subsystems.openvino.figures import tokens

    return tokens(tables.generations, tables.tokens)


def _checks(root: Path) -> AbstractContextManager[Iterable[Check | Use]]:
    from accel_magic.subsystems.openvino.doctor import checks

    return checks(root)


SUBSYSTEM: Final = Subsystem(
    name="openvino",
    presets=(PRESET,),
    checks=_checks,
    claims=_claims,
    tables=_tables,
    rules=_rules,
    summary=_summary,
    answers=_answers,
    live=_live,
    figures=MappingProxyType({"tokens": _tokens}),
    compared=_compared,
    watch=_watch,
    unwatch=_unwatch,
    observer=_observer,
)

"""A run under a policy in the GPU's driver, as text and static HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic import terminal
from accel_magic.quantities import NOTHING, duration_text, exact_text
from accel_magic.views.element import element_html
from accel_magic.views.headline import Note
from accel_magic.views.tables import FormattedTable, aligned

if TYPE_CHECKING:
    from accel_magic.policies.driver_engine import DriverRun, MapState

UNKNOWN: Final = "not modelled: the driver reports no hits, faults, misses or evictions, so there are none here"
_IN_MAPS: Final = "the policy's maps hold what it counted"
_NO_MAPS: Final = "the policy has no maps, so it counted nothing"
_OUTCOMES: Final = {"error": "the code failed", "interrupted": "interrupted"}
_HEADS: Final = ("map", "elements before", "after", "changed")


def text(run: DriverRun) -> str:
    """Headline, notes, then a row per map."""
    head = ", ".join(note.text for note in _headline(run))
    return terminal.page([head, *_remarks(run), *(["", *aligned(_table(run))] if run.after else [])])


def html(run: DriverRun) -> str:
    """The same as one self-contained element."""
    tables = [("", _table(run))] if run.after else []
    return element_html(tables, _headline(run), notes=_remarks(run))


def _headline(run: DriverRun) -> tuple[Note, ...]:
    outcome = _OUTCOMES.get(run.outcome)
    return (
        Note(f"policy {run.policy}"),
        Note(f"engine: driver, attached to {run.module}"),
        Note(duration_text(run.duration_ns), hint="measured: the time of the code"),
        *([Note(outcome, alarm=True)] if outcome else []),
    )


def _remarks(run: DriverRun) -> list[str]:
    lints = len(run.lints)
    return [
        f"{UNKNOWN}; {_IN_MAPS if run.after else _NO_MAPS}",
        *run.notes,
        *([f"policy's code: {lints} remark{'s' * (lints > 1)}, see diagnose()"] if lints else []),
    ]


def _table(run: DriverRun) -> FormattedTable:
    before = {state.spec.name: state for state in run.before}
    return FormattedTable(_HEADS, tuple(_row(before.get(state.spec.name), state) for state in run.after), 1)


def _row(before: MapState | None, after: MapState) -> tuple[str, ...]:
    rows = exact_text(len(after.content.keys))
    if before is None:
        return (after.spec.name, NOTHING, rows, NOTHING)
    old, new = _elements(before), _elements(after)
    changed = sum(old.get(key) != new.get(key) for key in old.keys() | new.keys())
    return (after.spec.name, exact_text(len(before.content.keys)), rows, exact_text(changed))


def _elements(state: MapState) -> dict[bytes, bytes]:
    keys, values = state.content.keys, np.ascontiguousarray(state.content.values)
    return {key.tobytes(): value.tobytes() for key, value in zip(keys, values, strict=True)}

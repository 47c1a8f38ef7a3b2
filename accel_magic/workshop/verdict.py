"""What the checks and the progress look like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel_magic import terminal
from accel_magic.workshop.exercises import NAMES, find

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.workshop.attempts import Standing
    from accel_magic.workshop.exercise import Remark


@dataclass(frozen=True)
class Verdict:
    """Result of a check. It is true if the exercise is solved.

    Attributes:
        exercise: Name of the exercise.
        passed: Whether it is solved.
        remarks: A sentence about each answer.
        notes: More sentences: the prediction, what to do next, what to remember.

    """

    exercise: str
    passed: bool
    remarks: tuple[Remark, ...]
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.passed

    @property
    def headline(self) -> str:
        """Number and name of the exercise, and whether it is solved."""
        end = "solved" if self.passed else "not yet"
        return f"Exercise {NAMES.index(self.exercise) + 1} of {len(NAMES)}, {self.exercise}: {end}"

    def __repr__(self) -> str:
        lines = (f"  {'+' if one.right else '-'} {one.sentence}" for one in self.remarks)
        return terminal.page([self.headline, *lines, *(f"  {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        from accel_magic.views.templates import render

        return render("verdict", verdict=self)


@dataclass(frozen=True)
class Progress:
    """Where a student is, as `progress()` shows it.

    Attributes:
        user: The student.
        standings: By exercise.

    """

    user: str
    standings: Mapping[str, Standing]

    def rows(self) -> list[tuple[int, str, str, Standing]]:
        """Number, name, title and standing of each exercise."""
        return [(number, name, find(name).title, self.standings[name]) for number, name in enumerate(NAMES, start=1)]

    def __repr__(self) -> str:
        lines = (
            f"{number:>2} {name:<12} {one.state:<10} {_counts(one)}".rstrip() for number, name, _, one in self.rows()
        )
        return terminal.page([f"Progress of {self.user}", *lines])

    def _repr_html_(self) -> str:
        from accel_magic.views.templates import render

        return render("progress", user=self.user, rows=self.rows(), counts=_counts)


def _counts(standing: Standing) -> str:
    """Checks, hints and minutes in words; '' before it is begun."""
    if standing.minutes is None:
        return ""
    checks = f"{standing.checks} check{'s' * (standing.checks != 1)}"
    hints = f", {standing.hints} hint{'s' * (standing.hints != 1)}" if standing.hints else ""
    return f"{checks}{hints}, {standing.minutes:.0f} min"

"""The lecturer's view of a class: students by exercises, from the files in the class's folder."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic import terminal
from accel_magic.errors import MachineError
from accel_magic.workshop import attempts
from accel_magic.workshop.exercises import NAMES, find

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from accel_magic.workshop.attempts import Standing

_MARKS: Final = {"not begun": ".", "begun": "?", "solved": "+", "shown": "s"}
_MOST_STUCK: Final = 3


@dataclass(frozen=True)
class Board:
    """Standings of a class.

    Attributes:
        standings: By student, then by exercise; students in alphabetical order.
        time: When the files were read, in seconds since the epoch.

    """

    standings: Mapping[str, Mapping[str, Standing]]
    time: float

    def solved(self, exercise: str) -> int:
        """Number of students who solved an exercise without being shown its solution."""
        return sum(one[exercise].state == "solved" for one in self.standings.values())

    def mistakes(self) -> list[tuple[str, str, int, str]]:
        """Mistakes that were recognized: exercise, key, number of students, and the sentence; the most common first."""
        counts: dict[tuple[str, str], int] = {}
        for student in self.standings.values():
            for exercise, standing in student.items():
                for key in standing.wrong:
                    if key in find(exercise).wrong:
                        counts[exercise, key] = counts.get((exercise, key), 0) + 1
        ranked = sorted(counts.items(), key=lambda item: -item[1])[:_MOST_STUCK]
        return [(exercise, key, count, find(exercise).wrong[key]) for (exercise, key), count in ranked]

    def __repr__(self) -> str:
        if not self.standings:
            return "nobody has begun"
        width = max(len(name) for name in self.standings)
        head = " " * width + "".join(f" {number:>2}" for number in range(1, len(NAMES) + 1))
        rows = (
            f"{name:<{width}}" + "".join(f"  {_MARKS[one[exercise].state]}" for exercise in NAMES)
            for name, one in self.standings.items()
        )
        solved = f"{'solved':<{width}}" + "".join(f" {self.solved(exercise):>2}" for exercise in NAMES)
        legend = "+ solved   s solved after its solution was shown   ? begun   . not begun"
        stuck = (f"{count} x {exercise}: {text}" for exercise, _, count, text in self.mistakes())
        clock = time.strftime("%H:%M:%S", time.localtime(self.time))
        return terminal.page([f"{clock}, {len(self.standings)} students", head, *rows, solved, legend, *stuck])

    def html(self) -> str:
        """Return a table with a colored cell per student and exercise, and the most common mistakes."""
        from accel_magic.views.templates import render

        clock = time.strftime("%H:%M:%S", time.localtime(self.time))
        titles = [(number, name, find(name).title) for number, name in enumerate(NAMES, start=1)]
        return render("board", board=self, clock=clock, titles=titles)

    _repr_html_ = html


def read(folder: Path) -> Board:
    """Read the standings of a class.

    Args:
        folder: The folder that `ACCEL_MAGIC_WORKSHOP` named for the class.

    Raises:
        MachineError: It cannot be read.

    """
    everybody = {name: attempts.read(folder, name) for name in attempts.students(folder)}
    standings = {
        student: {exercise: attempts.standing(lines, exercise) for exercise in NAMES}
        for student, lines in everybody.items()
    }
    return Board(standings, time.time())


def clear(folder: Path) -> Path | None:
    """Set the files of a group aside before the next one begins.

    Args:
        folder: The class's folder.

    Returns:
        The new folder within it that has the files; None if there were none.

    Raises:
        MachineError: The folder cannot be read or changed.

    """
    files = [folder / f"{name}{attempts.SUFFIX}" for name in attempts.students(folder)]
    if not files:
        return None
    target = folder / time.strftime("group-%Y%m%d-%H%M%S")
    try:
        target.mkdir()
        for path in files:
            path.rename(target / path.name)
    except OSError as error:
        raise MachineError(
            "the group's progress cannot be set aside",
            why=f"{error.filename}: {error.strerror}",
            fix="run this as the owner of the folder",
            code="workshop.not-owner",
        ) from None
    return target

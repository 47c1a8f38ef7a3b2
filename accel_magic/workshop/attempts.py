"""What students did, as lines of JSON: one file per student in a folder that a class may share."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from accel_magic import directories, foreign_files
from accel_magic.errors import MachineError
from accel_magic.workshop.exercise import seed_of
from accel_magic.workshop.exercises import NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SUFFIX: Final = ".jsonl"
KINDS: Final = ("begin", "check", "hint", "solve", "reset")
_USER: Final = re.compile(r"[^\W_][\w.@+-]{0,63}")
_LARGEST: Final = 1 << 20
"""Bytes of a student's file that are read; what is beyond is ignored."""
_MOST_STUDENTS: Final = 1000


@dataclass(frozen=True)
class Attempt:
    """One line of a student's file.

    Attributes:
        exercise: Name of the exercise.
        kind: `begin`, `check`, `hint`, `solve` (the solution was shown) or `reset`.
        seed: The student's seed.
        passed: Whether a check passed.
        wrong: Keys of the mistakes that a check recognized.
        time: Seconds since the epoch.

    """

    exercise: str
    kind: str
    seed: int
    passed: bool = False
    wrong: tuple[str, ...] = ()
    time: float = 0.0


@dataclass(frozen=True)
class Standing:
    """Where a student is with one exercise.

    Attributes:
        state: `not begun`, `begun`, `solved`, or `shown` (solved after its solution was shown).
        checks: Number of checks until it was solved.
        hints: Number of hints shown.
        minutes: From its beginning until it was solved, or until the last line; None if not begun.
        wrong: Keys of mistakes that were recognized, in order, without repetitions.

    """

    state: str = "not begun"
    checks: int = 0
    hints: int = 0
    minutes: float | None = None
    wrong: tuple[str, ...] = ()


def file_stem(user: str) -> str:
    """Return a user's name as the name of a file: other characters than in most user names are replaced."""
    name = re.sub(r"[^\w.@+-]", "_", user)[:64]
    return name if _USER.fullmatch(name) else f"u{name}"[:64]


def append(folder: Path, user: str, attempt: Attempt) -> None:
    """Add a line to a student's file; the time is set to now.

    Raises:
        MachineError: The file cannot be written.

    """
    path = folder / f"{file_stem(user)}{SUFFIX}"
    line = json.dumps({**asdict(attempt), "time": round(time.time(), 3)}) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        flags = directories.flags("WRONLY", "APPEND", "CREAT", "NOFOLLOW", "NONBLOCK", "CLOEXEC")
        descriptor = os.open(path, flags, 0o644)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            file.write(line.encode())
    except OSError as error:
        raise MachineError(
            f"the progress of {user} cannot be saved",
            why=f"{path}: {error.strerror}",
            fix="set ACCEL_MAGIC_WORKSHOP to a folder that you can write to",
            code="workshop.no-folder",
        ) from None


def read(folder: Path, user: str) -> list[Attempt]:
    """Return a student's lines in order. Lines that are not valid, or have another student's seed, are left out."""
    path = folder / f"{file_stem(user)}{SUFFIX}"
    try:
        with foreign_files.opened(path, follow=False) as file:
            content = file.read(_LARGEST) or b""
    except OSError:
        return []
    return [one for one in _parsed(content.decode("utf-8", "replace")) if one.seed == seed_of(user)]


def students(folder: Path) -> list[str]:
    """Names of the students that have a file in a folder, sorted, at most 1,000.

    Raises:
        MachineError: The folder cannot be read.

    """
    try:
        names = sorted(path.name.removesuffix(SUFFIX) for path in folder.iterdir() if path.name.endswith(SUFFIX))
    except OSError as error:
        raise MachineError(
            "the progress of the class cannot be read",
            why=f"{folder}: {error.strerror}",
            fix="name the folder that ACCEL_MAGIC_WORKSHOP was set to for the class",
            code="workshop.no-class",
        ) from None
    return [name for name in names if _USER.fullmatch(name)][:_MOST_STUDENTS]


def standing(attempts: list[Attempt], exercise: str) -> Standing:
    """Return where a student is with an exercise; what was before the last reset does not count."""
    mine = [one for one in attempts if one.exercise == exercise]
    resets = [at for at, one in enumerate(mine) if one.kind == "reset"]
    mine = mine[resets[-1] + 1 :] if resets else mine
    if not mine:
        return Standing()
    solved = next((at for at, one in enumerate(mine) if one.passed), None)
    until = mine if solved is None else mine[: solved + 1]
    shown = any(one.kind == "solve" for one in until)
    return Standing(
        state="begun" if solved is None else "shown" if shown else "solved",
        checks=sum(one.kind == "check" for one in until),
        hints=sum(one.kind == "hint" for one in until),
        minutes=max(0.0, until[-1].time - mine[0].time) / 60,
        wrong=tuple(dict.fromkeys(key for one in until for key in one.wrong)),
    )


def _parsed(text: str) -> Iterator[Attempt]:
    for line in text.splitlines():
        with contextlib.suppress(ValueError, TypeError, KeyError):
            yield _attempt(json.loads(line))


def _attempt(values: dict[str, object]) -> Attempt:
    """Make an attempt of a line that anybody may have written."""
    exercise, kind, wrong = values["exercise"], values["kind"], values.get("wrong", ())
    if exercise not in NAMES or kind not in KINDS or not isinstance(wrong, list):
        raise ValueError(kind)
    return Attempt(
        str(exercise),
        str(kind),
        seed=int(str(values["seed"])),
        passed=values.get("passed") is True,
        wrong=tuple(str(key)[:40] for key in wrong[:10]),
        time=float(str(values["time"])),
    )

"""The student's side: begin an exercise, predict, check, ask for hints, see the progress."""

from __future__ import annotations

import getpass
import json
import os
import sys
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from accel_magic import foreign_files
from accel_magic.errors import MachineError, ProbeError
from accel_magic.lab import CLASS_FOLDER
from accel_magic.workshop import attempts, material
from accel_magic.workshop.attempts import Attempt
from accel_magic.workshop.exercise import BadAnswerError, Remark, seed_of
from accel_magic.workshop.exercises import NAMES, find
from accel_magic.workshop.verdict import Progress, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.workshop.exercise import Exercise

FOLDER: Final = CLASS_FOLDER
"""Environment variable: the folder with the class's progress; without it, `progress` in the working folder."""
USER: Final = "ACCEL_MAGIC_WORKSHOP_USER"
"""Environment variable: the student's name; without it, JupyterHub's or the system's name."""
RUNS: Final = "runs"
"""Folder in the working folder: what each solved exercise was judged by, and its traces, to hand in."""
_CHECKS_BEFORE_HINT: Final = 2
_LARGEST_RUN: Final = 1 << 20
_TRACED: Final = ("KTrace", "Flame")
_HAND_EDITED: Final = "delete the folder runs, and run the notebook again from its first cell"


@dataclass
class Begun:
    """An exercise that a student has begun.

    Attributes:
        exercise: The exercise.
        played: Name of the student whose recorded run is played; "" for a recording of ours; None if live.
        prediction: What was predicted; None without one.
        failed: Number of checks that did not pass.
        hints: Number of hints shown.

    """

    exercise: Exercise
    played: str | None = None
    prediction: object = None
    failed: int = 0
    hints: int = 0


@dataclass
class Session:
    """This process's exercises, by name."""

    begun: dict[str, Begun] = field(default_factory=dict)


_session = Session()


def user() -> str:
    """Name of the student, as in the names of files: from the workshop's variable, JupyterHub, or the system."""
    for variable in (USER, "JUPYTERHUB_USER"):
        if name := os.environ.get(variable):
            return attempts.file_stem(name)
    try:
        return attempts.file_stem(getpass.getuser())
    except (OSError, KeyError):  # the system has no name for this user
        return f"user-{os.getuid()}"


def folder() -> Path:
    """Folder with the progress of the class."""
    return Path(os.environ.get(FOLDER) or "progress")


def begin(which: str | int) -> Exercise:
    """Begin an exercise, and say whether its traced cells run here or play recordings.

    Args:
        which: Its name or number.

    Returns:
        The exercise, with its workload.

    Raises:
        ProbeError: There is no such exercise.
        MachineError: The progress cannot be saved, or the run to play is damaged.

    """
    one = find(which)
    handed_in = _handed_in(one.name)
    if handed_in is not None and handed_in["user"] != user():
        begun = Begun(one(handed_in["seed"]), played=handed_in["user"])
        begun.exercise.truth = handed_in["truth"]
        _play(Path(RUNS).absolute() / f"{one.name}{{output}}.parquet")
    else:
        begun = Begun(one(seed_of(user())))
        if not _is_live(one.needs):
            begun.played = ""
            begun.exercise.truth = _recorded_truth(begun.exercise)
            _play(material.recordings() / f"{one.name}_{begun.exercise.variant}{{output}}.parquet")
        else:
            _play(None)
    _session.begun[one.name] = begun
    _note(begun, "begin")
    print(f"Exercise {one.number} of {len(NAMES)} ({one.name}), {one.minutes} minutes, for {user()}")
    print(_where(begun))
    return begun.exercise


def predict(which: str | int, value: object) -> None:
    """Note a prediction. It counts only before the exercise has run, and only the first one.

    Args:
        which: The exercise's name or number.
        value: What is predicted.

    """
    begun = _begun(which)
    name = begun.exercise.name
    if value is None or value is ...:
        print("Replace the dots by a number: a guess is enough.")
    elif begun.prediction is not None:
        print(f"Your prediction stays {begun.prediction}: the first one counts.")
    elif _has_run(begun):
        print(f"Too late: {name} has run. To predict again, restart the Jupyter kernel.")
    else:
        begun.prediction = value
        print(f"Noted: you predict {value}.")


def check(which: str | int, *, seed: int | None = None, **answers: object) -> Verdict:
    """Compare a student's answers with the truth.

    Args:
        which: The exercise's name or number.
        seed: Check with the parameters of this seed instead of the student's; for exercises whose answer is code.
        answers: Answers by name; those that are missing are read from the notebook's variables.

    Returns:
        The verdict, which is true if the exercise is solved; it is also noted in the progress.

    Raises:
        ProbeError: There is no such exercise, or it has no answer of that name.
        MachineError: The progress cannot be saved, or the run that is played is damaged.

    """
    begun = _begun(which)
    exercise = begun.exercise if seed is None else find(which)(seed)
    for name in answers.keys() - exercise.answers.keys():
        raise ProbeError(
            f"exercise {exercise.name} has no answer {name!r}",
            fix=f"use {', '.join(exercise.answers)}",
            code="workshop.unknown-answer",
        )
    given = {name: answers.get(name, _variables().get(name)) for name in exercise.answers}
    try:
        remarks = _judged(exercise, given)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if not begun.played:
            raise
        raise _damaged(Path(RUNS, f"{exercise.name}.json"), f"its truth lacks something: {error!r}") from None
    passed = all(one.right for one in remarks)
    wrong = tuple(one.wrong for one in remarks if one.wrong)
    if seed is None:
        begun.failed += not passed
        _note(begun, "check", passed=passed, wrong=wrong)
        if passed and not begun.played:
            _save_run(begun)
    return Verdict(exercise.name, passed, tuple(remarks), tuple(_notes(begun, passed=passed)))


def hint(which: str | int) -> None:
    """Print the next hint of an exercise; after the last one, all of them."""
    begun = _begun(which)
    exercise = begun.exercise
    _note(begun, "hint")
    begun.hints += 1
    if begun.hints <= len(exercise.hints):
        print(f"Hint {begun.hints} of {len(exercise.hints)}: {exercise.hints[begun.hints - 1]}")
    else:
        print("\n".join(("These are all the hints:", *exercise.hints, f'The solution: solve("{exercise.name}")')))


def solve(which: str | int) -> None:
    """Print the solution of an exercise. The progress shows that it was shown."""
    begun = _begun(which)
    _note(begun, "solve")
    print("\n\n".join(material.solution_code(begun.exercise.name)))


def reset(which: str | int | None = None) -> None:
    """Forget predictions, checks and hints of one exercise, or of all.

    A lab's notebook has a new machine after its Jupyter kernel is restarted.
    """
    for name in NAMES if which is None else (find(which).name,):
        _session.begun.pop(name, None)
        if attempts.standing(attempts.read(folder(), user()), name).minutes is not None:
            attempts.append(folder(), user(), Attempt(name, "reset", seed_of(user())))
        for path in Path(RUNS).glob(f"{name}[-.]*"):
            path.unlink()
    print("Begin again: run the notebook from its first cell.")


def progress() -> Progress:
    """Where this student is with all exercises."""
    lines = attempts.read(folder(), user())
    return Progress(user(), {name: attempts.standing(lines, name) for name in NAMES})


def _begun(which: str | int) -> Begun:
    name = find(which).name
    if name not in _session.begun:
        begin(name)
    return _session.begun[name]


def _note(begun: Begun, kind: str, *, passed: bool = False, wrong: tuple[str, ...] = ()) -> None:
    """Add a line to the student's progress, unless another student's run is played."""
    if not begun.played:
        exercise = begun.exercise
        attempts.append(folder(), user(), Attempt(exercise.name, kind, exercise.seed, passed, wrong))


def _judged(exercise: Exercise, given: Mapping[str, Any]) -> list[Remark]:
    missing = [name for name, value in given.items() if value is None or value is ...]
    if not exercise.ran():
        return [Remark("", False, "Nothing to compare with yet: run the cells above first.")]
    if missing:
        return [Remark(name, False, f"`{name}` is not set: {exercise.answers[name]}.") for name in missing]
    try:
        return exercise.judge(given)
    except BadAnswerError as error:
        return [error.remark]


def _notes(begun: Begun, *, passed: bool) -> list[str]:
    exercise = begun.exercise
    if passed:
        predicted = [f"You predicted {begun.prediction}."] if begun.prediction is not None else []
        return [*predicted, f"To remember: {exercise.takeaway}"]
    if begun.failed >= _CHECKS_BEFORE_HINT and begun.hints < len(exercise.hints):
        return [f'A hint: `hint("{exercise.name}")`.']
    return []


def _where(begun: Begun) -> str:
    if begun.played is None:
        return "LIVE: everything below runs here, now."
    if begun.played:
        how = "runs again" if begun.exercise.needs == "nothing" else "is played by the traced cells below"
        return f"REPLAY: what {begun.played} handed in {how}."
    why, instead = {
        "lab": ("this is not the NPU lab", "choose the Jupyter kernel Python 3 (NPU lab)"),
        "openvino": ("OpenVINO is not installed, or this is not Linux", "pip install openvino"),
        "bpf": ("nothing can be traced here", "%accel_doctor shows what is missing"),
    }[begun.exercise.needs]
    return f"REPLAY: {why}, so traced cells below play recordings.\nTo run it live: {instead}"


def _is_live(needs: str) -> bool:
    """Whether an exercise's traced cells can run on this machine."""
    if needs == "nothing":
        return True
    if needs == "lab":
        return "ACCEL_MAGIC_LAB" in os.environ
    if needs == "openvino":  # reading its own marks needs no privilege
        return sys.platform == "linux" and find_spec("openvino") is not None
    from accel_magic.api import doctor

    return doctor.report().exit_status == 0


def _play(recording: Path | None) -> None:
    """Make traced cells play recordings; None: trace."""
    if (shell := _shell()) is not None:
        for magic in _TRACED:
            shell.run_line_magic("config", f"{magic}.replay = {'' if recording is None else str(recording)!r}")


def _recorded_truth(exercise: Exercise) -> dict[str, Any]:
    path = material.recordings() / f"{exercise.name}_{exercise.variant}.json"
    truth: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return truth


def _handed_in(name: str) -> dict[str, Any] | None:
    """Return the run of an exercise in the working folder, which may be another student's; None without one.

    Raises:
        MachineError: It is damaged.

    """
    path = Path(RUNS, f"{name}.json")
    try:
        with foreign_files.opened(path, follow=False) as file:
            run = json.loads(file.read(_LARGEST_RUN) or b"")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _damaged(path, str(error)) from None
    expected = {"user": str, "seed": int, "truth": dict}
    if not isinstance(run, dict) or any(not isinstance(run.get(key), kind) for key, kind in expected.items()):
        raise _damaged(path, "it lacks a user, a seed or a truth")
    return run


def _damaged(path: Path, why: str) -> MachineError:
    return MachineError(f"{path} is not a run of this workshop", why=why, fix=_HAND_EDITED, code="workshop.damaged-run")


def _save_run(begun: Begun) -> None:
    """Save what an exercise was judged by, and its traces, so that it can be handed in and judged again."""
    exercise = begun.exercise
    from accel_magic.result_bases.base import Result

    target = Path(RUNS)
    try:
        target.mkdir(exist_ok=True)
        run = {"user": user(), "seed": exercise.seed, "truth": exercise.truth}
        Path(target, f"{exercise.name}.json").write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        print(f"The run cannot be saved to hand it in: {error}")
        return
    for name in exercise.traces:
        result = _variables().get(name)
        if isinstance(result, Result):  # what else the student put there is not handed in
            result.to_parquet(target / f"{exercise.name}-{name}.parquet")


def _has_run(begun: Begun) -> bool:
    """Whether a student has seen what an exercise does."""
    if begun.exercise.traces:
        return any(name in _variables() for name in begun.exercise.traces)
    return begun.exercise.ran()


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def _variables() -> Mapping[str, Any]:
    """The notebook's variables; without a notebook, none."""
    shell = _shell()
    variables: Mapping[str, Any] = shell.user_ns if shell is not None else {}
    return variables

"""The student's side, with an exercise that needs nothing: begin, predict, check, hint, solve, reset, hand in."""

from __future__ import annotations

import json
import zipfile
from typing import ClassVar

import pytest

from accel_magic.errors import MachineError, ProbeError
from accel_magic.workshop import (
    attempts,
    begin,
    check,
    exercises,
    hand_in,
    hint,
    predict,
    progress,
    reset,
    session,
    solve,
)
from accel_magic.workshop.exercise import Exercise, Remark, number, seed_of, text
from tests.support.errors import raises


class Sum(Exercise):
    """Takes the place of the first exercise."""

    number = 1
    name = "jobs"
    title = "A sum"
    minutes = 1
    needs = "nothing"
    answers: ClassVar = {"total": "the sum", "word": "a word"}
    hints = ("add", "carry")
    takeaway = "sums are easy"
    wrong: ClassVar = {"double": "that is twice as much"}

    def run(self):
        self.truth = {"total": self.random.randint(10, 99)}

    def judge(self, answers):
        value = number(answers, "total")
        word = text(answers, "word")
        remark = Remark("word", word == "sum", f"`word` is {word}")
        if value == 2 * self.truth["total"]:
            return [self.mistake("total", "double"), remark]
        return [Remark("total", value == self.truth["total"], f"`total` is {value:g}"), remark]


@pytest.fixture(autouse=True)
def _student(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(session.USER, "alice")
    monkeypatch.delenv(session.FOLDER, raising=False)
    monkeypatch.setattr(session, "_session", session.Session())
    real = exercises.find
    monkeypatch.setattr(session, "find", lambda which: Sum if which in (1, "jobs") else real(which))


def standing(user="alice"):
    from pathlib import Path

    return attempts.standing(attempts.read(Path("progress"), user), "jobs")


def solved():
    exercise = begin("jobs")
    exercise.run()
    return exercise, exercise.truth["total"]


def test_a_right_answer_solves_the_exercise(capsys):
    _, total = solved()

    verdict = check("jobs", total=total, word="sum")

    assert verdict
    assert "Exercise 1 of 10, jobs: solved" in repr(verdict)
    assert "sums are easy" in repr(verdict)
    assert "LIVE" in capsys.readouterr().out
    assert standing().state == "solved"
    assert "solved" in repr(progress())
    assert json.loads(open("runs/jobs.json").read())["truth"] == {"total": total}  # noqa: PTH123, SIM115


def test_a_recognized_mistake_has_its_own_sentence():
    _, total = solved()

    verdict = check("jobs", total=2 * total, word="sum")

    assert not verdict
    assert "that is twice as much" in repr(verdict)
    assert "that is twice as much" in verdict._repr_html_()
    assert "sums are easy" not in repr(verdict)
    assert standing().wrong == ("double",)
    assert standing().state == "begun"


@pytest.mark.parametrize(
    ("total", "sentence"),
    [
        (None, "`total` is not set: the sum"),
        (..., "`total` is not set: the sum"),
        ("12", "should be a number, and is a `str`"),
        (True, "should be a number, and is a `bool`"),
        (float("nan"), "should be a number, and is nan"),
        ([], "should be a number, and is a `list`"),
    ],
)
def test_what_is_not_an_answer_says_so(total, sentence):
    solved()

    assert sentence in repr(check("jobs", total=total, word="sum"))


def test_nothing_is_judged_before_the_exercise_has_run():
    begin("jobs")

    assert "run the cells above first" in repr(check("jobs", total=1, word="sum"))


def test_neighbors_have_other_answers(monkeypatch):
    totals = set()
    for user in ("alice", "bob", "carol", "dave", "erin"):
        monkeypatch.setenv(session.USER, user)
        totals.add(solved()[1])

    assert len(totals) > 1


def test_hidden_tests_use_another_seed_and_are_not_noted():
    _, total = solved()

    assert not check("jobs", seed=12345, total=total, word="sum")
    assert standing().checks == 0


def test_the_first_prediction_before_the_run_counts(capsys):
    exercise = begin("jobs")
    predict("jobs", ...)
    predict("jobs", 5)
    predict("jobs", 6)
    exercise.run()
    verdict = check("jobs", total=exercise.truth["total"], word="sum")

    printed = capsys.readouterr().out
    assert "a guess is enough" in printed
    assert "you predict 5" in printed
    assert "Your prediction stays 5" in printed
    assert "You predicted 5." in repr(verdict)


def test_a_prediction_after_the_run_is_too_late(capsys):
    solved()
    predict("jobs", 5)

    assert "Too late" in capsys.readouterr().out


def test_hints_come_one_by_one_and_failing_twice_offers_one(capsys):
    solved()

    assert "A hint" not in repr(check("jobs", total=1, word="sum"))
    assert 'A hint: `hint("jobs")`' in repr(check("jobs", total=1, word="sum"))
    for _ in range(3):
        hint("jobs")
    printed = capsys.readouterr().out
    assert "Hint 1 of 2: add" in printed
    assert "Hint 2 of 2: carry" in printed
    assert "These are all the hints" in printed
    assert standing().hints == 3


def test_a_shown_solution_is_noted(capsys):
    _, total = solved()
    solve("jobs")

    assert "ivpu_bo_create_ioctl" in capsys.readouterr().out  # the real first exercise's
    assert check("jobs", total=total, word="sum")
    assert standing().state == "shown"


def test_a_reset_begins_anew():
    _, total = solved()
    check("jobs", total=total, word="sum")
    reset("jobs")

    assert standing().state == "not begun"
    assert not check("jobs", total=total, word="sum")


def test_another_students_run_is_judged_by_its_own_truth_and_not_noted(monkeypatch, capsys):
    _, total = solved()
    check("jobs", total=total, word="sum")
    monkeypatch.setenv(session.USER, "lecturer")
    monkeypatch.setattr(session, "_session", session.Session())

    begin("jobs")

    assert "what alice handed in runs again" in capsys.readouterr().out
    assert check("jobs", total=total, word="sum")
    assert standing("lecturer").state == "not begun"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"user": "a"}', '{"user": 1, "seed": 2, "truth": {}}'])
def test_a_damaged_run_is_an_error_with_a_fix(tmp_path, content):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/jobs.json").write_text(content)

    with raises("workshop.damaged-run", MachineError):
        begin("jobs")


def test_a_truth_that_was_edited_is_an_error_with_a_fix(monkeypatch, tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/jobs.json").write_text('{"user": "bob", "seed": 2, "truth": {"sum": 1}}')
    begin("jobs")

    with raises("workshop.damaged-run", MachineError):
        check("jobs", total=1, word="sum")


def test_what_is_handed_in_has_notebook_and_run(tmp_path):
    _, total = solved()
    check("jobs", total=total, word="sum")
    (tmp_path / "01_jobs.ipynb").write_text("{}")

    (packed,) = hand_in.pack(tmp_path, tmp_path / "out")

    assert packed.name == "alice-jobs.zip"
    with zipfile.ZipFile(packed) as archive:
        assert archive.namelist() == ["01_jobs.ipynb", "runs/jobs.json"]
        assert json.loads(archive.read("01_jobs.ipynb"))["metadata"]["kernelspec"]["name"] == "python3"


def test_nothing_to_hand_in_is_an_error(tmp_path):
    with raises("workshop.nothing-to-hand-in", MachineError):
        hand_in.pack(tmp_path, tmp_path / "out")


@pytest.mark.parametrize("content", [None, "", "[]", "{"])
def test_a_missing_or_damaged_notebook_is_an_error(tmp_path, content):
    _, total = solved()
    check("jobs", total=total, word="sum")
    if content is not None:
        (tmp_path / "01_jobs.ipynb").write_text(content)

    with raises("workshop.not-packed", MachineError):
        hand_in.pack(tmp_path, tmp_path / "out")


def test_unknown_exercises_and_answers_are_errors():
    with raises("workshop.unknown-exercise", ProbeError):
        begin("none")
    with raises("workshop.unknown-exercise", ProbeError):
        check(11)
    solved()
    with raises("workshop.unknown-answer", ProbeError):
        check("jobs", sum=3)


def test_every_exercise_is_complete():
    for place, name in enumerate(exercises.NAMES, start=1):
        exercise = exercises.find(name)
        assert (exercise.number, exercise.name) == (place, name)
        assert exercise is exercises.find(place)
        assert exercise.needs in ("lab", "openvino", "bpf", "nothing")
        assert len(exercise.wrong) >= 3
        assert len(set(exercise.wrong.values())) == len(exercise.wrong)
        assert len(exercise.hints) >= 2
        assert 5 <= exercise.minutes <= 15
        assert exercise.title
        assert exercise.takeaway


def test_seeds_are_the_same_everywhere():
    assert seed_of("alice") == 735577801

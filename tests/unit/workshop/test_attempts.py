"""Students' files: what is written, what of it counts, and what strangers may have put there."""

from __future__ import annotations

import json
import os

import pytest

from accel_magic.errors import MachineError
from accel_magic.workshop import attempts, board
from accel_magic.workshop.attempts import Attempt
from accel_magic.workshop.exercise import seed_of
from tests.support.errors import raises

ALICE = seed_of("alice")


def lines(*kinds, exercise="jobs", seed=ALICE):
    """Attempts of these kinds, one per minute; `pass` is a check that passes."""
    return [
        Attempt(exercise, "check" if kind == "pass" else kind, seed, passed=kind == "pass", time=60.0 * at)
        for at, kind in enumerate(kinds)
    ]


@pytest.mark.parametrize(
    ("kinds", "state", "checks", "hints", "minutes"),
    [
        ((), "not begun", 0, 0, None),
        (("begin",), "begun", 0, 0, 0),
        (("begin", "check", "hint", "check"), "begun", 2, 1, 3),
        (("begin", "check", "pass", "hint", "check"), "solved", 2, 0, 2),
        (("begin", "solve", "pass"), "shown", 1, 0, 2),
        (("begin", "pass", "solve"), "solved", 1, 0, 1),
        (("begin", "pass", "reset"), "not begun", 0, 0, None),
        (("begin", "solve", "reset", "begin", "pass"), "solved", 1, 0, 1),
    ],
)
def test_a_standing_is_what_happened_since_the_last_reset(kinds, state, checks, hints, minutes):
    standing = attempts.standing([*lines(*kinds), *lines("begin", "pass", exercise="waits")], "jobs")

    assert (standing.state, standing.checks, standing.hints, standing.minutes) == (state, checks, hints, minutes)


def test_what_is_written_is_read(tmp_path):
    for one in lines("begin", "check", "pass"):
        attempts.append(tmp_path / "class", "alice", one)

    read = attempts.read(tmp_path / "class", "alice")
    assert [(one.kind, one.passed) for one in read] == [("begin", False), ("check", False), ("check", True)]
    assert attempts.students(tmp_path / "class") == ["alice"]


def test_lines_with_another_students_seed_do_not_count(tmp_path):
    attempts.append(tmp_path, "bob", Attempt("jobs", "check", ALICE, passed=True))

    assert attempts.read(tmp_path, "bob") == []


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "null",
        '"text"',
        json.dumps({"exercise": "jobs", "kind": "check"}),
        json.dumps({"exercise": "none", "kind": "check", "seed": ALICE, "time": 1}),
        json.dumps({"exercise": "jobs", "kind": "rm", "seed": ALICE, "time": 1}),
        json.dumps({"exercise": ["jobs"], "kind": "check", "seed": ALICE, "time": 1}),
        json.dumps({"exercise": "jobs", "kind": "check", "seed": "x", "time": 1}),
        json.dumps({"exercise": "jobs", "kind": "check", "seed": ALICE, "time": {}}),
        json.dumps({"exercise": "jobs", "kind": "check", "seed": ALICE, "time": 1, "wrong": "all"}),
        "\udcff",
    ],
)
def test_lines_that_are_not_ours_are_left_out(tmp_path, line):
    attempts.append(tmp_path, "alice", lines("begin")[0])
    with (tmp_path / "alice.jsonl").open("ab") as file:
        file.write(line.encode("utf-8", "surrogateescape") + b"\n")
    attempts.append(tmp_path, "alice", lines("pass")[0])

    assert [one.kind for one in attempts.read(tmp_path, "alice")] == ["begin", "check"]


def test_files_that_are_not_files_are_not_opened(tmp_path):
    os.mkfifo(tmp_path / "alice.jsonl")
    (tmp_path / "bob.jsonl").symlink_to("/etc/passwd")

    assert attempts.read(tmp_path, "alice") == attempts.read(tmp_path, "bob") == []
    for name in ("alice", "bob"):
        with raises("workshop.no-folder", MachineError):
            attempts.append(tmp_path, name, lines("begin")[0])
    rows = [line.split() for line in repr(board.read(tmp_path)).splitlines()]
    assert ["alice", *["."] * 10] in rows
    assert ["bob", *["."] * 10] in rows


@pytest.mark.parametrize("user", ["../../etc/cron", "a/b", ".hidden", "-rf", "ünï\x1b[2J", "", "x" * 300])
def test_any_name_of_a_user_is_a_safe_file_name(tmp_path, user):
    attempts.append(tmp_path / "class", user, lines("begin")[0])

    (path,) = (tmp_path / "class").iterdir()
    assert [path.name.removesuffix(".jsonl")] == attempts.students(tmp_path / "class")
    assert path.name.isprintable()


def test_a_board_shows_the_class_and_its_mistakes(tmp_path):
    for user, exercise in (("alice", "jobs"), ("bob", "jobs"), ("bob", "waits")):
        attempts.append(tmp_path, user, Attempt(exercise, "begin", seed_of(user)))
    attempts.append(tmp_path, "alice", Attempt("jobs", "check", ALICE, wrong=("all-hits",)))
    attempts.append(tmp_path, "bob", Attempt("jobs", "check", seed_of("bob"), wrong=("all-hits", "invented")))
    attempts.append(tmp_path, "bob", Attempt("jobs", "check", seed_of("bob"), passed=True))

    shown = board.read(tmp_path)

    rows = [line.split() for line in repr(shown).splitlines()]
    assert ["alice", "?", *["."] * 9] in rows
    assert ["bob", "+", *["."] * 5, "?", *["."] * 3] in rows
    assert ["solved", "1", *["0"] * 9] in rows
    assert [(exercise, key, count) for exercise, key, count, _ in shown.mistakes()] == [("jobs", "all-hits", 2)]
    assert "calls of all functions together" in shown.html()
    assert "alice" in shown.html()


def test_a_groups_files_are_set_aside_for_the_next_group(tmp_path):
    attempts.append(tmp_path, "alice", lines("begin")[0])

    target = board.clear(tmp_path)

    assert [path.name for path in target.iterdir()] == ["alice.jsonl"]
    assert board.clear(tmp_path) is None
    assert repr(board.read(tmp_path)) == "nobody has begun"


def test_a_class_without_a_folder_is_an_error(tmp_path):
    with raises("workshop.no-class", MachineError):
        board.read(tmp_path / "none")

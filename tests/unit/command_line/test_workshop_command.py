"""`accel-magic workshop` from the outside."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from accel_magic.command_line import main
from accel_magic.workshop import attempts, exercises, lecture, material, rehearsal
from accel_magic.workshop.attempts import Attempt
from accel_magic.workshop.exercise import seed_of
from accel_magic.workshop.rehearsal import Rehearsed


def test_notebooks_are_written_and_listed(tmp_path, capsys):
    assert main(["workshop", "notebooks", str(tmp_path / "class")]) == 0

    printed = capsys.readouterr().out.splitlines()
    assert printed == [str(tmp_path / "class" / material.file_name(name)) for name in exercises.NAMES]
    assert main(["workshop", "notebooks", str(tmp_path / "class")]) == 0
    assert "nothing was written" in capsys.readouterr().out
    assert "SOLUTION" not in "".join(json.loads(Path(printed[0]).read_text("utf-8"))["cells"][3]["source"])


def test_handouts_are_two_pages_of_html_without_network(tmp_path, capsys):
    assert main(["workshop", "handouts", str(tmp_path)]) == 0

    assert capsys.readouterr().out.split() == [str(tmp_path / name) for name in ("slides.html", "handout.html")]
    slides, handout = ((tmp_path / name).read_text() for name in ("slides.html", "handout.html"))
    assert slides.count("<section>") == len(lecture.slides()) == 10
    for content in (slides, handout):
        assert "http" not in content
        assert all(exercises.find(name).title in content for name in exercises.NAMES)
    takeaways = [exercises.find(name).takeaway.split("`")[0] for name in exercises.NAMES]
    assert not any(takeaway in handout for takeaway in takeaways)  # students have it from the beginning


def test_the_board_is_printed_or_written(tmp_path, capsys):
    attempts.append(tmp_path / "class", "alice", Attempt("jobs", "check", seed_of("alice"), passed=True))

    assert main(["workshop", "board", str(tmp_path / "class"), "--once"]) == 0
    assert re.search(r"^alice +\+", capsys.readouterr().out, re.MULTILINE)
    page = tmp_path / "board.html"
    assert main(["workshop", "board", str(tmp_path / "class"), "--once", "--html", str(page)]) == 0
    assert "alice" in page.read_text()
    assert 'http-equiv="refresh"' in page.read_text()


def test_a_group_is_set_aside(tmp_path, capsys):
    attempts.append(tmp_path, "alice", Attempt("jobs", "begin", seed_of("alice")))

    assert main(["workshop", "reset", str(tmp_path)]) == 0
    assert str(tmp_path / "group-") in capsys.readouterr().out
    assert main(["workshop", "reset", str(tmp_path)]) == 0
    assert "nobody has begun" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["board", "{none}", "--once"], "workshop.no-class"),
        (["reset", "{none}"], "workshop.no-class"),
        (["hand-in", "{none}"], "workshop.nothing-to-hand-in"),
        (["doctor", "--exercises", "99"], "workshop.unknown-exercise"),
        (["doctor", "--exercises", ","], "workshop.unknown-exercise"),
    ],
)
def test_what_cannot_be_done_says_why(tmp_path, capsys, arguments, code):
    filled = [argument.format(none=tmp_path / "none") for argument in arguments]

    assert main(["workshop", *filled]) != 0
    assert f"code: {code}" in capsys.readouterr().err


@pytest.mark.parametrize("users", ["0", "-1", "x", "101"])
def test_a_number_of_users_is_checked(capsys, users):
    with pytest.raises(SystemExit):
        main(["workshop", "doctor", "--users", users])

    assert "use a number from 1 to 100" in capsys.readouterr().err


@pytest.mark.parametrize(("passed", "status"), [(3, 0), (2, 1)])
def test_a_rehearsal_is_a_table_and_fails_if_a_check_does(monkeypatch, capsys, passed, status):
    asked = []

    def rehearse(names, students):
        asked.append((names, students))
        yield Rehearsed("eviction", students, passed, 3, 12.3, "" if passed == students else "its check failed")

    monkeypatch.setattr(rehearsal, "rehearse", rehearse)

    assert main(["workshop", "doctor", "--users", "3", "--exercises", "10"]) == status
    printed = capsys.readouterr().out
    assert asked == [(["eviction"], 3)]
    assert re.search(rf"^10 eviction +{passed}/3 +3/3 +12.3 s$", printed, re.MULTILINE)
    assert ("its check failed" in printed) == bool(status)

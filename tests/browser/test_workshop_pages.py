"""The lecturer's pages of the workshop in a browser: the board of a class, slides."""

from __future__ import annotations

import random

import pytest

from accel_magic.workshop import attempts, board, exercises, lecture
from accel_magic.workshop.attempts import Attempt
from accel_magic.workshop.exercise import seed_of
from tests.browser import saved_page
from tests.browser.conftest import SCREENSHOTS


@pytest.fixture
def a_class(tmp_path):
    """The folder of a class of twelve, after half an hour; made up."""
    chance = random.Random(1)
    for user in ("ana", "ben", "chloé", "dora", "emil", "fay", "gus", "hana", "ivo", "jun", "kim", "lea"):
        name = attempts.file_stem(user)

        def note(exercise, kind, name=name, **more):
            attempts.append(tmp_path, name, Attempt(exercise, kind, seed_of(name), **more))

        for exercise in exercises.NAMES[: chance.randint(3, 7)]:
            note(exercise, "begin")
            for key in chance.sample(list(exercises.find(exercise).wrong), chance.randint(0, 2)):
                note(exercise, "check", wrong=(key,))
            if chance.random() < 0.2:
                note(exercise, "solve")
            if chance.random() < 0.8:
                note(exercise, "check", passed=True)
    return tmp_path


def test_the_board_shows_who_is_where(browser, a_class, tmp_path):
    shown = board.read(a_class)

    with saved_page.opened(browser, saved_page.PAGE.format(shown.html()), tmp_path, "board", height=700) as page:
        rows = page.locator("tbody tr")
        assert rows.count() == 13
        texts = [row.split("\t") for row in rows.all_inner_texts()]
        solved = [str(shown.solved(exercise)) for exercise in exercises.NAMES]
        assert texts[-1] == ["solved", *solved]
        assert sum(text.count("✓") for text in map("".join, texts)) == sum(map(int, solved)) > 20
        assert page.locator("li").count() == 3
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        page.locator(".accel-magic-board").screenshot(path=SCREENSHOTS / "workshop-board.png")


def test_arrow_keys_go_through_the_slides(browser, tmp_path):
    slides, _ = lecture.to_html(tmp_path)

    with saved_page.opened(browser, slides.read_text(), tmp_path, "slides", width=1280, height=720) as page:
        at = "() => Math.round(scrollY / innerHeight)"
        for key, place in (("ArrowRight", 1), ("ArrowRight", 2), ("PageDown", 3), ("ArrowLeft", 2)):
            page.keyboard.press(key)
            page.wait_for_function(f"({at})() === {place} && scrollY % innerHeight === 0")
        for number in range(10):
            section = page.locator("section").nth(number)
            assert section.evaluate("(one) => one.scrollHeight <= innerHeight")  # nothing is below the edge

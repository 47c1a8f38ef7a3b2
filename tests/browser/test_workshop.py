"""An exercise of the workshop in JupyterLab: checks and progress."""

from __future__ import annotations

from accel_magic.workshop import exercises, material, session

NAMED = f"import os\nos.environ[{session.USER!r}] = 'alice'\nos.environ.pop({session.FOLDER!r}, None)"
VERDICT = ".accel-magic-verdict"


def cells(notebook):
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_an_exercise_is_checked_until_it_is_solved(lab, browse):
    given, answer = cells(material.student("jobs")), material.solution_code("jobs")[-1]
    guessed = 'check("jobs", jobs=t.hits, buffers=len(t.npu.mappings), pages=1)'
    every = [NAMED, *given, guessed, answer, 'check("jobs")', "progress()"]
    notebook = browse(lab, lab.write("exercise.ipynb", *every))
    for number in range(len(every)):
        notebook.run(number)

    first, second, third = (len(given), len(given) + 1, len(given) + 3)
    for number, beginning, marks in (
        (first, "Exercise 1 of 10, jobs: not yet", "✗✗✗"),
        (second, "Exercise 1 of 10, jobs: not yet", "✗✗✗"),
        (third, "Exercise 1 of 10, jobs: solved", "✓✓✓"),
    ):
        text = notebook.output(number).locator(VERDICT).inner_text()
        assert text.startswith(beginning)
        assert "".join(character for character in text if character in "✓✗") == marks
    wrong = notebook.output(second).locator(VERDICT)
    assert exercises.find("jobs").wrong["driver-buffers"] in wrong.inner_text()
    assert wrong.locator("code").count() > 0
    notebook.screenshot("workshop-check", wrong)
    progress = notebook.output(len(every) - 1).locator(".accel-magic-progress")
    rows = progress.locator("tbody tr").all_inner_texts()
    assert len(rows) == 10
    assert "solved" in rows[0]
    assert "3 checks" in rows[0]
    assert "not begun" in rows[1]
    assert notebook.errors == []

"""The exercises' notebooks: masters, and the versions for students and lecturers that are made from them.

A master is an ordinary notebook in otter-grader's format. Code between `# BEGIN SOLUTION` and `# END SOLUTION` is the
solution (nbgrader uses the same two marks). Raw cells configure otter-grader, and enclose the cells with its tests.
"""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from accel_magic.workshop.exercises import NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

_BEGIN, _END = "# BEGIN SOLUTION", "# END SOLUTION"
_BLOCK: Final = re.compile(rf"^( *){_BEGIN}\n.*?^ *{_END}(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_PROMPT, _PROMPT_OF_BODY = "# your code", "..."
"""In the place of a solution: not displayed at the end of a cell, and a statement where a block needs one."""
_BEGIN_TESTS, _END_TESTS = "# BEGIN TESTS", "# END TESTS"


def folder() -> Path:
    """Folder of masters and recordings: inside the installed package, or `notebooks/workshop` of a checkout."""
    installed = Path(__file__).parent / "material"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "notebooks/workshop"


def recordings() -> Path:
    """Folder of the recordings that replace the traced cells of a machine that cannot trace."""
    return folder() / "recordings"


def master(name: str) -> Path:
    """Path of an exercise's master."""
    return folder() / f"{file_name(name)}"


def file_name(name: str) -> str:
    """File name of an exercise's notebook, which sorts by number."""
    return f"{NAMES.index(name) + 1:02}_{name}.ipynb"


def student(name: str) -> dict[str, Any]:
    """Return the notebook for students: without solutions, tests and configuration cells, and without outputs."""
    return _version(name, keep_solutions=False)


def solution(name: str) -> dict[str, Any]:
    """Return the notebook for lecturers: with solutions, else like the students'."""
    return _version(name, keep_solutions=True)


def solution_code(name: str) -> list[str]:
    """Return the solutions of an exercise: the marked code of each cell that has some, in order."""
    return [
        "\n".join(match.group().split("\n")[1:-2])
        for cell in _cells(_read(name))
        if cell["cell_type"] == "code"
        for match in _BLOCK.finditer(_source(cell) + "\n")
    ]


def write(target: Path, *, solutions: bool = False) -> list[Path]:
    """Write the notebooks of all exercises to a folder; files that exist are kept.

    Args:
        target: The folder; created if necessary.
        solutions: Whether to write the lecturers' version.

    Returns:
        The files that were written.

    Raises:
        OSError: A file cannot be written.

    """
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for name in NAMES:
        path = target / file_name(name)
        content = json.dumps(_version(name, keep_solutions=solutions), indent=1, ensure_ascii=False) + "\n"
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(content)
        except FileExistsError:
            continue
        written.append(path)
    return written


def _read(name: str) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads(master(name).read_text(encoding="utf-8"))
    return notebook


def _source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def _cells(notebook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each cell that is neither raw nor a test."""
    in_tests = False
    for cell in notebook["cells"]:
        if cell["cell_type"] == "raw":
            in_tests = _source(cell).startswith(_BEGIN_TESTS) or (in_tests and not _source(cell).startswith(_END_TESTS))
        elif not in_tests:
            yield cell


def _version(name: str, *, keep_solutions: bool) -> dict[str, Any]:
    notebook = copy.deepcopy(_read(name))
    cells = list(_cells(notebook))
    for cell in cells:
        if cell["cell_type"] == "code":
            text = _without_marks(_source(cell)) if keep_solutions else _without_solutions(_source(cell))
            cell |= {"source": text.splitlines(keepends=True), "outputs": [], "execution_count": None}
    metadata = notebook["metadata"] | {"otter": {"assignment_name": name}}  # what otter-grader looks for in submissions
    return notebook | {"cells": cells, "metadata": metadata}


def _without_marks(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if line.strip() not in (_BEGIN, _END))


def _without_solutions(text: str) -> str:
    def prompt(match: re.Match[str]) -> str:
        return f"{match[1]}{_PROMPT_OF_BODY if match[1] else _PROMPT}\n"

    return _BLOCK.sub(prompt, text + "\n").rstrip("\n")

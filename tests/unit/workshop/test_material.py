"""The exercises' notebooks: masters, and what students and lecturers get of them."""

from __future__ import annotations

import ast
import importlib
import json
import re

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from accel_magic.workshop import material
from accel_magic.workshop.exercises import NAMES, find

EVERY = pytest.mark.parametrize("name", NAMES)


def code_of(notebook):
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def text_of(notebook):
    return "\n".join("".join(cell["source"]) for cell in notebook["cells"])


@pytest.fixture(scope="module")
def nbformat():
    """Imported by the tests that need it: it takes seconds."""
    return importlib.import_module("nbformat")


@EVERY
def test_a_master_is_valid_and_has_no_outputs(name, nbformat):
    master = nbformat.read(material.master(name), as_version=4)

    nbformat.validate(master)
    assert all(not cell.outputs and cell.execution_count is None for cell in master.cells if cell.cell_type == "code")
    lab = find(name).needs == "lab"
    assert master.metadata.kernelspec.name == ("accel-magic-npu-lab" if lab else "python3")


@EVERY
def test_students_get_everything_but_solutions_and_tests(name, nbformat):
    notebook = material.student(name)

    nbformat.validate(nbformat.reads(json.dumps(notebook), as_version=4))
    assert {cell["cell_type"] for cell in notebook["cells"]} == {"markdown", "code"}
    assert "SOLUTION" not in text_of(notebook)
    assert "assert check" not in text_of(notebook)
    assert f'check("{name}")' in code_of(notebook)
    solutions = material.solution_code(name)
    assert solutions
    assert all(lines and lines not in text_of(notebook) for lines in solutions)


@EVERY
def test_lecturers_get_the_solutions_without_marks(name):
    text = text_of(material.solution(name))

    assert all(lines in text for lines in material.solution_code(name))
    assert "SOLUTION" not in text


@EVERY
@pytest.mark.parametrize("version", [material.student, material.solution])
def test_every_cell_is_python(name, version):
    for code in code_of(version(name)):
        ast.parse(TransformerManager().transform_cell(code))


@EVERY
def test_a_notebook_asks_for_all_answers_and_a_prediction(name):
    text = text_of(material.student(name))

    for answer in find(name).answers:
        assert re.search(rf"`{answer}`|^{answer} = ", text, re.MULTILINE)
    assert f'predict("{name}", ...)' in text
    assert all(re.search(rf"-o {trace}\b", text) for trace in find(name).traces)
    if name != NAMES[-1]:
        assert f"]({material.file_name(NAMES[NAMES.index(name) + 1])})" in text


@EVERY
def test_otter_grader_reads_the_masters_marks(name):
    raw = [
        "".join(cell["source"])
        for cell in json.loads(material.master(name).read_text())["cells"]
        if cell["cell_type"] == "raw"
    ]

    first_lines = [text.split("\n")[0] for text in raw]
    assert first_lines == ["# ASSIGNMENT CONFIG", "# BEGIN QUESTION", "# BEGIN TESTS", "# END TESTS", "# END QUESTION"]
    assert f"name: {name}" in raw[0].split("\n")
    assert "strip_solutions_from_all_cells: true" in raw[0].split("\n")
    assert material.student(name)["metadata"]["otter"] == {"assignment_name": name}


def test_notebooks_are_written_once_and_never_over_a_students_own(tmp_path):
    written = material.write(tmp_path)
    written[0].write_text("mine")

    assert [path.name for path in written] == [material.file_name(name) for name in NAMES]
    assert sorted(path.name for path in written) == [path.name for path in written]
    assert material.write(tmp_path) == []
    assert written[0].read_text() == "mine"
    assert material.write(tmp_path / "solutions", solutions=True)


def test_recordings_of_all_variants_are_there_and_open():
    import accel_magic
    from accel_magic.workshop.exercise import VARIANTS

    for name in NAMES:
        exercise = find(name)
        if exercise.needs == "nothing":
            continue
        for variant in range(VARIANTS):
            truth = json.loads((material.recordings() / f"{name}_{variant}.json").read_text())
            assert truth
            for trace in exercise.traces:
                path = material.recordings() / f"{name}_{variant}-{trace}.parquet"
                assert accel_magic.open(path).machine["kernel"]

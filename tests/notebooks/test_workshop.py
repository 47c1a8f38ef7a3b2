"""The workshop's notebooks as students run them: solved and not, without privilege and without network."""

from __future__ import annotations

import json
import os

import nbformat
import pytest
from nbclient import NotebookClient

from accel_magic.workshop import attempts, exercises, material, rehearsal, session
from tests.support import fresh_python

ALONE = """
import ctypes, os
class Head(ctypes.Structure): _fields_ = [('version', ctypes.c_uint32), ('pid', ctypes.c_int)]
libc = ctypes.CDLL(None, use_errno=True)
if os.geteuid() == 0:
    assert libc.unshare(0x40000000) == 0  # no network; what is connected already stays
    for capability in range(41): libc.prctl(24, capability, 0, 0, 0)
    assert libc.capset(ctypes.byref(Head(0x20080522, 0)), (ctypes.c_uint32 * 6)()) == 0
"""


@pytest.fixture(scope="module", autouse=True)
def _kernels():
    with pytest.MonkeyPatch.context() as patch:
        fresh_python.kernels(patch)
        yield


@pytest.fixture(autouse=True)
def _student(monkeypatch, tmp_path):
    monkeypatch.setenv(session.USER, "alice")
    monkeypatch.setenv(session.FOLDER, str(tmp_path / "class"))


def with_what_it_needs(name):
    if exercises.find(name).needs == "openvino" or name == "speed":
        pytest.importorskip("openvino")
    return name


def executed(notebook, folder):
    """Run a notebook in a kernel that can neither trace nor reach anything; returns it, and what it printed."""
    notebook = nbformat.reads(json.dumps(notebook), as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(ALONE))
    NotebookClient(
        notebook, kernel_name="python3", timeout=240, resources={"metadata": {"path": str(folder)}}
    ).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return "".join(output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs)


def standing(folder, name):
    return attempts.standing(attempts.read(folder / "class", "alice"), name)


@pytest.mark.parametrize("name", exercises.NAMES)
def test_the_solution_needs_neither_privilege_nor_network(name, tmp_path):
    printed = executed(material.solution(with_what_it_needs(name)), tmp_path)

    assert standing(tmp_path, name).state == "solved", printed
    live = exercises.find(name).needs in ("nothing", "openvino")
    assert ("LIVE: " if live or os.geteuid() != 0 else "REPLAY: ") in printed


@pytest.mark.parametrize("name", exercises.NAMES)
def test_an_exercise_is_not_solved_as_it_is_given(name, tmp_path):
    printed = executed(material.student(with_what_it_needs(name)), tmp_path)

    assert f"{name}: not yet" in printed
    assert (standing(tmp_path, name).state, standing(tmp_path, name).checks) == ("begun", 1)


def test_a_class_is_rehearsed_by_several_students_at_once(monkeypatch):
    monkeypatch.setattr(rehearsal, "_has_kernel", lambda name: name == "python3")

    (jobs,) = rehearsal.rehearse(["jobs"], 3)

    assert (jobs.students, jobs.passed, jobs.problem) == (3, 3, "")
    assert jobs.live == 0


def test_a_rehearsal_shows_what_failed(monkeypatch):
    monkeypatch.setattr(rehearsal, "_has_kernel", lambda name: name == "python3")
    monkeypatch.setattr(material, "solution", material.student)

    (jobs,) = rehearsal.rehearse(["jobs"], 1)

    assert (jobs.passed, jobs.problem) == (0, "its check failed")


def test_what_one_student_hands_in_is_judged_under_another_name(monkeypatch, tmp_path):
    executed(material.solution("waits"), tmp_path)
    monkeypatch.setenv(session.USER, "lecturer")

    printed = executed(material.solution("waits"), tmp_path)

    assert "REPLAY: what alice handed in" in printed
    assert "waits: solved" in printed
    assert attempts.read(tmp_path / "class", "lecturer") == []

"""The notebooks run from top to bottom as a newcomer would run them: live, and where nothing can be traced."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import accel_magic
from accel_magic.doctor import report

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
QUICKSTART = ROOT / "notebooks/quickstart.ipynb"
RECORDINGS = sorted((ROOT / "notebooks/recordings").glob("*.parquet"))
# Replaces the notebook's question whether this machine can be traced.
NOTHING_CAN_BE_TRACED = "import accel_magic.doctor\naccel_magic.doctor.Report.exit_status = 1"


def executed(path, *first):
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[:0] = [nbformat.v4.new_code_cell(source) for source in first]
    start = time.monotonic()
    NotebookClient(
        notebook, kernel_name="python3", timeout=90, resources={"metadata": {"path": str(path.parent)}}
    ).execute()
    return notebook, time.monotonic() - start


def traced(notebook):
    """Source and HTML of the cells that trace or replay."""
    cells = [cell for cell in notebook.cells if cell.source.startswith("%%ktrace")]
    return [(cell.source, html_of(cell)) for cell in cells]


def html_of(cell):
    return "".join(output.get("data", {}).get("text/html", "") for output in cell.outputs)


def printed(notebook):
    return "".join(
        output.text
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "text" in output
    )


@pytest.mark.live
@pytest.mark.skipif(report().exit_status != 0, reason=f"nothing can be traced here: {report().verdict}")
def test_the_quickstart_runs_live_in_less_than_90_seconds():
    notebook, took = executed(QUICKSTART)

    assert took < 90
    assert "LIVE: every number below is measured" in printed(notebook)
    for source, html in traced(notebook):
        assert ('class="am-banner"' in html) == ("--replay" in source)
        assert hits(html) > 0
        assert "accel-magic-figure" in html


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_plays_labelled_recordings_where_nothing_can_be_traced(path):
    notebook, took = executed(path, NOTHING_CAN_BE_TRACED)

    assert took < 90
    assert "REPLAY: " in printed(notebook)
    results = traced(notebook)
    assert len(results) >= 4
    for _, html in results:
        assert '<div class="am-banner">REPLAY: recorded on Linux' in html
        assert hits(html) > 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up its privileges")
def test_the_quickstart_needs_no_privilege_to_play_its_recordings(tmp_path):
    """A kernel without any capability, as on Binder."""
    give_up = "import ctypes\nfor capability in range(41): ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)\n"
    drop = (
        "class Head(ctypes.Structure): _fields_ = [('version', ctypes.c_uint32), ('pid', ctypes.c_int)]\n"
        "assert ctypes.CDLL(None).capset(ctypes.byref(Head(0x20080522, 0)), (ctypes.c_uint32 * 6)()) == 0"
    )
    notebook, _ = executed(QUICKSTART, give_up + drop)

    assert "REPLAY: nothing can be traced here" in printed(notebook)
    assert all('class="am-banner"' in html for _, html in traced(notebook))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)

    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_recordings_name_neither_host_nor_folders(path):
    result = accel_magic.open(path)

    assert result.hits > 0
    assert result.machine["host"] == "elsewhere"
    assert not [point.target for point in result.plan.points if "/" in point.target]


@pytest.mark.parametrize(("stem", "most"), [("quickstart", 1_000_000), ("npu_lab", 2_000_000)])
def test_recordings_are_small_enough_for_the_repository(stem, most):
    recordings = [path for path in RECORDINGS if path.stem.startswith(stem)]
    assert recordings
    assert sum(path.stat().st_size for path in recordings) < most


@pytest.mark.parametrize("kernel", ["6.12", "7.2"])
def test_recordings_of_the_lab_say_where_they_are_from(kernel):
    recordings = [path for path in RECORDINGS if path.stem.startswith(f"npu_lab_{kernel}-")]
    assert {path.stem.partition("-")[2] for path in recordings} == {"calls", "ioctls", "hang", "wake"}
    for path in recordings:
        result = accel_magic.open(path)
        assert result.machine["kernel"].startswith(f"{kernel}.")
        assert str(result).startswith("NPU LAB: the real driver on an emulated NPU")


def hits(html):
    return int(re.search(r"([\d,]+) hits?<", html)[1].replace(",", ""))

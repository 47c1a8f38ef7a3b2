"""The lab's own notebook, run from top to bottom in the lab's Jupyter kernel."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.lab

PATH = Path(__file__).parents[2] / "notebooks/npu_lab.ipynb"
FIGURES = {"calls": 2, "ioctls": 3, "hang": 2, "wake": 2}


@pytest.fixture(scope="module")
def executed(image_of):
    image_of("6.12")
    notebook = nbformat.read(PATH, as_version=4)
    folder = {"metadata": {"path": str(PATH.parent)}}
    NotebookClient(notebook, kernel_name="accel-magic-npu-lab", timeout=120, resources=folder).execute()
    return notebook


def outputs(notebook, beginning):
    """Outputs of the one cell that begins so."""
    (cell,) = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.startswith(beginning)]
    return cell.outputs


def shown(notebook, beginning):
    """Plain text of those outputs."""
    return "\n".join(
        output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs(notebook, beginning)
    )


def test_it_says_that_it_is_live_and_where(executed):
    assert re.search(r"LIVE: the driver of Linux 6\.12\.\d+\S* on the lab's emulated NPU", shown(executed, "import os"))


def test_every_result_says_that_the_npu_is_emulated_and_has_its_figures(executed):
    cells = [cell for cell in executed.cells if cell.source.startswith("%%ktrace")]
    names = [re.search(r" -o (\w+)", cell.source)[1] for cell in cells]

    assert names == list(FIGURES)
    for name, cell in zip(names, cells, strict=True):
        page = "".join(output.get("data", {}).get("text/html", "") for output in cell.outputs)
        assert '<div class="am-banner">NPU LAB: the real driver on an emulated NPU' in page
        assert len(re.findall(r'class="accel-magic-figure"', page)) == FIGURES[name]
        assert int(re.search(r"([\d,]+) hits?<", page)[1].replace(",", "")) > 100


def test_the_trace_agrees_with_the_workload(executed):
    rows = dict(re.findall(r"^(ivpu_\w+)\s+(\d+)\s+\2\s+True$", shown(executed, "if LIVE:"), re.MULTILINE))

    assert rows == {
        "ivpu_get_param_ioctl": "14",
        "ivpu_bo_create_ioctl": "100",
        "ivpu_bo_info_ioctl": "100",
        "ivpu_submit_ioctl": "100",
        "ivpu_bo_wait_ioctl": "100",
    }


def test_what_is_called_once_per_job_is_listed(executed):
    listed = shown(executed, "pd.Series(sorted(")

    for name in ("ivpu_bo_create_ioctl", "ivpu_submit_ioctl", "ivpu_bo_wait_ioctl", "ivpu_job_done_callback"):
        assert name in listed
    assert "ivpu_mmu_context_map_page" not in listed


def test_the_hung_job_makes_the_driver_recover(executed):
    assert "hang asked for 1 times" in shown(executed, "%%ktrace intel_vpu:ivpu_* -o hang")
    first_seen = shown(executed, "before = ")
    for name in ("ivpu_job_timeout_work", "ivpu_pm_trigger_recovery", "ivpu_pm_recovery_work", "ivpu_jobs_abort_all"):
        assert name in first_seen
    assert "kworker" in first_seen


def test_waking_the_npu_boots_it(executed):
    steps = re.findall(r"\bivpu_\w+", shown(executed, "boot = "))

    assert steps[0] == "ivpu_pm_runtime_resume_cb"
    assert steps.index("ivpu_boot") < steps.index("ivpu_wait_for_ready")

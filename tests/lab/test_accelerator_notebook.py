"""The notebook about drivers, run from top to bottom in the Jupyter kernel of the accelerator lab."""

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.paths import ROOT

pytestmark = [pytest.mark.lab, pytest.mark.thorough]  # its recordings are played in every run


def test_the_notebook_about_drivers_runs_live():
    folder = ROOT / "notebooks"
    notebook = nbformat.read(folder / "drivers.ipynb", as_version=4)
    NotebookClient(
        notebook,
        kernel_name="accel-magic-accelerator-lab",
        timeout=300,
        resources={"metadata": {"path": str(folder)}},
    ).execute()
    printed = "".join(
        output.get("text", "") for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs
    )

    assert "LIVE: the scheduler of Linux 7.2" in printed
    assert "traced: 30 jobs" in printed

"""The notebooks about drivers and policies, run from top to bottom in the Jupyter kernel of the accelerator lab."""

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.paths import ROOT

# Their recordings are played, or the model runs, in every run.
pytestmark = [pytest.mark.lab, pytest.mark.thorough]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("drivers", ["LIVE: the scheduler of Linux 7.2", "traced: 30 jobs"]),
        ("policies", ["[null-not-checked]", "equal: True", "behind the kernel's own scheduler"]),
    ],
)
def test_a_notebook_runs_live(name, lines):
    folder = ROOT / "notebooks"
    notebook = nbformat.read(folder / f"{name}.ipynb", as_version=4)
    NotebookClient(
        notebook,
        kernel_name="accel-magic-accelerator-lab",
        timeout=600,
        resources={"metadata": {"path": str(folder)}},
    ).execute()
    printed = "".join(
        output.get("text", "") for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs
    )

    for line in lines:
        assert line in printed

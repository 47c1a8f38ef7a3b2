"""Run notebooks headless and write them with their outputs as .ipynb and .html: run_notebook.py NOTEBOOK... FOLDER."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import HTMLExporter

from accel_magic.command_line.progress import Bar
from accel_magic.errors import MachineError
from accel_magic.lab import image

ORDINARY, LAB = "python3", "accel-magic-npu-lab"
QUIET = ["--log-level=40"]  # suppresses the kernel's warning about unencrypted TCP
CELL_TIMEOUT_S = 300


def kernel_of(notebook: nbformat.NotebookNode) -> str:
    """The Jupyter kernel that the notebook names; the ordinary one if it names the NPU lab and that cannot be built."""
    name = str(notebook.metadata.get("kernelspec", {}).get("name", ORDINARY))
    if name != LAB:
        return ORDINARY
    bar = Bar(sys.stderr)
    try:
        built = image.build(report=bar)
    except MachineError as error:
        bar.end()
        print(f"== cannot build the NPU lab; playing its recordings instead\n{error}", flush=True)
        return ORDINARY
    if "ze_load" in str(notebook.cells):
        try:
            image.build_level_zero(report=bar)
        except MachineError as error:
            print(f"== cannot build Level Zero; cells that need it play recordings instead\n{error}", flush=True)
    bar.end()
    print(f"   in the NPU lab: Linux {built.release} on QEMU {built.qemu_version}", flush=True)
    return LAB


def run(path: Path, folder: Path, *, recordings: bool) -> bool:
    """Run one notebook in its own folder, with a line of progress per code cell; False if a cell raised."""
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    print(f"== running {path} ({len(code)} cells)", flush=True)

    def progress(cell: nbformat.NotebookNode, cell_index: int, **_: object) -> None:
        first = next((line for line in cell.source.splitlines() if line.strip()), "")
        number = sum(other.cell_type == "code" for other in notebook.cells[: cell_index + 1])
        print(f"   [{number}/{len(code)}] {first[:90]}", flush=True)

    client = NotebookClient(
        notebook,
        kernel_name=ORDINARY if recordings else kernel_of(notebook),
        extra_arguments=QUIET,
        timeout=CELL_TIMEOUT_S,
        resources={"metadata": {"path": str(path.parent)}},
        on_cell_execute=lambda cell, cell_index: progress(cell, cell_index) if cell.cell_type == "code" else None,
    )
    start, failure = time.monotonic(), None
    try:
        client.execute()
    except CellExecutionError as error:
        failure = error
    folder.mkdir(parents=True, exist_ok=True)
    executed, page = folder / path.name, folder / path.with_suffix(".html").name
    nbformat.write(notebook, executed)
    page.write_text(HTMLExporter().from_notebook_node(notebook)[0], encoding="utf-8")
    for line in modes(notebook):
        print(f"   {line}")
    print(f"== {'FAILED' if failure else 'done'} in {time.monotonic() - start:.0f} s")
    print(f"   notebook: {executed.resolve()}\n   page:     {page.resolve()}")
    if failure:
        print(failure, file=sys.stderr)
    return failure is None


def modes(notebook: nbformat.NotebookNode) -> list[str]:
    """The notebook's lines about live tracing or replay, and a hint for non-root users whose notebook was replayed."""
    lines = [
        line
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        for line in output.get("text", "").splitlines()
        if line.startswith(("LIVE:", "REPLAY:"))
    ]
    if os.geteuid() != 0 and any(line.startswith("REPLAY:") for line in lines):
        lines.append("To trace live: sudo make demo")
    return lines


def main() -> int:
    """Run the notebooks on the command line; returns exit status 1 if a cell raised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebooks", nargs="+", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--recordings", action="store_true", help="without the lab: its notebooks play their recordings"
    )
    arguments = parser.parse_args()
    failed = [path for path in arguments.notebooks if not run(path, arguments.folder, recordings=arguments.recordings)]
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())

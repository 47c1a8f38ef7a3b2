"""Record what a notebook traces: record.py [--lab KERNEL] NOTEBOOK FOLDER.

Runs it live and writes FOLDER/<notebook>-<name>.parquet for each `%%ktrace ... -o <name>` and `%%flame ... -o <name>`,
FOLDER/<notebook>.parquet for the one without a name: what `%config KTrace.replay` and `Flame.replay` play. The host's
name and its folders are left out. With --lab it runs in the NPU lab on that kernel, and the files are called
<notebook>_<kernel>.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

QUIET = ["--log-level=40"]  # the kernel warns that it talks over TCP, as kernels do
LARGEST = 1_000_000
"""Bytes of all recordings together: they are part of the repository."""

SAVE = """
import re
from dataclasses import replace
from pathlib import Path
import accel_magic
from accel_magic.recording.store import save

_PLACE = re.compile(r".*/(?:(?:site|dist)-packages|python3\\.\\d+)/(.+)|.*/(accel_magic/.+\\.py)|.*/([^/]+)")

def _told(module):
    place = _PLACE.fullmatch(module)
    return place[place.lastindex] if place else module

def _save(path):
    recording = accel_magic.last.recording
    if recording.replayed is not None:
        raise SystemExit("nothing can be traced here")
    points = tuple(
        replace(point, target=Path(point.target).name if point.target.startswith("/") else point.target)
        for point in recording.plan.points
    )
    machine = {**recording.machine, "host": "elsewhere"}
    recording = replace(recording, plan=replace(recording.plan, points=points), machine=machine)
    if recording.stacks is not None:
        frames = tuple(frame._replace(module=_told(frame.module)) for frame in recording.stacks.frames)
        recording = replace(recording, stacks=replace(recording.stacks, frames=frames))
    save(recording, path)
"""


def prepared(notebook: nbformat.NotebookNode, folder: Path, stem: str) -> nbformat.NotebookNode:
    """Put a cell that saves the newest result after each traced one."""
    cells = [nbformat.v4.new_code_cell(SAVE)]
    for cell in notebook.cells:
        cells.append(cell)
        line = cell.source.partition("\n")[0]
        if cell.cell_type == "code" and line.startswith(("%%ktrace", "%%flame")) and "--replay" not in line:
            name = re.search(r" -o (\w+)", line)
            path = folder / f"{stem}{f'-{name[1]}' if name else ''}.parquet"
            cells.append(nbformat.v4.new_code_cell(f"_save({str(path)!r})"))
    notebook.cells = cells
    return notebook


def main() -> int:
    """Record; exit status 1 when the files are too large to keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lab", metavar="KERNEL", help="in the NPU lab with this kernel, such as 7.2")
    parser.add_argument("notebook", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    path, folder = arguments.notebook, arguments.folder.resolve()
    notebook = nbformat.read(path, as_version=4)
    stem = f"{path.stem}_{arguments.lab}" if arguments.lab else path.stem
    notebook = prepared(notebook, folder, stem)
    if arguments.lab:
        os.environ["ACCEL_MAGIC_LAB_KERNEL"] = arguments.lab
    print(f"== recording what {path} traces", flush=True)
    NotebookClient(
        notebook,
        kernel_name="accel-magic-npu-lab" if arguments.lab else "python3",
        extra_arguments=QUIET,
        timeout=300,
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()
    sizes = {file: file.stat().st_size for file in sorted(folder.glob(f"{stem}*.parquet"))}
    for file, size in sizes.items():
        print(f"   {file}: {size:,} bytes")
    if sum(sizes.values()) > LARGEST:
        print(f"== together more than {LARGEST:,} bytes: record fewer events", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

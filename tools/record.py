"""Record the traces of a notebook: record.py [--lab KERNEL] NOTEBOOK FOLDER.

Runs the notebook live and writes FOLDER/<notebook>-<name>.parquet for each `%%ktrace ... -o <name>` and
`%%flame ... -o <name>`, and FOLDER/<notebook>.parquet for the one without a name, for `%config KTrace.replay` and
`Flame.replay`; for a trace on a cluster, the folder FOLDER/<notebook>-<name>. The host's name and folders are removed.
With --lab it runs in the notebook's lab with that kernel, and the file names start with <notebook>_<kernel>.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

QUIET = ["--log-level=40"]  # suppresses the kernel's warning about unencrypted TCP
LARGEST = 1_000_000
"""Maximum total size of a notebook's recordings in bytes, because they are committed to the repository."""

SAVE = """
import re
from dataclasses import replace
from pathlib import Path
import accel_magic
from accel_magic.cluster import clock, folders
from accel_magic.recording import dataset
from accel_magic.recording.recording_store import save

_PLACE = re.compile(r".*/(?:(?:site|dist)-packages|python3\\.\\d+)/(.+)|.*/(accel_magic/.+\\.py)|.*/([^/]+)")

def _without_folders(module):
    place = _PLACE.fullmatch(module)
    return place[place.lastindex] if place else module

def _save(path):
    result = accel_magic.last
    if not hasattr(result, "parts"):
        save(_anonymous(result.recording), path)
        return
    reading = clock.read()
    for number, part in enumerate(result.parts):
        node = replace(part.node, host="elsewhere")
        place = Path(path).with_suffix("") / "run=1" / f"host={node.host}" / f"rank=none-{number}"
        dataset.write(_anonymous(part.recording), place)
        folders.write(place, folders.Described(node, "ended", (reading,)))

def _anonymous(recording):
    if recording.replayed is not None:
        raise SystemExit("tracing is not possible on this machine")
    points = tuple(
        replace(point, target=Path(point.target).name if point.target.startswith("/") else point.target)
        for point in recording.plan.points
    )
    machine = {**recording.machine, "host": "elsewhere"}
    recording = replace(recording, plan=replace(recording.plan, points=points), machine=machine)
    if recording.stacks is not None:
        frames = tuple(frame._replace(module=_without_folders(frame.module)) for frame in recording.stacks.frames)
        recording = replace(recording, stacks=replace(recording.stacks, frames=frames))
    return recording
"""


def prepared(notebook: nbformat.NotebookNode, folder: Path, stem: str) -> nbformat.NotebookNode:
    """Insert a cell that saves the newest result after each traced cell."""
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
    """Record; returns exit status 1 if the files are too large."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lab", metavar="KERNEL", help="run in the notebook's lab with this kernel, such as 7.2")
    parser.add_argument("notebook", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    path, folder = arguments.notebook, arguments.folder.resolve()
    notebook = nbformat.read(path, as_version=4)
    stem = f"{path.stem}_{arguments.lab}" if arguments.lab else path.stem
    notebook = prepared(notebook, folder, stem)
    if arguments.lab:
        os.environ["ACCEL_MAGIC_LAB_KERNEL"] = arguments.lab
    kernel = notebook.metadata.kernelspec.name if arguments.lab else "python3"
    print(f"== recording the traces of {path}", flush=True)
    for old in folder.glob(f"{stem}-*/"):
        shutil.rmtree(old)
    NotebookClient(
        notebook,
        kernel_name=kernel,
        extra_arguments=QUIET,
        timeout=300,
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()
    sizes = {file: file.stat().st_size for file in sorted(folder.rglob("*")) if file.is_file() and stem in str(file)}
    for file, size in sizes.items():
        print(f"   {file}: {size:,} bytes")
    if sum(sizes.values()) > LARGEST:
        print(f"== the files exceed {LARGEST:,} bytes: record fewer events", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

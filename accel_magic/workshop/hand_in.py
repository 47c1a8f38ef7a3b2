"""What a student hands in: for each solved exercise, the notebook, the run that it was judged by, and its traces."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING

from accel_magic.errors import MachineError
from accel_magic.workshop import material, session
from accel_magic.workshop.exercises import NAMES

if TYPE_CHECKING:
    from pathlib import Path


def pack(folder: Path, target: Path) -> list[Path]:
    """Write a ZIP file per exercise that has a run, as otter-grader takes submissions.

    Args:
        folder: The folder with the student's notebooks and runs.
        target: Where to write `USER-NAME.zip`; created if necessary.

    Returns:
        The files written.

    Raises:
        MachineError: No exercise was solved in this folder, or a file cannot be read or written.

    """
    with_run = [name for name in NAMES if (folder / session.RUNS / f"{name}.json").is_file()]
    if not with_run:
        raise MachineError(
            "there is nothing to hand in",
            why=f"no exercise was solved in {folder.absolute()}: it has no {session.RUNS}/NAME.json",
            fix="name the folder with your notebooks, after a check has passed",
            code="workshop.nothing-to-hand-in",
        )
    try:
        target.mkdir(parents=True, exist_ok=True)
        return [_packed(folder, name, target) for name in with_run]
    except (OSError, ValueError, AttributeError) as error:  # also a file that is not a notebook
        raise MachineError(
            "the exercises cannot be packed",
            why=f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else f"not a notebook: {error}",
            fix="save the notebooks under their own names, and choose a folder that you can write to",
            code="workshop.not-packed",
        ) from None


def _notebook(path: Path) -> str:
    """Return a student's notebook for an ordinary Jupyter kernel, in which the lab's traces are played."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    notebook.setdefault("metadata", {})["kernelspec"] = {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    }
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _packed(folder: Path, name: str, target: Path) -> Path:
    path = target / f"{session.user()}-{name}.zip"
    runs = folder / session.RUNS
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(material.file_name(name), _notebook(folder / material.file_name(name)))
        for each in (runs / f"{name}.json", *sorted(runs.glob(f"{name}-*.parquet"))):
            archive.write(each, f"{session.RUNS}/{each.name}")
    return path

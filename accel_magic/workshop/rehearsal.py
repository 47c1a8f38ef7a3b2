"""Run the exercises as a class will, the day before: each solution, by as many students at once as will come."""

from __future__ import annotations

import json
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from accel_magic.errors import MachineError
from accel_magic.workshop import attempts, material, session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ORDINARY: Final = "python3"
_CELL_TIMEOUT_S: Final = 300
_QUIET: Final = ["--log-level=40"]  # suppresses the kernel's warning about unencrypted TCP


@dataclass(frozen=True)
class Rehearsed:
    """How an exercise went for all students at once.

    Attributes:
        exercise: Its name.
        students: How many ran it at once.
        passed: How many of their checks passed.
        live: How many ran live; the others played recordings.
        seconds: From starting the Jupyter kernels until the last student was done.
        problem: The first problem; "" if all passed.

    """

    exercise: str
    students: int
    passed: int
    live: int
    seconds: float
    problem: str


def rehearse(names: Sequence[str], students: int) -> Iterator[Rehearsed]:
    """Run the solutions of exercises, one exercise after the other, each by all students at once.

    Args:
        names: Names of exercises.
        students: How many students.

    Raises:
        MachineError: nbclient is not installed.

    """
    try:
        import nbclient  # noqa: F401
    except ImportError:
        raise MachineError(
            "the exercises cannot be run here",
            why="nbclient is not installed",
            fix="pip install 'accel-magic[workshop]'",
            code="workshop.no-nbclient",
        ) from None
    with tempfile.TemporaryDirectory(prefix="accel_magic_workshop_") as folder, ThreadPoolExecutor(students) as pool:
        for name in names:
            began = time.monotonic()
            people = [f"student{number + 1:02}" for number in range(students)]
            ended = list(pool.map(lambda person, name=name: _run(name, person, Path(folder)), people))
            problems = [problem for passed, _, problem in ended if not passed]
            yield Rehearsed(
                name,
                students,
                sum(passed for passed, _, _ in ended),
                sum(live for _, live, _ in ended),
                time.monotonic() - began,
                problems[0] if problems else "",
            )


def _run(name: str, person: str, folder: Path) -> tuple[bool, bool, str]:
    """Run one exercise's solution as one student; returns whether it passed, whether it was live, and its problem."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.reads(json.dumps(material.solution(name)), as_version=4)  # type: ignore[no-untyped-call]
    working = folder / person
    working.mkdir(exist_ok=True)
    wanted = notebook.metadata["kernelspec"]["name"]
    environment = os.environ | {session.USER: person, session.FOLDER: str(working / "progress")}
    try:
        client = NotebookClient(
            notebook,
            kernel_name=wanted if _has_kernel(wanted) else _ORDINARY,
            timeout=_CELL_TIMEOUT_S,
            extra_arguments=_QUIET,
            resources={"metadata": {"path": str(working)}},
        )
        client.execute(env=environment)
    except Exception as exception:  # noqa: BLE001 - whatever ends a student's notebook is the result
        return False, False, " ".join(str(exception).split())[-300:]
    printed = _printed(notebook)
    standing = attempts.standing(attempts.read(working / "progress", person), name)
    return standing.state == "solved", "LIVE: " in printed, "" if standing.state == "solved" else "its check failed"


def _has_kernel(name: str) -> bool:
    from jupyter_client.kernelspec import KernelSpecManager

    return name in KernelSpecManager().find_kernel_specs()


def _printed(notebook: Any) -> str:
    outputs = (output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs)
    return "".join(output.get("text", "") for output in outputs)

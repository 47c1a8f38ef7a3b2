"""Recordings of a job's processes as a folder: `run=RUN/host=HOST/rank=RANK/`, each with a dataset and a description.

Each process writes its own part, without asking the others. What is read is not trusted: parts that are damaged,
missing, twice there or foreign are named, and the others are used.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from accel_magic import foreign_files, terminal
from accel_magic.cluster.clock import Reading
from accel_magic.cluster.node import Node
from accel_magic.errors import RecordingError
from accel_magic.recording import dataset
from accel_magic.recording.result_files import destination, followed, made, replacing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

State = Literal["tracing", "ended", "untraced"]
VERSION: Final = 1
DESCRIPTION: Final = "node.json"
MOST_NODES: Final = 4096
_MOST_BYTES: Final = 1 << 16
_LONGEST: Final = 80
_MOST_TEXT: Final = 4000
_UNUSUAL: Final = re.compile(r"[^\w.-]")
_PARTS: Final = ("run", "host", "rank")


@dataclass(frozen=True)
class Problem:
    """Why a node has no recording: what, why, the fix, and the error's code."""

    what: str
    why: str = ""
    fix: str = ""
    code: str = ""


@dataclass(frozen=True)
class PartDescription:
    """A node's description of its part.

    Attributes:
        node: The node.
        state: Whether it is still being traced (or was killed), has ended, or could not be traced.
        readings: Its clocks at the start and at the end.
        machine: Its machine, as `accel_magic.machine.describe`.
        problem: Why it could not be traced.

    """

    node: Node
    state: State
    readings: tuple[Reading, ...] = ()
    machine: tuple[tuple[str, str], ...] = ()
    problem: Problem | None = None


@dataclass(frozen=True)
class FolderPart:
    """A part of a folder.

    Attributes:
        path: The part.
        described: Its description; one without a rank for a part that has none.
        recording: Its dataset; None if there is none.
        problem: Why it cannot be used, or that it has not ended.

    """

    path: Path
    described: PartDescription
    recording: Path | None
    problem: Problem | None


def place(folder: Path, node: Node, run: str) -> Path:
    """Return the part of a folder that belongs to a node."""
    rank = str(node.rank) if node.rank is not None else f"none-{os.getpid()}"
    names = zip(_PARTS, (run, node.host, rank), strict=True)
    return folder.joinpath(*(f"{part}={_UNUSUAL.sub('_', name)[:_LONGEST] or '_'}" for part, name in names))


def make(folder: Path, node: Node, run: str) -> Path:
    """Create a node's part.

    Raises:
        RecordingError: It cannot be created, or holds another recording.

    """
    part = place(followed(folder), node, run)
    made(part).close()
    if os.path.lexists(part / DESCRIPTION):
        raise RecordingError(
            f"{part} holds a recording already",
            why=f"another process of the run {run} has the same host and rank",
            fix="give each run a name of its own (--run-name NAME), or another folder",
            code="cluster.part-exists",
        )
    return part


def write(part: Path, described: PartDescription) -> None:
    """Write a node's description; an earlier one is replaced.

    Raises:
        RecordingError: It cannot be written.

    """
    text = {"version": VERSION, **asdict(described), "readings": [one.to_json() for one in described.readings]}
    with replacing(destination(part / DESCRIPTION)) as file:
        file.write(json.dumps(text).encode())


def is_folder(path: Path) -> bool:
    """Whether a path is a folder of parts, or one run of it."""
    return path.is_dir() and (any(path.glob("run=*")) or any(path.glob("host=*")))


def read(folder: Path) -> list[FolderPart]:
    """Find the parts of one run, by rank and host.

    Args:
        folder: The folder, or a run in it.

    Raises:
        RecordingError: There is no part, there are several runs, or more parts than can be a job's.

    """
    runs = sorted(folder.glob("run=*"))
    if len(runs) > 1:
        names = ", ".join(terminal.one_line(run.name) for run in runs[:5])
        raise RecordingError(
            f"{folder} has {len(runs)} runs",
            why=f"they are {names}{' and more' if len(runs) > 5 else ''}",
            fix=f"open one: accel_magic.open({str(runs[-1])!r})",
            code="cluster.several-runs",
        )
    parts = sorted((runs[0] if runs else folder).glob("host=*/rank=*"))
    if not 0 < len(parts) <= MOST_NODES:
        raise RecordingError(
            f"{folder} has {'no' if not parts else 'too many'} recordings of nodes",
            why=f"there are {len(parts):,} folders host=*/rank=*, of 1 to {MOST_NODES:,}",
            fix="give the folder that was given to --save",
            code="cluster.no-parts",
        )
    found = list(_without_doubles(map(_part, parts)))
    return sorted(found, key=lambda one: (one.described.node.rank is None, one.described.node.rank or 0, str(one.path)))


def _part(path: Path) -> FolderPart:
    unknown = PartDescription(
        Node(path.parent.name.partition("=")[2], name=path.name.replace("rank=", "rank ")), "untraced"
    )
    try:
        described = _described(path)
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        why = str(error) or type(error).__name__
        return FolderPart(
            path, unknown, None, Problem("its description is damaged or missing", why, code="cluster.damaged")
        )
    if described.problem:
        return FolderPart(path, described, None, described.problem)
    tracing = described.state == "tracing"
    if not dataset.is_dataset(path):
        what = "it has not ended, or was killed" if tracing else "its recording is missing"
        return FolderPart(
            path, described, None, Problem(what, f"there is no dataset in {path}", code="cluster.no-recording")
        )
    unfinished = Problem("it has not ended, or was killed", code="cluster.unfinished") if tracing else None
    return FolderPart(path, described, path, unfinished)


def _described(path: Path) -> PartDescription:
    with foreign_files.opened(path / DESCRIPTION, follow=False) as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"it is larger than {_MOST_BYTES} bytes")
    text = json.loads(data)
    if text["version"] != VERSION:
        raise ValueError(f"its format is {text['version']!r:.20}, this version reads {VERSION}")
    node = text["node"]
    if text["state"] not in ("tracing", "ended", "untraced"):
        raise ValueError("its state is unknown")
    problem = text["problem"]
    return PartDescription(
        Node(
            _text(node["host"]), _rank(node["rank"]), _rank(node["local_rank"]), _text(node["job"]), _text(node["name"])
        ),
        text["state"],
        tuple(Reading.from_json(one) for one in text["readings"][:2]),
        tuple((_text(name), _text(value)) for name, value in text["machine"][:50]),
        None if problem is None else Problem(*(_text(problem[name]) for name in ("what", "why", "fix", "code"))),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _MOST_TEXT:
        raise ValueError("a text is none, or too long")
    return value


def _rank(value: Any) -> int | None:
    if value is not None and (type(value) is not int or not 0 <= value < 1 << 31):
        raise ValueError(f"{value!r:.20} is not a rank")
    rank: int | None = value
    return rank


def _without_doubles(parts: Iterator[FolderPart]) -> Iterator[FolderPart]:
    """A rank that is there twice, in copies of a folder for instance, counts once."""
    seen: dict[int, Path] = {}
    for part in parts:
        rank = part.described.node.rank
        if rank is not None and rank in seen and part.problem is None:
            why = f"{seen[rank]} has it too"
            yield FolderPart(
                part.path, part.described, None, Problem(f"rank {rank} is there twice", why, code="cluster.double")
            )
            continue
        if rank is not None and part.problem is None:
            seen[rank] = part.path
        yield part

"""What the accelerator's module counted itself, in debugfs: the independent truth for what is traced."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

_FOLDER: Final = Path("/sys/kernel/debug/accel_lab")


def hooks() -> dict[str, int]:
    """Calls of policies by hook, since the module was loaded."""
    return {name: int(count) for name, count in map(str.split, _lines("hooks"))}


def memory() -> dict[str, int]:
    """Totals of all device memories: memories, accesses, faults, misses, evictions, pages_in, pages_out, refused."""
    return {name: int(count) for name, count in map(str.split, _lines("memory"))}


def jobs() -> list[dict[str, Any]]:
    """Jobs by ring and client: ring, client, queued, run, done, timed_out, cancelled. Client 0 is the sum of all."""
    return _table("jobs")


def clients() -> list[dict[str, Any]]:
    """Clients, open ones and the last closed ones.

    Their keys are client, open, timeslice_us, interleave, rejected, refused, preempted, process.
    """
    return _table("clients")


def _lines(name: str) -> list[str]:
    return (_FOLDER / name).read_text().splitlines()


def _table(name: str) -> list[dict[str, Any]]:
    header, *rows = _lines(name)
    columns = header.split()
    return [
        {column: int(value) if value.isdigit() else value for column, value in zip(columns, cells, strict=True)}
        for cells in (row.split(maxsplit=len(columns) - 1) for row in rows)
    ]

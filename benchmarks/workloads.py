"""The traced C program: compiled once, run under each tool in turn."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from benchmarks.arithmetic import median

CHUNK = 5_000
What = Literal["getppid", "function", "task"]


@dataclass(frozen=True)
class Run:
    """One run: `start_ns` and `end_ns` on CLOCK_MONOTONIC, and ns per call in the median chunk."""

    calls: int
    start_ns: int
    end_ns: int
    ns_per_call: float


@lru_cache(maxsize=1)
def folder() -> Path:
    """A temporary folder that is removed when this process ends."""
    holder = tempfile.TemporaryDirectory(prefix="accel_magic_bench_")
    _kept.append(holder)
    return Path(holder.name)


_kept: list[tempfile.TemporaryDirectory[str]] = []


@lru_cache(maxsize=1)
def program() -> Path:
    """Compile the loop and return its path. Raises CalledProcessError if the C compiler fails."""
    binary = folder() / "loop"
    source = Path(__file__).with_name("loop.c")
    subprocess.run(["cc", "-O2", "-fcf-protection=none", "-o", str(binary), str(source)], check=True)
    return binary


def command(what: What, calls: int, chunk: int = CHUNK) -> list[str]:
    """Command line that runs the loop; `read` then returns its measurement."""
    return [str(program()), what, str(calls), str(min(chunk, calls)), str(folder() / "times")]


def read(calls: int, chunk: int = CHUNK) -> Run:
    """Read the measurement of the last run."""
    start, end, *chunks = (int(line) for line in (folder() / "times").read_text(encoding="ascii").split())
    return Run(calls, start, end, median(chunks) / min(chunk, calls))


def run(what: What, calls: int, chunk: int = CHUNK) -> Run:
    """Run the loop, under the programs that are attached at the moment."""
    subprocess.run(command(what, calls, chunk), check=True)
    return read(calls, chunk)

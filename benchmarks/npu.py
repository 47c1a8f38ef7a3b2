"""Analyzing a trace of the NPU driver: a recording from the lab, repeated until it has a million events."""

from __future__ import annotations

import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from accel_magic import trace_lab
from accel_magic.lab import Lab, Settings, image
from accel_magic.recording.recording import EventColumn, Events
from accel_magic.results.trace_result import TraceResult
from accel_magic.subsystems.npu.tables import NpuTables
from benchmarks.arithmetic import Measured
from benchmarks.peers import require

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.recording.recording import Recording

EVENTS = 1_000_000
_APART = {"context": 1 << 20, "bo": 1 << 40, "file": 1 << 40}
"""Columns that identify objects, and the offset that keeps those of successive repetitions distinct."""


def analysing(*, quick: bool) -> Iterator[Measured]:
    """Phases, jobs, buffers and diagnosis of a million events, compared with counting them with sort and uniq."""
    result = _recorded()
    rounds, events = (2, 100_000) if quick else (3, EVENTS)
    large = _repeated(result.recording, -(-events // result.recorded))
    ours, theirs = [], []
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.writelines(f"kprobe:intel_vpu:{name}\n" for name in large.events["function"])
        file.flush()
        for _ in range(rounds):
            ours.append(_analyse(large))
            theirs.append(_counted(Path(file.name)))
    yield Measured(
        "npu-analysis",
        f"phases, jobs, buffers and diagnosis of {large.recorded / 1e6:.2f} M events",
        "s",
        tuple(ours),
        "`sort | uniq -c` of the function names only",
        tuple(theirs),
        "value",
        3,
        "a recording from the lab, repeated",
    )


def _recorded() -> TraceResult:
    image.build()
    with Lab(Settings()) as lab:
        return trace_lab(lab, "npu", command=["npu_load", "--jobs", "64", "--processes", "8", "--buffers", "3"])


def _repeated(recording: Recording, times: int) -> TraceResult:
    """Repeat a recording `times` times in sequence, each repetition with its own objects and fences."""
    events, count = recording.events, len(recording.events)
    number = np.repeat(np.arange(times), count)
    columns = {}
    for name, column in events.columns.items():
        values = np.tile(column.values, times)
        if name == "time_ns":
            values = values + number * recording.duration_ns
        if name in _APART:
            values = values + (number * _APART[name]).astype(values.dtype)
        if name == "retval":  # the address of a new object
            pointers = values < -(1 << 40)
            values = np.where(pointers, values + number * _APART["bo"], values)
        valid = None if column.valid is None else np.tile(column.valid, times)
        columns[name] = EventColumn(values, valid, column.categories)
    return TraceResult(
        replace(
            recording,
            duration_ns=recording.duration_ns * times,
            hits=recording.hits * np.uint64(times),
            event_count=count * times,
            load_events=lambda: Events(columns),
        )
    )


def _analyse(result: TraceResult) -> float:
    """Seconds for everything that `diagnose` uses, and the phases, from an existing DataFrame."""
    events = result.events  # created on first use
    start = time.perf_counter()
    npu = NpuTables(result.recording, events)
    npu.findings  # noqa: B018
    found = {"phases": len(npu.phases), "jobs": len(npu.jobs), "buffers": len(npu.buffers)}
    took = time.perf_counter() - start
    require(all(found.values()), f"nothing was analysed: {found}")
    return took


def _counted(path: Path) -> float:
    start = time.perf_counter()
    subprocess.run(f"sort {path} | uniq -c | sort -rn > /dev/null", shell=True, check=True)
    return time.perf_counter() - start

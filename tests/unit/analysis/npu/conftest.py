"""Traces with known contents: a recorded run of a real NPU, and calls added one by one."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from accel_magic.analysis.npu.trace import NpuTrace, plain_name
from tests.support.paths import ROOT

STEP_NS = 10


class Calls:
    """Calls in order of time, each 10 ns after the previous one unless a time is given."""

    def __init__(self):
        self.rows = []

    def call(self, function, at=None, *, tid=11, pid=None, cpu=0, lasts=None, comm="load", **captured):
        """Add one call; the process is the thread's number rounded down to tens."""
        at = (self.rows[-1]["time_ns"] + STEP_NS if self.rows else STEP_NS) if at is None else at
        row = {"time_ns": at, "function": function, "pid": tid // 10 * 10 if pid is None else pid, "tid": tid}
        row |= {"cpu": cpu, "comm": comm, "duration_ns": np.nan if lasts is None else float(lasts)}
        self.rows.append(row | captured)

    def calls(self, functions, at=None, **where):
        """Add several calls, "a b c"; `at` is the time of the first."""
        for number, function in enumerate(functions.split()):
            self.call(function, at if number == 0 else None, **where)

    def interrupt(self, at=None, functions="", *, tid, cpu=0):
        """The device interrupts a thread, and the handler makes these calls."""
        self.call("ivpu_hw_irq_handler", at, tid=tid, cpu=cpu)
        self.calls(f"ivpu_ipc_irq_handler ivpu_hw_ip_ipc_rx_count_get {functions}", tid=tid, cpu=cpu)

    def trace(self, *, timed=True, duration_ns=None, traced=(), **options):
        """The trace; `traced` are functions that were traced without a hit."""
        rows = sorted(self.rows, key=lambda row: row["time_ns"])
        frame = pd.DataFrame(rows)
        for name in ("function", "comm"):
            frame[name] = frame[name].astype("category")
        captured = frame.columns.difference(["time_ns", "function", "pid", "tid", "cpu", "comm", "duration_ns"])
        frame[captured] = frame[captured].astype("Int64")
        if not timed:
            frame["time_ns"] = 0
        names = frame["function"].astype(str).map(plain_name)
        counts = names.value_counts().reindex([*names.unique(), *traced], fill_value=0).rename_axis("function")
        length = int(frame["time_ns"].max()) + 1000 if duration_ns is None else duration_ns
        return NpuTrace(frame, counts, length if timed else 0, timed=timed, **options)


@pytest.fixture
def recorder():
    """An empty list of calls."""
    return Calls()


@pytest.fixture(scope="session")
def recorded():
    """The recorded run: `trace`, and known facts about it."""
    facts = json.loads(Path(__file__).parents[1].joinpath("recorded_run.json").read_text())
    codes = [code for cycle, repeats in facts["runs"] for _ in range(repeats) for code in cycle]
    size = len(codes)
    events = pd.DataFrame(
        {
            "time_ns": np.zeros(size, np.int64),
            "probe": pd.Categorical(["kprobe:intel_vpu:*"] * size),
            "function": pd.Categorical.from_codes(codes, facts["names"]),
            "pid": np.zeros(size, np.int32),
            "tid": np.zeros(size, np.int32),
            "cpu": np.zeros(size, np.int16),
            "comm": pd.Categorical([""] * size),
        }
    )
    counts = pd.Series([plain_name(facts["names"][code]) for code in codes], dtype="str").value_counts()
    trace = NpuTrace(events, counts.rename_axis("function"), 0, timed=False)
    return SimpleNamespace(trace=trace, facts=facts, calls=[facts["names"][code] for code in codes])


@pytest.fixture(scope="session")
def original():
    """Folder with the published recording; skips if it is missing."""
    folder = ROOT.parent / "shared/data"
    if not (folder / "trace_res.txt").exists():
        pytest.skip("the published recording is missing")
    return folder

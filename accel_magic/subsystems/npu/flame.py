"""The NPU's time in a flame graph: each job under the Python line that submitted it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.analysis.frames import events_frame
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.recording.profile import ThreadState
from accel_magic.subsystems.npu.driver import DRIVER
from accel_magic.subsystems.npu.tables import NpuTables

if TYPE_CHECKING:
    import pandas as pd

    from accel_magic.analysis.flame.stacks import Stacks
    from accel_magic.recording.profile import ProfileBuilder
    from accel_magic.recording.recording import Recording

_NOTE: Final = "an NPU job's time is from its doorbell, or the end of the engine's previous job, to its own end"


def add_jobs(builder: ProfileBuilder, recording: Recording, stacks: Stacks) -> list[str]:
    """Add the jobs of a trace of the driver; returns notes for the user."""
    jobs = busy(NpuTables(recording, events_frame(recording)).jobs)
    submitted = _stacks_at(recording, jobs)
    columns = (jobs[name].tolist() for name in ("tid", "engine", "begun_ns", "busy_ns"))
    for row, tid, engine, begun_ns, busy_ns in zip(submitted, *columns, strict=True):
        frame = Frame(f"NPU job, engine {engine}" if engine >= 0 else "NPU job", FrameKind.GPU_KERNEL, DRIVER)
        node = stacks.of_python(row, tid, (frame,))
        builder.add(node, busy_ns, time_ns=begun_ns, tid=tid, state=ThreadState.ACCELERATOR)
    return [_NOTE] if len(jobs) else []


def busy(jobs: pd.DataFrame) -> pd.DataFrame:
    """When the NPU worked on each job: `tid`, `engine` (-1 unknown), `submitted_ns`, `begun_ns`, `busy_ns`, all int64.

    Args:
        jobs: As `result.npu.jobs`; those without a start or an end are left out.

    """
    begun = jobs["doorbell_ns"].fillna(jobs["queued_ns"]).fillna(jobs["submitted_ns"])
    known = jobs.assign(begun_ns=begun)[begun.notna() & jobs["done_ns"].notna() & jobs["tid"].notna()]
    known = known.assign(engine=known["engine"].fillna(-1)).sort_values("done_ns", kind="stable")
    whole = known[["tid", "engine", "submitted_ns", "begun_ns", "done_ns"]].fillna(-1).astype("int64")
    before = whole.groupby("engine")["done_ns"].shift(fill_value=np.iinfo(np.int64).min)
    begun_ns = np.maximum(whole["begun_ns"], before)
    return whole.assign(begun_ns=begun_ns, busy_ns=(whole["done_ns"] - begun_ns).clip(lower=0)).drop(columns="done_ns")


def _stacks_at(recording: Recording, jobs: pd.DataFrame) -> list[int]:
    """Row of the Python stack of each job's submitting call, found by thread and time; -1 if none."""
    columns = recording.events.columns
    if "python_stack" not in columns or recording.stacks is None:
        return [-1] * len(jobs)
    python = columns["python_stack"]
    events = np.flatnonzero(np.isin(columns["time_ns"].values, jobs["submitted_ns"].to_numpy()))
    if python.valid is not None:
        events = events[python.valid[events]]
    places = zip(columns["tid"].values[events].tolist(), columns["time_ns"].values[events].tolist(), strict=True)
    key_at = {place: key for place, key in zip(places, python.values[events].tolist(), strict=True) if key}
    requested = zip(jobs["tid"].tolist(), jobs["submitted_ns"].tolist(), strict=True)
    rows = recording.stacks.rows(np.array([key_at.get(place, 0) for place in requested], np.uint64))
    return [int(row) for row in rows]

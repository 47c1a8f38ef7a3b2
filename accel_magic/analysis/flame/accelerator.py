"""Accelerator time, under the Python line that launched the work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.kernel.stacks.frames import Frame, Kind
from accel_magic.recording.profile import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from accel_magic.analysis.flame.stacks import Stacks
    from accel_magic.recording.flame import FlameFacts, Launch
    from accel_magic.recording.profile import ProfileBuilder
    from accel_magic.recording.recording import Recording

NPU_DRIVER: Final = "intel_vpu"
_NPU_NOTE: Final = "an NPU job's time is from its doorbell, or the end of the engine's previous job, to its own end"


def add(builder: ProfileBuilder, recording: Recording, facts: FlameFacts, stacks: Stacks) -> list[str]:
    """Add launches and jobs; returns notes for the user."""
    return [*_add_launches(builder, recording, facts, stacks), *_add_jobs(builder, recording, stacks)]


def _add_launches(builder: ProfileBuilder, recording: Recording, facts: FlameFacts, stacks: Stacks) -> list[str]:
    launches = [launch for launch in facts.launches if launch.time_ns <= recording.duration_ns]  # for partial playback
    keys = np.array([launch.stack for launch in launches], np.uint64)
    rows = recording.stacks.rows(keys).tolist() if recording.stacks is not None else [-1] * len(launches)
    for launch, row in zip(launches, rows, strict=True):
        if launch.device_ns >= 0:
            node = stacks.of_python(row, launch.tid, (Frame(launch.kernel, Kind.GPU_KERNEL, facts.device),))
            builder.add(node, launch.device_ns, time_ns=launch.time_ns, tid=launch.tid, state=State.ACCELERATOR)
    return launch_notes(launches, facts.more_launches)


def launch_notes(launches: Sequence[Launch], more: int) -> list[str]:
    """Notes on launches without accelerator time, and on launches that were not kept."""
    untimed = sum(launch.device_ns < 0 for launch in launches)
    notes = [f"{untimed:,} launches have no accelerator time: the device did not report it"]
    rest = [f"{more:,} later launches are not shown: the limit of kept launches was reached"]
    return (notes if untimed else []) + (rest if more else [])


def _add_jobs(builder: ProfileBuilder, recording: Recording, stacks: Stacks) -> list[str]:
    if not any(point.target == NPU_DRIVER for point in recording.plan.points):
        return []
    from accel_magic.analysis.frames import events_frame
    from accel_magic.analysis.npu import NpuTables

    jobs = busy(NpuTables(recording, events_frame(recording)).jobs)
    submitted = _stacks_at(recording, jobs)
    columns = (jobs[name].tolist() for name in ("tid", "engine", "begun_ns", "busy_ns"))
    for row, tid, engine, begun_ns, busy_ns in zip(submitted, *columns, strict=True):
        frame = Frame(f"NPU job, engine {engine}" if engine >= 0 else "NPU job", Kind.GPU_KERNEL, NPU_DRIVER)
        node = stacks.of_python(row, tid, (frame,))
        builder.add(node, busy_ns, time_ns=begun_ns, tid=tid, state=State.ACCELERATOR)
    return [_NPU_NOTE] if len(jobs) else []


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
    wanted = zip(jobs["tid"].tolist(), jobs["submitted_ns"].tolist(), strict=True)
    rows = recording.stacks.rows(np.array([key_at.get(place, 0) for place in wanted], np.uint64))
    return [int(row) for row in rows]

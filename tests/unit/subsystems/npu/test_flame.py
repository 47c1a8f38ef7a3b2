"""NPU jobs of a recording as accelerator time, under the Python lines that submitted them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from accel_magic.analysis.by_stack import profile_stacks
from accel_magic.analysis.flame.merge import merged
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.kernel.stacks.stack_table import PYTHON, table
from accel_magic.recording import recording_store
from accel_magic.recording.profile import ThreadState
from accel_magic.recording.recording import EventColumn, Events
from accel_magic.results.trace_result import TraceResult
from accel_magic.subsystems.npu.flame import add_jobs, busy
from tests.support.paths import ROOT

pytestmark = pytest.mark.component

RECORDING = ROOT / "notebooks/recordings/npu_faults_7.2-parallel.parquet"
LINES = [(Frame("infer", FrameKind.PYTHON, "cell [5]", line),) for line in (10, 20)]


def test_an_engine_of_the_npu_is_busy_with_one_job_at_a_time():
    jobs = pd.DataFrame(
        {
            "tid": [7, 7, 8, 8, 7],
            "engine": [0, 0, 0, 1, 0],
            "submitted_ns": [0, 5, 8, 8, 90],
            "queued_ns": [2, 6, 9, 9, pd.NA],
            "doorbell_ns": [10, 12, 40, 12, pd.NA],
            "done_ns": [20, 35, 50, 30, pd.NA],
        },
        dtype="Int64",
    )
    found = busy(jobs).sort_values("begun_ns")[["engine", "begun_ns", "busy_ns"]].to_numpy().tolist()

    assert found == [[0, 10, 10], [1, 12, 18], [0, 20, 15], [0, 40, 10]]


def profile_of(recording):
    return merged(recording, accelerators=[add_jobs]).profile


@pytest.fixture(scope="module")
def recorded():
    """A recording of the NPU lab, and its jobs."""
    recording = recording_store.load(RECORDING)
    return recording, TraceResult(recording).npu.jobs


def test_jobs_of_a_recording_add_up_to_the_time_that_the_npu_was_busy(recorded, stacks_of):
    recording, jobs = recorded
    assert len(jobs) > 10
    assert jobs["done_ns"].notna().all()
    begun = jobs["doorbell_ns"].fillna(jobs["queued_ns"]).fillna(jobs["submitted_ns"]).astype("int64")
    edges = sorted([(at, 1) for at in begun] + [(at, -1) for at in jobs["done_ns"].astype("int64")])
    under_way, total, before = 0, 0, 0
    for at, step in edges:
        total += at - before if under_way else 0
        under_way, before = under_way + step, at
    profile = profile_of(recording)

    assert stacks_of(profile) == {"gpu_kernel:NPU job, engine 0": total}
    assert set(profile.samples.state.tolist()) == {ThreadState.ACCELERATOR}


def test_each_job_is_under_the_line_that_submitted_it(recorded, stacks_of):
    recording, jobs = recorded
    columns = recording.events.columns
    keys = np.zeros(len(recording.events), np.uint64)
    for number, job in enumerate(jobs.itertuples()):
        entered = (columns["time_ns"].values == job.submitted_ns) & (columns["tid"].values == job.tid)
        keys[entered] = 2 * (number % 2) + 1
    events = Events({**columns, "python_stack": EventColumn(keys)})
    stacks = table(np.array([1, 3], "u8"), np.array([PYTHON, PYTHON], "u1"), LINES)
    profile = profile_of(replace(recording, stacks=stacks, load_events=lambda: events))

    by_line = {frames[0].line: len_ for frames, len_ in samples_by_stack(profile).items()}
    assert by_line == {10: (len(jobs) + 1) // 2, 20: len(jobs) // 2}
    assert sum(stacks_of(profile).values()) == sum(stacks_of(profile_of(recording)).values())


def samples_by_stack(profile):
    return {row.frames: row.hits for row in profile_stacks(profile).itertuples()}

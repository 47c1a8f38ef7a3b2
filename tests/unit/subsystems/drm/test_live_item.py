"""The GPU's line of the live row: numbers from the DRM scheduler's counters."""

import numpy as np
import pytest

from accel_magic.recording.live_samples import LiveSample
from accel_magic.subsystems import live_items
from accel_magic.subsystems.drm.live_item import DrmHistory
from accel_magic.views.live.trace_row import LiveHistory, render

MS = 1_000_000
NEW = ("drm_sched_job_queue", "drm_sched_job_run", "drm_sched_job_done")
OLD = ("drm_sched_job", "drm_run_job", "drm_sched_process_job")


@pytest.fixture
def plan_of(make_recording, make_point):
    def plan(*events):
        points = [make_point(at, f"tracepoint:gpu_scheduler:{name}", function=name) for at, name in enumerate(events)]
        timeout = make_point(
            len(events), "latency:kprobe:gpu_sched:drm_sched_job_timedout", function="drm_sched_job_timedout"
        )
        return make_recording([*points, timeout]).plan

    return plan


def sample(time_ms, *hits):
    return LiveSample(time_ms * MS, np.array(hits, np.uint64), sum(hits), 0, ())


@pytest.mark.parametrize("events", [NEW, OLD])
def test_every_number_comes_from_the_counters(plan_of, events):
    history = DrmHistory.of(plan_of(*events))
    for each in (sample(1000, 20, 15, 10, 0), sample(1500, 60, 50, 35, 2)):
        history.add(each)

    assert {item.label: item.text for item in history.items(sample(0, 0, 0, 0, 0))} == {
        "jobs": "50/s",
        "queued": "10",
        "running": "15",
        "timed out": "2",
    }


def test_jobs_from_before_the_trace_make_no_number_negative(plan_of):
    history = DrmHistory.of(plan_of(*NEW))
    history.add(sample(100, 0, 2, 5, 0))

    assert [item.text for item in history.items(sample(0, 0, 0, 0, 0)) if item.label in ("queued", "running")] == [
        "0",
        "0",
    ]


def test_the_row_has_the_gpu_line_only_if_the_scheduler_is_traced(plan_of, make_recording):
    plan = plan_of(*NEW)
    history = LiveHistory(plan, devices=live_items(plan))
    history.add(sample(500, 3, 1, 0, 0))
    row = render(history.state(sample(500, 3, 1, 0, 0)))

    assert "<b>GPU</b>" in row
    assert "<i>queued</i> 2</span>" in row
    assert "NPU" not in row
    plan = make_recording().plan
    other = LiveHistory(plan, devices=live_items(plan))
    other.add(sample(500, 1))
    assert "GPU" not in render(other.state(sample(500, 1)))

"""The NPU's line of the live row: numbers from the driver's counters."""

import math

import numpy as np
import pytest

from accel_magic.recording.live_samples import LiveLatency, LiveSample
from accel_magic.subsystems import live_items
from accel_magic.subsystems.npu.live_item import NpuHistory
from accel_magic.views.live.trace_row import LiveHistory, render

MS = 1_000_000
FUNCTIONS = (
    "ivpu_hw_ip_ipc_tx_set",
    "ivpu_hw_ip_ipc_rx_addr_get",
    "ivpu_cmdq_submit_ioctl",
    "ivpu_job_signal.constprop.0",
    "ivpu_bo_create_ioctl",
    "ivpu_mmu_context_map_page",
)


@pytest.fixture
def plan_of(make_recording, make_point):
    def plan(*functions, total="size"):
        points = [
            make_point(
                number,
                f"{'latency:' if name == 'ivpu_bo_create_ioctl' else ''}kprobe:intel_vpu:{name}",
                function=name,
                total=total if name == "ivpu_bo_create_ioctl" else "",
            )
            for number, name in enumerate(functions)
        ]
        return make_recording(points).plan

    return plan


def sample(time_ms, *hits, size=0, p50=math.nan, p99=math.nan):
    totals = np.zeros(len(hits), np.uint64)
    totals[4:5] = size
    latency = (LiveLatency("ivpu_bo_create_ioctl", p50, p99),)
    return LiveSample(time_ms * MS, np.array(hits, np.uint64), sum(hits), 0, latency, totals)


def texts(history, *samples):
    for each in samples:
        history.add(each)
    return {item.label: item.text for item in history.items(samples[-1])}


def test_every_number_comes_from_the_counters(plan_of):
    history = NpuHistory.of(plan_of(*FUNCTIONS))

    assert texts(
        history,
        sample(1000, 10, 20, 5, 5, 4, 100),
        sample(1500, 30, 50, 25, 15, 6, 1100, size=3 * 65536, p50=12_000, p99=90_000),
    ) == {
        "IPC": "100/s",
        "jobs": "20/s",
        "in flight": "10",
        "buffers": "6, 192 KiB",
        "allocation p50 / p99": "12 us / 90 us",
        "pages mapped": "2 k/s",
    }


def test_rates_are_measured_over_the_last_half_second(plan_of):
    history = NpuHistory.of(plan_of(*FUNCTIONS))
    quiet = [sample(at, 1000, 0, 0, 0, 0, 0) for at in range(100, 1500, 100)]

    assert texts(history, *quiet)["IPC"] == "0/s"


def test_the_first_sample_counts_from_the_start(plan_of):
    assert texts(NpuHistory.of(plan_of(*FUNCTIONS)), sample(200, 0, 0, 0, 8, 0, 0))["jobs"] == "40/s"


def test_what_is_not_traced_is_not_shown(plan_of):
    assert texts(NpuHistory.of(plan_of("ivpu_job_signal")), sample(100, 1)) == {"jobs": "10/s"}
    assert texts(NpuHistory.of(plan_of("ivpu_mmu_context_map_page")), sample(100, 1)) == {"pages mapped": "10/s"}


def test_jobs_from_before_the_trace_do_not_make_the_number_in_flight_negative(plan_of):
    history = NpuHistory.of(plan_of("ivpu_submit_ioctl", "ivpu_job_signal"))

    assert texts(history, sample(100, 1, 4))["in flight"] == "0"


def test_other_traces_have_no_npu_line(make_recording, make_point, plan_of):
    other = make_recording([make_point(0, "kprobe:xe:ivpu_job_signal", function="ivpu_job_signal")])

    assert NpuHistory.of(other.plan) is None
    assert NpuHistory.of(plan_of("ivpu_open")) is None
    history = LiveHistory(other.plan, devices=live_items(other.plan))
    history.add(sample(100, 1))
    assert "NPU" not in render(history.state(sample(100, 1)))


def test_the_row_has_the_npu_line_with_hints(plan_of):
    plan = plan_of(*FUNCTIONS)
    history = LiveHistory(plan, devices=live_items(plan))
    history.add(sample(500, 0, 0, 7, 3, 0, 0))
    row = render(history.state(sample(500, 0, 0, 7, 3, 0, 0)))

    assert "<b>NPU</b>" in row
    assert 'title="jobs submitted in this trace that have not ended"><i>in flight</i> 4</span>' in row


def test_with_many_measured_functions_only_called_ones_are_shown(make_recording):
    latencies = tuple(LiveLatency(f"f{n}", math.nan if n < 5 else 1000.0 * n, 9000.0) for n in range(8))
    history = LiveHistory(make_recording().plan)

    shown = history.state(LiveSample(100 * MS, np.array([1], np.uint64), 1, 0, latencies)).latency

    assert [latency.label for latency in shown] == ["f5", "f6", "f7"]

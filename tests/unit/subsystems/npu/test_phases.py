import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_magic.analysis.driver_trace import DriverTrace
from accel_magic.subsystems.npu.functions import OTHER, family_of
from accel_magic.subsystems.npu.phases import BEGINS, BEGINS_IN_KERNEL, IDLE_NS, MAPS, PHASES, phase_totals, phases
from tests.every_step import lines_per_row

MS = 1_000_000


def stretches(trace, *columns, **options):
    table = phases(trace, **options)
    return [tuple(row) for row in table[["phase", *columns]].astype(object).to_numpy().tolist()]


def job(recorder, at, *, tid=11, pages=2):
    """A program creates a buffer, submits a job with it, waits, and frees the buffer, in 1 ms."""
    recorder.call("ivpu_bo_create_ioctl", at, tid=tid, lasts=50)
    recorder.call("ivpu_gem_create_object", at + 10, tid=tid, lasts=5)
    recorder.call("ivpu_cmdq_submit_ioctl", at + 100, tid=tid, lasts=200)
    recorder.call("ivpu_bo_bind", at + 110, tid=tid, lasts=100)
    recorder.call("ivpu_mmu_context_map_sgt", at + 112, tid=tid, lasts=90)
    for number in range(pages):
        recorder.call("ivpu_mmu_context_map_page", at + 120 + number, tid=tid)
    recorder.call("ivpu_hw_ip_db_set", at + 250, tid=tid)
    recorder.call("ivpu_bo_wait_ioctl", at + 400, tid=tid, lasts=MS)
    recorder.call("drm_gem_close_ioctl", at + 500 + MS, tid=tid, lasts=20)


JOB = ["allocation", "submission", "mapping", "submission", "wait", "cleanup"]


def test_a_job_goes_through_its_phases(recorder):
    job(recorder, 1000, pages=5)

    assert stretches(recorder.trace(), "start_ns", "end_ns", "calls", "top") == [
        ("allocation", 1000, 1100, 2, "ivpu_bo_create_ioctl"),
        ("submission", 1100, 1110, 1, "ivpu_cmdq_submit_ioctl"),
        ("mapping", 1110, 1250, 7, "ivpu_mmu_context_map_page"),
        ("submission", 1250, 1400, 1, "ivpu_hw_ip_db_set"),
        ("wait", 1400, 1500 + MS, 1, "ivpu_bo_wait_ioctl"),
        ("cleanup", 1500 + MS, 1520 + MS, 1, "drm_gem_close_ioctl"),
    ]


def test_every_process_has_its_own_phases(recorder):
    job(recorder, 1000, tid=11)
    job(recorder, 1005, tid=21)

    table = phases(recorder.trace())
    for pid in (10, 20):
        own = table[table["pid"] == pid]
        assert own["phase"].tolist() == JOB
        assert own["start_ns"].iloc[1:].tolist() == own["end_ns"].iloc[:-1].tolist()
        assert own["calls"].sum() == 10
    assert table["start_ns"].is_monotonic_increasing


def test_a_phase_inside_a_measured_call_is_separated_from_the_call(recorder):
    recorder.call("ivpu_get_param_ioctl", 1000, lasts=900)
    recorder.call("ivpu_rpm_get", 1010)
    recorder.call("ivpu_pm_runtime_resume_cb", 1100, lasts=500)
    recorder.call("ivpu_wait_for_ready", 1200, lasts=100)
    recorder.calls("ivpu_ipc_irq_handler ivpu_ipc_receive", 1210)
    recorder.call("ivpu_ipc_enable", 1400)
    recorder.call("ivpu_ipc_send", 1700)

    assert stretches(recorder.trace(), "start_ns", "calls") == [
        ("parameter query", 1000, 2), ("power up", 1100, 1), ("boot", 1200, 3), ("power up", 1400, 1),
        ("parameter query", 1700, 1),
    ]  # fmt: skip


def test_without_durations_a_phase_lasts_until_the_thread_starts_another(recorder):
    recorder.calls("ivpu_open ivpu_mmu_context_init ivpu_pm_runtime_resume_cb ivpu_wait_for_ready ivpu_ipc_receive")
    recorder.calls("ivpu_hw_irq_enable ivpu_bo_create_ioctl ivpu_gem_create_object ivpu_bo_wait_ioctl")

    expected = [("open", 2), ("power up", 1), ("boot", 2), ("power up", 1), ("allocation", 2), ("wait", 1)]
    assert stretches(recorder.trace(), "calls") == expected
    assert stretches(recorder.trace(timed=False), "calls") == expected


def test_threads_of_one_process_keep_their_own_phase(recorder):
    recorder.call("ivpu_bo_wait_ioctl", 1000, tid=11, lasts=10_000)
    recorder.call("ivpu_bo_create_ioctl", 2000, tid=12, lasts=100)
    recorder.call("dma_fence_wait_end", 2050, tid=11)
    recorder.call("ivpu_gem_create_object", 2060, tid=12)

    assert stretches(recorder.trace(), "start_ns") == [
        ("wait", 1000), ("allocation", 2000), ("wait", 2050), ("allocation", 2060),
    ]  # fmt: skip


def test_a_thread_does_not_continue_another_threads_phase(recorder):
    recorder.calls("ivpu_cmdq_submit_ioctl ivpu_rpm_get", tid=11)
    recorder.calls("ivpu_rpm_get", tid=12)

    assert stretches(recorder.trace(), "calls") == [("submission", 2), ("other", 1)]


def test_pages_mapped_for_a_new_queue_are_mapping(recorder):
    recorder.call("ivpu_cmdq_create_ioctl", 1000, lasts=1000)
    recorder.calls("ivpu_bo_bind ivpu_mmu_context_map_sgt ivpu_mmu_context_map_page", 1100)
    recorder.call("ivpu_rpm_put", 1900)

    assert stretches(recorder.trace(), "calls") == [("allocation", 1), ("mapping", 3), ("allocation", 1)]


def test_interrupts_are_on_the_devices_track_whatever_they_interrupted(recorder):
    job(recorder, 1000)
    recorder.interrupt(600_000, "ivpu_hw_ip_ipc_rx_addr_get", tid=11)
    recorder.call("ivpu_ipc_irq_thread_handler", 601_000, tid=901, lasts=300, comm="irq/33")
    recorder.call("ivpu_job_done_callback", 601_100, tid=901, comm="irq/33")
    recorder.interrupt(700_000, tid=0, cpu=1)

    table = phases(recorder.trace())
    assert table.loc[table["pid"] == 10, "phase"].tolist() == JOB
    device = table[table["pid"] == 0]
    assert device[["phase", "start_ns", "end_ns", "calls", "comm"]].to_numpy().tolist() == [
        ["interrupt", 600_000, 601_300, 6, "device"],
        ["interrupt", 700_000, 700_020, 3, "device"],
    ]


def test_kernel_threads_are_on_the_devices_track(recorder):
    job(recorder, 1000)
    recorder.call("ivpu_pm_runtime_suspend_cb", 20 * MS, tid=501, lasts=5000, comm="kworker/u8:1")
    recorder.call("ivpu_rpm_put", 21 * MS, tid=501, comm="kworker/u8:1")

    device = phases(recorder.trace()).query("pid == 0")
    assert device["phase"].tolist() == ["power down", "cleanup"]
    assert set(device["comm"]) == {"device"}


def test_steps_of_a_suspend_that_does_not_end_in_the_trace_are_power_down(recorder):
    recorder.calls("ivpu_mmu_disable ivpu_hw_btrs_is_idle ivpu_ipc_send", tid=501, comm="kworker/u8:1")

    assert stretches(recorder.trace(), "calls") == [("power down", 3)]


def test_interrupts_with_a_missed_start_are_interrupts(recorder):
    recorder.calls("ivpu_hw_ip_ipc_rx_addr_get ivpu_jsm_msg_dump ivpu_hw_ip_ipc_rx_count_get", tid=0, comm="swapper/1")

    assert stretches(recorder.trace(), "calls") == [("interrupt", 3)]


def test_a_gap_without_calls_is_idle(recorder):
    job(recorder, 1000)
    job(recorder, 1000 + 50 * MS)

    assert stretches(recorder.trace(), "start_ns", "end_ns", "calls", "top")[5:8] == [
        ("cleanup", 1500 + MS, 1520 + MS, 1, "drm_gem_close_ioctl"),
        ("idle", 1520 + MS, 1000 + 50 * MS, 0, ""),
        ("allocation", 1000 + 50 * MS, 1100 + 50 * MS, 2, "ivpu_bo_create_ioctl"),
    ]


@pytest.mark.parametrize(("gap", "idle"), [(IDLE_NS - 1, False), (IDLE_NS, True)])
def test_a_gap_is_idle_from_the_drivers_own_limit_on(recorder, gap, idle):
    recorder.call("ivpu_open", 1000, lasts=500)
    recorder.call("ivpu_postclose", 1500 + gap, lasts=500)

    assert ("idle" in [phase for (phase,) in stretches(recorder.trace())]) == idle


def test_a_long_call_is_not_a_gap(recorder):
    recorder.call("ivpu_bo_wait_ioctl", 1000, lasts=100 * MS)
    recorder.call("drm_gem_close_ioctl", 1000 + 101 * MS, lasts=10)
    recorder.calls("ivpu_open", 1000 + 200 * MS)

    assert [phase for (phase,) in stretches(recorder.trace())] == ["wait", "cleanup", "idle", "open"]


def test_an_unmeasured_wait_is_not_a_gap(recorder):
    recorder.call("ivpu_bo_wait_ioctl", 1000)
    recorder.call("drm_gem_close_ioctl", 1000 + 101 * MS)

    assert stretches(recorder.trace(), "end_ns") == [("wait", 1000 + 101 * MS), ("cleanup", 1000 + 101 * MS)]


def test_another_threads_wait_continues_while_nothing_is_called(recorder):
    recorder.call("ivpu_bo_wait_ioctl", 1000, tid=11, lasts=100 * MS)
    recorder.call("ivpu_bo_info_ioctl", 2000, tid=12, lasts=1000)
    recorder.call("ivpu_postclose", 150 * MS, tid=12, lasts=10)

    assert stretches(recorder.trace(), "start_ns", "end_ns", "calls") == [
        ("wait", 1000, 2000, 1),
        ("allocation", 2000, 3000, 1),
        ("wait", 3000, 1000 + 100 * MS, 0),
        ("idle", 1000 + 100 * MS, 150 * MS, 0),
        ("cleanup", 150 * MS, 150 * MS + 10, 1),
    ]


def test_library_calls_are_not_driver_calls(recorder):
    recorder.call("zeInit", 1000, lasts=10_000)
    recorder.call("ivpu_open", 2000, lasts=100)
    recorder.call("zeMemAllocHost", 20_000, lasts=1000)
    recorder.call("ivpu_bo_create_ioctl", 20_100, lasts=100)

    assert stretches(recorder.trace(), "start_ns") == [("open", 2000), ("allocation", 20_100)]


def test_recovery_is_a_phase_that_contains_a_boot(recorder):
    recorder.call("ivpu_job_timeout_work", 1000, tid=501)
    recorder.call("ivpu_pm_recovery_work", 2000, tid=501, lasts=10_000)
    recorder.call("ivpu_resume", 3000, tid=501, lasts=5000)
    recorder.call("ivpu_wait_for_ready", 4000, tid=501, lasts=1000)
    recorder.call("ivpu_jobs_abort_all", 9000, tid=501)

    assert stretches(recorder.trace(), "start_ns") == [
        ("recovery", 1000), ("power up", 3000), ("boot", 4000), ("recovery", 9000),
    ]  # fmt: skip


def test_calls_before_the_first_identified_phase_are_other(recorder):
    recorder.calls("ivpu_ipc_send ivpu_rpm_get ivpu_bo_create_ioctl")

    assert stretches(recorder.trace(), "calls") == [("other", 2), ("allocation", 1)]


def test_totals_sum_the_intervals_of_all_processes(recorder):
    job(recorder, 1000, tid=11)
    job(recorder, 1000 + 50 * MS, tid=11)
    job(recorder, 2000, tid=21)
    recorder.interrupt(3 * MS, tid=0, cpu=1)

    totals = phase_totals(phases(recorder.trace()))
    assert totals.loc["wait"].to_dict() == {
        "stretches": 3, "calls": 3, "duration_ns": 3 * (MS + 100), "longest_ns": MS + 100, "processes": 2,
    }  # fmt: skip
    assert totals.loc["interrupt", ["stretches", "processes"]].tolist() == [1, 0]
    assert totals.loc["idle", "processes"] == 1
    assert totals.index.tolist() == [name for name in PHASES if name in set(totals.index)]


@pytest.mark.parametrize("pattern", [pattern for _, pattern in (*BEGINS, *BEGINS_IN_KERNEL)] + [MAPS])
def test_every_rule_is_about_functions_that_the_driver_has(pattern):
    listed = Path(__file__).with_name("driver_functions.txt")
    names = {line.split()[0].partition(".")[0] for line in listed.read_text().splitlines()[1:]}
    found = [name for name in names if re.fullmatch(pattern, name)]
    assert found
    assert [name for name in found if family_of(name) == OTHER] == []


def test_every_rule_starts_a_phase_that_is_listed():
    assert {phase for phase, _ in BEGINS} <= set(PHASES)


CALLS = st.tuples(
    st.sampled_from(
        ["ivpu_open", "ivpu_bo_create_ioctl", "ivpu_cmdq_submit_ioctl", "ivpu_bo_wait_ioctl", "ivpu_bo_bind",
         "ivpu_rpm_get", "ivpu_hw_irq_handler", "ivpu_ipc_irq_handler", "ivpu_pm_runtime_suspend_cb", "zeInit"]
    ),
    st.sampled_from([11, 12, 21, 501]),
    st.integers(1, 15),
    st.one_of(st.none(), st.integers(0, 30)),
)  # fmt: skip


@given(st.lists(CALLS, max_size=25))
def test_every_driver_call_is_in_exactly_one_interval_of_its_track(calls):
    # Calls of one thread must be nested or consecutive: these are consecutive.
    free, rows, now = {}, [], 0
    for function, tid, step, lasts in calls:
        now = max(now + step * MS, free.get(tid, 0))
        free[tid] = now + (lasts or 0) * MS + 1
        rows.append((now, function, tid // 10 * 10, tid, np.nan if lasts is None else lasts * MS))
    frame = pd.DataFrame(rows, columns=["time_ns", "function", "pid", "tid", "duration_ns"])
    frame = frame.astype({"time_ns": "int64", "function": "category", "pid": "int64", "duration_ns": "float64"})
    frame = frame.astype({"tid": "int64"}).assign(cpu=0, comm=pd.Categorical(["load"] * len(frame)))
    trace = DriverTrace(frame, frame["function"].astype(str).value_counts(), now + MS)

    table = phases(trace)
    assert table["calls"].sum() == (frame["function"] != "zeInit").sum()
    assert (table["duration_ns"].dropna() >= 0).all()
    assert ((table["calls"] > 0) | (table["first_row"] == table["last_row"])).all()
    for pid, track in table.groupby("pid"):
        assert (track["start_ns"].iloc[1:].to_numpy() >= track["end_ns"].iloc[:-1].to_numpy()).all()
        if pid:
            assert (track["start_ns"].iloc[1:].to_numpy() == track["end_ns"].iloc[:-1].to_numpy()).all()


def test_phases_are_found_without_python_code_per_event(recorder):
    for number in range(20):
        job(recorder, 2 * MS * number, tid=10 * (number % 8) + 11, pages=90)
        recorder.interrupt(2 * MS * number + MS, tid=0, cpu=1)
    once = recorder.trace()
    row = len(once.events)

    def found(rows):
        copies = rows // row
        events = pd.concat([once.events] * copies, ignore_index=True)
        events["time_ns"] += np.repeat(np.arange(copies), row) * once.duration_ns
        phases(DriverTrace(events, once.counts * copies, once.duration_ns * copies))

    assert lines_per_row(found, row, 20 * row) < 0.01

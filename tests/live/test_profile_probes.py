"""Samples of a clock: as many as the CPU time that programs used, and only of those in scope."""

import subprocess
import time

import pytest

import accel_magic
from accel_magic import trace

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("nothing_attached")]

HZ = 1999


def test_there_are_as_many_samples_as_the_cpu_time_of_each_thread(build, run):
    program = build("busy")

    with trace(f"profile:hz:{HZ}", filter="comm == 'busy'") as t:
        told = run(program, 2, 400)

    result = t.result
    sampled = result.events["tid"].value_counts()
    for tid, cpu_ns in zip(told["tid"], told["cpu_ns"], strict=True):
        assert sampled[tid] / HZ * 1e9 == pytest.approx(cpu_ns, rel=0.03)
    assert (result.hits, result.lost) == (result.recorded, 0)
    assert result.counts.index.tolist() == [(f"profile:hz:{HZ}", f"{HZ} Hz")]
    assert result.plan.points[0].rate_hz == HZ


def test_a_busy_loop_of_this_very_thread_is_sampled_for_its_time_and_sleep_is_not():
    with trace(f"p:hz:{HZ}") as t:
        time.sleep(0.3)
        begin = time.monotonic_ns()
        start = time.thread_time_ns()
        while time.thread_time_ns() - start < 400e6:
            pass
        used = time.thread_time_ns() - start

    early = t.result.events["time_ns"] < begin - t.result.recording.start_ns
    assert (~early).sum() / HZ * 1e9 == pytest.approx(used, rel=0.03)
    assert early.sum() / HZ < 0.01


def test_filters_scopes_and_other_probes_on_the_line_hold_for_samples_too(build, run, tmp_path):
    program = build("busy")

    with trace(
        f"profile:hz:{HZ}", "profile:hz:99", "t:sched:sched_process_exit", filter="cpu == 0 and comm == 'busy'"
    ) as t:
        run(program, 1, 200, 0)
        run(program, 1, 200, 1)
    hits = t.result.counts["hits"].droplevel("probe")
    assert 0.19 < hits[f"{HZ} Hz"] / HZ < 0.3  # starting the programs takes some
    assert hits["99 Hz"] == pytest.approx(hits[f"{HZ} Hz"] / HZ * 99, abs=10)  # a busy machine takes turns
    assert hits["sched_process_exit"] >= 2
    assert set(t.result.events["cpu"]) == {0}
    again = accel_magic.open(t.result.to_parquet(tmp_path / "samples"))
    assert again.plan == t.result.plan
    assert again.events.equals(t.result.events)

    with (
        subprocess.Popen(["sleep", "10"]) as quiet,
        trace(f"profile:hz:{HZ}", "offcpu", scope=quiet.pid, mode="count") as other,
    ):
        run(program, 1, 100)
        quiet.kill()
    assert other.result.hits < 0.01 * HZ


def test_idle_processors_are_not_sampled():
    with trace(f"profile:hz:{HZ}", scope="all", mode="count", filter="pid == 0") as t:
        time.sleep(0.2)

    assert t.result.hits == 0


def test_replaying_gives_the_same_samples_and_waits(tmp_path):
    with trace("profile:hz:499", "offcpu", save=tmp_path / "cell") as t:
        time.sleep(0.05)
        sum(range(2_000_000))

    replayed = accel_magic.replay(tmp_path / "cell", speed=10)

    assert replayed.events.equals(t.result.events)
    assert replayed.waits.equals(t.result.waits)
    assert replayed.hits == t.result.hits

"""Clock samples: in proportion to the programs' CPU time, and only in scope."""

import resource
import subprocess
import threading
import time

import pytest

import accel_magic
from accel_magic import trace
from tests.support.clocks import machine_ns, sampling_error_ns, switches

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("nothing_attached")]

HZ = 1999


def test_the_number_of_samples_matches_each_threads_cpu_time(build, run):
    program = build("busy")
    before_ns = machine_ns()

    with trace(f"profile:hz:{HZ}", filter="comm == 'busy'") as t:
        told = run(program, 2, 400)

    result = t.result
    sampled = result.events["tid"].value_counts()
    for tid, cpu_ns, away in zip(told["tid"], told["cpu_ns"], told["switches"], strict=True):
        # The thread's own measurement does not include its start and end.
        error_ns = sampling_error_ns(HZ, away, before_ns) + 2e6
        assert sampled[tid] / HZ * 1e9 == pytest.approx(cpu_ns, abs=error_ns)
    assert (result.hits, result.lost) == (result.recorded, 0)
    assert result.counts.index.tolist() == [(f"profile:hz:{HZ}", f"{HZ} Hz")]
    assert result.plan.points[0].rate_hz == HZ


def test_a_busy_loop_in_this_thread_is_sampled_and_sleep_is_not():
    before_ns, this = machine_ns(), threading.get_native_id()
    with trace(f"p:hz:{HZ}") as t:
        asleep = time.monotonic_ns()
        time.sleep(0.3)
        begin, start, away = time.monotonic_ns(), time.thread_time_ns(), switches()
        while time.thread_time_ns() - start < 400e6:
            pass
        used, away, end = time.thread_time_ns() - start, switches() - away, time.monotonic_ns()

    events = t.result.events
    times_ns = events["time_ns"][events["tid"] == this] + t.result.recording.start_ns
    busy_ns = times_ns.between(begin, end).sum() * 1e9 / HZ
    assert busy_ns == pytest.approx(used, abs=sampling_error_ns(HZ, away, before_ns))
    # Samples while entering and leaving the sleep; an interrupt may add more.
    assert times_ns.between(asleep, begin).sum() * 1e9 / HZ <= 0.01e9 + machine_ns() - before_ns


def test_filters_scopes_and_other_probes_work_with_samples(build, run, tmp_path):
    program = build("busy")
    before_ns, children_ns = machine_ns(), of_children_ns()

    with trace(
        f"profile:hz:{HZ}", "profile:hz:99", "t:sched:sched_process_exit", filter="cpu == 0 and comm == 'busy'"
    ) as t:
        told = run(program, 1, 200, 0)
        children_ns = of_children_ns() - children_ns
        run(program, 1, 200, 1)
    hits = t.result.counts["hits"].droplevel("probe")
    sampled_ns, away = hits[f"{HZ} Hz"] * 1e9 / HZ, told["switches"]
    error_ns = sampling_error_ns(HZ, away, before_ns)
    # Both programs may start there, and children_ns includes the first one's total.
    most_ns = children_ns + 2 * (children_ns - told["cpu_ns"]) + error_ns
    assert told["cpu_ns"] - error_ns <= sampled_ns <= most_ns
    assert hits["99 Hz"] * 1e9 / 99 == pytest.approx(sampled_ns, abs=sampling_error_ns(99, away, before_ns))
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


def of_children_ns():
    """CPU time of all children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (usage.ru_utime + usage.ru_stime) * 1e9


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

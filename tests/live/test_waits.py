"""Waits of threads: durations and reasons, compared with programs that measure their own waits."""

import re
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import accel_magic
from accel_magic import trace
from accel_magic.kernel.attach import waits
from accel_magic.kernel.bcc import compiler
from accel_magic.kernel.syscall_numbers import NUMBERS
from accel_magic.recording.reader import reader_client
from tests.support.clocks import machine_ns, sampling_error_ns

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("nothing_attached")]

ASLEEP = "syscall == 230 and state != 0"
"""In clock_nanosleep, and not because another thread has the CPU."""


def of_thread(result, tid):
    events = result.events
    return events[(events["tid"] == tid) & (events["function"] == "wait")]


def switches_at(tid):
    """The time (CLOCK_MONOTONIC, ns), and this thread's number of context switches until then."""
    while True:
        before, at, after = switches_of(tid), time.monotonic_ns(), switches_of(tid)
        if before == after:
            return at, after


def switches_of(tid):
    status = Path(f"/proc/self/task/{tid}/status").read_text()
    return sum(int(count) for count in re.findall(r"voluntary_ctxt_switches:\s+(\d+)", status))


def test_every_context_switch_is_a_wait_unless_its_end_is_hidden():
    tid = threading.get_native_id()

    with trace("offcpu") as t:
        start, before = switches_at(tid)
        for _ in range(300):
            time.sleep(0.0002)
            sum(range(10_000))
        end, after = switches_at(tid)

    recording = t.result.recording
    waits = of_thread(t.result, tid)
    inside = waits["time_ns"].between(start - recording.start_ns, end - recording.start_ns).sum()
    assert after - before > 200  # a sleep that is over before it begins is no switch
    # If the kernel hides a switch away from a process of its host, it also hides which thread resumes.
    assert 0 <= after - before - inside <= recording.unpaired[0] < recording.hits[0] / 2


def test_each_kind_of_wait_has_its_reason_and_the_measured_duration(build, run, tmp_path):
    program = build("waits")

    with trace("offcpu", stacks="kernel") as t:
        told = run(program, tmp_path / "lock")

    waits = of_thread(t.result, told["pid"]).query("comm == 'waits'")  # not before exec
    besides_ns = told["ran"] + told["delayed"]  # part of it is between the program's clock readings and the wait
    assert (waits["pid"] == told["pid"]).all()
    measured = {key: each["duration_ns"] for key, each in waits.groupby(["wait", "syscall"], observed=True)}
    for reason, call, name in (
        ("lock", "futex", "lock"),
        ("IO: read", "read", "read"),
        ("poll", "poll", "poll"),
        ("waiting for a child", "wait4", "child"),
        ("lock", "fcntl", "file_lock"),
    ):
        # On a busy machine, other waits with this reason, such as for the start of a thread, may be longer.
        assert measured[reason, NUMBERS[call]].between(told[name] - besides_ns, told[name]).any()
    sleeps = waits[waits["wait"] == "sleep"]["duration_ns"]
    assert len(sleeps) == 3
    assert told["sleep"] - besides_ns < sleeps.sum() <= told["sleep"]
    if "fault" in told:
        faults = waits[waits["wait"] == "page fault"]
        assert told["fault"] - besides_ns < faults["duration_ns"].max() <= told["fault"]
        assert faults.loc[faults["duration_ns"].idxmax(), "syscall"] == -1
    assert set(t.result.waits["reason"]) >= {"lock", "IO: read", "poll", "waiting for a child", "sleep"}


def test_threads_sharing_a_cpu_either_wait_for_it_or_are_sampled_on_it(build, run):
    program = build("busy")
    before_ns = machine_ns()

    with trace("profile:hz:1999", "offcpu") as t:
        told = run(program, 2, 300, 0)

    events = t.result.events
    names = ("tid", "cpu_ns", "start_ns", "end_ns", "switches", "delay_ns")
    for tid, cpu_ns, start_ns, end_ns, switches, delay_ns in zip(*(told[name] for name in names), strict=True):
        begin, end = (at - t.result.recording.start_ns for at in (start_ns, end_ns))
        own = events[(events["tid"] == tid) & events["time_ns"].between(begin, end)]
        on_cpu = (own["function"] == "1999 Hz").sum() * 1e9 / 1999
        assert on_cpu == pytest.approx(cpu_ns, abs=sampling_error_ns(1999, switches, before_ns))
        waited = own[own["function"] == "wait"]
        assert set(waited["state"]) == {0}
        assert set(waited["wait"]) == {"waiting for a processor"}
        # Waits with a hidden end are missing; for a thread's last wait, no later wait shows this.
        hidden = switches - len(waited)
        assert 0 <= hidden <= t.result.recording.unpaired[1] + 1
        measured_ns = waited["duration_ns"].sum()
        assert measured_ns <= delay_ns * 1.01 + 1e6
        if not hidden:
            assert measured_ns >= delay_ns * 0.99 - 1e6


def test_waits_for_the_gil_are_recognized_also_in_a_saved_recording(tmp_path):
    told, before_ns = {}, machine_ns()

    def work(name):
        cpu, start = time.thread_time_ns(), time.monotonic_ns()
        while time.monotonic_ns() - start < 500e6:
            sum(range(1000))
        end = time.monotonic_ns()
        told[name] = (threading.get_native_id(), start, end, time.thread_time_ns() - cpu)

    with trace("offcpu", save=tmp_path / "gil") as t:
        threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    recording = t.result.recording
    replayed = accel_magic.open(tmp_path / "gil")
    for tid, start, end, cpu_ns in told.values():
        waits = of_thread(t.result, tid)
        assert of_thread(replayed, tid)["wait"].tolist() == waits["wait"].tolist()
        inside = waits[waits["time_ns"].between(start - recording.start_ns, end - recording.start_ns)]
        of_reason = inside.groupby("wait", observed=True)["duration_ns"].sum()
        waited_ns = of_reason["the GIL"] + of_reason.get("waiting for a processor", 0)
        assert of_reason["the GIL"] > 0
        assert waited_ns <= (end - start - cpu_ns) * 1.01 + 1e6
        if not recording.unpaired.sum():
            taken_ns = machine_ns() - before_ns
            assert waited_ns >= (end - start - cpu_ns) * 0.97 - 5e6 - taken_ns


def test_unfinished_waits_last_until_the_end_and_ended_threads_have_none():
    asleep, quick = threading.Event(), threading.Event()
    ids = {}

    def sleeper():
        ids["sleeper"], ids["since"] = threading.get_native_id(), time.monotonic_ns()
        asleep.wait()

    def brief():
        ids["brief"], ids["began"] = threading.get_native_id(), time.monotonic_ns()
        quick.wait(0.02)
        ids["took"] = time.monotonic_ns() - ids["began"]

    with trace("offcpu:us:100") as t:
        thread = threading.Thread(target=sleeper, daemon=True)
        thread.start()
        gone = threading.Thread(target=brief)
        gone.start()
        gone.join()
        while Path(f"/proc/self/task/{thread.native_id}/stat").read_text().rpartition(")")[2].split()[0] != "S":
            time.sleep(0.01)
        time.sleep(0.05)
    asleep.set()
    thread.join()

    last = of_thread(t.result, ids["sleeper"]).iloc[-1]
    assert last["time_ns"] + last["duration_ns"] == t.result.recording.duration_ns
    assert last["time_ns"] >= ids["since"] - t.result.recording.start_ns
    assert last["wait"] == "lock"
    (unfinished,) = t.result.latency["unfinished"]
    ended = t.result.events["time_ns"] + t.result.events["duration_ns"] == t.result.recording.duration_ns
    assert unfinished == ended.sum() >= 1  # threads of earlier tests may be waiting too
    waits = of_thread(t.result, ids["brief"]).set_index("time_ns")["duration_ns"]
    began = ids["began"] - t.result.recording.start_ns
    assert 0 < waits.loc[began : began + ids["took"]].max() <= ids["took"]
    assert t.result.recorded == len(t.result.events)


def test_system_wide_waits_exclude_the_tracer_and_kernel_threads_have_no_system_call():
    with trace("offcpu", "profile:hz:999", scope="all") as t:
        time.sleep(0.5)

    events = t.result.events
    assert {reader_client.shared().pid, compiler.start()}.isdisjoint(events["pid"])
    assert 0 not in set(events["tid"])
    of_kernel = events[events["comm"].str.startswith(("kworker", "rcu_", "ksoftirqd")) & (events["function"] == "wait")]
    assert len(of_kernel) > 0
    assert set(of_kernel["syscall"]) == {-1}
    assert set(of_kernel["arg0"]) == {0}


def test_short_waits_are_measured_and_counted_but_are_not_events(build, run):
    program = build("naps")

    with trace("offcpu:us:6000", filter=f"comm == 'naps' and {ASLEEP}") as t:
        told = run(program, 2, 41, 4000)["nap"]

    durations = np.array(told)
    latency = t.result.latency.iloc[0]
    unpaired = t.result.recording.unpaired[0]
    assert t.result.hits == latency["count"] + unpaired + latency["unfinished"] == 82
    assert latency["unfinished"] <= 2  # hidden ends of the threads' last naps
    total = latency["mean_ns"] * latency["count"]
    # Naps of 4, 8, 12 and 16 ms in turn, at least; how much longer depends on what else runs.
    assert 0.9 * 800e6 - unpaired * 16e6 < total <= durations.sum()
    assert 60 - unpaired <= len(t.result.events) <= (durations > 6e6).sum()
    assert t.result.events["duration_ns"].min() >= 6e6
    assert (t.result.events["syscall"] == NUMBERS["clock_nanosleep"]).all()


def test_a_filter_on_the_duration_applies_to_counts(build, run):
    program = build("naps")

    with trace("offcpu", filter=f"duration > 6000000 and comm == 'naps' and {ASLEEP}", mode="count") as t:
        told = run(program, 1, 41, 4000)["nap"]

    # Of naps of 4, 8, 12 and 16 ms in turn 30 are long. The kernel may hide the end of one; the next nap shows that.
    assert 30 - t.result.recording.unpaired[0] <= t.result.hits <= (np.array(told) > 6e6).sum()
    assert t.result.latency["count"].tolist() == [t.result.hits]
    assert (t.result.recorded, t.result.latency["unfinished"].item()) == (0, 0)


def test_waits_dropped_by_a_full_table_are_counted(build, run, monkeypatch):
    monkeypatch.setattr(waits, "MOST_WAITS", 4)
    program = build("naps")

    with trace("offcpu", filter="comm == 'naps'") as t:
        run(program, 16, 4, 3000)

    recording, latency = t.result.recording, t.result.latency.iloc[0]
    assert recording.unpaired[0] > 0
    assert recording.hits[0] == recording.unpaired[0] + latency["count"] + latency["unfinished"]
    assert t.result.recorded == latency["count"] + latency["unfinished"]

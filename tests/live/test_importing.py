"""Importing output of the real tools, created here with a program that counts its own calls."""

from __future__ import annotations

import re
import shutil
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import accel_magic
from tests.support.errors import raises

pytestmark = pytest.mark.live

TRACING = Path("/sys/kernel/tracing")
EVENTS = ("sys_enter_getppid", "sys_exit_getppid")
BPFTRACE = pytest.mark.skipif(shutil.which("bpftrace") is None, reason="bpftrace is not installed")
PERF = pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")


def told(text):
    """Parse the program's own counts: `getppid 600`."""
    return int(re.search(r"getppid (\d+)", text)[1])


def saved(tmp_path, command):
    """Run a tool and store its output, as with `>`."""
    done = subprocess.run(command, capture_output=True, check=True, timeout=240)
    path = tmp_path / "output.txt"
    path.write_bytes(done.stdout)
    return path


@BPFTRACE
@pytest.mark.parametrize("json_", [False, True])
def test_bpftraces_lines_maps_and_histograms(build, tmp_path, json_):
    program = build("calls")
    script = """
        tracepoint:syscalls:sys_enter_getppid /comm == "calls"/ {
            printf("%llu %s %d %s\\n", nsecs, comm, tid, probe); @calls[probe] = count(); @start[tid] = nsecs; }
        tracepoint:syscalls:sys_exit_getppid /@start[tid]/ {
            @ns[probe] = hist(nsecs - @start[tid]); delete(@start[tid]); }"""
    form = ["-f", "json"] if json_ else []
    path = saved(tmp_path, ["bpftrace", *form, "-e", script, "-c", f"{program} 2 300"])

    result = accel_magic.open(path)

    assert told(path.read_text()) == 600
    assert result.hits == 600
    assert result.hits == result.recorded + result.lost
    assert result.recording.timed
    assert result.events["time_ns"].is_monotonic_increasing
    assert result.duration_s > 0
    assert set(result.events["comm"]) == {"calls"}
    assert len(set(result.events["tid"])) == 2
    [(probe, function)] = result.latency.index
    assert (probe, function) == ("tracepoint:syscalls:sys_exit_getppid", "sys_exit_getppid")
    assert result.latency["count"].item() == 600


@BPFTRACE
def test_bpftraces_lines_without_times(build, tmp_path):
    script = 'tracepoint:syscalls:sys_enter_getppid /comm == "calls"/ { printf("%s\\n", probe) }'
    path = saved(tmp_path, ["bpftrace", "-e", script, "-c", f"{build('calls')} 1 400"])

    result = accel_magic.open(path)

    assert result.hits + result.lost == told(path.read_text()) == 400
    assert not result.recording.timed


HEADER_MS = """
    BEGIN { printf("Tracing... Hit Ctrl-C to end.\\n"); printf("%-10s %-40s\\n", "TIME(ms)", "FUNCTION"); }
    tracepoint:syscalls:sys_*_getppid /comm == "calls"/ {
        printf("%-10llu %-40s\\n", nsecs / 1000000, probe); @calls[probe] = count(); }
    END { printf("\\n=== Statistics ===\\n\\nTop functions by call count:\\n"); print(@calls, 20); }"""
TOOK_US = """
    tracepoint:syscalls:sys_enter_getppid /comm == "calls"/ { @at[tid] = nsecs; }
    tracepoint:syscalls:sys_exit_getppid /@at[tid]/ {
        $us = (nsecs - @at[tid]) / 1000; delete(@at[tid]);
        printf("Asking for the parent took %llu us\\n", $us); @ask_latency = hist($us); }
    END { printf("\\nAsking Latency (microseconds):\\n"); print(@ask_latency); clear(@at); }"""
PER_SECOND = """
    tracepoint:syscalls:sys_enter_getppid /comm == "calls"/ { @n++; @last_time = nsecs; }
    interval:s:1 { printf("calls/sec: %llu\\n", @n); @n = 0; }
    END { clear(@n); }"""
TAGGED = """
    uprobe:PROGRAM:leaf_other { printf("[API] Other leaf\\n"); @api_time = nsecs; }
    tracepoint:syscalls:sys_enter_getppid /comm == "calls"/ { printf("[KERNEL] Parent asked\\n"); }"""


@BPFTRACE
@pytest.mark.parametrize("json_", [False, True])
def test_a_script_that_prints_milliseconds_below_a_header(build, tmp_path, json_):
    form = ["-f", "json"] if json_ else []
    path = saved(tmp_path, ["bpftrace", *form, "-e", HEADER_MS, "-c", f"{build('calls')} 1 200"])
    ms = [int(time) for time in re.findall(r"(\d+) +tracepoint:syscalls:sys_enter_getppid", path.read_text())]

    result = accel_magic.open(path)
    entries = result.events[result.events["function"] == "sys_enter_getppid"]

    assert told(path.read_text()) == len(ms) == 200
    assert result.counts["hits"].tolist() == [200, 200]
    assert result.recording.timed
    assert (entries["time_ns"] - entries["time_ns"].iloc[0]).tolist() == [(time - ms[0]) * 1_000_000 for time in ms]


@BPFTRACE
@pytest.mark.parametrize("json_", [False, True])
def test_a_script_that_prints_how_long_each_call_took(build, tmp_path, json_):
    form = ["-f", "json"] if json_ else []
    path = saved(tmp_path, ["bpftrace", *form, "-e", TOOK_US, "-c", f"{build('calls')} 1 200"])
    us = [int(time) for time in re.findall(r"took (\d+) us", path.read_text())]

    result = accel_magic.open(path)
    latency = result.latency.droplevel("probe")

    assert result.hits == len(us) == told(path.read_text()) == 200
    assert result.events["duration_ns"].tolist() == [time * 1000 for time in us]
    assert latency["count"].to_dict() == {"Asking for the parent": 200, "ask_latency": 200}
    assert max(us) * 1000 <= latency.loc["ask_latency", "max_ns"] < max(2 * max(us), 1) * 1000


@BPFTRACE
def test_a_script_that_prints_calls_per_second(build, tmp_path):
    script = tmp_path / "calls.sh"
    script.write_text(f"{build('calls')} 1 300\nsleep 2.5\n")
    path = saved(tmp_path, ["bpftrace", "-e", PER_SECOND, "-c", f"/bin/sh {script}"])
    rates = [int(count) for count in re.findall(r"calls/sec: (\d+)", path.read_text())]

    result = accel_magic.open(path)

    assert result.hits == sum(rates) == told(path.read_text()) == 300
    assert result.duration_s == len(rates) >= 2
    assert result.rates("1s").iloc[:, 0].tolist() == rates


@BPFTRACE
def test_a_script_that_prints_tagged_lines_of_two_layers(build, tmp_path):
    program = build("calls")
    script = TAGGED.replace("PROGRAM", str(program))
    path = saved(tmp_path, ["bpftrace", "-e", script, "-c", f"{program} 1 100"])

    result = accel_magic.open(path)

    assert told(path.read_text()) == 100
    assert result.counts["hits"].to_dict() == {
        ("[KERNEL] Parent asked", "Parent asked"): 100,
        ("[API] Other leaf", "Other leaf"): int(re.search(r"leaf_other (\d+)", path.read_text())[1]),
    }
    assert result.events["function"].tolist()[:2] == ["Other leaf", "Parent asked"]


@BPFTRACE
def test_lines_counted_by_uniq(build, tmp_path):
    script = 'tracepoint:syscalls:sys_*_getppid /comm == "calls"/ { printf("%s\\n", probe) }'
    path = saved(tmp_path, ["bpftrace", "-e", script, "-c", f"{build('calls')} 1 400"])
    counted = subprocess.run(f"sort {path} | uniq -c | sort -rn", shell=True, capture_output=True, check=True)
    (tmp_path / "counted.txt").write_bytes(counted.stdout)

    result = accel_magic.open(tmp_path / "counted.txt")

    assert result.counts["hits"].tolist() == [400, 400]
    assert result.hits == 2 * told(path.read_text())


@contextmanager
def ftrace_instance():
    """Create a separate trace buffer, so that other tracing is not affected."""
    folder = TRACING / "instances" / "accel_magic_test"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no trace buffer of our own here: {error}")
    try:
        yield folder
    finally:
        for event in EVENTS:
            with suppress(OSError):
                (folder / "events" / "syscalls" / event / "enable").write_text("0")
        folder.rmdir()


def test_ftraces_trace_file(build, tmp_path):
    with ftrace_instance() as folder:
        (folder / "options" / "record-tgid").write_text("1")
        for event in EVENTS:
            # The kernel filters by name: the file has none for a thread that was never switched out.
            (folder / "events" / "syscalls" / event / "filter").write_text('comm == "calls"')
            (folder / "events" / "syscalls" / event / "enable").write_text("1")
        done = subprocess.run([build("calls"), "2", "300"], capture_output=True, text=True, check=True)
        (folder / "tracing_on").write_text("0")
        path = tmp_path / "trace.txt"
        path.write_text((folder / "trace").read_text())

    events = accel_magic.open(path).events

    assert told(done.stdout) == 600
    assert (events["function"] == "sys_enter_getppid").sum() == 600
    assert (events["function"] == "sys_exit_getppid").sum() == 600
    assert set(events["comm"].dropna()) <= {"calls"}
    assert len(set(events["tid"])) == 2
    [parent] = set(events.loc[events["function"] == "sys_exit_getppid", "ret"])
    assert parent > 0


@PERF
def test_perf_script(build, tmp_path):
    data = tmp_path / "perf.data"
    record = ["perf", "record", "-o", data, *(word for event in EVENTS for word in ("-e", f"syscalls:{event}"))]
    done = subprocess.run([*record, build("calls"), "2", "300"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"perf cannot record here: {done.stderr[-200:]}")
    path = saved(tmp_path, ["perf", "script", "-i", data])

    result = accel_magic.open(path)
    events = result.events[result.events["comm"] == "calls"]

    assert (events["function"] == "sys_enter_getppid").sum() == told(done.stdout) == 600
    assert (events["function"] == "sys_exit_getppid").sum() == 600
    assert {point.target for point in result.plan.points} == {"syscalls"}
    assert result.recording.timed


@PERF
def test_perf_data_files_are_rejected_with_the_conversion_command(tmp_path):
    data = tmp_path / "perf.data"
    done = subprocess.run(["perf", "record", "-o", data, "true"], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("perf cannot record here")

    with raises("recording.binary-data", accel_magic.RecordingError) as error:
        accel_magic.open(data)

    assert f"perf script -i {data}" in error.value.fix

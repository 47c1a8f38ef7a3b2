"""Output of the real tools, made here and now over a program that counts its own calls, and imported."""

from __future__ import annotations

import re
import shutil
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import accel_magic

pytestmark = pytest.mark.live

TRACING = Path("/sys/kernel/tracing")
EVENTS = ("sys_enter_getppid", "sys_exit_getppid")
BPFTRACE = pytest.mark.skipif(shutil.which("bpftrace") is None, reason="bpftrace is not installed")
PERF = pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")


def told(text):
    """What the program printed of itself: `getppid 600`."""
    return int(re.search(r"getppid (\d+)", text)[1])


def saved(tmp_path, command):
    """Run a tool and keep what it prints, as a user would with `>`."""
    done = subprocess.run(command, capture_output=True, check=True, timeout=60)
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
    assert 0 < result.duration_s < 10
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


@contextmanager
def ftrace_instance():
    """Give a trace buffer of our own, so that nobody else's tracing is touched."""
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
            (folder / "events" / "syscalls" / event / "enable").write_text("1")
        done = subprocess.run([build("calls"), "2", "300"], capture_output=True, text=True, check=True)
        (folder / "tracing_on").write_text("0")
        path = tmp_path / "trace.txt"
        path.write_text((folder / "trace").read_text())

    result = accel_magic.open(path)
    events = result.events[result.events["comm"] == "calls"]

    assert told(done.stdout) == 600
    assert (events["function"] == "sys_enter_getppid").sum() == 600
    assert (events["function"] == "sys_exit_getppid").sum() == 600
    assert len(set(events["tid"])) == 2
    assert len(set(events["pid"])) == 1
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
def test_perfs_own_data_is_refused_with_the_command_that_helps(tmp_path):
    data = tmp_path / "perf.data"
    done = subprocess.run(["perf", "record", "-o", data, "true"], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("perf cannot record here")

    with pytest.raises(accel_magic.RecordingError) as error:
        accel_magic.open(data)

    assert f"perf script -i {data}" in error.value.fix

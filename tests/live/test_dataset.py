"""Traces that are written to a folder while they run: complete, also if processes are killed or the writer is slow."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

import accel_magic
from accel_magic import trace
from accel_magic.errors import RecordingError
from accel_magic.recording import dataset
from accel_magic.recording.record_decoder import decode
from accel_magic.recording.writer import writer_client
from tests.support import fresh_python, synthetic, users
from tests.support.errors import raises

pytestmark = pytest.mark.live

GETPPID = "tracepoint:syscalls:sys_enter_getppid"
NOTEBOOK = """
import os, sys, time
import accel_magic
with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid", save=sys.argv[1]) as t:
    for _ in range(int(sys.argv[2])):
        os.getppid()
    attached = t.attached
    print(attached.parts.writer.pid, attached.reader_pid, flush=True)
    time.sleep(600)
"""


def wait_for(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def wait_for_lock(folder):
    """Wait until killed processes have ended, with which the lock goes that they hold of their dataset."""
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    os.close(descriptor)


def manifest(folder):
    return json.loads((folder / dataset.MANIFEST).read_text())["manifest"]


def assert_adds_up(folder):
    body = manifest(folder)
    for hits, recorded, lost in zip(body["hits"], body["recorded"], body["lost"], strict=True):
        assert hits == recorded + lost
    assert sum(part["rows"] for part in body["parts"]) == sum(body["recorded"])


def test_a_program_that_counts_its_calls_is_in_the_dataset_call_by_call(build, run, tmp_path):
    program, folder = build("calls"), tmp_path / "set"
    with trace(GETPPID, f"latency:uprobe:{program}:leaf", save=folder) as t:
        told = run(program, 2, 50_000)

    assert t.result.counts.droplevel("probe")["hits"]["sys_enter_getppid"] == told["getppid"]
    assert (t.result.lost, t.result.recorded) == (0, t.result.hits)
    opened = accel_magic.open(folder)
    assert manifest(folder)["state"] == "ended"
    assert_adds_up(folder)
    pd.testing.assert_frame_equal(opened.events, t.result.events)
    pd.testing.assert_frame_equal(opened.counts, t.result.counts)
    assert opened.events["time_ns"].is_monotonic_increasing
    assert (opened.events["pid"] == told["pid"]).all()
    counted = opened.sql("select count(*) as n from events where function = 'sys_enter_getppid'")
    assert counted["n"].tolist() == [told["getppid"]]
    with raises("dataset.exists", RecordingError), trace(GETPPID, save=folder):
        pytest.fail("nothing may run")
    assert accel_magic.open(folder).hits == opened.hits


def test_stacks_and_the_users_limit_are_kept(build, run, tmp_path):
    program = build("calls")
    with trace(GETPPID, save=tmp_path / "stacks", stacks="user") as t:
        run(program, 1, 500)
    with trace(GETPPID, save=tmp_path / "limit", max_events=777) as limited:
        run(program, 1, 5000)

    opened = accel_magic.open(tmp_path / "stacks")
    pd.testing.assert_frame_equal(opened.stacks, t.result.stacks)
    assert opened.stacks["hits"].sum() == 500
    assert (limited.result.hits, limited.result.recorded) == (5000, 777)
    assert len(accel_magic.open(tmp_path / "limit").events) == 777


def test_the_notebook_is_killed_and_its_dataset_is_complete(tmp_path):
    folder, calls = tmp_path / "set", 40_000
    with fresh_python.Popen(
        [sys.executable, "-c", NOTEBOOK, folder, str(calls)], stdout=subprocess.PIPE, text=True
    ) as notebook:
        notebook.stdout.readline()
        notebook.kill()
    wait_for(lambda: manifest(folder)["state"] == "killed")
    result = accel_magic.open(folder)

    assert result.hits == result.recorded == len(result.events) == calls
    assert result.lost == 0
    assert_adds_up(folder)
    assert any("was killed: the dataset ends" in note for note in result.recording.notes)
    assert result.recording.samples.hits[-1].tolist() == [calls]


def test_everything_is_killed_and_what_was_written_opens(tmp_path):
    folder, calls = tmp_path / "set", 40_000
    with fresh_python.Popen(
        [sys.executable, "-c", NOTEBOOK, folder, str(calls)], stdout=subprocess.PIPE, text=True
    ) as notebook:
        helpers = [int(word) for word in notebook.stdout.readline().split()]
        wait_for(lambda: sum(manifest(folder)["recorded"]) == calls)
        for pid in (*helpers, notebook.pid):
            os.kill(pid, signal.SIGKILL)
    wait_for_lock(folder)
    result = accel_magic.open(folder)

    assert manifest(folder)["state"] == "tracing"
    assert result.hits == result.recorded == len(result.events) == calls
    assert any("processes that traced and wrote were killed" in note for note in result.recording.notes)


def test_the_writer_is_killed_and_what_it_did_not_write_is_lost_exactly(build, run, tmp_path):
    program, folder = build("calls"), tmp_path / "set"
    block = trace(GETPPID, save=folder)
    with raises("dataset.incomplete", RecordingError), block:
        run(program, 1, 10_000)
        wait_for(lambda: sum(manifest(folder)["recorded"]) == 10_000)
        os.kill(block.attached.parts.writer.pid, signal.SIGKILL)
        run(program, 1, 5000)

    result = block.result
    assert (result.hits, result.recorded, result.lost) == (15_000, 10_000, 5000)
    assert any("incomplete" in note for note in result.recording.notes)
    assert len(accel_magic.open(folder).events) == 10_000
    with trace(GETPPID) as again:
        os.getppid()
    assert again.result.recorded == 1


def test_root_writes_nothing_through_links_that_take_the_place_of_its_dataset(build, run, tmp_path):
    """The folder is in one of another user, who moves it and puts links in its place while the trace runs."""
    home, secret = tmp_path / "home", tmp_path / "secret"
    for folder in (home, secret, secret / "folder"):
        folder.mkdir()
    (secret / "file").write_text("kept")
    os.chown(home, users.FIRST, users.FIRST)
    folder, program = home / "set", build("calls")
    with trace(GETPPID, save=folder) as t:
        wait_for((folder / dataset.MANIFEST).exists)
        run(program, 1, 5000)
        folder.rename(home / "moved")
        folder.mkdir()
        for name, target in ((dataset.MANIFEST, "file"), (dataset.DESCRIPTION, "new"), (dataset.EVENTS, "folder")):
            (folder / name).symlink_to(secret / target)
        written = manifest(home / "moved")["duration_ns"]
        wait_for(lambda: manifest(home / "moved")["duration_ns"] > written)
        run(program, 1, 5000)

    assert sorted(path.name for path in secret.rglob("*")) == ["file", "folder"]
    assert (secret / "file").read_text() == "kept"
    assert any(f"the dataset is in {home / 'moved'}" in note for note in t.result.recording.notes)
    assert (t.result.hits, t.result.lost, len(t.result.events)) == (10_000, 0, 10_000)
    assert len(accel_magic.open(home / "moved").events) == 10_000


def test_a_dataset_that_is_not_wanted_is_removed_where_it_was_made(tmp_path):
    recording = synthetic.recording(lambda: decode(synthetic.LAYOUT, synthetic.as_bytes(synthetic.records(9, 0)), 0))
    other = dataset.write(recording, tmp_path / "other")
    made = dataset.make(tmp_path / "set", dataset.without_events(recording))
    (tmp_path / "set").rename(tmp_path / "moved")
    (tmp_path / "set").symlink_to(other)
    with made:
        dataset.remove(made)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "set"]
    assert len(accel_magic.open(other).events) == 9


@pytest.fixture
def small(tmp_path):
    """A file system of 512 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", folder], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("this process may not mount file systems")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.parametrize("freed", [True, False])
def test_a_disk_that_fills_up_costs_events_that_are_counted(build, run, small, freed):
    """The counts of the result, and of the folder, add up, also if not even the last manifest can be written."""
    program, folder = build("calls"), small / "set"
    block = trace(GETPPID, save=folder)
    with raises("dataset.incomplete", RecordingError), block:
        run(program, 1, 5000)
        wait_for(lambda: sum(manifest(folder)["recorded"]) == 5000)
        with (small / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError, match="No space left"):
            while True:
                filler.write(bytes(4096))
        run(program, 1, 60_000)
        wait_for(lambda: block.attached.parts.kernel.counters["hits"].sum() == 65_000)
        time.sleep(2)  # the writer tries to write a part
        if freed:
            (small / "filler").unlink()

    result = block.result
    assert result.hits == 65_000 == result.recorded + result.lost
    assert result.recorded == len(result.events) == 5000
    assert any("incomplete: No space left on device" in note for note in result.recording.notes)
    assert list(small.rglob("*.tmp")) == []
    (small / "filler").unlink(missing_ok=True)
    opened = accel_magic.open(folder)
    assert len(opened.events) == opened.recorded == 5000
    if freed:
        assert opened.hits == 65_000 == opened.recorded + opened.lost


def test_a_folder_that_is_removed_meanwhile_costs_the_events_and_no_counts(build, run, tmp_path):
    program, folder = build("calls"), tmp_path / "set"
    block = trace(GETPPID, save=folder)
    with raises("dataset.incomplete", RecordingError), block:
        shutil.rmtree(folder)
        run(program, 1, 5000)

    assert (block.result.hits, block.result.recorded, block.result.lost) == (5000, 0, 5000)
    assert len(block.result.events) == 0
    assert str(block.result)


def test_a_writer_that_cannot_keep_up_costs_events_and_no_memory(build, run, tmp_path, monkeypatch):
    most = 2 << 20
    monkeypatch.setattr(writer_client, "_MOST_BYTES", most)
    program, folder = build("calls"), tmp_path / "set"
    block = trace(GETPPID, save=folder, buffer=1)
    with block:
        attached = block.attached
        os.kill(attached.parts.writer.pid, signal.SIGSTOP)
        run(program, 2, 100_000)
        held = _shared_bytes(attached.reader_pid)
        os.kill(attached.parts.writer.pid, signal.SIGCONT)

    result = block.result
    assert result.hits == 200_000
    assert result.lost > 0
    assert result.recorded + result.lost == result.hits
    assert_adds_up(folder)
    assert held < most + (2 << 20), "what the reader holds, and one more read of the ring"
    assert len(accel_magic.open(folder).events) == result.recorded


def _shared_bytes(pid):
    """Size of the files in memory that a process has open."""
    files = Path(f"/proc/{pid}/fd").iterdir()
    return sum(file.stat().st_size for file in files if "memfd:records" in str(file.readlink()))


def test_a_trace_that_cannot_start_leaves_no_dataset(tmp_path):
    folder = tmp_path / "set"
    block = trace(GETPPID, save=folder, filter="arg0 == no_such_name")
    with pytest.raises(accel_magic.AccelMagicError), block:
        pytest.fail("nothing may run")
    assert not folder.exists()


def test_the_command_writes_a_folder(build, tmp_path):
    program, folder = build("calls"), tmp_path / "set"
    command = [sys.executable, "-m", "accel_magic", "trace", GETPPID, "--save", folder, "--no-print", "--", program]
    fresh_python.run([*command, "1", "4321"], check=True)

    assert accel_magic.open(folder).hits == len(accel_magic.open(folder).events) == 4321
    done = fresh_python.run([*command, "1", "1"])
    assert done.returncode != 0
    assert "dataset.exists" in done.stderr

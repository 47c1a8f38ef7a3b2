"""Recordings handed over between processes, and programs compiled elsewhere, as in the NPU lab."""

import json
import os
import socket
import subprocess
import threading

import numpy as np
import pytest

from accel_magic import MachineError, RecordingError, trace
from accel_magic.api.trace_options import Options
from accel_magic.engine.session import attach
from accel_magic.kernel.bcc import compiler
from accel_magic.recording import handover
from accel_magic.results.trace_result import TraceResult
from tests.support.errors import raises

pytestmark = pytest.mark.live

GETPPID = "tracepoint:syscalls:sys_enter_getppid"


@pytest.fixture
def recorded(build, run, tmp_path):
    """A live recording with three kinds of records, and its handover file."""
    probes = (GETPPID, f"latency:uprobe:{build('calls')}:leaf", "tracepoint:sched:sched_process_exec")
    attached = attach(Options().plan(probes))
    attached.go()
    run(build("calls"), 2, 50)
    recording = attached.stop()
    path = tmp_path / "recording"
    handover.write(recording, path)
    return recording, path


def test_a_handed_over_recording_is_read_back_unchanged(recorded):
    recording, path = recorded
    read = handover.read(path)
    path.unlink()

    assert len(read.events) == len(recording.events) >= 201  # programs that other threads start are recorded too
    for name, column in recording.events.columns.items():
        other = read.events.columns[name]
        np.testing.assert_array_equal(column.values, other.values)
        np.testing.assert_array_equal(column.valid, other.valid)
        assert column.categories == other.categories
    np.testing.assert_array_equal(read.hits, recording.hits)
    np.testing.assert_array_equal(read.histograms.counts, recording.histograms.counts)
    np.testing.assert_array_equal(read.samples.hits, recording.samples.hits)
    assert (read.plan, read.machine, read.started) == (recording.plan, recording.machine, recording.started)
    assert str(TraceResult(read)) == str(TraceResult(recording))


def test_only_a_fresh_recording_can_be_handed_over(recorded, tmp_path):
    recording, _ = recorded
    saved = TraceResult(recording).to_parquet(tmp_path / "saved.parquet")

    from accel_magic.recording.recording_store import load

    with pytest.raises(TypeError, match="raw events"):
        handover.write(load(saved), tmp_path / "other")


def damaged(path):
    """Malformed files: (description, bytes)."""
    data = path.read_bytes()
    line, _, rest = data.partition(b"\n")
    sizes = json.loads(line)
    yield "truncated", data[:-1]
    yield "JSON", b"no recording\n" + rest
    yield "", b""
    yield "", json.dumps(sizes[:-1]).encode() + b"\n" + rest  # one ring too few
    yield "", json.dumps([*sizes, 0]).encode() + b"\n" + rest  # one too many
    yield "", json.dumps([sizes[0] + 1, sizes[1] - 1, *sizes[2:]]).encode() + b"\n" + rest
    part = sum(sizes[:2])
    yield "", json.dumps([*sizes[:2], *(size - 8 for size in sizes[2:])]).encode() + b"\n" + rest
    yield "point", line + b"\n" + rest[:part] + b"\xff" * (len(rest) - part)


def test_files_that_are_not_recordings_are_rejected(recorded):
    _, path = recorded
    for why, data in list(damaged(path)):
        path.write_bytes(data)
        with raises("recording.damaged", RecordingError, match="cannot be used") as caught:
            handover.read(path)
        assert why in caught.value.why
    with raises("recording.damaged", RecordingError, match="cannot be used"):
        handover.read(path.with_name("nowhere"))


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """Start a compiler for every connection to a local port, as in the lab; yields the started processes."""
    command = compiler.command_for_others(tmp_path / "slots")
    processes = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    processes.append(subprocess.Popen(command, stdin=connection, stdout=connection, stderr=connection))

        threading.Thread(target=serve, daemon=True).start()
        monkeypatch.setenv(compiler.ELSEWHERE, f"127.0.0.1:{listener.getsockname()[1]}")
        compiler.stop()
        compiler.compile_own.cache_clear()
        yield processes
        compiler.stop()
        compiler.compile_own.cache_clear()
        listener.shutdown(socket.SHUT_RDWR)
    for process in processes:
        assert process.wait(10) == 0  # it ends with its connection


def test_a_remote_compiler_works(elsewhere, run, build):
    for calls in (3, 4):
        with trace(GETPPID) as t:
            run(build("calls"), 1, calls)
        assert t.result.hits == calls

    assert len(elsewhere) == 1
    assert compiler.start() is None


def test_a_users_own_program_is_compiled_locally(elsewhere):
    compiled = compiler.compile_user("BPF_HASH(seen); int f(void *ctx) { return 0; }", "mine.c")
    for map_ in compiled.maps:
        os.close(map_.fd)

    assert [map_.name for map_ in compiled.maps] == ["seen"]
    assert elsewhere == []


def test_an_unreachable_compiler_is_a_typed_error(monkeypatch, left_behind):
    compiler.stop()
    compiler.compile_own.cache_clear()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    monkeypatch.setenv(compiler.ELSEWHERE, address)

    with raises("compiler.unreachable", MachineError, match=f"{address} cannot be reached") as caught, trace(GETPPID):
        pass
    assert compiler.ELSEWHERE in caught.value.fix
    assert left_behind() == set()
    monkeypatch.setenv(compiler.ELSEWHERE, "nonsense")
    with raises("compiler.unreachable", MachineError, match="nonsense cannot be reached"), trace(GETPPID):
        pass

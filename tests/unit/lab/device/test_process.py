"""The device process: it serves one client, writes its counts, ends, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.component

DEVICE = [sys.executable, "-m", "accel_magic.lab.device"]


@pytest.fixture
def start(tmp_path):
    """Start the device and wait until it listens; returns (process, path of the socket)."""
    started = []

    def build(*options, path=None):
        path = path or tmp_path / "npu.sock"
        process = subprocess.Popen([*DEVICE, "--socket", str(path), *options], stderr=subprocess.PIPE, text=True)
        started.append(process)
        deadline = time.monotonic() + 60
        while not path.is_socket() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        return process, path

    yield build
    for process in started:
        process.kill()
        process.communicate()


def connect(path):
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(60)
    for _ in range(600):
        try:
            made.connect(str(path))
        except ConnectionRefusedError:  # the socket has its name, but does not listen yet
            time.sleep(0.1)
        else:
            break
    return made


def exchange(connection, command, body):
    connection.sendall(struct.pack("<HHIII", 1, command, 16 + len(body), 0, 0) + body)
    head = connection.recv(16, socket.MSG_WAITALL)
    size, _, error = struct.unpack_from("<III", head, 4)
    assert error == 0
    return connection.recv(size - 16, socket.MSG_WAITALL) if size > 16 else b""


def test_the_device_serves_a_client_writes_its_counts_and_ends_with_it(start, tmp_path):
    counts = tmp_path / "counts.json"
    process, path = start("--statistics", str(counts), "--log", str(tmp_path / "log"))
    with connect(path) as connection:
        assert exchange(connection, 1, struct.pack("<HH", 0, 1) + b"{}\0")[:4] == bytes(4)
        assert exchange(connection, 9, struct.pack("<QII", 0x200000, 0, 4))[16:] == struct.pack("<I", 0x080F3E0F)
        exchange(connection, 9, struct.pack("<QII", 0x85, 0, 4))
    assert process.wait(60) == 0
    assert not path.exists()
    found = json.loads(counts.read_text())
    assert found["mmio"] == {"reads": 2, "writes": 0, "unknown": 0, "config": 0}
    assert found["guest_faults"] == {"mmio": 1}
    assert found["jobs"]["done"] == 0
    assert "guest fault mmio: read of 4 bytes at 0x85 of BAR 0" in (tmp_path / "log").read_text()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["counts.json", "log"]


def test_a_connection_without_data_does_not_count_as_a_client(start):
    process, path = start()
    for _ in range(3):
        connect(path).close()
    with connect(path) as connection:
        assert exchange(connection, 9, struct.pack("<QII", 0x200000, 0, 4))[16:] == struct.pack("<I", 0x080F3E0F)
        assert process.poll() is None
    assert process.wait(60) == 0


def test_only_its_user_can_connect(start):
    _, path = start()
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("connected", [False, True])
def test_sigterm_ends_the_device_cleanly(start, tmp_path, connected):
    counts = tmp_path / "counts.json"
    process, path = start("--statistics", str(counts))
    connection = connect(path) if connected else None
    time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert not path.exists()
    assert json.loads(counts.read_text())["boots"]["cold"] == 0
    if connection:
        connection.close()


def test_the_device_ends_when_its_parent_is_killed(tmp_path):
    path = tmp_path / "npu.sock"
    code = (
        "import subprocess, time\n"
        f"p = subprocess.Popen({DEVICE!r} + ['--socket', {str(path)!r}], stdout=-3, stderr=-3)\n"
        "print(p.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    try:
        deadline = time.monotonic() + 60
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.1)
        parent.kill()
        parent.communicate()
        while path.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not path.exists()
        with pytest.raises(ProcessLookupError):
            while time.monotonic() < deadline:
                os.kill(child, 0)
                time.sleep(0.01)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def test_a_stale_socket_is_replaced_and_one_in_use_is_not(start, tmp_path):
    path = tmp_path / "npu.sock"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    process, _ = start(path=path)
    time.sleep(0.3)
    assert process.poll() is None
    second = subprocess.run([*DEVICE, "--socket", str(path)], check=False, capture_output=True, text=True, timeout=10)
    assert second.returncode == 2
    assert "cannot listen on" in second.stderr
    assert "fix: " in second.stderr
    assert path.exists()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--socket", "/nowhere/npu.sock"], "cannot listen on /nowhere/npu.sock"),
        (["--socket", "x" * 200], "cannot listen on"),
        (["--socket", "s", "--fault", "explode=1"], "--fault explode=1"),
        (["--socket", "s", "--log", "/nowhere/log"], "cannot write the log"),
    ],
)
def test_a_failed_start_prints_the_reason_and_a_fix(tmp_path, options, expected):
    done = subprocess.run([*DEVICE, *options], check=False, capture_output=True, text=True, timeout=10, cwd=tmp_path)
    assert done.returncode == 2
    assert expected in done.stderr
    assert "why: " in done.stderr
    assert "fix: " in done.stderr
    assert "Traceback" not in done.stderr


def test_the_device_imports_no_installed_packages():
    code = (
        "import sys; import accel_magic.lab.device.__main__; "
        "print([m for m in sys.modules if m.split('.')[0] in "
        "{'numpy', 'pandas', 'IPython', 'pyarrow', 'bokeh', 'logging', 'asyncio'}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout == "[]\n"

"""Results drawn by another process, as the lab's host draws those of its guest."""

import os
import re
import socket
import struct
import subprocess
import threading

import pytest

from accel_magic import own_python
from accel_magic.api.trace_options import Options
from accel_magic.engine.session import attach
from accel_magic.results import drawing_server
from accel_magic.results.trace_result import TraceResult
from accel_magic.views import drawn_elsewhere
from accel_magic.views.figures import bokehjs

pytestmark = pytest.mark.live

GETPPID = "tracepoint:syscalls:sys_enter_getppid"
OF_ONE_DRAWING = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\bp\d{4,}\b")
"""Ids of elements and of Bokeh's models."""


class Host:
    """Starts a process for each connection, as QEMU does."""

    def __init__(self, folder):
        self.processes = []
        self._command = own_python.command("accel_magic", "lab", "draw", str(folder))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                end = connection.fileno()
                self.processes.append(subprocess.Popen(self._command, stdin=end, stdout=end, stderr=subprocess.PIPE))

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for process in self.processes:
            process.kill()
            process.communicate()


@pytest.fixture
def host(tmp_path, monkeypatch):
    host = Host(tmp_path / "drawers")
    monkeypatch.setenv(drawn_elsewhere.VARIABLE, host.address)
    monkeypatch.setattr(bokehjs, "has_kernel", lambda: True)
    monkeypatch.setattr(bokehjs, "_carrier", None)
    yield host
    drawn_elsewhere.stop()
    host.close()


@pytest.fixture
def recording(build, run):
    attached = attach(Options().plan((GETPPID, f"latency:uprobe:{build('calls')}:leaf")))
    attached.go()
    run(build("calls"), 2, 50)
    return attached.stop()


def test_a_result_drawn_elsewhere_is_the_same_and_its_first_one_has_bokehjs(host, recording):
    here = TraceResult(recording)
    elsewhere = here._repr_mimebundle_()

    [process] = host.processes
    assert process.wait(60) == 0
    assert process.stderr.read() == b""
    assert elsewhere["text/html"].startswith("<script>")
    assert (
        elsewhere["text/html"].count("accel-magic-bokehjs")
        == here._repr_mimebundle_()["text/html"].count("accel-magic-bokehjs") + 1
    )
    with bokehjs.without_scripts():
        from accel_magic.views.trace_html import bundle

        expected = bundle(here._tables())
    assert elsewhere["text/plain"] == expected["text/plain"]
    drawn = elsewhere["text/html"].removeprefix(bokehjs.bokehjs())
    assert "Bokeh.embed" in drawn or "embed_item" in drawn
    assert OF_ONE_DRAWING.sub("", drawn) == OF_ONE_DRAWING.sub("", expected["text/html"])


def test_without_a_host_results_are_drawn_here(host, recording, monkeypatch, tmp_path):
    from accel_magic.recording.recording_store import load

    saved = load(TraceResult(recording).to_parquet(tmp_path / "saved.parquet"))
    assert drawn_elsewhere.bundle(saved) is None
    monkeypatch.setattr(drawn_elsewhere, "LARGEST", 100)
    assert drawn_elsewhere.bundle(recording) is None
    monkeypatch.undo()
    assert drawn_elsewhere.bundle(recording) is None
    monkeypatch.setattr(bokehjs, "has_kernel", lambda: True)
    monkeypatch.setenv(drawn_elsewhere.VARIABLE, "127.0.0.1:1")
    assert drawn_elsewhere.bundle(recording) is None
    assert len(TraceResult(recording)._repr_mimebundle_()["text/html"]) > 1000


@pytest.mark.parametrize(
    "request_bytes",
    [
        struct.pack("<I", 5) + b"hello",
        struct.pack("<I", 30) + b"[1, 2]\n" + bytes(23),
        struct.pack("<I", (64 << 20)),
        b"\x01",
    ],
    ids=["text", "not a recording", "too large", "part of a size"],
)
def test_hostile_requests_get_no_drawing_and_end_the_process(host, request_bytes):
    name, _, port = host.address.partition(":")
    with socket.create_connection((name, int(port)), timeout=60) as connection:
        connection.sendall(request_bytes)
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(4096), b""))

    assert answer in (b"", struct.pack("<I", 2) + b"{}")
    [process] = host.processes
    assert process.wait(60) == 0


def test_a_lab_has_a_limited_number_of_these_processes(host, recording):
    name, _, port = host.address.partition(":")
    held = [socket.create_connection((name, int(port)), timeout=60) for _ in range(drawing_server.MOST)]
    try:
        folder = host._command[-1]
        until_taken(folder)
        assert drawn_elsewhere.bundle(recording) is None
        assert host.processes[-1].wait(60) == 0
    finally:
        for connection in held:
            connection.close()


def until_taken(folder):
    """Wait until all places of a lab are taken."""
    import fcntl
    import time
    from pathlib import Path

    until = time.monotonic() + 120
    for number in range(drawing_server.MOST):
        while time.monotonic() < until:
            try:
                with Path(folder, str(number)).open("rb") as place:
                    fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                break
            except FileNotFoundError:
                pass
            time.sleep(0.05)


def test_the_process_can_neither_write_nor_connect_nor_start_programs():
    script = """
import errno, os, socket, subprocess, sys
from accel_magic.results import drawing_server
drawing_server._warm_up()
drawing_server._confine([sys.prefix, sys.base_prefix, *sys.path])
attempts = [
    lambda: open("/tmp/written", "w"),
    lambda: socket.socket(),
    lambda: os.execv("/bin/true", ["true"]),
    lambda: os.unlink(sys.executable),
    lambda: os.kill(os.getppid(), 0),
]
for attempt in attempts:
    try:
        attempt()
    except OSError as error:
        assert error.errno in (errno.EPERM, errno.EACCES), error
    else:
        raise SystemExit("it was possible")
import json.tool
print(os.path.basename(json.tool.__file__))
"""
    done = subprocess.run(
        [os.sys.executable, "-P", "-c", script], capture_output=True, text=True, check=False, timeout=240
    )
    assert (done.stdout.strip(), done.returncode) == ("tool.py", 0), done.stderr

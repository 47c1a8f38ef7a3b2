"""Servers of our libraries: who can connect, and what a killed server leaves behind."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from accel_magic import local_socket
from accel_magic.devices.mock_cuda import driver_protocol, library_build
from accel_magic.devices.mock_cuda.driver_server import DriverServer
from accel_magic.devices.sim import SimulatedDevice
from accel_magic.gpu.native.cuda_images import CudaApi
from accel_magic.gpu.native.native_server import NativeServer
from tests.support import strangers

pytestmark = pytest.mark.component

SERVED = """
import sys
from accel_magic.devices.sim import SimulatedDevice
from accel_magic.devices.mock_cuda.driver_server import DriverServer
server = DriverServer(SimulatedDevice())
server.start()
print(server.name, flush=True)
sys.stdin.read()
server.close()
"""


class Reports:
    """Reports from the native server to the trace."""

    def __init__(self):
        self.skips = {}

    def skipped(self, name, reason):
        self.skips[name] = reason


def connected(server, kind):
    """A connection of this process, as our libraries make it."""
    connection = socket.socket(socket.AF_UNIX, kind)
    local_socket.connect_in(connection, server.name)
    return connection


@pytest.fixture(params=["driver", "natives"])
def served(request):
    """A running server, and its kind of socket."""
    if request.param == "driver":
        with DriverServer(SimulatedDevice()) as server:
            yield server, socket.SOCK_STREAM
        return
    server = NativeServer((), 1, Reports(), None, lambda _: {}, api=CudaApi)
    server.start()
    yield server, socket.SOCK_SEQPACKET
    server.finish()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_flood_of_connections_of_another_user_neither_reaches_a_server_nor_delays_it(served):
    server, kind = served
    with strangers.flood(os.getpid(), server.name, kind) as flood:
        while flood.runs():
            with connected(server, kind) as mine:
                mine.settimeout(60)
                mine.send(bytes(8))  # not a greeting
                mine.shutdown(socket.SHUT_WR)
                assert mine.recv(100) == b""

    assert flood.connected == 0
    assert flood.refused > strangers.LEAST


def test_the_folder_of_a_server_is_private_and_goes_with_it(served):
    server, kind = served
    folder = Path(server.name).parent
    assert (folder.stat().st_uid, folder.stat().st_mode & 0o777) == (os.geteuid(), 0o700)
    server.finish() if kind == socket.SOCK_SEQPACKET else server.close()
    assert not folder.exists()


def test_a_server_is_reached_in_a_temporary_folder_with_a_long_name(tmp_path, monkeypatch):
    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    monkeypatch.setenv("TMPDIR", str(deep))
    monkeypatch.setattr("tempfile.tempdir", None)
    with DriverServer(SimulatedDevice()) as server:
        script = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).cuInit(0))"
        environment = {**os.environ, driver_protocol.VARIABLE: server.name}
        words = [sys.executable, "-c", script, str(library_build.library())]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert server.name.startswith(str(deep))
    assert done.stdout == "0\n"


def test_processes_of_this_user_or_root_are_not_strangers(monkeypatch):
    ours, other = socket.socketpair()
    with ours, other:
        assert local_socket.stranger(ours) is None
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        expected = None if os.getuid() == 0 else os.getpid()
        assert local_socket.stranger(ours) == expected


def test_what_a_killed_mock_driver_leaves_behind_is_removed_by_the_next(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    words = [sys.executable, "-c", SERVED]
    with subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as served:
        path = served.stdout.readline().strip()
        with socket.socket(socket.AF_UNIX) as connection:
            local_socket.connect_in(connection, path)
        served.kill()
    with socket.socket(socket.AF_UNIX) as connection, pytest.raises(ConnectionRefusedError):
        local_socket.connect_in(connection, path)

    with subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as served:
        following = served.stdout.readline().strip()
        assert list(tmp_path.iterdir()) == [Path(following).parent]
        served.communicate()
    assert list(tmp_path.iterdir()) == []

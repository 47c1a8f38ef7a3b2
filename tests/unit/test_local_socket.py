"""Servers of our libraries: who can connect, and what a killed server leaves behind."""

import os
import socket
import subprocess
import sys

import pytest

from accel_magic import local_socket
from accel_magic.devices.sim import Device
from accel_magic.devices.standin import protocol
from accel_magic.devices.standin.server import Server as Standin
from accel_magic.gpu.native.server import Server as Natives

NOBODY = 65534
SERVED = """
import sys
from accel_magic.devices.sim import Device
from accel_magic.devices.standin.server import Server
server = Server(Device())
server.start()
print(server.name, flush=True)
sys.stdin.read()
"""


class Reports:
    """Reports from the native server to the trace."""

    def __init__(self):
        self.skips = {}

    def skipped(self, name, reason):
        self.skips[name] = reason


def of_another_user(name, kind, message):
    """Connect as another user and send a message; returns the process id, and whether it was disconnected at once."""
    pid = os.fork()
    if pid == 0:
        answer = b"?"
        try:
            os.setresuid(NOBODY, NOBODY, NOBODY)
            with socket.socket(socket.AF_UNIX, kind) as connection:
                connection.settimeout(10)
                connection.connect(local_socket.address(name))
                connection.send(message)
                answer = connection.recv(100)
        except (BrokenPipeError, ConnectionResetError):
            answer = b""
        finally:
            os._exit(len(answer))
    return pid, os.waitpid(pid, 0)[1] == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_the_mock_driver_does_not_answer_other_users():
    hello = protocol.REQUEST.pack(protocol.Operation.HELLO, 0, os.getpid(), 0, 0, 0, 0, 0)
    with Standin(Device()) as server:
        _, hung_up = of_another_user(server.name, socket.SOCK_STREAM, hello)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as mine:
            mine.connect(local_socket.address(server.name))
            mine.send(hello)
            answer = mine.recv(protocol.REPLY.size)

    assert hung_up
    assert protocol.REPLY.unpack(answer)[0] == protocol.Result.SUCCESS


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_users_process_is_not_traced_and_is_reported_as_skipped():
    reports = Reports()
    server = Natives((), 1, reports, None, lambda _: {})
    server.start()
    pid, hung_up = of_another_user(server.name, socket.SOCK_SEQPACKET, b"hello?")

    assert hung_up
    assert server.finish() == ()
    assert reports.skips == {f"process {pid}": "it runs as another user"}


def test_processes_of_this_user_or_root_are_not_strangers(monkeypatch):
    ours, other = socket.socketpair()
    with ours, other:
        assert local_socket.stranger(ours) is None
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        expected = None if os.getuid() == 0 else os.getpid()
        assert local_socket.stranger(ours) == expected


def test_a_killed_mock_driver_leaves_nothing_behind(tmp_path):
    served = subprocess.Popen(
        [sys.executable, "-c", SERVED],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    name = served.stdout.readline().strip()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(local_socket.address(name))
        served.kill()
        served.communicate()

    assert list(tmp_path.iterdir()) == []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection, pytest.raises(ConnectionRefusedError):
        connection.connect(local_socket.address(name))

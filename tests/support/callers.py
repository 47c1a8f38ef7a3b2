"""Connections to a broker that belong to a process of a user, for the tests to send any message through them."""

import contextlib
import os
import shutil
import socket
import subprocess
import time

from msgspec import msgpack

from accel_magic import channel
from accel_magic.broker import broker_messages
from tests.support import users

_CONNECT = """
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
socket.send_fds(socket.socket(fileno=int(sys.argv[2])), [b"."], [connection.fileno()])
connection.close()
sys.stdin.read()
"""


DEADLINE_S = 240
"""For anything that ends by itself: generous, because the machine may be busy."""


def until(condition, seconds=DEADLINE_S):
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@contextlib.contextmanager
def connected(broker, uid=users.FIRST):
    """A connection of a user's process, which ends with it."""
    ours, theirs = socket.socketpair()
    words = ["-Ic", _CONNECT, str(broker.socket), str(theirs.fileno())]
    without = ["--clear-groups", "--bounding-set=-all", "--inh-caps=-all"]
    command = ["setpriv", f"--reuid={uid}", f"--regid={uid}", *without, shutil.which("python3", path="/usr/bin:/bin")]
    process = subprocess.Popen([*command, *words], stdin=subprocess.PIPE, pass_fds=[theirs.fileno()], cwd="/")
    theirs.close()
    with ours, process, process.stdin:
        _, (descriptor,), _, _ = socket.recv_fds(ours, 1, 1)
        with socket.socket(fileno=descriptor) as connection:
            connection.settimeout(60)
            yield connection


HELLO = {"type": "hello", "version": broker_messages.VERSION}


def ask(connection, request, files=()):
    """Send any request; return the answer, or None if the broker closed the connection.

    Args:
        connection: To a broker.
        request: Its fields, with those that are descriptors as indexes of `files`; `type` is its kind.
        files: Descriptors.

    Returns:
        The fields of the answer, as `request`.

    """
    try:
        channel.send_bytes(connection, msgpack.encode(request), files)
        return answer(connection)
    except ConnectionError:
        return None


def answer(connection):
    """Receive an answer; return its fields."""
    data, descriptors = channel.receive_bytes(connection, timeout_s=60)
    for descriptor in descriptors:
        os.close(descriptor)
    return msgpack.decode(data)

"""Another user of the machine, who floods a socket with connections."""

import contextlib
import subprocess
import sys

from tests.support import users

LEAST = 20_000
"""Attempts that the flood makes at least, unless it connects."""
_FLOOD = """
import socket, sys
process, path, kind, least = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
def places():
    lines = [line.split() for line in open("/proc/net/unix")]
    names = [words[7] for words in lines if len(words) > 7]
    return [path, *("\\0" + name[1:] for name in names if name.startswith(f"@accel_magic-{process}-"))]
connected, refused, kept = 0, 0, []
print("ready", flush=True)
while refused <= least and connected <= 5 * least:
    for place in places():
        for _ in range(200):
            one = socket.socket(socket.AF_UNIX, kind)
            one.setblocking(False)
            try:
                one.connect(place)
                connected += 1
                kept.append(one)
            except OSError:
                refused += 1
                one.close()
    if len(kept) > 800:
        kept.clear()
print(connected, refused)
"""


class Flood:
    """A running flood.

    Attributes:
        connected: Connections that it made; known after its end.
        refused: Attempts that failed.

    """

    def __init__(self, process):
        self._process = process
        self.connected = self.refused = 0

    def runs(self):
        """Whether it goes on."""
        return self._process.poll() is None

    def end(self):
        """Wait for its end, and read its numbers."""
        self.connected, self.refused = map(int, self._process.stdout.readline().split())
        assert self._process.wait() == 0


@contextlib.contextmanager
def flood(process, path, kind):
    """Flood the socket at a path, and all abstract sockets of a process, as a user without any right."""
    words = ["-c", _FLOOD, process, path, int(kind), LEAST]
    command = users.command(users.SECOND, sys.executable, *words)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        running.stdout.readline()
        started = Flood(running)
        yield started
        started.end()

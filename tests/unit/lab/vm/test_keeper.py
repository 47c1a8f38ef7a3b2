"""The process that owns a lab's device and QEMU, tested with scripts in place of both."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from accel_magic.lab.vm import keeper

DEVICE = """
import os, signal, socket, sys, time
signal.signal(signal.SIGTERM, lambda *_: (open(sys.argv[2], "w").write("counted"), os._exit(0)))
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
print("device speaks", flush=True)
open(sys.argv[2] + ".pid", "w").write(str(os.getpid()))
time.sleep(1000)
"""
QEMU = (
    "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(float(sys.argv[2])); sys.exit(5)"
)


def gone(pid):
    """Whether a process ends within some seconds."""
    for _ in range(500):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


class Kept:
    """A running keeper."""

    def __init__(self, folder, device=DEVICE, qemu_s=1000, deadline_s=None):
        self.folder, self.log, self.counted, self.started = (
            folder / name for name in ("lab", "log", "counted", "qemu.pid")
        )
        self.folder.mkdir()
        request = {
            "device": [sys.executable, "-c", device, str(self.folder / "socket"), str(self.counted)],
            "qemu": [sys.executable, "-c", QEMU, str(self.started), str(qemu_s)],
            "socket": str(self.folder / "socket"),
            "folder": str(self.folder),
            "log": str(self.log),
            "deadline_s": deadline_s,
        }
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", keeper.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()

    def wait_for_qemu(self):
        while not (self.started.exists() and self.started.read_text()):
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.01)
        return int(self.started.read_text()), int(Path(f"{self.counted}.pid").read_text())

    def report(self):
        text = self.process.stdout.read()
        self.process.wait(20)
        return json.loads(text)


@pytest.fixture
def kept(tmp_path):
    made = []

    def make(**options):
        made.append(Kept(tmp_path, **options))
        return made[-1]

    yield make
    for one in made:
        one.process.kill()
        one.process.wait()
        one.process.stdin.close()
        one.process.stdout.close()


def test_closing_the_pipe_ends_both_after_the_device_has_written_its_counts(kept):
    one = kept()
    pids = one.wait_for_qemu()
    one.process.stdin.close()

    assert one.report() == {"ended": "asked", "status": -signal.SIGTERM}
    assert all(map(gone, pids))
    assert one.counted.read_text() == "counted"
    assert not one.folder.exists()
    assert one.log.read_text() == "device speaks\n"


def test_the_end_of_the_guest_is_reported_with_qemus_status(kept):
    one = kept(qemu_s=0.1)

    assert one.report() == {"ended": "guest", "status": 5}
    assert one.counted.read_text() == "counted"


def test_the_deadline_ends_a_guest_that_hangs(kept):
    one = kept(deadline_s=5)  # long enough for a busy machine to start both
    pids = one.wait_for_qemu()

    assert one.report() == {"ended": "deadline", "status": -signal.SIGTERM}
    assert all(map(gone, pids))


def test_the_end_of_the_device_ends_qemu(kept):
    one = kept()
    qemu, device = one.wait_for_qemu()
    os.kill(device, signal.SIGKILL)

    assert one.report() == {"ended": "device", "status": -signal.SIGTERM}
    assert gone(qemu)


def test_qemu_is_not_started_if_the_device_fails_to_start(kept):
    one = kept(device="import sys; sys.exit('no such fault')")

    assert one.report() == {"ended": "device", "status": 1}
    assert not one.started.exists()
    assert one.log.read_text() == "no such fault\n"


def test_killing_the_keeper_kills_both(kept):
    one = kept()
    pids = one.wait_for_qemu()
    one.process.kill()

    assert all(map(gone, pids))


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
def test_a_terminated_keeper_ends_both_and_cleans_up(kept):
    one = kept()
    pids = one.wait_for_qemu()
    one.process.terminate()
    one.process.wait(20)

    assert all(map(gone, pids))
    assert not one.folder.exists()


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
def test_the_keeper_ignores_interrupts(kept):
    one = kept()
    one.wait_for_qemu()
    one.process.send_signal(signal.SIGINT)
    time.sleep(0.2)

    assert one.process.poll() is None
    one.process.stdin.close()
    assert one.report()["ended"] == "asked"

"""The guest's agent and its host side without a guest: the real agent, with a pseudo-terminal as its port."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import tty
from pathlib import Path

import pytest

from accel_magic.lab.vm.connection import GuestConnection, GuestGoneError, listen
from tests.support.paths import ROOT

pytestmark = pytest.mark.component

AGENT = ROOT / "accel_magic/lab/guest/guest_agent.py"
LARGE = 3_000_000


def carry(source, target):
    """Copy bytes from one descriptor to another until the stream ends."""
    try:
        while data := os.read(source, 65536):
            view = memoryview(data)
            while view:
                view = view[os.write(target, view) :]
    except OSError:
        pass


@pytest.fixture
def connection():
    """A connection to an agent running on this machine."""
    outside, port = os.openpty()
    tty.setraw(port)
    ours, theirs = socket.socketpair()
    agent = subprocess.Popen([sys.executable, "-I", "-S", AGENT, os.ttyname(port)])
    carriers = [
        threading.Thread(target=carry, args=pair, daemon=True)
        for pair in ((outside, theirs.fileno()), (theirs.fileno(), outside))
    ]
    for carrier in carriers:
        carrier.start()
    connection = GuestConnection(ours)
    assert connection.ready.wait(20)
    connection.agent = agent
    yield connection
    connection.close()
    try:
        agent.wait(10)
    finally:
        agent.kill()
        agent.wait()
        os.close(port)
        theirs.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def start(connection):
    """A function that starts a command; returns the process, with its output in `.streams`."""

    def start_(*command, cwd="/", env=None, terminal=None):
        streams = {1: b"", 2: b""}

        def collect(stream, data):
            streams[stream] += data

        process = connection.start(
            command, cwd=str(cwd), env=env or {"PATH": os.defpath}, terminal=terminal, on_output=collect
        )
        process.streams = streams
        return process

    return start_


def test_the_agent_reports_its_kernel_and_uptime(connection):
    assert connection.guest.release == os.uname().release
    assert 0 < connection.guest.uptime_s <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_output_and_status_are_those_of_the_command(start, tmp_path):
    process = start("sh", "-c", "pwd; echo $WORD; echo wrong >&2; exit 7", cwd=tmp_path, env={"WORD": "grün"})

    assert process.wait(20) == 7
    assert process.streams == {1: f"{tmp_path}\ngrün\n".encode(), 2: b"wrong\n"}
    assert process.poll() == 7


def test_input_arrives_completely_and_ends(start):
    data = bytes(range(256)) * (LARGE // 256)
    process = start("sh", "-c", "cat; echo end")
    process.write(data)
    process.close_input()

    assert process.wait(60) == 0
    assert process.streams[1] == data + b"end\n"


def test_large_output_arrives_completely_before_the_exit_status(start):
    process = start("sh", "-c", f"head -c {LARGE} /dev/zero; head -c 70000 /dev/zero >&2")

    assert process.wait(60) == 0
    assert {stream: len(data) for stream, data in process.streams.items()} == {1: LARGE, 2: 70000}


def test_a_signal_reaches_the_command_and_its_child_processes(start):
    process = start("sh", "-c", "sleep 1000 & echo $!; wait")
    while b"\n" not in process.streams[1]:
        time.sleep(0.01)
    child = int(process.streams[1])
    process.send_signal(signal.SIGTERM)

    assert process.wait(20) == -signal.SIGTERM
    for _ in range(500):
        if not Path(f"/proc/{child}").exists() or "zombie" in Path(f"/proc/{child}/status").read_text():
            break
        time.sleep(0.01)
    else:
        pytest.fail("the child process still runs")


def test_an_interrupt_is_not_ignored_by_default(start):
    process = start("sleep", "1000")
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)

    assert process.wait(20) == -signal.SIGINT


def test_commands_run_concurrently(start):
    processes = [start("sh", "-c", f"read line; echo {number}$line; exit {number}") for number in range(5)]
    for process in reversed(processes):
        process.write(b"!\n")

    assert [process.wait(20) for process in processes] == list(range(5))
    assert [process.streams[1] for process in processes] == [b"%d!\n" % number for number in range(5)]


def test_a_terminal_has_the_given_size_and_accepts_input(start):
    process = start("sh", "-c", "tty -s && stty size; read line; echo got $line; stty size", terminal=(12, 34))
    while b"12 34" not in process.streams[1]:
        time.sleep(0.01)
    process.resize(50, 60)
    process.write(b"keys\n")

    assert process.wait(20) == 0
    assert process.streams[1].replace(b"\r", b"") == b"12 34\nkeys\ngot keys\n50 60\n"


def test_ctrl_c_on_a_terminal_interrupts_the_command(start):
    process = start("sh", "-c", "echo on; sleep 1000", terminal=(24, 80))
    while b"on" not in process.streams[1]:
        time.sleep(0.01)

    status = None
    while status is None:  # the shell may miss one between its commands
        process.write(b"\x03")
        with contextlib.suppress(TimeoutError):
            status = process.wait(1)
    assert status == -signal.SIGINT


@pytest.mark.parametrize(
    ("command", "cwd", "why"),
    [
        (("no-such-command",), "/", "^no-such-command: No such file"),
        (("/etc/passwd",), "/", "^/etc/passwd: Permission denied"),
        (("true",), "/nowhere", "^/nowhere: No such"),
    ],
)
def test_the_error_for_a_command_that_cannot_run_has_the_reason(start, command, cwd, why):
    process = start(*command, cwd=cwd)

    with pytest.raises(FileNotFoundError, match=why):
        process.wait(20)
    assert start("true").wait(20) == 0


def test_a_command_that_leaves_a_background_process_ends(start):
    process = start("sh", "-c", "sleep 30 & echo done")

    assert process.wait(10) == 0
    assert process.streams[1] == b"done\n"


def test_waiting_times_out(start):
    process = start("sleep", "1000")

    with pytest.raises(TimeoutError, match=r"0\.1 s"):
        process.wait(0.1)
    process.send_signal(signal.SIGKILL)
    assert process.wait(20) == -signal.SIGKILL


def test_the_end_of_the_agent_ends_every_wait(connection, start):
    process = start("sleep", "1000")
    connection.agent.kill()

    # Unlike a port, a pseudo-terminal does not report that its other side was closed.
    connection._stream.shutdown(socket.SHUT_RDWR)
    with pytest.raises(GuestGoneError):
        process.wait(20)
    with pytest.raises(GuestGoneError):
        start("true")


def test_only_the_user_can_connect_to_the_hosts_socket(tmp_path):
    with listen(str(tmp_path / "agent")):
        assert (tmp_path / "agent").stat().st_mode & 0o777 == 0o600

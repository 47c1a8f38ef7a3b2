"""`broker status` shows running traces, to each user the own ones and to root all."""

import grp
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.support import callers, fresh_python, users

PROBE = "tracepoint:syscalls:sys_enter_getppid"
RUNNING = f"""
with accel_magic.trace("{PROBE}"):
    answer("attached", os.getpid())
    sys.stdin.readline()
"""
SHOWN = """
import msgspec
from accel_magic.broker import broker_client
from accel_magic.broker.broker_messages import Status, StatusRequest
answer(msgspec.to_builtins(broker_client.connection().ask(StatusRequest(), Status).traces))
"""


@pytest.fixture
def two(broker):
    """A process of each user that traces, and its id."""
    started = [broker.start(RUNNING, uid) for uid in (users.FIRST, users.SECOND)]
    yield [(process, json.loads(process.stdout.readline())[1]) for process in started]
    for process in started:
        process.kill()
        process.communicate()


def seen_by_root(broker):
    with broker.connect() as connection:
        return callers.ask(connection, {"type": "status"})["traces"]


def whose(traces):
    return sorted((one["uid"], one["pid"], one["trace"]["number"], one["trace"]["probes"]) for one in traces)


def test_users_see_their_own_traces_and_root_sees_all(broker, two):
    (_, first), (_, second) = two
    own = (users.FIRST, first, 1, PROBE)
    other = (users.SECOND, second, 1, PROBE)

    (by_first,) = broker.run(SHOWN)
    by_root = seen_by_root(broker)

    assert whose(by_first) == [own]
    assert whose(by_root) == [own, other]
    assert all(time.time() - 120 < one["trace"]["since"] < time.time() for one in by_root)


def test_ended_traces_and_those_of_killed_processes_are_not_shown(broker, two):
    (ending, _), (killed, second) = two

    ending.stdin.write("\n")
    ending.communicate()
    assert [one["pid"] for one in seen_by_root(broker)] == [second]

    killed.kill()
    end = time.monotonic() + 60
    while seen_by_root(broker):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_the_command_lists_running_traces(broker, two):
    (_, first), (_, second) = two
    script = """
shown = subprocess.run([sys.executable, "-m", "accel_magic", "broker", "status"], capture_output=True, text=True)
answer(shown.returncode, shown.stdout, shown.stderr)
"""
    status, output, errors = broker.run(script)
    rows = [line.split() for line in output.splitlines()]

    assert (status, errors) == (0, "")
    assert ["user", "pid", "trace", "since", "probes"] in rows
    assert [row[:3] + row[-1:] for row in rows if PROBE in row] == [[str(users.FIRST), str(first), "1", PROBE]]
    assert str(second) not in output


@pytest.fixture
def pins():
    """A BPF file system in which everybody may pin, in a folder with a space in its name."""
    folder = Path(tempfile.mkdtemp(prefix="accel_magic pins-", dir="/tmp"))
    folder.chmod(0o755)
    subprocess.run(["mount", "-t", "bpf", "-o", "mode=1777", "bpf", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)
    folder.rmdir()


def test_root_is_told_of_the_maps_that_a_user_has_pinned_and_how_to_remove_them(broker, pins):
    (results,) = broker.run(
        f"""
import struct
from accel_magic.broker import broker_client
from accel_magic.broker.broker_messages import AttachedTrace, AttachRequest
from accel_magic.probes.plan import TraceRequest
request = AttachRequest(request=TraceRequest(("{PROBE}",), buffer_mib=1.0))
trace = broker_client.connection().ask(request, AttachedTrace)
def pin(descriptor, name):
    path = ctypes.create_string_buffer(f"{pins}/{{name}}".encode())
    attributes = ctypes.create_string_buffer(struct.pack("QI", ctypes.addressof(path), descriptor), 120)
    return libc.syscall(321, 6, attributes, 120)
answer([pin(trace.rings[-1].fd, "my ring"), pin(trace.control.fd, "control")])
os._exit(0)
""",
        forked=False,
    )
    assert results == [0, 0]
    command = [sys.executable, "-m", "accel_magic", "broker", "status"]
    environment = {**os.environ, "ACCEL_MAGIC_BROKER": str(broker.socket)}
    shown = fresh_python.run(command, check=True, env=environment).stdout
    lines = [line.strip() for line in shown.splitlines() if str(pins) in line]

    assert [line.partition("  #")[0] for line in lines] == [f"rm '{pins}/control'", f"rm '{pins}/my ring'"]
    assert lines[1].endswith(f"am_ring, 1.0 MiB, by {users.FIRST}")
    for line in lines:
        subprocess.run(line, shell=True, check=True)
    after = fresh_python.run(command, check=True, env=environment).stdout
    assert "pinned" not in after


def test_root_sees_traces_whatever_the_policy_says(start):
    assert seen_by_root(start('[users]\nnames = ["somebody"]\n')) == []


def test_only_members_of_the_group_may_connect(tmp_path):
    (group,) = {entry.gr_name for entry in grp.getgrall() if entry.gr_gid == 1}
    path = tmp_path / "broker.sock"
    command = [sys.executable, "-m", "accel_magic", "broker", "run", "--socket", str(path), "--group", group]
    process = fresh_python.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 60
        while not path.exists() or path.stat().st_mode & 0o777 != 0o660:
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < end
            time.sleep(0.02)
        assert path.stat().st_gid == 1
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()

    refused = fresh_python.run([*command[:-1], "no-such-group"])
    assert "broker.no-group" in refused.stderr

"""Commands that ordinary users trace from a terminal: the broker sees the command itself connect."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import accel_magic
from tests.support import callers, fresh_python, users
from tests.support.kernel_objects import kernel_objects

CALLS = """
import ctypes, os, subprocess, sys
libc, calls = ctypes.CDLL(None), int(sys.argv[1])
for _ in range(calls):
    os.getppid()
    libc.a64l(b"abc")
code = f"import os\\nfor _ in range({calls}): os.getppid()"
subprocess.run([sys.executable, "-c", code], check=True)
if len(sys.argv) > 2:
    os.kill(os.getpid(), int(sys.argv[2]))
"""
PROBES = ("tracepoint:syscalls:sys_enter_getppid", "latency:uprobe:libc:a64l")


@pytest.fixture
def folder():
    """A folder that every user can write to."""
    made = Path(tempfile.mkdtemp(dir="/tmp"))
    made.chmod(0o777)
    yield made
    shutil.rmtree(made)


def started(broker, command, *words, probes=PROBES, **environment):
    """`accel-magic COMMAND` of an ordinary user."""
    environment |= {"ACCEL_MAGIC_BROKER": broker.socket, "HOME": "/tmp/accel_magic-home"} | environment
    values = os.environ | {name: str(value) for name, value in environment.items()}
    words = [sys.executable, "-m", "accel_magic", command, *probes, *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return fresh_python.Popen(words, user=users.FIRST, env=values, text=True, cwd="/", **pipes)


def program(*arguments):
    return ["--", sys.executable, "-c", CALLS, *map(str, arguments)]


def test_a_command_and_its_children_are_counted_exactly(broker, folder):
    before = kernel_objects()
    process = started(broker, "trace", "--save", folder / "t.parquet", *program(300))
    _, errors = process.communicate(timeout=callers.DEADLINE_S)

    assert process.returncode == 0, errors
    result = accel_magic.open(folder / "t.parquet")
    assert result.counts["hits"].droplevel("probe").to_dict() == {"sys_enter_getppid": 600, "a64l": 300}
    assert result.recorded == 900
    assert "through the broker" in str(result)
    assert result.recording.notes == ()
    assert kernel_objects() - before == set()


SHORT = """
#include <stdlib.h>
static void *volatile sink;
__attribute__((noinline, noclone)) void outer(int n) { sink = malloc(n); __asm__ volatile(""); }
int main(void) { for (int i = 0; i < 3; i++) outer(123457); return 0; }
"""


@pytest.mark.parametrize("linked", ["-static", "-pie"])
def test_a_command_that_has_ended_shows_what_it_had_loaded(broker, folder, linked):
    """A process of another user may be watched by that user, unless the kernel reserves it for root."""
    if int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) > 2:
        pytest.skip("users may not watch their own processes here")
    (folder / "short.c").write_text(SHORT)
    short = folder / "short"
    subprocess.run(["gcc", "-O1", "-fno-omit-frame-pointer", linked, "-o", short, folder / "short.c"], check=True)
    words = ("uprobe:libc:malloc", "--filter", "arg0 == 123457", "--stacks=user", "--save", folder / "t.parquet")
    process = started(broker, "trace", "--", short, probes=words)
    _, errors = process.communicate(timeout=120)

    assert process.returncode == 0, errors
    result = accel_magic.open(folder / "t.parquet")
    if linked == "-static":
        assert [note.partition(" loaded: ")[2] for note in result.recording.notes] == [
            f"they run {short}, without shared libraries (linked statically)"
        ]
    else:
        assert result.hits == 3
        (text,) = result.stacks["text"]
        assert text.split(";")[-3:] == ["main", "outer", "malloc"]


def test_the_ranks_of_a_job_need_no_privilege(broker, folder):
    ranks = [
        started(broker, "run", "--save", folder / "job", *program(100 * (rank + 1)), RANK=rank, LOCAL_RANK=rank)
        for rank in range(2)
    ]
    for process in ranks:
        _, errors = process.communicate(timeout=callers.DEADLINE_S)
        assert process.returncode == 0, errors

    result = accel_magic.open(folder / "job")
    assert result.nodes["problem"].tolist() == ["", ""]
    assert result.by_node.loc[(PROBES[1], "a64l")].to_dict() == {"rank 0": 100, "rank 1": 200}
    assert result.by_node.loc[(PROBES[0], "sys_enter_getppid")].to_dict() == {"rank 0": 200, "rank 1": 400}


def test_a_command_that_is_killed_keeps_its_counts(broker, folder):
    process = started(broker, "trace", "--save", folder / "t.parquet", *program(300, 9))
    _, errors = process.communicate(timeout=callers.DEADLINE_S)

    assert process.returncode == 128 + 9, errors
    assert accel_magic.open(folder / "t.parquet").counts["hits"].sum() == 900


def test_a_user_who_is_not_admitted_gets_the_reason(start, folder):
    broker = start()
    broker.socket.chmod(0o600)
    process = started(broker, "trace", "--save", folder / "t.parquet", *program(3))
    _, errors = process.communicate(timeout=callers.DEADLINE_S)

    assert process.returncode == 1
    assert "the broker does not admit this user" in errors
    assert list(folder.iterdir()) == []


def test_functions_of_a_stripped_program_are_traced_by_its_debug_file(broker, folder):
    (folder / "short.c").write_text(SHORT)
    subprocess.run(["gcc", "-O1", "-g", "-o", folder / "short", folder / "short.c"], check=True)
    subprocess.run(["objcopy", "--only-keep-debug", "short", "short.debug"], cwd=folder, check=True)
    subprocess.run(["objcopy", "--strip-all", "--add-gnu-debuglink=short.debug", "short"], cwd=folder, check=True)
    process = started(broker, "trace", "--", folder / "short", probes=(f"uprobe:{folder}/short:outer",))
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert " 3 hits" in output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1])
def test_a_broker_that_is_ended_by_a_signal_removes_its_socket(start, number):
    broker = start()
    assert broker.socket.is_socket()
    broker.process.send_signal(number)
    assert broker.process.wait(timeout=60) == 0
    assert not broker.socket.exists()


def test_a_broker_that_ends_leaves_the_socket_of_its_successor(start):
    broker = start()
    broker.socket.unlink()
    with socket.socket(socket.AF_UNIX) as successor:
        successor.bind(str(broker.socket))
        broker.process.send_signal(signal.SIGTERM)
        broker.process.wait(timeout=60)
    assert broker.socket.is_socket()


def test_a_broker_that_was_killed_costs_only_what_needs_it(start):
    """Its socket is left: tasks are traced as without a broker, and a note says what is not."""
    broker = start()
    broker.process.kill()
    broker.process.wait()
    assert broker.socket.is_socket()
    tasks, hits, text, refusal = broker.run(
        """
with accel_magic.trace("itt:python:load") as t:
    for _ in range(3):
        with accel_magic.task("load"): pass
with accel_magic.trace("openvino") as o:
    with accel_magic.task("load"): pass
answer(t.result.hits, o.result.hits, str(o.result), refused("tracepoint:syscalls:sys_enter_getppid"))
"""
    )
    assert (tasks, hits) == (3, 0)
    assert "only tasks are traced: the broker cannot be used" in text
    assert refusal == "broker.unreachable"

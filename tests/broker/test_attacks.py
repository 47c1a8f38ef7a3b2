"""What a hostile user tries. Each attempt is refused or harmless, and the broker goes on serving others."""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import msgspec
import pytest

from accel_magic.probes.plan import TraceRequest
from tests.broker.conftest import message
from tests.support import callers, thorough, users
from tests.support.kernel_objects import kernel_objects

WORKS = 'with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid") as t: os.getppid()\nanswer(t.result.hits)'
RUNNING = """
with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid", "uprobe:libc:atoi", mode="count") as t:
    answer("attached", os.getpid())
    sys.stdin.readline()
    for _ in range(5): os.getppid()
answer(t.result.hits, list(t.result.recording.notes))
"""
REQUEST = msgspec.to_builtins(TraceRequest(("tracepoint:syscalls:sys_enter_getppid",)))


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def closed(connection):
    """Read until the broker has closed the connection."""
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    return True


def test_messages_of_random_bytes_end_only_their_own_connection(broker):
    source = random.Random(7)
    for _ in range(thorough.choose(12, 1000)):
        with broker.connect() as connection:
            size = source.choice([0, 1, 3, 4, 5, 64, 5000])
            connection.sendall(
                source.choice([b"", message(b"")[:4], message(b"x" * size)[:4]]) + source.randbytes(size)
            )
            connection.shutdown(socket.SHUT_WR)
            assert closed(connection)
    assert broker.run(WORKS) == [1]


def mutated(source, value):
    """Replace one part of a message by something else."""
    if isinstance(value, dict) and value and source.random() < 0.8:
        name = source.choice([*value])
        if source.random() < 0.1:
            return {key: each for key, each in value.items() if key != name}
        return {**value, name: mutated(source, value[name])}
    if isinstance(value, list) and value and source.random() < 0.8:
        at = source.randrange(len(value))
        return [*value[:at], mutated(source, value[at]), *value[at + 1 :]]
    odd = [
        None,
        True,
        -1,
        (1 << 64) - 1,
        1e308,
        float("nan"),
        "",
        "\0",
        msgspec.Raw(b"\xa3\xed\xa0\x80"),  # a lone surrogate
        "a" * 5000,
        "*",
        "!*:*",
        "latency:" * 50,
        "[" * 200,
    ]
    odd += [
        [],
        {},
        [[]] * 300,
        {"a": {}},
        "uprobe:/etc/shadow:*",
        "usdt:*:*:*",
        "kprobe:*",
        "offcpu",
        "profile:hz:999999999",
    ]
    odd += [
        "arg0 == '\\'; }",
        'comm == "${IFS}"',
        "pid == 1 and (" * 40,
        "x=arg0[99999999999]:u64",
        "#include </etc/shadow>",
    ]
    return source.choice(odd)


def test_requests_with_any_part_replaced_are_answered_with_a_typed_error(broker):
    source, answers = random.Random(11), 0
    place = {"target": "libc", "function": "atoi", "offset": 1, "file": 0, "semaphore": 0, "aliases": []}
    place["usdt_arguments"] = [{"form": "register", "size": 8, "register": "ax", "value": 0, "index": "", "scale": 1}]
    places = {0: {"points": [place], "skipped": [{"function": "a", "why": "b"}], "notes": [], "error": None}}
    python = {"type": "PythonFrames", "fields": {}, "hops": [1]}
    whole = [
        callers.HELLO,
        {"type": "plan", "request": {**REQUEST, "specs": ["uprobe:libc:atoi"]}, "places": places, "files": []},
        {"type": "attach", "request": REQUEST, "python": python, "tracers": [1, 2]},
        {"type": "statistics", "trace": 1},
        {"type": "detach", "trace": 1},
    ]
    connection = broker.connect()
    for _ in range(thorough.choose(120, 2000)):
        answer = callers.ask(connection, mutated(source, source.choice(whole)))
        if answer is None:
            connection.close()
            connection = broker.connect()
            continue
        answers += 1
        assert answer["type"] != "Failure" or answer["code"]
    connection.close()
    assert answers > 60
    assert broker.run(WORKS) == [1]


def test_a_message_that_is_too_large_or_never_ends_ends_its_connection_only(broker):
    with broker.connect() as large, broker.connect() as slow, broker.connect() as half:
        large.sendall((1 << 31).to_bytes(4, "little") + b"x" * 100)
        slow.sendall(message(b"x" * 1000)[:50])
        half.sendall(message(b"{}")[:5])
        half.shutdown(socket.SHUT_WR)
        assert closed(half)
        assert closed(large)
        assert broker.run(WORKS) == [1]


def test_descriptors_that_nobody_asked_for_are_closed(broker):
    with broker.connect() as connection:
        for _ in range(20):
            assert "policy" in callers.ask(connection, callers.HELLO, [0] * 200)
        pids = broker.sessions()
        assert min(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids) < 30


def test_more_connections_than_allowed_are_refused_and_others_served(start):
    broker = start("[limits]\nprocesses = 5\n")
    open_ = [broker.connect() for _ in range(100)]
    until(lambda: len(broker.sessions()) == 5)
    assert broker.run(WORKS) == [1]
    for connection in open_:
        connection.close()
    until(lambda: not broker.sessions())


@pytest.fixture
def calls(tmp_path):
    """A program that makes as many getppid calls as asked, and its copy that runs as root whoever starts it."""
    source = tmp_path / "calls.c"
    source.write_text(
        "#include <stdlib.h>\n#include <unistd.h>\n#include <sys/syscall.h>\n"
        "int main(int c, char **v) { for (int i = atoi(v[1]); i; i--) syscall(SYS_getppid); return geteuid(); }\n"
    )
    folder = Path("/var/tmp") / f"accel_magic-calls-{os.getpid()}"
    folder.mkdir(mode=0o755)
    subprocess.run(["gcc", "-O1", "-o", folder / "plain", source], check=True)
    shutil.copy(folder / "plain", folder / "setuid")
    (folder / "setuid").chmod(0o4755)
    yield folder
    shutil.rmtree(folder)


def test_programs_that_run_with_other_rights_are_not_traced(broker, calls):
    told = broker.run(
        f"""
with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid") as t:
    runs = [["{calls}/plain", "30"], ["{calls}/setuid", "500"]]
    codes = [subprocess.run(words).returncode for words in runs]
answer(codes, t.result.hits, len(t.result.events))
"""
    )
    codes, hits, events = told
    assert codes == [users.FIRST % 256, 0]  # the second ran as root
    assert (hits, events) == (30, 30)


def test_a_process_that_already_runs_with_other_rights_is_not_traced(broker, calls):
    told = broker.run(
        f"""
inner = subprocess.Popen(["{calls}/setuid", "2000000000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
time.sleep(0.3)
with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid") as t:
    time.sleep(0.3)
    os.getppid()
answer(t.result.hits, inner.poll()); os._exit(0)
"""
    )
    subprocess.run(["pkill", "-KILL", "-f", f"{calls}/setuid"], check=True)
    assert told == [1, None]


def test_two_users_who_trace_at_once_see_only_their_own(broker):
    script = """
end = time.monotonic() + {seconds}
count, rows, pids = 0, 0, set()
while time.monotonic() < end or count < 3:
    with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid", "offcpu", stacks="user,python") as t:
        for _ in range({calls}): os.getppid()
        time.sleep(0.01)
    e = t.result.events
    own = t.result.counts.hits.to_dict()[("tracepoint:syscalls:sys_enter_getppid", "sys_enter_getppid")]
    assert own == {calls}, own
    pids |= set(e.pid)
    count += 1
answer(count, list(pids) == [os.getpid()])
"""
    seconds = thorough.choose(6, 120)
    processes = [
        broker.start(script.format(seconds=seconds, calls=calls_), uid)
        for uid, calls_ in ((users.FIRST, 100), (users.SECOND, 170))
    ]
    for process in processes:
        output, errors = process.communicate(timeout=seconds + 120)
        assert process.returncode == 0, errors
        count, own = json.loads(output.splitlines()[-1])
        assert count >= 3
        assert own


def test_breakpoints_are_set_in_the_callers_process_only(broker):
    script = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
print(os.getpid(), ctypes.cast(libc.atoi, ctypes.c_void_p).value, flush=True)
sys.stdin.readline()
"""
    other = subprocess.Popen(
        [shutil.which("python3"), "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    pid, at = map(int, other.stdout.readline().split())
    tracing = broker.start(
        """
at = ctypes.cast(libc.atoi, ctypes.c_void_p).value
with accel_magic.trace("uprobe:libc:atoi", uprobes="kernel") as t:
    answer(ctypes.string_at(at, 1)[0], os.getpid())
    sys.stdin.readline()
"""
    )
    byte, _ = json.loads(tracing.stdout.readline())
    with Path(f"/proc/{pid}/mem").open("rb") as memory:
        memory.seek(at)
        elsewhere = memory.read(1)[0]
    tracing.communicate("\n", timeout=60)
    other.communicate("\n", timeout=60)
    assert byte == 0xCC
    assert elsewhere != 0xCC


@pytest.mark.parametrize("victim", ["client", "session", "broker"])
def test_whoever_is_killed_nothing_stays_attached_and_a_trace_survives_the_service(start, victim):
    broker, before = start(), kernel_objects()
    client = broker.start(RUNNING)
    _, pid = json.loads(client.stdout.readline())
    attached = kernel_objects() - before
    assert {kind for kind, _ in attached} == {"program", "map", "link"}
    (session,) = broker.sessions()
    os.kill({"client": pid, "session": session, "broker": broker.process.pid}[victim], signal.SIGKILL)
    if victim == "session":
        until(lambda: not kernel_objects() & {item for item in attached if item[0] == "link"})
    output, errors = client.communicate("\n", timeout=60)
    if victim == "client":
        assert client.returncode != 0
    else:
        hits, notes = json.loads(output.splitlines()[-1])
        assert hits == (0 if victim == "session" else 5), errors
        assert ("nothing was counted after that" in str(notes)) == (victim == "session")
    until(lambda: not kernel_objects() & attached)
    until(lambda: not Path(f"/proc/{session}").exists() or victim == "broker")


def test_many_traces_leave_no_memory_and_no_descriptors(broker):
    script = """
for number in range({count}):
    with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid", mode="count") as t: os.getppid()
    assert t.result.hits == 1
answer("done", os.getpid())
sys.stdin.readline()
for number in range({count}):
    with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid", mode="count") as t: os.getppid()
answer("done", os.getpid())
sys.stdin.readline()
"""
    known = set(broker.sessions())
    client = broker.start(script.format(count=thorough.choose(15, 500)))
    seen = []
    for _ in range(2):
        client.stdout.readline()
        (session,) = set(broker.sessions()) - known
        files = len(list(Path(f"/proc/{session}/fd").iterdir()))
        resident = int(Path(f"/proc/{session}/statm").read_text().split()[1]) * 4
        seen.append((files, resident))
        client.stdin.write("\n")
        client.stdin.flush()
    client.communicate(timeout=60)
    (files, resident), (files_later, resident_later) = seen
    assert files_later == files
    assert resident_later < resident + 4096


def test_a_caller_who_leaves_the_connection_but_keeps_the_descriptors_keeps_no_probe(broker):
    before = kernel_objects()
    told = broker.run(
        """
from accel_magic.broker import broker_client
from accel_magic.probes.plan import TraceRequest
from accel_magic.api import plans
from accel_magic.engine.session import attach
attached = attach(plans.make(TraceRequest(("tracepoint:syscalls:sys_enter_getppid",), mode="count")))
attached.go()
for _ in range(5): os.getppid()
broker_client.connection().close()
time.sleep(1)
for _ in range(500): os.getppid()
answer(int(attached.parts.kernel.counters["hits"].sum()))
os._exit(0)
"""
    )
    assert told == [5]
    until(lambda: not kernel_objects() - before)


def test_a_client_of_another_version_is_told_so_whatever_else_it_says(broker):
    with broker.connect() as connection:
        answer = callers.ask(connection, {**callers.HELLO, "version": 1000, "added_later": [1]})
    assert answer["code"] == "broker.other-version"

"""What one user can use up: limits of the policy, connections, memory and descriptors; and what others then see."""

import contextlib
import json
import os
import socket
from pathlib import Path

import pytest

from tests.support import callers, thorough, users

WORKS = 'with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid") as t: os.getppid()\nanswer(t.result.hits)'
LIMITS = """
[probes]
rate_hz = 50
[limits]
traces = 1
places = 5
buffer_mib = 8
duration_s = 3
"""
OVER = {
    "places": ('"tracepoint:syscalls:sys_enter_s*", buffer=4', "5", "globs"),
    "buffer_mib": ('"tracepoint:syscalls:sys_enter_getppid", buffer=9', "8 MiB", "smaller"),
    "duration_s": ('"tracepoint:syscalls:sys_enter_getppid", buffer=4, duration=4', "3 s", "shorter"),
    "rate_hz": ('"profile:hz:51", buffer=4', "50 samples", "administrator"),
    "traces": ('"tracepoint:syscalls:sys_enter_getppid", buffer=4', "at most 1", "end another trace"),
}


def test_whoever_exceeds_a_limit_is_told_the_limit_and_what_to_do(start):
    broker = start(LIMITS)
    calls = {name: arguments for name, (arguments, _, _) in OVER.items()}
    lines = "\n".join(f"    found[{name!r}] = text({call!r})" for name, call in calls.items() if name == "traces")
    others = "\n".join(f"found[{name!r}] = text({call!r})" for name, call in calls.items() if name != "traces")
    (found,) = broker.run(
        f"""
from accel_magic.api import plans
from accel_magic.recording.session import LiveSession
found = {{}}
def text(arguments):
    try:
        eval(f"LiveSession(plans.make(*parts({{arguments}})[0], **parts({{arguments}})[1])).start()")
    except AccelMagicError as error:
        return [error.code, error.what, error.why, error.fix]
def parts(*probes, buffer=64, duration=None):
    return [[probes], {{"buffer_mib": buffer, "duration_s": duration}}]
{others}
session = LiveSession(plans.make(("tracepoint:syscalls:sys_enter_getppid",), buffer_mib=4))
session.start()
if True:
{lines}
answer(found)
os._exit(0)
"""
    )
    for name, (_, limit, fix) in OVER.items():
        code, what, why, how = found[name]
        assert code in ("broker.limit", "broker.not-allowed", "broker.too-many-traces"), name
        assert limit in f"{what} {why}", name
        assert fix in how, name


def test_a_process_more_than_allowed_is_told_the_limit_and_others_are_served(start):
    broker = start("[limits]\nprocesses = 2\nall_processes = 3\n")
    script = "try:\n    from accel_magic.broker import client; client.connection().policy; answer('ok')\n"
    script += "except AccelMagicError as error: answer(error.code, error.why)"
    with callers.connected(broker) as first, callers.connected(broker) as second:
        for connection in (first, second):
            assert callers.ask(connection, b'{"kind": "hello", "version": 1}')
        assert broker.run(script) == ["broker.limit", "the limit processes is 2"]
        with callers.connected(broker, users.SECOND) as third:
            assert callers.ask(third, b'{"kind": "hello", "version": 1}')
            assert broker.run(script, users.SECOND) == ["broker.limit", "the limit all_processes is 3"]
    callers.until(lambda: not broker.sessions())
    assert broker.run(script) == ["ok"]
    assert [line["why"] for line in broker.audit()] == ["processes", "all_processes"]


@contextlib.contextmanager
def ended(process):
    """Let no process of a failed test occupy the broker of the others."""
    try:
        yield
    finally:
        process.kill()


def test_a_thousand_connections_of_one_user_do_not_stop_another(broker):
    flood = broker.start(
        """
import resource, socket
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
made = []
for number in range(1000):
    one = socket.socket(socket.AF_UNIX)
    one.connect(os.environ["ACCEL_MAGIC_BROKER"])
    made.append(one)
    if number == 300: answer(number)
answer(len(made))
sys.stdin.readline()
"""
    )
    with ended(flood):
        assert json.loads(flood.stdout.readline()) == [300]
        assert broker.run(WORKS, users.SECOND) == [1]
        assert json.loads(flood.stdout.readline()) == [1000]
        assert broker.run(WORKS, users.SECOND) == [1]
        flood.communicate("\n", timeout=60)
    callers.until(lambda: not broker.sessions())
    assert broker.run(WORKS) == [1]


def use(pid):
    """Number of descriptors, and resident memory in KiB."""
    resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
    return len(list(Path(f"/proc/{pid}/fd").iterdir())), resident


def test_many_sessions_leave_no_descriptor_process_or_memory_in_the_service(start):
    broker, seen = start(), []
    with callers.connected(broker) as kept:
        callers.ask(kept, b'{"kind": "hello", "version": 1}')
        for _ in range(2):
            for _ in range(thorough.choose(12, 500)):
                with broker.connect() as connection:
                    assert callers.ask(connection, b'{"kind": "hello", "version": 1}')
            callers.until(lambda: len(broker.sessions()) == 1)
            seen.append(use(broker.process.pid))
    (files, resident), (files_later, resident_later) = seen
    assert files_later == files
    assert resident_later < resident + 1024


TWO = """
def work_of_{name}(number):
    for _ in range(number):
        os.getppid()
        libc.atoi(b"{name}")
end = time.monotonic() + {seconds}
done = traces = 0
while time.monotonic() < end or traces < 3:
    probes = "tracepoint:syscalls:sys_enter_getppid", "latency:uprobe:libc:atoi", "offcpu", "profile:hz:199"
    with accel_magic.trace(*probes, args="text=arg0:str", stacks="user,python") as t:
        work_of_{name}({calls})
        time.sleep(0.005)
    r, traces = t.result, traces + 1
    hits = r.counts.hits.droplevel(1)
    assert hits["tracepoint:syscalls:sys_enter_getppid"] == hits["latency:uprobe:libc:atoi"] == {calls}, hits
    assert {calls} in r.latency["count"].tolist()
    assert set(r.events.pid) == {{os.getpid()}}
    assert set(r.events.text.dropna()) == {{"{name}"}}
    of_calls = r.events[r.events.probe.str.contains("getppid|atoi")]
    assert len(of_calls) == 2 * {calls}
    text = str(r.by_stack()) + str(r) + str(r.events.to_csv()) + str(r.by_stack().to_csv())
    assert "work_of_{name}" in text
    assert "{other}" not in text
answer(traces)
"""


@pytest.mark.timeout(900)
def test_two_users_who_make_the_same_calls_at_once_see_no_call_stack_or_name_of_each_other(broker):
    seconds = thorough.choose(4, 600)
    names = {"apricot": (users.FIRST, "walnut", 90), "walnut": (users.SECOND, "apricot", 140)}
    running = [
        broker.start(TWO.format(name=name, other=other, calls=calls, seconds=seconds), uid)
        for name, (uid, other, calls) in names.items()
    ]
    for process in running:
        output, errors = process.communicate(timeout=seconds + 120)
        assert process.returncode == 0, errors
        (traces,) = json.loads(output.splitlines()[-1])
        assert traces >= 3


def test_a_caller_that_takes_no_answers_or_sends_descriptors_forever_holds_up_nobody(broker):
    with callers.connected(broker) as deaf:
        deaf.settimeout(1)
        data = b'{"kind": "hello", "version": 1}'
        try:
            for _ in range(20_000):
                socket.send_fds(deaf, [len(data).to_bytes(4, "little") + data], [0] * 50)
        except (TimeoutError, ConnectionError):
            pass
        assert broker.run(WORKS, users.SECOND) == [1]
        assert broker.run(WORKS) == [1]

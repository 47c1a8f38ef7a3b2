"""What one user can use up: limits of the policy, connections, memory and descriptors; and what others then see."""

import contextlib
import json
import os
import signal
import threading
from pathlib import Path

import pytest
from msgspec import msgpack

from accel_magic import channel
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
    "buffer_mib": ('"tracepoint:syscalls:sys_enter_getppid", buffer=9', "buffer_mib is 8", "smaller"),
    "duration_s": ('"tracepoint:syscalls:sys_enter_getppid", buffer=4, duration=4', "3 s", "shorter"),
    "rate_hz": ('"profile:hz:51", buffer=4', "rate_hz is 50", "lower rate"),
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
from accel_magic.engine.session import attach
from accel_magic.probes.plan import TraceRequest
found = {{}}
def text(arguments):
    try:
        eval(f"attach(plans.make(request({{arguments}})))")
    except AccelMagicError as error:
        return [error.code, error.what, error.why, error.fix]
def request(*probes, buffer=64, duration=None):
    return TraceRequest(probes, buffer_mib=buffer, duration_s=duration)
{others}
attached = attach(plans.make(TraceRequest(("tracepoint:syscalls:sys_enter_getppid",), buffer_mib=4)))
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
    script = "try:\n    from accel_magic.broker import broker_client; broker_client.connection().policy; answer('ok')\n"
    script += "except AccelMagicError as error: answer(error.code, error.why)"
    with callers.connected(broker) as first, callers.connected(broker) as second:
        for connection in (first, second):
            assert callers.ask(connection, callers.HELLO)
        assert broker.run(script) == ["broker.limit", "the limit processes is 2"]
        with callers.connected(broker, users.SECOND) as third:
            assert callers.ask(third, callers.HELLO)
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
        callers.ask(kept, callers.HELLO)
        for _ in range(2):
            for _ in range(thorough.choose(12, 500)):
                with broker.connect() as connection:
                    assert callers.ask(connection, callers.HELLO)
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
        try:
            for _ in range(20_000):
                channel.send_bytes(deaf, msgpack.encode(callers.HELLO), [0] * 50)
        except (TimeoutError, ConnectionError):
            pass
        assert broker.run(WORKS, users.SECOND) == [1]
        assert broker.run(WORKS) == [1]


TAKES = """
from accel_magic.api import plans
from accel_magic.engine.session import attach
from accel_magic.probes.plan import TraceRequest
def take(*probes, **options):
    try: attached = attach(plans.make(TraceRequest(probes, **options)))
    except AccelMagicError as error: return [error.code, error.why]
    kept.append(attached)
    return "attached"
kept = []
"""
SUMS = {
    "rate_hz": ("[probes]\nrate_hz = 300\n", "'profile:hz:199'", "'profile:hz:101'", "'profile:hz:102'"),
    "places": (
        "[limits]\nplaces = 3\n",
        "*['tracepoint:syscalls:sys_enter_getppid', 'tracepoint:syscalls:sys_enter_getpid']",
        "'tracepoint:syscalls:sys_enter_getppid'",
        "*['tracepoint:syscalls:sys_enter_getppid', 'offcpu']",
    ),
    "buffer_mib": (
        "[limits]\nbuffer_mib = 20\n",
        "'offcpu', buffer_mib=16",
        "'offcpu', buffer_mib=4",
        "'offcpu', buffer_mib=5",
    ),
}


@pytest.mark.parametrize("limit", SUMS)
def test_the_limits_of_a_user_hold_for_all_processes_together_and_for_each_user_alone(start, limit):
    policy, first, fits, does_not = SUMS[limit]
    broker = start(policy)
    running = broker.start(TAKES + f"answer(take({first}))\nsys.stdin.readline()\nos._exit(0)")
    with ended(running):
        assert json.loads(running.stdout.readline()) == ["attached"]
        (refusal,) = broker.run(TAKES + f"answer(take({does_not}))\nos._exit(0)")
        assert refusal[0] == "broker.limit"
        assert f"the limit {limit} is" in refusal[1]
        assert "the user's other traces have" in refusal[1]
        assert broker.run(TAKES + f"answer(take({fits}))\nos._exit(0)") == ["attached"]
        assert broker.run(TAKES + f"answer(take({does_not}))\nos._exit(0)", users.SECOND) == ["attached"]
        running.communicate("\n", timeout=60)
    assert broker.run(TAKES + f"answer(take({does_not}))\nos._exit(0)") == ["attached"]


def test_hits_of_all_processes_of_a_user_count_and_the_busiest_trace_ends(start):
    broker = start("[limits]\nhits_per_s = 30000\n")
    script = """
with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid", mode="count") as t:
    answer("started")
    sys.stdin.readline()
    end = time.monotonic() + 8
    while time.monotonic() < end:
        for _ in range({calls}): os.getppid()
        time.sleep(0.1)
answer("ended this trace" in str(t.result), t.result.hits)
"""
    # Each alone makes less than the limit: 20,000 and 16,000 per second.
    running = [broker.start(script.format(calls=calls)) for calls in (2000, 1600)]
    for process in running:
        assert json.loads(process.stdout.readline()) == ["started"], process.stderr.read()
    for process in running:
        process.stdin.write("\n")
        process.stdin.flush()
    told = [json.loads(process.communicate(timeout=120)[0]) for process in running]
    if sum(hits for _, hits in told) > 8 * 33_000:  # the machine let them make that many
        assert sum(over for over, _ in told) == 1
    limits = [line for line in broker.audit() if line["what"] == "limit"]
    assert [line["why"] for line in limits] == ["hits_per_s"] * sum(over for over, _ in told)


LEASED = """
import fcntl, shutil, signal
from accel_magic import codec
from accel_magic.broker import broker_client, broker_socket
from accel_magic.broker.broker_messages import AttachedTrace, AttachRequest
from accel_magic.probes.plan import TraceRequest
signal.signal(signal.SIGIO, signal.SIG_IGN)
own = f"/tmp/accel_magic-leased-{os.getpid()}.so"
shutil.copy(next(line.split()[-1] for line in open("/proc/self/maps") if "libc.so" in line), own)
request = TraceRequest((f"uprobe:{own}:atoi",), mode="count")
with broker_client._opened(request) as (places, files):
    writing = os.open(own, os.O_RDWR)
os.unlink(own)
fcntl.fcntl(writing, fcntl.F_SETLEASE, fcntl.F_WRLCK)
"""


def test_a_file_with_a_lease_is_refused_at_once(broker):
    seconds, code, why = broker.run(
        LEASED
        + """
began = time.monotonic()
connection = broker_socket.connect(broker_socket.path())
codec.send(connection, AttachRequest(request=request, places=places, files=(codec.Descriptor(writing),)))
found = codec.receive(connection, AttachedTrace, codec.Failure)
answer(time.monotonic() - began, found.code, found.why)
os._exit(0)
"""
    )
    assert code == "broker.bad-request"
    assert "cannot be opened" in why
    assert seconds < float(Path("/proc/sys/fs/lease-break-time").read_text()) / 2


def test_limits_hold_while_a_request_takes_long(start):
    """The session cannot answer: its helper process, which looks into the caller's file, is stopped."""
    broker = start("[limits]\nduration_s = 3\n")
    process = broker.start(
        """
import shutil
from accel_magic import codec
from accel_magic.broker import broker_client
from accel_magic.broker.broker_messages import AttachRequest
from accel_magic.probes.plan import TraceRequest
from accel_magic.api import plans
from accel_magic.engine.session import attach
attached = attach(plans.make(TraceRequest(("tracepoint:syscalls:sys_enter_getppid",), mode="count")))
attached.go()
counters = attached.parts.kernel.counters["hits"]
answer("started")
sys.stdin.readline()
request = TraceRequest(("uprobe:libc:atoi",), mode="count")
with broker_client._opened(request) as (places, files):
    connection = broker_client.connection()._socket
    codec.send(connection, AttachRequest(request=request, places=places, files=files))
before, end = -1, time.monotonic() + 200
while counters.sum() != before and time.monotonic() < end:
    before = counters.sum()
    done = time.monotonic() + 1
    while time.monotonic() < done: os.getppid()
answer(bool(counters.sum() == before))
os._exit(0)
"""
    )
    with ended(process):
        assert json.loads(process.stdout.readline()) == ["started"]
        (session,) = broker.sessions()
        with held_up(session):
            process.stdin.write("\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline()) == [True]
            assert [line["why"] for line in broker.audit() if line["what"] == "limit"] == ["duration_s"]
            assert not [line for line in broker.audit() if line["what"] == "attach"][1:]


@contextlib.contextmanager
def held_up(session):
    """Stop each new child of a session, once it has closed its copies of the probes' descriptors."""
    known, stopped, done = children(session), set(), threading.Event()

    def stop():
        while not done.is_set():
            for pid in children(session) - known - stopped:
                with contextlib.suppress(OSError):
                    held = {str(one.readlink()) for one in Path(f"/proc/{pid}/fd").iterdir()}
                    if any("bpf" in name for name in held - {"anon_inode:bpf-map"}):
                        continue
                    os.kill(pid, signal.SIGSTOP)
                    stopped.add(pid)

    thread = threading.Thread(target=stop)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def children(pid):
    """Ids of a process's children."""
    return {int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def test_refusals_are_counted_if_there_are_too_many_to_write_each(start):
    """Of connections, and of requests on connections, each of which begins a new session."""
    broker = start("[limits]\nprocesses = 1\n")
    script = """
import contextlib, socket
from accel_magic import channel
where = os.environ["ACCEL_MAGIC_BROKER"]
first = socket.socket(socket.AF_UNIX)
first.connect(where)
first.sendall(b"\\0")
made, end = 0, time.monotonic() + 60
while made < 500 and time.monotonic() < end:
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(where)
        one.settimeout(60)
        made += bool(one.recv(1))  # the broker has answered
first.close()
asked = 0
for _ in range(4):
    time.sleep(0.5)  # until the session has ended
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(where)
        one.settimeout(60)
        with contextlib.suppress(OSError):
            for _ in range(100):
                channel.send_bytes(one, b"nothing")
                channel.receive_bytes(one)
                asked += 1
answer(made, asked)
"""
    made, asked = broker.run(script)
    assert made == 500
    assert asked >= 100
    callers.until(lambda: not broker.sessions())
    callers.until(lambda: sum(line.get("times", 1) for line in broker.audit()) >= made + asked)
    lines = broker.audit()
    assert len(lines) < 100
    assert {line["what"] for line in lines} <= {"connect", "message", "left out"}
    assert sum(line.get("times", 1) for line in lines) <= made + asked + 4  # a refused connection ends the loop

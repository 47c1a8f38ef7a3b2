"""Whose process a caller is: namespaces, process ids that are used again, and processes with other rights."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import users
from tests.support.callers import until
from tests.support.kernel_objects import kernel_objects

INSIDE = """
if "INSIDE" not in os.environ:
    os.environ["INSIDE"] = "1"
    os.execvp("unshare", ["unshare", *{options}, *sys.orig_argv])
try:
    with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid", "uprobe:libc:atoi", "offcpu") as t:
        for _ in range(30): os.getppid()
        for _ in range(20): libc.atoi(b"1")
    answer(t.result.counts.hits.tolist()[:2], t.result.events.pid.unique().tolist())
except AccelMagicError as error:
    answer(error.code, os.getpid())
"""
LINGERING = """
import socket
from accel_magic import codec
from accel_magic.broker import broker_client
from accel_magic.broker.broker_messages import Planned, PlanRequest
from accel_magic.probes.plan import TraceRequest
from accel_magic.kernel.mapped_memory import map_value
from accel_magic.api import plans
from accel_magic.engine.session import attach
attached = attach(plans.make(TraceRequest(("tracepoint:syscalls:sys_enter_getppid",), mode="count")))
attached.go()
counters = attached.parts.kernel.counters["hits"]
for _ in range(5): os.getppid()
connection = socket.socket(fileno=os.dup(broker_client.connection()._socket.fileno()))
connection.setblocking(True)
request = PlanRequest(request=TraceRequest(("offcpu",)))
"""


@pytest.fixture(autouse=True)
def _namespaces():
    made = subprocess.run(users.command(users.FIRST, "unshare", "-U", "true"), capture_output=True, check=False)
    if made.returncode:
        pytest.skip("this machine does not let users create user namespaces")


def test_a_caller_in_a_user_namespace_is_traced_as_its_user(broker):
    process = broker.start(INSIDE.format(options=["--user", "--map-current-user"]))
    output, errors = process.communicate(timeout=120)
    assert json.loads(output) == [[30, 20], [process.pid]], errors


def test_a_caller_that_is_root_in_its_namespace_is_refused(broker):
    code, _ = broker.run(INSIDE.format(options=["--user", "--map-root-user"]))
    assert code == "broker.other-rights"


def test_callers_with_the_same_process_id_in_two_namespaces_are_refused(broker):
    options = ["--user", "--map-current-user", "--pid", "--fork", "--mount-proc", "setpriv"]
    script = INSIDE.format(options=[*options, "--bounding-set=-all", "--inh-caps=-all"])
    running = [broker.start(script, uid) for uid in (users.FIRST, users.SECOND)]
    for process in running:
        output, errors = process.communicate(timeout=120)
        assert json.loads(output) == ["broker.container", 1], errors
    assert broker.run(INSIDE.format(options=["--user"]))[0] == [30, 20]


def test_a_child_in_a_namespace_is_traced_by_its_own_id(broker):
    hits, pids, child = broker.run(
        """
script = "import os\\nfor _ in range(40): os.getppid()\\nprint(os.getpid())"
new = ["unshare", "--user", "--map-current-user", "--pid", "--fork"]
with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid", filter='comm == "python"') as t:
    child = subprocess.run([*new, sys.executable, "-c", script], capture_output=True, text=True, check=True)
answer(t.result.hits, t.result.events.pid.unique().tolist(), int(child.stdout))
"""
    )
    assert (hits, child) == (40, 1)
    assert len(pids) == 1
    assert pids[0] > 1


def reused(pid):
    """Start a process of the second user that has an id which was another's; None if that does not succeed."""
    script = "import os, sys\nsys.stdin.read(1)\nfor _ in range(1000): os.getppid()\n"
    command = [shutil.which("python3", path="/usr/bin"), "-c", script]
    for _ in range(200):
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
        found = subprocess.Popen(command, stdin=subprocess.PIPE, user=users.SECOND, group=users.SECOND)
        if found.pid == pid:
            return found
        found.kill()
        found.communicate()
    return None


def test_traces_end_with_the_process_that_connected_and_its_id_may_be_anothers(broker):
    before, known = kernel_objects(), set(broker.sessions())
    process = broker.start(
        LINGERING
        + """
if os.fork(): os._exit(0)
sys.stdin.readline()
found = ""
try:
    codec.send(connection, request)
    found = codec.receive(connection, Planned, codec.Failure).code
except ConnectionError: pass
sys.stdin.readline()
answer(int(counters.sum()), found)
os._exit(0)
"""
    )
    process.wait(timeout=60)
    other = reused(process.pid)
    if other is None:
        pytest.skip("no process with the same id could be started")
    until(lambda: not [kind for kind, _ in kernel_objects() - before if kind == "link"])
    process.stdin.write("\n")
    process.stdin.flush()
    assert other.poll() is None
    other.communicate(b"\n", timeout=60)
    output, errors = process.communicate("\n", timeout=60)
    hits, code = json.loads(output)
    assert hits >= 5, errors
    assert hits < 100
    assert code == "broker.caller-ended"
    until(lambda: not set(broker.sessions()) - known)


@pytest.fixture
def setuid():
    """A program that runs as root, whoever starts it."""
    program = Path("/var/tmp") / f"accel_magic-setuid-{os.getpid()}"
    shutil.copy(os.path.realpath(shutil.which("sleep")), program)
    program.chmod(0o4755)
    yield program
    program.unlink()


def test_a_connection_of_a_process_that_now_runs_with_other_rights_is_refused(broker, setuid):
    process = broker.start(
        LINGERING
        + f"""
parent = os.getpid()
if os.fork():
    for one in (broker_client.connection()._socket, connection): one.set_inheritable(True)
    os.execv("{setuid}", ["sleep", "1000"])
def runs_as_root():
    users = next(line for line in open(f"/proc/{{parent}}/status") if line.startswith("Uid:"))
    return users.split()[2] == "0"
while not runs_as_root(): time.sleep(0.02)
codec.send(connection, request)
found = codec.receive(connection, Planned, codec.Failure)
before = int(counters.sum())
answer(found.code)
os._exit(0)
"""
    )
    (code,) = json.loads(process.stdout.readline())
    process.kill()
    process.communicate()
    assert code == "broker.other-rights"

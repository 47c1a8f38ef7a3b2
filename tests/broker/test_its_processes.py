"""The broker's processes: out of the reach of users, and killed at any time."""

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

from accel_magic import cache
from tests.broker.test_places import tree
from tests.support import callers, thorough
from tests.support.kernel_objects import kernel_objects

REACH = """
import errno, signal
def error_of(call, *arguments):
    try:
        result = call(*arguments)
    except OSError as error:
        return error.errno
    return ctypes.get_errno() if isinstance(result, int) and result == -1 else 0
libc = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(16)
def reach(pid):
    pidfd = os.pidfd_open(pid)
    vector = (ctypes.c_ulong * 2)(ctypes.addressof(buffer), 16)
    found = {f"ptrace {number:x}": error_of(libc.ptrace, number, pid, 0, 0) for number in (16, 0x4206)}
    found |= {f"signal {number}": error_of(os.kill, pid, number) for number in (0, 9, 15, 19)}
    found |= {f"open {name}": error_of(open, f"/proc/{pid}/{name}", "rb") for name in ("mem", "environ", "maps")}
    found |= {f"write {name}": error_of(open, f"/proc/{pid}/{name}", "wb") for name in ("mem", "oom_score_adj", "comm")}
    found |= {f"list {name}": error_of(os.listdir, f"/proc/{pid}/{name}") for name in ("fd", "map_files")}
    found |= {f"link {name}": error_of(os.readlink, f"/proc/{pid}/{name}") for name in ("exe", "cwd", "root")}
    found["vm_readv"] = error_of(libc.process_vm_readv, pid, vector, 1, vector, 1, 0)
    found["vm_writev"] = error_of(libc.process_vm_writev, pid, vector, 1, vector, 1, 0)
    found["pidfd_getfd"] = error_of(libc.syscall, 438, pidfd, 3, 0)
    found["pidfd_send_signal"] = error_of(signal.pidfd_send_signal, pidfd, 9)
    found["affinity"] = error_of(os.sched_setaffinity, pid, {0})
    found["priority"] = error_of(os.setpriority, os.PRIO_PROCESS, pid, 19)
    found["limits"] = error_of(libc.prlimit, pid, 7, buffer, None)
    return {name: number for name, number in found.items() if number not in (errno.EPERM, errno.EACCES)}
with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid", mode="count") as t:
    answer("attached")
    pids = json.loads(sys.stdin.readline())
    found = {pid: reach(pid) for pid in pids}
    os.getppid()
other = subprocess.Popen(["sleep", "100"])
answer(found, sorted(reach(other.pid)), t.result.hits)
"""


def test_no_process_of_the_broker_can_be_traced_read_changed_or_signalled_by_its_user(broker):
    process = broker.start(REACH)
    process.stdout.readline()
    pids = tree(broker.process.pid)
    assert len(pids) >= 3  # itself, the session, the compiler
    assert all(Path(f"/proc/{pid}").stat().st_uid == 0 for pid in pids)
    output, errors = process.communicate(json.dumps(pids) + "\n", timeout=callers.DEADLINE_S)
    found, reached, hits = json.loads(output)
    assert found == {str(pid): {} for pid in pids}, errors
    assert {"ptrace 10", "signal 9", "pidfd_getfd"} <= set(reached)
    assert hits == 1


MANY = """
codes, number, going = {{}}, 0, True
import select
while not select.select([sys.stdin], [], [], 0)[0]:
    number += 1
    try:
        with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid", mode="count", filter=f"pid != {{number}}") as t:
            os.getppid()
        code = f"hits {{t.result.hits}}"
    except AccelMagicError as error:
        code = error.code
    codes[code] = codes.get(code, 0) + 1
    if number % 2: answer(number)
with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid", mode="count", filter="pid != 0") as t:
    os.getppid()
answer(codes, t.result.hits)
"""


def children(pid):
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout
    return [int(line) for line in found.split()]


def state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def test_a_compiler_that_is_killed_at_any_time_is_a_typed_error_and_nothing_is_left(start):
    broker, before, source = start(), kernel_objects(), random.Random(13)
    files = set(broker.folder.iterdir())
    process = broker.start(MANY.format())
    process.stdout.readline()
    (session,) = broker.sessions()
    killed = 0
    while killed < thorough.choose(12, 400):
        time.sleep(source.uniform(0.0, 0.15))
        below = tree(session)[1:]
        if below:
            try:
                os.kill(source.choice(below), signal.SIGKILL)
                killed += 1
            except ProcessLookupError:
                continue
        process.stdout.readline()
    output, errors = process.communicate("\n", timeout=callers.DEADLINE_S)
    codes, hits = json.loads(output.splitlines()[-1])
    expected = {"hits 1", "compiler.ended", "compiler.crashed", "broker.bad-request"}
    assert set(codes) <= expected, errors
    assert {"hits 1"} < set(codes)
    assert hits == 1
    callers.until(lambda: not [pid for pid in children(session) if state(pid) == "Z"])
    assert set(broker.folder.iterdir()) == files
    callers.until(lambda: not kernel_objects() - before)


def session_of(broker, before):
    """The session that has begun since, and has a compiler: those of earlier tests may not have ended yet."""
    (session,) = [pid for pid in set(broker.sessions()) - before if children(pid)]
    return session


def test_the_compiler_has_no_capability_and_cannot_gain_any(broker):
    before = set(broker.sessions())
    process = broker.start(
        'with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid") as t:\n'
        "    answer(os.getpid())\n    sys.stdin.readline()\n"
    )
    process.stdout.readline()
    session = session_of(broker, before)
    (compiler,) = children(session)
    lines = Path(f"/proc/{compiler}/status").read_text().splitlines()
    values = dict(line.split(":", 1) for line in lines if ":" in line)
    assert {int(values[name], 16) for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")} == {0}
    assert (values["NoNewPrivs"].strip(), values["Seccomp"].strip()) == ("1", "2")
    process.communicate("\n", timeout=callers.DEADLINE_S)


def test_it_keeps_no_bytecode_for_its_users(start, tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    process = start().start(
        """
with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid", mode="count") as t: os.getppid()
answer(t.result.hits)
"""
    )
    output, errors = process.communicate(timeout=callers.DEADLINE_S)

    assert json.loads(output) == [1], errors
    assert list(tmp_path.iterdir()) == []


def test_after_a_session_has_ended_the_next_trace_has_another(broker):
    before = set(broker.sessions())
    process = broker.start(
        """
for _ in range(2):
    with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid", mode="count") as t: os.getppid()
    answer(t.result.hits)
    sys.stdin.readline()
"""
    )
    assert json.loads(process.stdout.readline()) == [1]
    session = session_of(broker, before)
    os.kill(session, signal.SIGKILL)
    callers.until(lambda: session not in broker.sessions())
    output, errors = process.communicate("\n\n", timeout=callers.DEADLINE_S)
    assert json.loads(output) == [1], errors

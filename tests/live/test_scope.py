"""The scope of traces: this process's tree, all processes, or one process."""

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from accel_magic import ProbeError, demangle, trace
from accel_magic.kernel.bcc import compiler
from accel_magic.recording.reader import reader_client
from tests.support.errors import raises

pytestmark = pytest.mark.live

GETPPID = "tracepoint:syscalls:sys_enter_getppid"
EACH = 200


def shares(result, function):
    """Hits of one function by process id."""
    return result.events.query("function == @function").groupby("pid").size().to_dict()


def test_self_follows_threads_forks_programs_and_daemons(build, run, hits_of):
    program = build("family")

    with trace(GETPPID, f"uprobe:{program}:step") as t:
        told = run(program, EACH)

    assert t.result.plan.scope_text() == "self"
    for function in ("sys_enter_getppid", "step"):
        # The parent, its thread, a forked child, a re-executed program, and a daemon.
        assert hits_of(t.result)[function] == 5 * EACH
        found = shares(t.result, function)
        daemon = set(found) - {told["parent"], told["forked"], told["executed"]}
        assert len(daemon) == 1
        assert daemon != {told["intermediate"]}
        assert found == {told["parent"]: 2 * EACH, told["forked"]: EACH, told["executed"]: EACH, daemon.pop(): EACH}


def test_processes_started_before_the_trace_are_in_the_tree(build):
    script = "read line; exec $0 1 100"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(["sh", "-c", script, build("calls")], **pipes) as early, trace(GETPPID) as t:
        early.communicate(b"\n")

    assert t.result.hits == 100
    assert set(t.result.events["pid"]) == {early.pid}


@pytest.fixture
def stranger(build, tmp_path):
    """A process that is not a descendant of this one, waiting on a fifo to run `calls 2 300`; a function resumes it."""
    fifo, done = tmp_path / "go", tmp_path / "done"
    subprocess.run(["mkfifo", fifo, done], check=True)
    # The shell exits immediately, so its child is reparented to init.
    script = 'setsid sh -c \'echo $$ > "$3"; read l < "$1"; "$0" 2 300 > /dev/null; echo > "$2"\' "$0" "$1" "$2" "$3" &'
    pid = tmp_path / "pid"
    subprocess.run(["sh", "-c", script, build("calls"), fifo, done, pid], check=True)
    while not (pid.exists() and pid.read_text().strip()):
        pass

    def go_on():
        fifo.write_text("\n")
        done.read_text()

    return int(pid.read_text()), go_on


def test_other_processes_are_not_counted_by_default(build, run, stranger):
    _, go_on = stranger

    with trace(GETPPID, f"uprobe:{build('calls')}:leaf") as t:
        go_on()
        told = run(build("calls"), 1, 10)

    assert t.result.counts["hits"].tolist() == [10, 10]
    assert set(t.result.events["pid"]) == {told["pid"]}


def test_scope_all_counts_all_processes(build, run, stranger, hits_of):
    _, go_on = stranger

    with trace(GETPPID, f"uprobe:{build('calls')}:leaf", scope="all") as t:
        go_on()
        run(build("calls"), 1, 10)

    assert hits_of(t.result)["leaf"] == 610
    ours = t.result.events.query("comm == 'calls' and function == 'sys_enter_getppid'")
    assert len(ours) == 610
    assert sorted(ours.groupby("pid").size()) == [10, 600]


def test_a_reused_process_id_is_not_in_scope(build, run):
    last_pid = Path("/proc/sys/kernel/ns_last_pid")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    with (
        subprocess.Popen(["sh", "-c", 'while read line; do "$0" 1 10; done', build("calls")], **pipes) as other,
        trace(GETPPID, scope=other.pid) as t,
    ):
        rounds = 0
        for _ in range(20):  # another process may get the id first
            rounds += 1
            other.stdin.write("go\n")
            printed = dict(line.split() for line in (other.stdout.readline() for _ in range(4)))
            while Path("/proc", printed["pid"]).exists():  # the id is free once the shell has reaped it
                time.sleep(0.001)
            last_pid.write_text(str(int(printed["pid"]) - 1))
            if run(build("calls"), 1, 7)["pid"] == int(printed["pid"]):
                break
        else:
            pytest.skip("other processes took every number first")
        other.stdin.close()

    assert t.result.hits == 10 * rounds


def test_scope_pid_counts_only_that_process_and_its_children(build, run, stranger):
    pid, go_on = stranger

    with trace(GETPPID, f"uprobe:{build('calls')}:leaf", scope=pid) as t:
        go_on()
        run(build("calls"), 1, 10)

    assert t.result.plan.scope_text() == f"pid {pid}"
    assert t.result.counts["hits"].tolist() == [600, 600]
    assert str(t.result.plan.points[0].scope.pid) == str(pid)


def test_other_tracepoints_count_for_all_by_default(build, stranger):
    _, go_on = stranger

    with trace("t:sched:sched_process_exec", GETPPID) as t:
        go_on()

    assert t.result.plan.scope_text() == "all + self"
    executed = t.result.events["filename"].tolist()  # other tests start programs too
    assert executed.count(str(build("calls"))) == 1


def test_threads_started_inside_and_outside_are_counted(build):
    started, proceed = threading.Event(), threading.Event()

    def work():
        started.set()
        proceed.wait()
        for _ in range(30):
            os.getppid()

    outside = threading.Thread(target=work)
    outside.start()
    started.wait()
    with trace(GETPPID) as t:
        inside = threading.Thread(target=work)
        inside.start()
        proceed.set()
        inside.join()
        outside.join()

    assert t.result.hits == 60
    assert t.result.events.groupby("tid").size().tolist() == [30, 30]


def test_a_scope_with_a_missing_process_is_an_error():
    with raises("scope.no-process", ProbeError, match="no such process") as caught, trace(GETPPID, scope=4_194_303):
        pass
    assert caught.value.fix


def test_in_a_container_with_its_own_process_ids_self_still_means_this_process(python, build, unshare):
    script = """
import os, subprocess, sys, accel_magic
from accel_magic.kernel import scope
assert not scope.in_initial_namespace()
with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid") as t:
    for _ in range(25): os.getppid()
    subprocess.run([sys.argv[1], "2", "100"], stdout=subprocess.DEVNULL, check=True)
print(t.result.hits)
try:
    child = subprocess.Popen(["sleep", "5"])
    with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid", scope=child.pid): pass
except accel_magic.MachineError as error:
    print("refused", bool(error.fix))
child.kill()
"""
    printed = python(script, build("calls"), before=unshare("--pid", "--fork", "--mount-proc"))

    assert printed.split() == ["225", "refused", "True"]


def test_the_tracers_own_processes_are_never_counted(build, run):
    with trace("t:raw_syscalls:sys_enter", scope="all") as t:
        run(build("naps"), 1, 20, 5000)

    assert {reader_client.shared().pid, compiler.start()}.isdisjoint(t.result.events["pid"])
    assert len(t.result.events) > 20


def test_concurrent_demangling_is_not_counted():
    demangle.end()
    assert demangle.function_name("_ZN5scope5firstEv") == "scope::first"
    with trace("tracepoint:syscalls:sys_enter_setitimer") as t:  # the demangler makes two calls per name
        assert demangle.function_name("_ZN5scope6secondEv") == "scope::second"
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    assert t.result.hits == 1
    assert shares(t.result, "sys_enter_setitimer") == {os.getpid(): 1}

"""Attached objects are released when their owner ends, however it ends; and nothing leaks."""

import contextlib
import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from accel_magic import TraceStateError, trace
from tests.support import fresh_python
from tests.support.errors import raises
from tests.support.thorough import THOROUGH

pytestmark = pytest.mark.live

GETPPID = "tracepoint:syscalls:sys_enter_getppid"


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children_of(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def ended(pids, seconds=60.0):
    end = time.monotonic() + seconds
    while any(map(running, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(map(running, pids))


def test_kernel_objects_exist_only_while_a_trace_runs(build, run, in_kernel, left_behind):
    before = in_kernel()
    with trace(f"latency:uprobe:{build('naps')}:nap", GETPPID, "t:sched:sched_process_exec") as t:
        held = in_kernel() - before
        run(build("naps"), 1, 1, 10)

    assert {kind for kind, _ in held} == {"program", "map", "link"}
    # nap's entry and return, getppid, exec, and those that follow forks, thread exits and program replacements.
    assert sum(kind == "program" for kind, _ in held) == 7
    assert sum(kind == "link" for kind, _ in held) == 7
    assert t.result.hits > 0
    assert left_behind() == set()


def test_a_failure_while_attaching_leaves_nothing(build, left_behind, monkeypatch):
    from accel_magic import MachineError
    from accel_magic.kernel import bpf_syscalls

    def refuse(*_, **__):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(bpf_syscalls, "link_uprobe_multi", refuse)
    monkeypatch.setattr(bpf_syscalls, "link_perf_event", refuse)
    with raises("machine.no-privilege", MachineError) as caught, trace(GETPPID, f"uprobe:{build('calls')}:leaf"):
        pytest.fail("the block must not run")
    monkeypatch.undo()

    assert caught.value.fix
    del caught  # its frames keep the control block mapped
    assert left_behind() == set()
    with trace(GETPPID) as t:  # and the next trace works
        os.getppid()
    assert t.result.hits == 1


def test_an_exception_in_the_block_propagates_and_the_result_is_kept(left_behind):
    with pytest.raises(ZeroDivisionError), trace(GETPPID) as t:
        os.getppid()
        1 / 0  # noqa: B018

    assert (t.result.hits, t.result.recording.outcome) == (1, "error")
    assert left_behind() == set()


def test_an_interrupt_in_the_block_propagates_and_the_result_is_kept(left_behind):
    with pytest.raises(KeyboardInterrupt), trace(GETPPID) as t:
        os.getppid()
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)

    assert (t.result.hits, t.result.recording.outcome) == (1, "interrupted")
    assert left_behind() == set()


def test_a_second_trace_inside_the_first_is_an_error_and_the_first_continues():
    with trace(GETPPID) as t:
        os.getppid()
        with raises("trace.already-running", TraceStateError) as caught, trace(GETPPID):
            pytest.fail("the block must not run")
        os.getppid()

    assert caught.value.fix
    assert t.result.hits == 2


def test_accessing_the_result_too_early_is_a_typed_error():
    t = trace(GETPPID)
    with raises("trace.no-result", TraceStateError, match="no result yet"):
        _ = t.result
    with t, raises("trace.no-result", TraceStateError, match="no result yet"):
        _ = t.result
    assert t.result.hits == 0


HOLD = """
import os, sys, time, accel_magic
with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid", "uprobe:libc:atoi", "latency:uprobe:libc:usleep",
                       "t:sched:sched_process_exec"):
    print("ready", flush=True)
    time.sleep(60)
"""


def test_a_killed_process_leaves_nothing_in_the_kernel_and_no_helpers(in_kernel, left_behind):
    with fresh_python.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"ready\n"
        helpers = children_of(holder.pid)
        assert len(helpers) == 2
        assert in_kernel()
        holder.kill()
        holder.wait()

    assert ended(helpers)
    assert left_behind() == set()


def test_a_killed_compiler_is_restarted():
    from accel_magic.kernel.bcc import compiler

    pid = compiler.start()
    os.kill(pid, signal.SIGKILL)
    assert ended([pid])
    with trace(GETPPID, filter=f"pid == {os.getpid()} or pid == {time.time_ns() % 2**31}") as t:
        os.getppid()

    assert t.result.hits == 1


def test_a_forked_child_does_not_keep_the_probes(left_behind):
    with trace(GETPPID, "uprobe:libc:atoi", "t:sched:sched_process_exec"):
        child = os.fork()
        if not child:
            time.sleep(250)
            os._exit(0)
    try:
        held = left_behind("program", "link")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

    assert held == set()


def fork_in_c():
    """Fork like a C library, without Python's knowledge; return the id of the child, which sleeps."""
    libc = ctypes.PyDLL(None)  # no Python code may run in the child
    child = libc.fork()
    if not child:
        libc.sleep(250)
        libc._exit(0)
    return child


@pytest.mark.parametrize("kind", ["trace", "program"])
def test_a_child_forked_by_a_c_library_keeps_the_probes_and_a_note_reports_it(
    build, in_kernel, left_behind, tmp_path, kind
):
    import accel_magic

    before = in_kernel()

    program = tmp_path / "count.bpf.c"
    program.write_text(
        "BPF_HASH(am_counts, u32, u64);\n"
        "TRACEPOINT_PROBE(syscalls, sys_enter_getppid) { u32 key = 0; am_counts.increment(key); return 0; }\n"
    )
    make = {
        "trace": lambda: trace(GETPPID, f"uprobe:{build('calls')}:leaf"),
        "program": lambda: accel_magic.trace_program(program),
    }[kind]
    with make() as t:
        child = fork_in_c()
        os.getppid()
    try:
        notes = t.result.recording.notes if kind == "trace" else t.result.notes
        (note,) = [note for note in notes if "stay attached" in note]
        assert f"{child} (" in note
        with make() as again:  # a later trace is not affected
            os.getppid()
        notes = again.result.recording.notes if kind == "trace" else again.result.notes
        assert not any("stay attached" in note for note in notes)
        if kind == "trace":
            assert (t.result.hits, again.result.hits) == (1, 1)
            assert {"link", "program"} <= {
                kind for kind, _ in in_kernel() - before
            }  # the test must be able to see them
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert left_behind() == set()


def test_children_started_by_python_keep_nothing_and_there_is_no_note():
    with trace(GETPPID) as t:
        sleeping = subprocess.Popen(["sleep", "60"])
        forked = os.fork()
        if not forked:
            time.sleep(60)
            os._exit(0)
    try:
        assert not any("stay attached" in note for note in t.result.recording.notes)
    finally:
        sleeping.kill()
        sleeping.wait()
        os.kill(forked, signal.SIGKILL)
        os.waitpid(forked, 0)


def _count_in_child(queue):
    for _ in range(20):
        os.getppid()
    queue.put(os.getpid())
    time.sleep(0.2)


def test_forked_workers_are_counted_and_can_trace_afterwards(left_behind):
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    with trace(GETPPID) as t:
        worker = context.Process(target=_count_in_child, args=(queue,))
        worker.start()
        pid = queue.get()
        worker.join()

    assert (t.result.events["pid"] == pid).sum() >= 20
    assert left_behind() == set()


def _trace_in_child(queue):
    try:
        with trace(GETPPID) as t:
            for _ in range(6):
                os.getppid()
        queue.put(t.result.hits)
    except Exception as error:  # noqa: BLE001
        queue.put(repr(error))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_process_can_trace(method):
    with trace(GETPPID):  # the child cannot use this process's helpers
        pass
    context = multiprocessing.get_context(method)
    queue = context.SimpleQueue()
    worker = context.Process(target=_trace_in_child, args=(queue,))
    worker.start()
    answer = queue.get()
    worker.join()

    assert answer == 6


def test_a_child_forked_inside_a_trace_can_trace():
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    with trace("t:syscalls:sys_enter_getpgid") as outer:
        worker = context.Process(target=_trace_in_child, args=(queue,))
        worker.start()
        answer = queue.get()
        worker.join()
        os.getpgid(0)

    assert answer == 6
    assert outer.result.hits == 1


def test_a_child_that_leaves_the_block_does_not_end_the_parents_trace():
    with trace(GETPPID) as t:
        child = os.fork()
        if not child:
            try:
                t.__exit__(None, None, None)
            except TraceStateError:
                os._exit(0)
            os._exit(1)
        _, status = os.waitpid(child, 0)
        os.getppid()

    assert status == 0
    assert t.result.hits == 1


CYCLES = """
import gc, os, resource, sys
import accel_magic
from accel_magic.kernel.bcc import compiler
def attached(n, *probes):
    for number in range(n):
        with accel_magic.trace(*probes, mode="count" if number % 2 else "auto", buffer=0.25) as t:
            os.getppid()
        assert t.result.hits >= 1, t.result
    gc.collect()
    status = open("/proc/self/status").read()
    memory, threads = (int(status.split(name)[1].split()[0]) for name in ("VmRSS:", "Threads:"))
    return len(os.listdir("/proc/self/fd")), memory, threads
first = attached(30, *sys.argv[2:]), attached(70, sys.argv[2])
first_maps = len(open("/proc/self/maps").readlines())
last = attached(70, *sys.argv[2:]), attached(int(sys.argv[1]) - 170, sys.argv[2])
print(*first[1], *last[1], len(open("/proc/self/maps").readlines()) - first_maps)
"""


def test_hundreds_of_traces_leak_no_descriptors_memory_or_kernel_objects(build, python, left_behind):
    traces = 1000 if THOROUGH else 200
    printed = python(CYCLES, traces, GETPPID, f"latency:uprobe:{build('naps')}:nap", timeout=280)

    descriptors, memory, threads, descriptors_after, memory_after, threads_after, maps = map(int, printed.split())
    assert descriptors_after == descriptors
    assert threads_after == threads
    assert memory_after - memory < 8 * 1024  # KiB, for all but the first 100
    assert maps <= 20  # memory mappings, including ours
    assert left_behind() == set()


def test_the_reader_process_keeps_no_descriptors_of_an_ended_trace(tmp_path):
    import accel_magic
    from accel_magic.recording.reader import reader_client

    program = tmp_path / "count.bpf.c"
    program.write_text(
        "BPF_RINGBUF_OUTPUT(out, 8);\n"
        "TRACEPOINT_PROBE(syscalls, sys_enter_getppid) { u64 v = 1; out.ringbuf_output(&v, sizeof(v), 0); return 0; }\n"
    )

    def failing():
        t = trace(GETPPID)
        t.prepare()
        t.attach()
        t.abort()

    def traced(t):
        with t:
            os.getppid()

    def held():
        names = []
        for entry in Path(f"/proc/{reader_client.shared().pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                names.append(str(entry.readlink()))
        return [name for name in names if "bpf" in name or "memfd:re" in name or "memfd:samples" in name]

    saved = tmp_path / "t.parquet"
    traced(trace(GETPPID, save=saved))
    kinds = (
        lambda: traced(trace(GETPPID)),
        lambda: traced(trace(GETPPID, mode="count")),
        lambda: traced(accel_magic.trace_program(program)),
        lambda: accel_magic.replay(saved, speed=1000),
        failing,
    )
    for _ in range(6):
        for kind in kinds:
            kind()

    end = time.monotonic() + 60
    while held() and time.monotonic() < end:  # it answers before it closes them
        time.sleep(0.01)
    assert held() == []


BESIDE = """
import os, sys, accel_magic
with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid", "uprobe:libc:atoi") as t:
    print("ready", flush=True)
    sys.stdin.readline()
    import ctypes
    libc = ctypes.CDLL(None)
    for _ in range(int(sys.argv[1])):
        os.getppid()
        libc.atoi(b"1")
    print("done", flush=True)
    sys.stdin.readline()
counts = t.result.counts["hits"].tolist()
print(*counts, len(set(t.result.events["pid"])), t.result.events["pid"].iloc[0] == os.getpid())
"""


def test_two_processes_trace_at_once_and_each_counts_its_own():
    processes = [
        fresh_python.Popen(
            [sys.executable, "-c", BESIDE, str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for count in (30, 500)
    ]
    for expected in ("ready\n", "done\n"):
        for process in processes:
            assert process.stdout.readline() == expected
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
    answers = [process.communicate(timeout=120)[0].split() for process in processes]

    assert answers == [["30", "30", "1", "True"], ["500", "500", "1", "True"]]

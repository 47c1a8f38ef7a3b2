"""Threads that work for the tool: the data written for the kernel programs."""

import threading
import time
from contextlib import ExitStack, nullcontext, suppress

import numpy as np
import pytest

from accel_magic.kernel import own_threads, scope
from accel_magic.kernel.attachment import RecordLayout
from tests.every_step import interrupt_at, steps_that_raise

pytestmark = pytest.mark.component

NOBODY = own_threads.NOBODY
CONTROL = RecordLayout(cpus=1, points=8, latencies=0, record_sizes=(), point_layouts=()).control


class Trace:
    """The maps of a kernel trace, in this process's memory."""

    def __init__(self, *, follows):
        self.control, self.threads = np.zeros(1, CONTROL), np.zeros(1, scope.IDS)
        self.control["starter"] = NOBODY
        self.marks = own_threads.ExcludedThreads(self.control, self.threads, follows=follows)

    @property
    def at_work(self):
        return np.flatnonzero(self.threads["marks"][0] & 2).tolist()

    @property
    def own(self):
        return set(np.flatnonzero(self.threads["marks"][0] & 1).tolist())


@pytest.fixture
def trace():
    """Create traces that are closed at the end of the test."""
    with ExitStack() as stack:

        def make(*, follows=True):
            made = Trace(follows=follows)
            stack.callback(made.marks.close)
            return made

        yield make


def me():
    return threading.get_native_id()


def test_a_thread_is_excluded_until_its_outermost_block_ends(trace):
    first = trace()
    assert first.at_work == []
    with own_threads.at_work():
        assert first.at_work == [me()]
        second = trace()  # one that starts meanwhile
        with own_threads.at_work():
            assert first.at_work == second.at_work == [me()]
        assert first.at_work == second.at_work == [me()]
    assert first.at_work == second.at_work == []


def test_an_error_in_a_block_ends_it(trace):
    made = trace()
    with pytest.raises(ZeroDivisionError), own_threads.at_work():
        raise ZeroDivisionError
    assert made.at_work == []


@pytest.mark.parametrize("within", [False, True])
def test_an_interrupt_at_any_moment_excludes_the_thread_no_longer_than_its_blocks(trace, within):
    one = trace()
    outer = own_threads.at_work() if within else nullcontext()
    tid = threading.get_native_id()

    def use():
        with own_threads.at_work():
            pass

    with outer:
        before = one.at_work
        steps = steps_that_raise((own_threads,), use)
        for step in steps:
            raised, run = interrupt_at(step, (own_threads,), use)
            with suppress(KeyboardInterrupt):
                run()
            assert one.at_work == before == ([tid] if within else []), raised
    assert len(steps) > 20
    assert one.at_work == []
    assert own_threads._working == {}


def test_a_thread_of_the_tool_stays_excluded_after_its_blocks(trace):
    made, work = trace(follows=False), threading.Event()

    def use():
        with own_threads.at_work():
            pass
        assert made.own == {me()}
        work.set()

    own_threads.Thread(target=use, name="accel_magic test").start()
    assert work.wait(60)
    assert made.at_work == []


def test_any_number_of_threads_is_excluded_until_each_is_done(trace):
    made = trace()
    gates, inside = [threading.Event() for _ in range(3)], [threading.Event() for _ in range(3)]
    tids = {}

    def work(number):
        with own_threads.at_work():
            tids[number] = me()
            inside[number].set()
            gates[number].wait()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread, begun in zip(threads, inside, strict=True):
        thread.start()
        begun.wait()
    assert made.at_work == sorted(tids.values())
    gates[0].set()
    threads[0].join()
    assert made.at_work == sorted((tids[1], tids[2]))
    for gate in gates:
        gate.set()
    for thread in threads:
        thread.join()
    assert made.at_work == []


def test_a_thread_of_the_tool_is_announced_at_start_and_marked_while_it_runs(trace):
    followed, alone = trace(follows=True), trace(follows=False)
    go = threading.Event()
    thread = own_threads.Thread(target=go.wait, name="accel_magic test")
    thread.start()

    assert alone.own == {thread.native_id}
    late = trace(follows=True)  # its kernel side did not see the thread start
    assert late.own == {thread.native_id}
    assert thread.daemon
    go.set()
    thread.join()
    assert followed.control["starter"].tolist() == [NOBODY]
    assert alone.own == set()
    assert followed.own == set()  # updated by the kernel


def test_the_starting_thread_is_announced_during_the_start(trace, monkeypatch):
    made, seen = trace(), []
    start = threading.Thread.start

    def watched(thread):
        seen.append(made.control["starter"].tolist())
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", watched)
    thread = own_threads.Thread(target=lambda: None, name="accel_magic test")
    thread.start()
    thread.join()

    assert seen == [[me()]]


def test_a_closed_trace_is_not_updated(trace):
    made = trace()
    made.marks.close()
    made.marks.close()
    with own_threads.at_work():
        own_threads.Thread(target=lambda: None, name="accel_magic test").start()
        assert made.at_work == []


def test_time_at_work_is_counted_once_for_nested_blocks():
    def spin(seconds):
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass

    before = own_threads.worked_ns()
    with own_threads.at_work():
        spin(0.02)
        with own_threads.at_work():
            spin(0.02)
        inside = own_threads.worked_ns() - before
    after = own_threads.worked_ns() - before
    spin(0.02)

    assert 40e6 <= inside <= after
    assert own_threads.worked_ns() - before == after
    assert after < inside + 20e6


def test_nothing_is_marked_if_the_kernel_cannot_be_queried(trace, monkeypatch):
    def refused():
        raise PermissionError(1, "Operation not permitted")

    made = trace(follows=False)
    monkeypatch.setattr(scope, "in_initial_namespace", lambda: False)
    monkeypatch.setattr(scope, "kernel_tid", refused)
    ran = []
    with own_threads.at_work():
        thread = own_threads.Thread(target=lambda: ran.append(True), name="accel_magic test")
        thread.start()
        thread.join()

    assert ran == [True]
    assert (made.at_work, made.own) == ([], set())

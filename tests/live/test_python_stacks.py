"""Python stacks walked by BPF programs agree with Python's own at the same moment."""

import asyncio
import functools
import itertools
import os
import re
import sys
import threading
import time
import traceback
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from accel_magic.engine.session import attach
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.kernel.stacks.python_layout import MOST_FRAMES
from accel_magic.kernel.stacks.python_names import GONE
from tests.support.plans import make_plan

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("nothing_attached")]

SEEN = defaultdict(list)


def note():
    """Store the caller's stack as reported by Python, outermost first."""
    stack = [
        Frame(frame.f_code.co_qualname, FrameKind.PYTHON, frame.f_code.co_filename, line)
        for frame, line in traceback.walk_stack(sys._getframe(1))
    ]
    SEEN[threading.get_native_id()].append(tuple(reversed(stack)))


@pytest.fixture(scope="module")
def traced():
    """Run a function under a trace; return the stacks of its hits by thread, (Python's, recorded)."""

    def run(work, *probes):
        SEEN.clear()
        plan = make_plan(list(probes or ("tracepoint:syscalls:sys_enter_getppid",)), scope="self")
        attached = attach(replace(plan, stacks=("python",)))
        try:
            attached.go()
            work()
        finally:
            recording = attached.stop()
        columns = recording.events.columns
        rows = recording.stacks.rows(columns["python_stack"].values)
        found = defaultdict(list)
        for tid, row in zip(columns["tid"].values.tolist(), rows.tolist(), strict=True):
            found[tid].append(recording.stacks.of(row) if row >= 0 else row)
        return dict(SEEN), dict(found)

    return run


def recursion(depth=5):
    if depth:
        return recursion(depth - 1)
    return note(), os.getppid()


def generator():
    def values():
        for _ in range(3):
            yield note(), os.getppid()

    return [value for value in values() for _ in values()]


def coroutines():
    async def inner():
        await asyncio.sleep(0)
        return note(), os.getppid()

    async def outer():
        return await asyncio.gather(inner(), inner())

    return asyncio.run(outer())


def executed():
    exec("\n\nfor _ in range(2):\n\n  note(), os.getppid()\n", globals())
    return eval("(note(), os.getppid())")


def called_back_from_c():
    sorted([2, 1], key=lambda _: (note(), os.getppid()))
    re.sub("a", lambda _: str((note(), os.getppid())), "aa")
    functools.reduce(lambda *_: (note(), os.getppid()), [1, 2, 3])

    class Größe:  # noqa: PLC2401 - so are some names
        seen = (note(), os.getppid())

        def __del__(self):
            note(), os.getppid()

        @functools.cached_property
        def é(self):  # noqa: PLC2401
            return note(), os.getppid()

    str(Größe().é)


def over_many_lines():
    # fmt: off
    return [
        1,
        (note(), os.getppid()),
        2,
    ]
    # fmt: on


SHAPES = (recursion, generator, coroutines, executed, called_back_from_c, over_many_lines)


def test_stacks_agree_with_traceback_for_all_shapes_and_threads(traced):
    go, done = threading.Event(), threading.Event()
    older = threading.Thread(target=lambda: (go.wait(), [shape() for shape in SHAPES], done.set()))
    older.start()

    def work():
        go.set()
        new = [threading.Thread(target=shape) for shape in SHAPES]
        for thread in new:
            thread.start()
        for shape in SHAPES:
            shape()
        for thread in (*new, older):
            thread.join()

    told, recorded = traced(work)
    assert len(told) == len(SHAPES) + 2
    assert recorded == told


@pytest.mark.parametrize("probe", ["uprobe:libc:getppid", "latency:tracepoint:syscalls:sys_enter_getppid"])
def test_probes_of_other_kinds_see_the_same_stacks(traced, probe):
    told, recorded = traced(lambda: [shape() for shape in SHAPES], probe)
    assert recorded == told


def test_a_deep_stack_keeps_the_innermost_frames_and_marks_the_truncation(traced):
    told, recorded = traced(lambda: recursion(depth=300))
    ((full,),), ((cut,),) = told.values(), recorded.values()
    assert cut[1:] == full[-MOST_FRAMES:]
    assert cut[0].name == f"[callers beyond {MOST_FRAMES} frames]"


def test_a_sleeping_thread_is_on_the_line_that_sleeps(traced):
    def work():
        for _ in range(5):
            note(), time.sleep(0.01)

    told, recorded = traced(work, "tracepoint:sched:sched_switch")
    assert set(told[threading.get_native_id()]) <= set(recorded[threading.get_native_id()])


def leaf(value):
    return value + 1


def middle(value):
    return leaf(leaf(value))  # calls leaf


def values(count):
    for value in range(count):
        yield middle(value)  # calls middle


def top():
    total = sum(values(20))  # calls values
    return sorted(range(50), key=leaf), total  # calls leaf


def test_samples_at_any_moment_have_possible_stacks_and_correct_lines(traced):
    def spin():
        end = time.thread_time() + 0.6
        while time.thread_time() < end:
            top()  # calls top

    _, recorded = traced(spin, "profile:hz:999")
    stacks = recorded[threading.get_native_id()]
    source = Path(__file__).read_text(encoding="utf-8").splitlines()
    possible, odd, lost = 0, [], []
    for stack in stacks:
        if stack == -1:  # no frame at all
            lost.append(stack)
            continue
        names = [frame.name.rpartition(".")[2] for frame in stack]
        if "spin" not in names:
            lost.append(stack)  # the walk was incomplete because the callers were unknown at that moment
            continue
        inner = stack[names.index("spin") :]
        right = all(
            source[caller.line - 1].endswith(f"# calls {callee.name}") for caller, callee in itertools.pairwise(inner)
        )
        possible += right
        if not right:
            odd.append(stack)
    assert odd == []
    assert len([stack for stack in stacks if stack != -1 and GONE in stack]) <= 2  # one in some 20,000
    assert possible > 100
    assert len(lost) < 0.1 * len(stacks), lost


def test_a_forked_child_has_no_python_stacks(traced):
    def work():
        child = os.fork()
        if not child:
            os.getppid()
            os._exit(0)
        os.waitpid(child, 0)

    _, recorded = traced(work)
    assert list(recorded.values()) == [[-1]]

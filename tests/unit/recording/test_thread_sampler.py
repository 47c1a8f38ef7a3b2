import os
import re
import threading
import time

import numpy as np
import pytest

from accel_magic.errors import ProbeError, TraceStateError
from accel_magic.kernel.stacks.frames import FrameKind
from accel_magic.recording import thread_sampler
from accel_magic.recording.profile import ThreadState
from accel_magic.recording.thread_sampler import ThreadSampler
from tests.support.errors import raises


def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def heavy():
    burn(0.15)


def light():
    burn(0.05)


def asleep():
    time.sleep(0.05)


def weight_of(profile, name, state):
    """Weight of the samples whose stack has a function of this name, ns."""
    samples = profile.samples
    nodes = [node for node in range(len(profile.parents)) if any(f.name == name for f in profile.path(node))]
    return int(samples.weight[np.isin(samples.stack, nodes) & (samples.state == state)].sum())


def test_each_threads_running_and_waiting_time_is_exact_and_attributed_to_its_place():
    clocks, ready, gate = {}, threading.Barrier(2), threading.Barrier(2)

    def work():
        ready.wait()
        for _ in range(3):
            heavy()
            light()
            asleep()
        clocks[threading.get_native_id()] = time.thread_time_ns()
        gate.wait()

    thread = threading.Thread(target=work, name="worker")
    thread.start()
    sampler = ThreadSampler(200, threads=True)
    sampler.start()
    ready.wait()
    while not clocks:
        time.sleep(0.01)
    profile = sampler.stop()
    gate.wait()
    thread.join()

    ((tid, cpu),) = clocks.items()
    samples = profile.samples
    ours = samples.tid == tid
    ran = int(samples.weight[ours & (samples.state == ThreadState.CPU)].sum())
    waited = int(samples.weight[ours & (samples.state == ThreadState.OFF_CPU)].sum())
    assert ran == pytest.approx(cpu, abs=10e6)
    assert ran + waited >= 700e6  # it ran for 0.6 s and slept for 0.15 s at least
    sums = [int(samples.weight[samples.tid == each].sum()) for each in set(samples.tid.tolist())]
    assert max(sums) <= profile.duration_ns + 50e6  # time before the start is excluded
    assert weight_of(profile, "heavy", ThreadState.CPU) > weight_of(profile, "light", ThreadState.CPU) > 0
    assert weight_of(profile, "asleep", ThreadState.OFF_CPU) > 75e6
    roots = {profile.path(node)[0] for node in set(samples.stack[ours].tolist())}
    assert [(root.name, root.kind) for root in roots] == [(f"worker ({tid})", FrameKind.THREAD)]
    leaves = {profile.path(node)[-1] for node in set(samples.stack[samples.state == ThreadState.OFF_CPU].tolist())}
    assert {(leaf.name, leaf.kind) for leaf in leaves} == {("waiting", FrameKind.WAIT)}


def test_new_threads_are_sampled_and_excluded_threads_are_not():
    gate = threading.Event()
    hidden, idle = threading.Thread(target=gate.wait), threading.Thread(target=gate.wait)
    hidden.start()
    idle.start()
    sampler = ThreadSampler(500, leave_out=[hidden.native_id])
    sampler.start()
    tids, burnt = [], threading.Event()
    new = threading.Thread(
        target=lambda: (tids.append(threading.get_native_id()), burn(0.05), burnt.set(), gate.wait())
    )
    new.start()
    burnt.wait()
    profile = sampler.stop()
    gate.set()
    new.join()
    hidden.join()
    idle.join()
    seen = set(profile.samples.tid.tolist())
    assert tids[0] in seen
    assert threading.get_native_id() in seen
    assert hidden.native_id not in seen
    assert int((profile.samples.tid == idle.native_id).sum()) < 10  # one wait, however many looks
    assert not [frame for frame in profile.frames if frame.module == thread_sampler.__file__]
    of_new = profile.samples.take((profile.samples.tid == tids[0]) & (profile.samples.state == ThreadState.CPU))
    assert 50e6 <= int(of_new.weight.sum()) < 70e6


def test_notes_state_the_cost_and_the_sampling_interval():
    sampler = ThreadSampler(100)
    before = time.monotonic_ns()
    sampler.start()
    time.sleep(0.1)
    profile = sampler.stop()
    assert 100_000_000 <= profile.duration_ns <= time.monotonic_ns() - before
    assert (profile.unit, profile.origin) == ("ns", "Python sampler at 100 Hz")
    # The test runner may have threads that `threading` does not know.
    assert [lost.why for lost in profile.lost if "unknown to Python's threading" not in lost.why] == []
    assert re.fullmatch(r"the sampler used [\d.]+ % of a processor: [\d.]+ [mu]s in [\d.]+ m?s", profile.notes[1])
    assert "10.0 ms was requested" in profile.notes[2]


@pytest.mark.parametrize("rate", [0, -1, 0.5, 1001])
def test_rates_out_of_range_are_rejected(rate):
    with raises("flame.bad-rate", ProbeError):
        ThreadSampler(rate)


def test_a_forked_child_cannot_stop_the_sampler():
    sampler = ThreadSampler(100)
    sampler.start()
    child = os.fork()
    if not child:
        try:
            sampler.stop()
        except TraceStateError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    sampler.stop()

"""Nested traces of different kinds: both exact, not counting each other's work, on one time base."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import accel_magic
from accel_magic import MachineError, ProbeError, TraceStateError
from tests.support.errors import raises

pytestmark = pytest.mark.live
pytest.importorskip("llvmlite", reason="GPU programs need the extra [gpu]")

from accel_magic.gpu.adapters import nvrtc  # noqa: E402 - after the skip

GETPPID = "tracepoint:syscalls:sys_enter_getppid"
# Calls used by attaching, detaching and live rows, which a test can make a known number of times.
OF_THE_TOOL = (
    "socket",
    "memfd_create",
    "clone",
    "clone3",
    "fork",
    "vfork",
    "execve",
    "bpf",
    "ioctl",
    "sendmsg",
    "perf_event_open",
)
SCALE = """
extern "C" __global__ void scale(float *x, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}
"""


@pytest.fixture(scope="module")
def launch():
    """Launch a kernel with 256 threads this many times."""
    try:
        kernel = nvrtc.CpuKernel(nvrtc.compile(SCALE))
    except MachineError as error:
        pytest.skip(str(error))
    data = np.ones(256, np.float32)

    def run(times):
        for _ in range(times):
            kernel[2, 128](data, 1.0, 256)

    return run


@pytest.fixture(scope="module", autouse=True)
def _helpers():
    """Start the helper processes, which serve all traces of this process and do not belong to a block."""
    with accel_magic.trace(GETPPID):
        pass


def gpu(**options):
    return accel_magic.gputrace("kernelcount", device="cpu", **options)


def calls(times):
    for _ in range(times):
        os.getppid()


def own(result):
    """Hits of this thread; other threads of the process, such as a notebook's, may call too."""
    return int((result.events["tid"] == threading.get_native_id()).sum())


def threads_of(result):
    return int(result.tools["kernelcount"]["threads"].sum())


def test_a_kernel_trace_inside_a_gpu_trace_and_the_reverse_are_both_exact(launch, nothing_attached):
    with gpu() as g:
        launch(2)
        calls(5)
        with accel_magic.trace(GETPPID) as t:
            calls(7)
            launch(3)
        calls(5)
        launch(4)
    assert (own(t.result), t.result.lost, t.result.hits) == (7, 0, t.result.recorded)
    assert (len(g.result.launches), threads_of(g.result), g.result.lost) == (9, 9 * 256, 0)

    with accel_magic.trace(GETPPID) as t:
        calls(2)
        launch(1)
        with gpu() as g:
            calls(3)
            launch(5)
        calls(4)
        launch(1)
    assert (own(t.result), t.result.lost, t.result.hits) == (9, 0, t.result.recorded)
    assert (len(g.result.launches), threads_of(g.result), g.result.lost) == (5, 5 * 256, 0)
    assert accel_magic.last is t.result


def do_once_each():
    """Make each of the tool's kinds of calls once, as the user."""
    socket.socket().close()
    os.close(os.memfd_create("mine"))
    subprocess.run(["true"], check=True)
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()


@pytest.fixture(scope="module")
def of_the_user():
    """Number of calls of each kind, counted by a trace without another trace around it."""
    with accel_magic.trace(*probes_of_the_tool()) as t:
        do_once_each()
    return hits_by_name(t.result)


def probes_of_the_tool():
    return [f"tracepoint:syscalls:sys_enter_{name}" for name in OF_THE_TOOL]


def hits_by_name(result):
    return {name: hits for (_, name), hits in result.counts["hits"].items() if hits}


@pytest.mark.parametrize("inner", ["gputrace", "gputrace --host-api on", "flame", "flame --gpu-kernels"])
def test_the_inner_traces_own_work_is_not_in_the_outer_trace(launch, of_the_user, inner, tmp_path):
    assert of_the_user["sys_enter_memfd_create"] == of_the_user["sys_enter_socket"] == 1
    made = {
        "gputrace": lambda: gpu(every=0.01),
        "gputrace --host-api on": lambda: gpu(host_api="on"),
        "flame": lambda: accel_magic.flame(off_cpu=True, save=tmp_path / "f.parquet"),
        "flame --gpu-kernels": lambda: accel_magic.flame(gpu_kernels=True, device="cpu"),
    }[inner]
    with made():  # exclude one-time imports and builds
        launch(1)
    with accel_magic.trace(*probes_of_the_tool()) as t, made() as other:
        launch(1)
        do_once_each()
        time.sleep(0.2)

    assert hits_by_name(t.result) == of_the_user
    assert other.result is not None


def test_an_inner_kernel_traces_own_work_is_not_in_an_outer_flame(of_the_user):
    measured = [f"latency:{probe}" for probe in probes_of_the_tool()]
    with accel_magic.flame(*measured) as f, accel_magic.trace(GETPPID) as t:
        do_once_each()
        calls(6)

    assert own(t.result) == 6
    spans = f.result.spans.set_index("function")["calls"]
    # A call that never returns, such as exec, is not a span.
    assert {name: int(count) for name, count in spans.items() if count} == {
        name: count for name, count in of_the_user.items() if name != "sys_enter_execve"
    } | {name: count for name, count in spans.items() if name == "sys_enter_execve" and count}


def test_three_kinds_run_together_and_each_is_complete(launch):
    with accel_magic.flame(gpu_kernels=True, device="cpu") as f, gpu() as g, accel_magic.trace(GETPPID) as t:
        calls(11)
        launch(6)

    assert own(t.result) == 11
    assert (len(g.result.launches), threads_of(g.result)) == (6, 6 * 256)
    assert len(f.result.facts.launches) == 6
    assert {one.tid for one in f.result.facts.launches} == {threading.get_native_id()}


@pytest.mark.parametrize("outer", ["flame", "gputrace"])
def test_the_outer_trace_gets_launches_before_during_and_after_the_inner_one(launch, outer):
    flame, gputrace = accel_magic.flame(gpu_kernels=True, device="cpu"), gpu()
    first, second = (flame, gputrace) if outer == "flame" else (gputrace, flame)
    with first:
        launch(2)
        with second:
            launch(3)
        launch(4)

    inside = {"flame": len(flame.result.facts.launches), "gputrace": len(gputrace.result.launches)}
    assert inside == {"flame": 3, "gputrace": 3} | {outer: 9}
    assert threads_of(gputrace.result) == inside["gputrace"] * 256


def test_two_traces_of_one_kind_are_an_error_and_the_outer_one_continues(launch):
    for make in (lambda: accel_magic.trace(GETPPID), gpu, accel_magic.flame):
        with make() as outer:
            calls(1)
            with raises("trace.already-running", TraceStateError), make():
                pytest.fail("the block must not run")
            launch(1)
        assert outer.result is accel_magic.last
    with (
        accel_magic.trace(GETPPID) as t,
        gpu() as g,
        raises("trace.already-running", TraceStateError),
        accel_magic.trace(GETPPID),
    ):
        pytest.fail("the block must not run")
    assert (own(t.result), len(g.result.launches)) == (0, 0)


@pytest.mark.parametrize(("error", "outcome"), [(ZeroDivisionError, "error"), (KeyboardInterrupt, "interrupted")])
def test_an_error_in_the_inner_block_leaves_both_results_and_nothing_attached(launch, nothing_attached, error, outcome):
    with pytest.raises(error), gpu() as g, accel_magic.trace(GETPPID) as t:
        calls(3)
        launch(2)
        raise error
    assert (own(t.result), t.result.recording.outcome) == (3, outcome)
    assert (len(g.result.launches), g.result.recording.outcome) == (2, outcome)

    with pytest.raises(error), accel_magic.trace(GETPPID) as t, gpu() as g:
        launch(1)
        raise error
    assert (t.result.recording.outcome, g.result.recording.outcome) == (outcome, outcome)


def test_an_inner_trace_that_cannot_start_leaves_the_outer_one_running(launch, nothing_attached):
    with gpu() as g:
        with raises("probe.no-match", ProbeError), accel_magic.trace("tracepoint:syscalls:sys_enter_nothing"):
            pytest.fail("the block must not run")
        launch(3)
    with accel_magic.trace(GETPPID) as t:
        with raises("gpu.no-tool", ProbeError), accel_magic.gputrace("no-such-tool", device="cpu"):
            pytest.fail("the block must not run")
        calls(4)

    assert len(g.result.launches) == 3
    assert own(t.result) == 4


def test_an_interrupt_while_the_inner_trace_attaches_or_detaches_loses_neither(launch, nothing_attached):
    """The signals are spread over the whole lifetime of the inner trace."""
    for after in (0.0, 0.02, 0.05, 0.1, 0.2, 0.3):
        with accel_magic.trace(GETPPID) as t:
            calls(5)
            timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):
                timer.start()
                with gpu():
                    launch(1)
                timer.join()
                time.sleep(5)  # it may arrive shortly after it was sent
            timer.join()
            calls(5)
        assert own(t.result) == 10
        assert t.result.recording.outcome == "ok"


def test_a_trace_continues_to_be_read_while_another_one_ends(build):
    """A program floods a small ring of the outer trace while inner traces come and go."""
    each = 200_000
    with (
        accel_magic.trace(GETPPID, mode="events", buffer=4) as t,
        subprocess.Popen([build("calls"), "2", str(each)], stdout=subprocess.PIPE, text=True) as child,
    ):
        inner = 0
        while child.poll() is None:
            with accel_magic.flame():
                inner += 1
        told = dict(line.split() for line in child.stdout)
    hits = int(t.result.events.eval(f"pid == {told['pid']}").sum()) + t.result.lost

    assert inner
    assert t.result.hits == t.result.recorded + t.result.lost
    assert hits >= 2 * each
    # The ring has space for a tenth of them, so most were read meanwhile.
    assert t.result.recorded > each


def test_launches_have_their_thread_in_this_process_and_in_children(launch, tmp_path):
    seen = []

    def work():
        launch(3)
        seen.append(threading.get_native_id())

    threads = [threading.Thread(target=work) for _ in range(2)]
    script = (
        "import threading; from cuda_client import *\nbegin(); out, n = c_uint64(alloc(1024)), c_uint(8)\n"
        "function = kernel('twice')\n"
        "def work():\n    begin(); ok(launch(function, out, n, block=8)); ok(sync())\n"
        "    print(threading.get_native_id(), flush=True)\n"
        "thread = threading.Thread(target=work); thread.start(); thread.join(); work()"
    )
    where = str(Path(__file__).parents[1] / "unit/devices/mock_cuda")
    with gpu(save=tmp_path / "g.parquet") as g:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        work()
        environment = {**os.environ, "PYTHONPATH": where}
        told = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        ).stdout

    launches = g.result.launches
    ours = launches[launches["pid"] == os.getpid()]
    assert ours["tid"].value_counts().to_dict() == dict.fromkeys(seen, 3)
    theirs = launches[launches["pid"] != os.getpid()]
    assert theirs["tid"].tolist() == [int(line) for line in told.split()]
    assert accel_magic.open(tmp_path / "g.parquet").launches.equals(launches)


def test_launches_and_events_have_one_time_base(launch):
    stamps = []

    def stamped(action):
        begin = time.monotonic_ns()
        action(1)
        stamps.append((begin, time.monotonic_ns()))

    with gpu() as g:
        time.sleep(0.01)
        with accel_magic.trace(GETPPID) as t:
            stamped(calls)
            stamped(launch)
            stamped(calls)
            stamped(launch)

    order = g.result.timeline(t.result)
    order = order[order["tid"] == threading.get_native_id()]
    assert (
        list(zip(order["trace"], order["name"], strict=True))
        == [
            ("ktrace", "sys_enter_getppid"),
            ("gputrace", "scale"),
        ]
        * 2
    )
    for (begin, end), at in zip(stamps, order["time_ns"] + g.result.recording.start_ns, strict=True):
        assert begin <= at <= end


def test_an_event_during_a_launch_is_assigned_to_it(launch, monkeypatch):
    """On the simulated device a launch runs in the launching thread, so a call can be made inside it."""
    from accel_magic.devices.sim import SimulatedDevice

    run = SimulatedDevice.launch

    def with_a_call(*arguments, **named):
        calls(2)
        return run(*arguments, **named)

    monkeypatch.setattr(SimulatedDevice, "launch", with_a_call)
    with gpu() as g, accel_magic.trace(GETPPID) as t:
        calls(1)
        launch(2)
        calls(1)

    order = g.result.timeline(t.result)
    events = order[(order["trace"] == "ktrace") & (order["tid"] == threading.get_native_id())]
    assert events["launch"].fillna(-1).tolist() == [-1, 0, 0, 1, 1, -1]
    assert t.result.events.loc[events["row"], "tid"].tolist() == events["tid"].tolist()

"""Launches on an accelerator: their lines and durations; GPU launches use the mock CUDA driver."""

import ctypes
import shutil
import sys
import threading

import numpy as np
import pytest

import accel_magic
from accel_magic.analysis.by_stack import profile_stacks
from accel_magic.api import launch_stacks
from accel_magic.api.launch_stacks import Launches
from accel_magic.devices import mock_cuda
from accel_magic.devices.launches import KernelSource, LaunchRequest
from accel_magic.devices.sim import SimulatedDevice
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.kernel.stacks.stack_table import KERNEL, table
from accel_magic.recording.profile import ThreadState

HERE = __file__
START = 1_000


def launch(watched, time_ns, *, device_ns=None, pid=0, kernel="_Z6matmulPf"):
    watched.launched(LaunchRequest("test", kernel, (1, 1, 1), (32, 1, 1), 0, 0, time_ns, device_ns=device_ns, pid=pid))


@pytest.fixture
def watched():
    """A watcher of the simulated device, with nothing attached."""
    return Launches("cpu")


def line():
    return sys._getframe(1).f_lineno


def test_each_launch_has_its_exact_line_and_thread(watched):
    lines = {}

    def first():
        launch(watched, START + 30, device_ns=7)
        lines["first"] = line() - 1

    def second():
        for number in range(2):
            lines["second"] = line() + 1
            launch(watched, START + 10 + number, device_ns=5)
        lines["thread"] = threading.get_native_id()

    first()
    thread = threading.Thread(target=second)
    thread.start()
    thread.join()
    seen = watched.seen(START, None)

    assert [(one.time_ns, one.device_ns, one.kernel) for one in seen.launches] == [
        (10, 5, "matmul(…)"),
        (11, 5, "matmul(…)"),
        (30, 7, "matmul(…)"),
    ]
    stacks = [seen.stacks.of(int(seen.stacks.rows(np.array([one.stack], "u8"))[0])) for one in seen.launches]
    # `launch` itself simulates a framework: the line that called it is below it.
    prefix = "test_each_launch_has_its_exact_line_and_thread.<locals>"
    assert stacks[0][-2] == Frame(f"{prefix}.second", FrameKind.PYTHON, HERE, lines["second"])
    assert stacks[2][-2] == Frame(f"{prefix}.first", FrameKind.PYTHON, HERE, lines["first"])
    assert stacks[0] == stacks[1]
    assert [one.tid for one in seen.launches] == [lines["thread"], lines["thread"], threading.get_native_id()]
    assert seen.device == "simulated device"


def test_launch_stacks_are_added_to_the_recordings_stacks_with_new_keys(watched):
    known = table(np.array([3, 2], "u8"), np.array([KERNEL, KERNEL], "u1"), [[Frame("a")], [Frame("b")]])
    launch(watched, START, device_ns=1)
    seen = watched.seen(START, known)

    key = np.array([seen.launches[0].stack], "u8")
    assert key[0] not in known.keys
    assert seen.stacks.of(int(seen.stacks.rows(key)[0]))[-1].name == "launch"
    assert [seen.stacks.of(int(row)) for row in seen.stacks.rows(known.keys)] == [(Frame("b"),), (Frame("a"),)]


def test_launches_of_other_processes_have_no_stack_and_launches_before_go_do_not_count(watched):
    launch(watched, START)
    watched.go()
    launch(watched, START, pid=4711)
    (one,) = watched.seen(START, None).launches

    assert (one.tid, one.stack, one.device_ns) == (0, 0, -1)


def test_launches_beyond_the_limit_are_counted(watched, monkeypatch):
    monkeypatch.setattr(launch_stacks, "MOST_LAUNCHES", 3)
    for number in range(5):
        launch(watched, START + number, device_ns=1)
    seen = watched.seen(START, None)

    assert ([one.time_ns for one in seen.launches], seen.more) == ([0, 1, 2], 2)


def test_kernels_are_not_changed(watched):
    assert watched.rewrite(KernelSource("test", ("k",), ".version 7.0", "sm_80")) == ".version 7.0"


PTX = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry spin(.param .u32 rounds)
{
	.reg .pred %p<2>;
	.reg .b32 %r<3>;
	ld.param.u32 %r1, [rounds];
	mov.u32 %r2, 0;
again:
	add.s32 %r2, %r2, 1;
	setp.lt.s32 %p1, %r2, %r1;
	@%p1 bra again;
	ret;
}
"""


@pytest.fixture
def cu():
    """The driver API over the simulated device."""
    api = pytest.importorskip("cuda.bindings.driver")
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("no C compiler to build the mock CUDA driver with")
    with mock_cuda.driver(SimulatedDevice(memory_bytes=64 << 20)):
        yield api


def checked(result):
    assert int(result[0]) == 0, result[0]
    return result[1] if len(result) == 2 else result[1:]


def test_on_a_gpu_a_launchs_duration_is_the_time_between_two_events(cu):
    context = checked(cu.cuDevicePrimaryCtxRetain(checked(cu.cuDeviceGet(0))))
    checked(cu.cuCtxSetCurrent(context))
    stream = checked(cu.cuStreamCreate(0))
    kernel = checked(cu.cuModuleGetFunction(checked(cu.cuModuleLoadData(PTX.encode() + b"\0")), b"spin"))

    def spin(rounds):
        checked(cu.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, ((rounds,), (ctypes.c_int,)), 0))

    spin(10)  # the very first launch is slow
    events = [checked(cu.cuEventCreate(0)) for _ in range(2)]
    checked(cu.cuStreamSynchronize(stream))
    with accel_magic.flame(gpu_kernels=True, device="cuda", sampler="thread") as t:
        spin(10)
        checked(cu.cuEventRecord(events[0], stream))
        spin(5000)
        checked(cu.cuEventRecord(events[1], stream))
    enclosing = checked(cu.cuEventElapsedTime(*events)) * 1e6  # by the user's own events

    profile = t.result.profile
    worked = profile.select(profile.samples.state == ThreadState.ACCELERATOR)
    short, long = sorted(worked.samples.weight.tolist())
    assert 0.9 * enclosing < long <= enclosing
    assert 0 < short < long / 3
    paths = [[frame.name for frame in frames] for frames in profile_stacks(worked)["frames"]]
    assert all(path[-1] == "spin" and path[-2].endswith("<locals>.spin") for path in paths)
    assert any("between two events" in note for note in profile.notes)
    assert "simulated device" in profile.banners[0]

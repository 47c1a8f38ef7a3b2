"""From a recording to a profile: samples, waits and launches, each under its stack, nothing twice."""

from dataclasses import replace

import numpy as np
import pytest

from accel_magic.analysis.flame.merge import merged
from accel_magic.banners import Replayed
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.kernel.stacks.stack_table import PYTHON, table
from accel_magic.recording.flame_data import AcceleratorLaunch, FlameFacts
from accel_magic.recording.profile import ThreadState
from accel_magic.results.flame_result import FlameResult

OWN, FUTEX, SLEEP, IOCTL = 100, 202, 230, 16
MS = 1_000_000
MAIN = (
    Frame("<module>", FrameKind.PYTHON, "cell [3]", 2),
    Frame("step", FrameKind.PYTHON, "/home/u/model.py", 40),
)
PATH = "python:<module> > python:step"
SUBMIT = "ivpu_submit_ioctl"


@pytest.fixture
def submit(make_point):
    """A measured call of the NPU driver."""
    return make_point(2, f"latency:kprobe:intel_vpu:{SUBMIT}", function=SUBMIT)


def test_a_sample_weighs_its_period_under_python_native_and_kernel_frames(maker, stacks_of):
    maker.sample(5, python=MAIN, native=["gemm"], kernel=["do_syscall_64", "vfs_read"])
    maker.sample(7, python=MAIN)
    profile = merged(maker.make()).profile

    assert stacks_of(profile) == {
        f"{PATH} > native:gemm > kernel:do_syscall_64 > kernel:vfs_read": 10 * MS,
        PATH: 10 * MS,
    }
    assert profile.unit == "ns"
    assert profile.samples.time_ns.tolist() == [5, 7]
    assert profile.samples.state.tolist() == [ThreadState.CPU, ThreadState.CPU]
    assert (profile.duration_ns, profile.lost) == (1_000 * MS, ())


def test_a_wait_weighs_its_duration_and_its_leaf_is_its_reason(maker, stacks_of):
    maker.wait(0, 30 * MS, python=MAIN, syscall=FUTEX)
    maker.wait(40 * MS, 5 * MS, python=MAIN, kernel=["do_nanosleep"], syscall=SLEEP)
    maker.wait(50 * MS, 2 * MS, python=MAIN, state=0, syscall=-1)
    profile = merged(maker.make()).profile

    assert stacks_of(profile, ThreadState.OFF_CPU) == {
        f"{PATH} > wait:lock": 30 * MS,
        f"{PATH} > kernel:do_nanosleep > wait:sleep": 5 * MS,
        f"{PATH} > wait:waiting for a processor": 2 * MS,
    }
    assert profile.samples.time_ns.tolist() == [0, 40 * MS, 50 * MS]


def test_a_wait_does_not_show_the_scheduler(maker, stacks_of):
    maker.wait(0, 3 * MS, python=MAIN, kernel=["do_futex", "futex_do_wait", "schedule", "__schedule"], syscall=FUTEX)
    maker.wait(5 * MS, MS, python=MAIN, kernel=["asm_sysvec_apic_timer_interrupt", "schedule"], state=0, syscall=-1)
    maker.wait(7 * MS, MS, kernel=["schedule", "__schedule"], syscall=SLEEP)
    maker.sample(9 * MS, python=MAIN, kernel=["do_sched_yield", "schedule", "__schedule"])
    profile = merged(maker.make()).profile

    assert stacks_of(profile) == {
        f"{PATH} > kernel:do_futex > kernel:futex_do_wait > wait:lock": 3 * MS,
        f"{PATH} > wait:waiting for a processor": MS,
        "wait:sleep": MS,
        f"{PATH} > kernel:do_sched_yield > kernel:schedule > kernel:__schedule": 10 * MS,
    }


def test_samples_and_waits_in_a_measured_call_of_the_same_thread_are_inside_its_frame(maker, submit, stacks_of):
    maker.call(2, 10 * MS, 20 * MS)
    maker.sample(9 * MS, python=MAIN)
    maker.sample(15 * MS, python=MAIN, kernel=["ivpu_cmd"])
    maker.sample(15 * MS, tid=101, python=MAIN)
    maker.wait(18 * MS, 4 * MS, python=MAIN, kernel=["ivpu_wait", "schedule"], syscall=IOCTL)
    profile = merged(maker.make(submit)).profile

    assert stacks_of(profile) == {
        PATH: 20 * MS,  # before the call, and the other thread
        f"{PATH} > driver:{SUBMIT} > kernel:ivpu_cmd": 10 * MS,
        f"{PATH} > driver:{SUBMIT} > kernel:ivpu_wait > wait:ioctl": 4 * MS,
    }


def test_a_wait_partly_in_a_call_is_cut_there_and_keeps_its_duration(maker, submit, stacks_of):
    maker.call(2, 10 * MS, 20 * MS).wait(5 * MS, 40 * MS, python=MAIN, syscall=FUTEX)
    profile = merged(maker.make(submit)).profile

    assert stacks_of(profile) == {
        f"{PATH} > wait:lock": 20 * MS,
        f"{PATH} > driver:{SUBMIT} > wait:lock": 20 * MS,
    }
    assert sorted(zip(profile.samples.time_ns, profile.samples.weight, strict=True)) == [
        (5 * MS, 5 * MS),
        (10 * MS, 20 * MS),
        (30 * MS, 15 * MS),
    ]


def test_with_threads_each_thread_is_a_root_with_its_python_or_kernel_name(maker, stacks_of):
    maker.sample(1, tid=100, python=MAIN).sample(2, tid=101, python=MAIN, comm="omp-1")
    recording = maker.make(facts=FlameFacts(rate=100, threads=True, names=((100, "MainThread"),)))

    assert stacks_of(merged(recording).profile) == {
        f"thread:MainThread (100) > {PATH}": 10 * MS,
        f"thread:omp-1 (101) > {PATH}": 10 * MS,
    }
    assert stacks_of(merged(recording, threads=False).profile) == {PATH: 20 * MS}
    assert stacks_of(FlameResult(recording).by()) == {PATH: 20 * MS}
    assert stacks_of(FlameResult(recording).by(threads=True)) == stacks_of(FlameResult(recording).profile)


def test_other_processes_in_the_scope_have_their_own_roots(maker, stacks_of):
    maker.sample(1, python=MAIN).sample(2, tid=900, pid=900, comm="gcc", native=["main"])

    assert stacks_of(merged(maker.make()).profile) == {PATH: 10 * MS, "process:gcc (900) > native:main": 10 * MS}


def test_every_sample_has_a_stack_or_is_counted_as_lost_with_the_reason(maker, stacks_of):
    maker.sample(1, python=MAIN)
    maker.sample(2)  # no stack at all
    maker.sample(3, python=MAIN, native=0x1233)  # its native stack did not fit into the table
    profile = merged(maker.make(hits=[3 + 4, 6], lost=[4, 2], missed=1)).profile

    assert stacks_of(profile) == {PATH: 10 * MS, "other:[no stack]": 10 * MS}
    assert {lost.why.split(":")[0]: lost.count for lost in profile.lost} == {
        "samples and waits have no stack": 1,
        "hits were missed": 1,
        "samples were lost": 4,
        "waits were lost": 2,
        "waits were not recorded": 4,
    }


def test_a_launch_is_accelerator_time_under_the_line_that_made_it(maker, stacks_of):
    maker.sample(1, python=MAIN)
    launches = (AcceleratorLaunch(5 * MS, 100, 2, "matmul", 7 * MS), AcceleratorLaunch(6 * MS, 101, 0, "add", -1))
    recording = maker.make(facts=FlameFacts(rate=100, device="simulated device", launches=launches))
    profile = merged(replace(recording, stacks=with_stack(recording.stacks, 2, MAIN[:1]))).profile

    assert stacks_of(profile, ThreadState.ACCELERATOR) == {"python:<module> > gpu_kernel:matmul": 7 * MS}
    assert stacks_of(profile, ThreadState.CPU) == {PATH: 10 * MS}
    assert any(note.startswith("1 launch has no accelerator time") for note in profile.notes)
    (frame,) = [frame for frame in profile.frames if frame.kind == FrameKind.GPU_KERNEL]
    assert frame.module == "simulated device"


def test_launches_after_the_end_of_a_partial_playback_are_left_out(maker, stacks_of):
    launches = (AcceleratorLaunch(5 * MS, 100, 0, "early", 1), AcceleratorLaunch(500 * MS, 100, 0, "late", 1))
    recording = maker.sample(1, python=MAIN).make(facts=FlameFacts(rate=100, launches=launches))

    shown = merged(replace(recording, duration_ns=100 * MS)).profile
    assert stacks_of(shown, ThreadState.ACCELERATOR) == {"gpu_kernel:early": 1}


def test_the_notebooks_own_threads_are_left_out_and_counted_without_all_frames(maker, stacks_of):
    below = (Frame("run", FrameKind.PYTHON, "/site-packages/ipykernel/iostream.py", 5),)
    maker.sample(1, python=MAIN).sample(2, tid=101, python=below).wait(5, MS, tid=101, python=below, syscall=FUTEX)
    maker.wait(3, MS, tid=102, comm="ZMQbg/IO/0", native=["epoll_wait"], syscall=FUTEX)
    recording = maker.make()
    profile = merged(recording).profile

    assert stacks_of(profile) == {PATH: 10 * MS}
    assert [(lost.count, lost.why.split(" are ")[0]) for lost in profile.lost] == [
        (3, "samples and waits of the notebook's own threads")
    ]
    everything = merged(recording, all_frames=True).profile
    assert len(everything.samples) == 4
    assert everything.lost == ()


def with_stack(stacks, key, frames):
    """The table with one more Python stack."""
    keys = np.array([*stacks.keys.tolist(), key], np.uint64)
    kinds = np.array([*stacks.kinds.tolist(), PYTHON], np.uint8)
    return table(keys, kinds, [*(stacks.of(row) for row in range(len(stacks.keys))), frames])


def test_replays_and_simulated_devices_have_banners(maker):
    recording = maker.sample(1, python=MAIN).make(replayed=Replayed("f.parquet", "Linux 6.18"))
    machine = {**recording.machine, "simulated": "simulated device"}

    first, second = merged(replace(recording, machine=machine)).profile.banners
    assert first.startswith("REPLAY")
    assert "simulated device" in second

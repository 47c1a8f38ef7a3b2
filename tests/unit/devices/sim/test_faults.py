"""Kernel faults: the error names the instruction, its line, the address, and the first thread."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

from accel_magic.devices.sim import DeviceFault, SimulatedDevice, warps
from accel_magic.errors import MachineError, ProbeError, ProgramError
from accel_magic.gpu.adapters import nvrtc
from tests.support.errors import raises

HEAD = ".version 7.0\n.target sm_80\n.address_size 64\n"


def kernel(body, parameters=".param .u64 a", before=""):
    """Wrap instructions in a kernel; the first one is on line 10, plus the lines of `before`."""
    return (
        f"{HEAD}{before}.visible .entry k({parameters})\n{{\n.reg .pred %p<4>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n"
        f".reg .f32 %f<4>;\n{body}\nret;\n}}\n"
    )


def fault(body, *arguments, device=None, block=32, grid=1, parameters=".param .u64 a", before=""):
    device = device or SimulatedDevice(1 << 20)
    module = device.load(kernel(body, parameters, before))
    with pytest.raises(DeviceFault) as caught:
        device.launch(module, "k", grid, block, arguments)
    return caught.value


def test_a_write_past_an_allocation_names_the_first_lane_its_address_and_both_lines(bench):
    out = np.zeros(64, np.int32)
    with pytest.raises(DeviceFault) as caught:
        bench.run("functions", "stray", 2, 96, out, 1)
    error = caught.value
    assert (error.block, error.thread) == ((0, 0, 0), (64, 0, 0))
    assert error.site.text.startswith("st.global.u32") or error.site.text.startswith("st.global.b32")
    assert error.site.source.startswith("functions.cu:")
    assert "ends 4 bytes past the allocation of 256 bytes" in error.why
    assert error.address % 256 == 0


def test_the_source_line_of_a_fault_is_that_of_the_statement(bench):
    with pytest.raises(DeviceFault) as caught:
        bench.run("functions", "stray", 1, 32, np.zeros(4, np.int32), 1000)
    line = int(caught.value.site.source.split(":")[1])
    source = (bench_source()).splitlines()[line - 1]
    assert source.strip() == "out[threadIdx.x * n] = 1;"


def bench_source():
    from pathlib import Path

    return (Path(__file__).parent / "samples" / "functions.cu").read_text()


@pytest.mark.parametrize(
    ("body", "what", "why", "thread"),
    [
        ("mov.b64 %rd1, 0;\nld.global.u32 %r1, [%rd1];", "read of 4 bytes", "null pointer", 0),
        ("mov.b64 %rd1, 8;\nld.u32 %r1, [%rd1+16];", "read of 4 bytes", "null pointer", 0),
        ("ld.param.u64 %rd1, [a];\nst.global.v2.u32 [%rd1+4], {%r1, %r1};", "misaligned", "multiple of 8", 0),
        ("mov.u32 %r1, 0x100000;\nld.shared.u32 %r2, [%r1];", "out of bounds (shared", "0 bytes of shared", 0),
        ("mov.b64 %rd1, 64;\nld.local.u32 %r2, [%rd1];", "out of bounds (local", "0 bytes of local", 0),
        (
            (
                "mov.u32 %r1, %tid.x;\nmul.wide.u32 %rd1, %r1, 64;\nld.param.u64 %rd2, [a];\n"
                "add.u64 %rd2, %rd2, %rd1;\natom.global.add.u32 %r3, [%rd2], 1;"
            ),
            "write of 4 bytes",
            "past the allocation",
            16,
        ),
        ("mov.b64 %rd1, c;\nst.const.u32 [%rd1], %r1;", "write of 4 bytes", "constant memory", 0),
        ("trap;", "stopped itself with trap", "check", 0),
        ("mov.u32 %r1, %tid.x;\nbar.sync %r1;", "barrier number 16", "16 barriers", 16),
    ],
)
def test_every_kind_of_invalid_access_is_a_fault_with_its_reason_and_thread(body, what, why, thread):
    device = SimulatedDevice(1 << 20)
    error = fault(body, device.allocate(1024), device=device, before=".const .align 4 .u32 c = 3;\n")
    assert what in error.what
    assert why in error.why
    assert error.thread == (thread, 0, 0)
    assert error.site.line == 11 + body.count("\n")


def test_access_to_freed_memory_is_reported_as_such():
    device = SimulatedDevice(1 << 20)
    address = device.allocate(512)
    device.free(address)
    error = fault("ld.param.u64 %rd1, [a];\nld.global.u32 %r1, [%rd1+8];", address, device=device)
    assert "512 bytes" in error.why
    assert "were freed" in error.why
    assert error.address == address + 8


def test_the_first_faulting_thread_is_found_among_many_blocks():
    device = SimulatedDevice(1 << 20)
    body = (
        "mov.u32 %r1, %ctaid.y;\nmov.u32 %r2, %tid.y;\nsetp.ne.u32 %p1, %r1, 3;\n@%p1 ret;\nsetp.ne.u32 %p2, %r2, 5;\n"
        "@%p2 ret;\nld.global.u32 %r1, [77];"
    )
    error = fault(body, 0, device=device, block=(4, 8), grid=(2, 6))
    assert error.block == (0, 3, 0)
    assert error.thread == (0, 5, 0)
    assert "misaligned" in error.what


def test_threads_waiting_at_different_barriers_are_listed_with_their_lines():
    body = (
        "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 40;\n@%p1 bra low;\nbar.sync 2;\nbra out;\nlow:\nbar.sync 1;\nout:"
    )
    error = fault(body, 0, block=96)
    assert error.code == "gpu.fault.deadlock"
    assert "40 threads (0-39) wait for barrier 1 at PTX line 16: bar.sync 1" in error.why
    assert "56 threads (40-95) wait for barrier 2 at PTX line 13: bar.sync 2" in error.why


def test_a_barrier_for_more_threads_than_arrive_is_a_deadlock(bench):
    with raises("gpu.fault.deadlock", DeviceFault) as caught:
        bench.run("functions", "stuck", 1, 128, np.zeros(128, np.int32))
    assert "30 threads (0-29) wait for barrier 1" in caught.value.why


def test_lanes_that_wait_in_vain_for_others_of_their_warp_are_a_deadlock():
    body = (
        "mov.u32 %r1, %laneid;\nsetp.lt.u32 %p1, %r1, 8;\n@%p1 bra low;\nbar.sync 0;\nbra out;\nlow:\n"
        "vote.sync.any.pred %p2, %p1, 0xffffffff;\nout:"
    )
    error = fault(body, 0)
    assert "8 threads (0-7) wait for the rest of their warp at PTX line 16: vote.sync.any.pred" in error.why


def test_an_endless_loop_is_stopped_and_reported():
    device = SimulatedDevice(1 << 20, instruction_limit=20_000)
    error = fault("again:\nadd.u32 %r1, %r1, 1;\nbra again;", 0, device=device)
    assert "stopped after 20000 instructions" in error.what
    assert error.site.text == "add.u32 %r1, %r1, 1"


SPINS = (
    'extern "C" __global__ void f(volatile float *a)\n{\n\tif (threadIdx.x)\n\t\ta[1] = 1;\n\twhile (a[0] == 0);\n}\n'
)
WAITS = "again:\nld.volatile.global.u32 %r1, [%rd1];\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra again;"


def test_an_endless_loop_is_stopped_by_time_with_the_line_that_it_spins_on():
    device = SimulatedDevice(1 << 20, kernel_seconds=0.2)
    try:
        module = device.load(nvrtc.compile(SPINS))
    except MachineError as error:
        pytest.skip(error.what)
    with raises("gpu.fault.endless-loop", DeviceFault) as caught:
        device.launch(module, "f", 1, 64, [device.allocate(8)])
    assert "after 0.2 s of CPU time" in caught.value.what
    assert caught.value.site.source.endswith("kernel.cu:5")
    assert "%env ACCEL_MAGIC_KERNEL_SECONDS=" in caught.value.fix


@pytest.mark.parametrize("others", ["", "bar.sync 0;\n"])
def test_an_endless_loop_of_one_lane_is_stopped_while_others_have_ended_or_wait(others):
    """Lanes that have ended are progress only once."""
    device = SimulatedDevice(1 << 20, kernel_seconds=0.5)  # a busy machine takes long until the others have ended
    body = (
        "ld.param.u64 %rd1, [a];\nmov.u32 %r2, %tid.x;\nsetp.ne.u32 %p2, %r2, 0;\n@%p2 bra out;\n"
        f"{WAITS}\nout:\n{others}"
    )
    error = fault(body, device.allocate(4), device=device, block=64)
    assert (error.code, error.thread) == ("gpu.fault.endless-loop", (0, 0, 0))


def test_a_kernel_whose_threads_keep_ending_may_take_longer_than_the_limit(monkeypatch):
    """The clock advances by half of the limit each time that it is read; each block ends in between."""
    ticks = count(step=0.5)
    monkeypatch.setattr(warps.time, "thread_time", lambda: next(ticks))
    monkeypatch.setattr(warps, "GIVE_WAY_EVERY_S", 0)
    device = SimulatedDevice(1 << 20, kernel_seconds=1.2)
    module = device.load(kernel("mov.u32 %r1, %tid.x;"))
    device.launch(module, "k", 2000, 1024, [0])
    assert next(ticks) > 5


def test_the_environment_sets_the_time_of_the_next_launch(monkeypatch):
    device = SimulatedDevice(1 << 20)
    monkeypatch.setenv("ACCEL_MAGIC_KERNEL_SECONDS", "0.1")
    body = f"ld.param.u64 %rd1, [a];\n{WAITS}"
    assert "after 0.1 s" in fault(body, device.allocate(4), device=device).what
    monkeypatch.setenv("ACCEL_MAGIC_KERNEL_SECONDS", "soon")
    with raises("option.unknown-value", ProbeError):
        device.launch(device.load(kernel(body)), "k", 1, 1, [0])


def test_endless_recursion_is_a_stack_overflow(bench):
    with raises("gpu.fault.stack-overflow", DeviceFault) as caught:
        bench.run("functions", "endless_recursion", 1, 32, np.zeros(32, np.uint32))
    assert "32768 bytes of local memory" in caught.value.why
    assert caught.value.site.text.startswith("call")


def test_a_failed_assertion_reports_the_condition_file_and_line(bench):
    with pytest.raises(DeviceFault) as caught:
        bench.run("functions", "asserts", 1, 32, 5)
    assert "assertion failed: threadIdx.x < n" in caught.value.what
    assert "functions.cu:" in caught.value.why
    assert caught.value.thread == (5, 0, 0)


def test_the_device_is_usable_after_a_fault(bench):
    out = np.zeros(16, np.int32)
    with pytest.raises(DeviceFault):
        bench.run("functions", "stray", 1, 256, out, 1)
    (after,) = bench.run("functions", "stray", 1, 16, out, 1)
    assert after.tolist() == [1] * 16


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("tcgen05.fence::before_thread_sync;", "`tcgen05.fence::before_thread_sync`"),
        ("frobnicate.u32 %r1, %r2;", "frobnicate"),
        ("add.wobbly.u32 %r1, %r2, %r3;", ".wobbly"),
        ("add.u32 %r1, %nothing, %r3;", "%nothing"),
        ("add.u64 %rd1, %r2, %rd3;", "%r2 is .b32"),
        ("cp.async.bulk.tensor.1d.shared::cluster.global [%r1], [%rd1, {%r2}], [%r3];", "no completion"),
        ("bra nowhere;", "nowhere"),
        ("ld.param.u64 %rd1, [other];", "other"),
        ("ld.param.u64 %rd1, [a+4];", "beyond a"),
    ],
)
def test_unsupported_code_is_rejected_at_load_time_with_its_line(body, named):
    with raises("gpu.ptx.unsupported", ProgramError) as caught:
        SimulatedDevice(1 << 20).load(kernel(f"mov.u32 %r1, 0;\n{body}"))
    assert named in str(caught.value)
    assert "PTX line 11" in caught.value.what
    assert caught.value.fix


@pytest.mark.parametrize("name", ["cudaMalloc", "cudaDeviceSynchronize"])
def test_functions_that_the_device_does_not_provide_are_rejected_by_name(name):
    before = f".extern .func (.param .b64 r) {name} (.param .b64 p);\n"
    body = f"{{\n.param .b64 x;\n.param .b64 y;\ncall (y), {name}, (x);\n}}"
    with raises("gpu.ptx.unsupported", ProgramError, match=name):
        SimulatedDevice(1 << 20).load(kernel(body, before=before))


def test_invalid_launches_are_rejected_before_anything_runs():
    device = SimulatedDevice(1 << 20)
    module = device.load(kernel("", ".param .u64 a, .param .f32 b"))
    with raises("gpu.no-kernel", ProgramError, match="'j'") as caught:
        device.launch(module, "j", 1, 1, [])
    assert "kernels: k" in caught.value.why
    with raises("gpu.wrong-argument-count", ProgramError):
        device.launch(module, "k", 1, 1, [1])
    with raises("gpu.bad-argument", ProgramError, match="Argument 0"):
        device.launch(module, "k", 1, 1, [2**64, 1.0])
    with raises("gpu.bad-argument", ProgramError, match="Argument 1"):
        device.launch(module, "k", 1, 1, [0, b"12"])
    for grid, block, shared in [(1, 1025, 0), (0, 1, 0), (1, (32, 33), 0), (1, 1, 1 << 20)]:
        with raises("gpu.bad-launch-shape", ProbeError):
            device.launch(module, "k", grid, block, [0, 1.0], shared)


def test_allocations_do_not_overlap_and_are_limited_by_the_device_memory():
    device = SimulatedDevice(1 << 20)
    first, second = device.allocate(100), device.allocate(100, align=4096)
    assert first % 256 == 0
    assert second % 4096 == 0
    assert second >= first + 100
    device.view(first, 100)[:] = 7
    assert device.copy_out(first, 100).tolist() == [7] * 100
    assert not device.copy_out(second, 100).any()
    with raises("gpu.bad-address", ProgramError):
        device.view(first, 101)
    with raises("gpu.out-of-memory", MachineError):
        device.allocate(1 << 20)
    device.free(first)
    with raises("gpu.bad-address", ProgramError):
        device.free(first)
    assert device.allocate(64) == first
    assert not device.copy_out(first, 64).any()


def test_an_access_that_straddles_an_allocations_end_is_found_among_accesses_to_several():
    device = SimulatedDevice(1 << 20)
    first, second = device.allocate(128), device.allocate(6)
    body = (
        "ld.param.u64 %rd1, [a];\nld.param.u64 %rd2, [b];\nmov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 9;\n"
        "selp.u64 %rd3, %rd2, %rd1, %p1;\nld.global.u32 %r2, [%rd3+4];"
    )
    error = fault(body, first, second, device=device, parameters=".param .u64 a, .param .u64 b")
    assert error.thread == (9, 0, 0)
    assert error.address == second + 4
    assert "ends 2 bytes past the allocation of 6 bytes" in error.why

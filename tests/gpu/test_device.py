"""The GPU itself: mapping its clock, reading maps while kernels run, exact losses, faulting kernels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import accel_magic
from accel_magic.devices.cuda.memory import CudaMemory
from accel_magic.errors import MachineError
from accel_magic.gpu.program import clang
from tests.gpu import frameworks
from tests.gpu.frameworks import SHAPES
from tests.gpu.memory import Array, call

driver = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
ROOT = Path(__file__).parents[2]
TIMER = r"""
extern "C" __global__ void tell(unsigned long long *out) {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(*out));
}
"""
PATIENT = r"""
extern "C" __global__ void patient(volatile int *go, int *out) {
    long long begun = clock64();
    while (!*go && clock64() - begun < LIMIT) { }
    out[blockIdx.x * blockDim.x + threadIdx.x] = *go;
}
"""
TINY = r"""
#include "accel_gpu.h"

struct item {
	u64 thread;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
	__type(value, struct item);
} items SEC(".maps");

SEC("gpu/entry")
int begin(struct gpu_ctx *ctx)
{
	struct item *item = bpf_ringbuf_reserve(&items, sizeof(*item), 0);

	if (!item)
		return 0;
	item->thread = gpu_thread_number();
	bpf_ringbuf_submit(item, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
"""
FAULTING = """
import json
import numpy as np
import accel_magic
from tests.gpu import frameworks, machine
from tests.gpu.memory import Array

with machine.opened() as gpu:
    shape = frameworks.SHAPES["many blocks"]
    given = Array(np.arange(shape.n, dtype=np.int32))
    nowhere = type("Nowhere", (), {"address": 16})
    with accel_magic.gputrace("kernelcount", "kernelretsnoop", device="cuda", host_api="off") as trace:
        work = frameworks.nvrtc(gpu)
        work(shape, given, Array(np.zeros(shape.n, np.int32)))
        try:
            work(shape, given, nowhere)
            given.numpy()
        except RuntimeError as error:
            fault = str(error)
    result = trace.result
    print(json.dumps({"fault": fault, "notes": result.recording.notes, "launches": len(result.launches),
                      "shown": repr(result)}))
"""


def launch(kernel, grid, block, *values):
    """Launch a kernel with cuda.bindings; arguments are numpy scalars and `Array`s."""
    kept = [np.array([value.address if isinstance(value, Array) else value]) for value in values]
    kept = [one.astype(np.uint64) if isinstance(value, Array) else one for one, value in zip(kept, values, strict=True)]
    pointers = np.array([one.ctypes.data for one in kept], np.uint64)
    call(driver.cuLaunchKernel, kernel, grid, 1, 1, block, 1, 1, 0, 0, pointers.ctypes.data, 0)


def kernel_of(gpu, source, name):
    module = call(driver.cuModuleLoadData, frameworks.nvrtc_ptx(gpu, source))
    return call(driver.cuModuleGetFunction, module, name.encode())


def test_mapped_gpu_times_are_between_the_surrounding_host_times_within_the_stated_error(gpu):
    tell, out = kernel_of(gpu, TIMER, "tell"), Array(np.zeros(1, np.uint64))
    memory = CudaMemory.open(0)
    try:
        first, seen = memory.clock(), []
        for _ in range(20):
            before = time.monotonic_ns()
            launch(tell, 1, 1, out)
            device_ns = int(out.numpy()[0])
            seen.append((before, device_ns, time.monotonic_ns()))
            time.sleep(0.01)
        clock = first.through(memory.clock())
    finally:
        memory.close()
    assert 0 < clock.error_ns < (50_000_000 if gpu.simulated else 5_000_000)
    for before, device_ns, after in seen:
        mapped = int(clock.to_host(np.array([device_ns], np.int64))[0])
        assert before - clock.error_ns <= mapped <= after + clock.error_ns


def test_launch_delays_are_not_negative_beyond_the_clocks_error(gpu):
    shape = SHAPES["many blocks"]
    given, out = (Array(np.zeros(shape.n, np.int32)) for _ in range(2))
    with accel_magic.gputrace("launchlate", device="cuda", host_api="off") as trace:
        work = frameworks.nvrtc(gpu)
        for _ in range(10):
            work(shape, given, out)
            call(driver.cuCtxSynchronize)
    late, error = trace.result.tools["launchlate"]["late_ns"], trace.result.recording.clock.error_ns
    assert len(late) == 10
    assert (late >= -error).all()
    assert (late <= trace.result.recording.duration_ns + error).all()


def test_maps_can_be_read_while_a_kernel_runs(gpu):
    place = call(driver.cuMemHostAlloc, 4096, driver.CU_MEMHOSTALLOC_DEVICEMAP)
    go = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_int32 * 1).from_address(int(place)))
    go[0] = 0
    address = np.uint64(int(call(driver.cuMemHostGetDevicePointer, place, 0)))
    out, ended = Array(np.zeros(64, np.int32)), threading.Event()
    context = call(driver.cuCtxGetCurrent)

    def wait():
        call(driver.cuCtxSetCurrent, context)
        call(driver.cuCtxSynchronize)
        ended.set()

    limit = "200000" if gpu.simulated else "40000000000"  # clock cycles, after which the kernel ends in any case
    with accel_magic.gputrace("kernelcount", device="cuda", host_api="off") as trace:
        patient = kernel_of(gpu, PATIENT.replace("LIMIT", limit), "patient")
        launch(patient, 2, 32, address, out)
        waiting = threading.Thread(target=wait)
        waiting.start()
        deadline, warps = time.monotonic() + 10, 0
        while warps < 2 and time.monotonic() < deadline and not ended.is_set():
            warps = int(trace.maps_now()["kernels"]["warps"].sum())
        running = not ended.is_set()
        go[0] = 1
        waiting.join()
    call(driver.cuMemFreeHost, place)
    assert running
    assert warps == 2
    assert (out.numpy() == 1).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_with_a_ring_that_is_far_too_small_every_record_is_delivered_or_counted_as_lost(gpu, tmp_path, shape):
    try:
        clang.find_clang()
    except MachineError as error:
        pytest.skip(f"this test compiles its own program: {error.what}")
    shape = SHAPES[shape]
    program = tmp_path / "tiny.bpf.c"
    program.write_text(TINY)
    given, out = (Array(np.zeros(shape.n, np.int32)) for _ in range(2))
    with accel_magic.gputrace(str(program), device="cuda", host_api="off") as trace:
        work = frameworks.nvrtc(gpu)
        for _ in range(5):
            work(shape, given, out)
    seen = trace.result.maps["items"]
    assert len(seen) + trace.result.lost == 5 * shape.threads
    assert len(seen) >= 50
    assert set(seen["thread"]) <= set(range(shape.threads))
    assert seen["thread"].value_counts().max() <= 5


def test_threads_that_do_not_fit_in_a_map_are_counted_exactly_as_lost(gpu):
    shape = SHAPES["three dimensions"]
    given, out = (Array(np.zeros(shape.n, np.int32)) for _ in range(2))
    with accel_magic.gputrace("threadhist", device="cuda", host_api="off", threads=700) as trace:
        frameworks.nvrtc(gpu)(shape, given, out)
    assert trace.result.tools["threadhist"]["thread"].tolist() == list(range(700))
    assert trace.result.lost == 2 * (shape.threads - 700)  # at the entry and at the exit


def test_after_a_faulting_kernel_there_is_a_result_that_notes_it(gpu):
    """Runs in a separate process because the context does not survive the fault."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", FAULTING], capture_output=True, text=True, env=environment, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in report["fault"]
    assert report["launches"] >= 1
    assert any("could not be read" in note for note in report["notes"]), report
    assert any(note in report["shown"] for note in report["notes"])


def test_kernels_of_a_second_gpu_are_reported(gpu):
    if gpu.count < 2:
        pytest.skip(f"there is only one GPU: {gpu.name}")
    second = call(driver.cuDevicePrimaryCtxRetain, call(driver.cuDeviceGet, 1))
    with accel_magic.gputrace("kernelcount", device="cuda", gpu=0, host_api="off") as trace:
        call(driver.cuCtxPushCurrent, second)
        try:
            shape = SHAPES["three dimensions"]
            given, out = (Array(np.zeros(shape.n, np.int32)) for _ in range(2))
            frameworks.nvrtc(gpu)(shape, given, out)
            out.numpy()
        finally:
            call(driver.cuCtxPopCurrent)
            driver.cuDevicePrimaryCtxRelease(call(driver.cuDeviceGet, 1))
    assert not trace.result.kernels["instrumented"].any()
    assert "GPU 1" in " ".join(trace.result.kernels["reason"])

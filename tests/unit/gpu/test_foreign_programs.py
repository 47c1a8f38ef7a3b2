"""Unmodified GPU eBPF programs of another project give the right values on the simulated device.

Runs only if ACCEL_MAGIC_BPFTIME names a checkout of eunomia-bpf/bpftime.
"""

import os
from pathlib import Path

import numpy as np
import pytest

import accel_magic
from accel_magic.gpu.adapters import nvrtc

FOLDER = os.environ.get("ACCEL_MAGIC_BPFTIME", "")
pytestmark = pytest.mark.skipif(not FOLDER, reason="ACCEL_MAGIC_BPFTIME does not name a checkout")

SOURCE = """
__global__ void vectorAdd(const float *A, const float *B, float *C) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    C[i] = A[i] + B[i];
}
"""
BLOCKS, THREADS, LAUNCHES = 4, 64, 2
GRID = BLOCKS * THREADS


def run(name, source=SOURCE, **options):
    """Trace two launches of a vector add; returns the result."""
    add = nvrtc.CpuKernel(nvrtc.compile(source))
    a, b, total = np.arange(GRID, dtype=np.float32), np.ones(GRID, np.float32), np.zeros(GRID, np.float32)
    more = (GRID,) if "int n" in source else ()
    with accel_magic.gputrace(str(Path(FOLDER) / name), threads=1024, **options) as trace:
        for _ in range(LAUNCHES):
            add[BLOCKS, THREADS](a, b, total, *more)
    assert np.array_equal(total, a + b)
    assert trace.result.lost == 0
    return trace.result


def test_each_thread_has_its_own_count():
    counts = run("example/gpu/threadhist/threadhist.bpf.c").maps["call_count"]

    assert counts["thread"].tolist() == list(range(GRID))
    assert set(counts["value"]) == {LAUNCHES}


def test_plain_updates_of_one_counter_lose_nothing():
    counter = run("example/gpu/mem_trace/mem_trace.bpf.c").maps["counter"]

    assert counter["value"].tolist() == [3 * GRID * LAUNCHES, 0, 0, 0]  # two loads and a store in each thread


def test_atomic_updates_of_a_map_shared_with_the_cpu_are_exact():
    counts = run("example/gpu/threadhist-gpu-kernel-shared-map/threadhist.bpf.c").maps["call_count"]

    assert counts["value"].tolist() == [GRID * LAUNCHES, 0]


def test_one_thread_of_the_grid_counts_launches_in_a_hash():
    result = run("example/gpu/cudagraph/cuda_probe.bpf.c")

    assert result.maps["call_count"].values.tolist() == [[os.getpid(), LAUNCHES]]
    assert len(result.maps["start_ts"]) == 0  # removed at the exit
    assert result.maps["total_time_ns"]["value"].iloc[0] > 0


def test_rings_of_each_thread_hold_one_record_of_each_launch():
    records = run("example/gpu/kernelretsnoop/kernelretsnoop.bpf.c").maps["rb"]

    assert sorted(zip(records["thread"], records["launch"], strict=True)) == [
        (thread, launch) for thread in range(GRID) for launch in (1, 2)
    ]
    x = [int.from_bytes(raw[:8], "little") for raw in records["raw"]]
    assert x == [thread % THREADS for thread in records["thread"]]


def test_per_thread_values_in_host_memory_are_exact():
    result = run("example/gpu/host_map_test/host_map_test.bpf.c", verify="warn")

    values = result.maps["perthread_counter"].pivot_table(index="thread", columns="key", values="value", fill_value=0)
    assert set(values[0]) == {LAUNCHES}
    assert values[2].astype(int).tolist() == [thread % THREADS for thread in range(GRID)]


def test_each_threads_place_is_recorded_by_block_and_thread():
    source = SOURCE.replace("float *C)", "float *C, int n)").replace("C[i] =", "if (i < n) C[i] =")
    result = run("example/gpu/threadscheduling_dynamic_hook/threadscheduling.bpf.c", source, verify="warn")

    placed = result.maps["thread_mapping"]
    assert placed["key"].tolist() == [block << 16 | thread for block in range(BLOCKS) for thread in range(THREADS)]
    assert (placed["lane_id"] == placed["thread_x"] % 32).all()
    assert set(placed["block_x"]) == set(range(BLOCKS))
    # Its histograms insert 1 if a lookup fails; racing lanes lose that count, which the verifier reports.
    assert any("inserted the key" in finding for finding in result.recording.findings)

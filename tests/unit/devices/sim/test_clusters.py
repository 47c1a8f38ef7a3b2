"""The heap of kernels, and clusters of one block: kernels that nvcc compiled, against arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from accel_magic.devices.sim import SimulatedDevice
from tests.support.errors import raises


def test_threads_allocate_and_free_lists_and_one_outlives_the_kernel(bench):
    out, keep = np.zeros(64, np.int32), np.zeros(1, np.uint64)
    before = bench.device.memory.allocated
    out, keep = bench.run("clusters", "lists", 2, 32, out, keep, np.int32(5))
    assert out.tolist() == [5 * me + 10 for me in range(64)]
    module = bench.module("clusters")
    assert bench.device.memory.allocated - before == 5 * 16
    _, total = bench.run_module(module, "follow", 1, 1, keep, np.zeros(1, np.int32))
    assert total.tolist() == [5 * 3 + 10]


def test_malloc_returns_null_beyond_the_heaps_eight_mebibytes_and_addresses_do_not_overlap(bench):
    (found,) = bench.run("clusters", "allocate", 1, 32, np.zeros(32, np.uint64), np.int64(1 << 20))
    assert np.count_nonzero(found) == 8
    assert (np.diff(np.sort(found[found > 0])) >= 1 << 20).all()
    assert not (found % 16).any()
    bench.run("clusters", "release", 1, 32, found)
    (again,) = bench.run("clusters", "allocate", 1, 32, np.zeros(32, np.uint64), np.int64(1 << 18))
    assert np.count_nonzero(again) == 32
    (none,) = bench.run("clusters", "allocate", 1, 4, np.zeros(4, np.uint64), np.int64(-1))
    assert not none.any()


def test_freeing_twice_or_what_was_not_allocated_is_a_fault(bench):
    (found,) = bench.run("clusters", "allocate", 1, 4, np.zeros(4, np.uint64), np.int64(64))
    with raises("gpu.fault.bad-free") as caught:
        bench.run("clusters", "release", 1, 4, found[[0, 1, 2, 2]])
    assert caught.value.thread == (3, 0, 0)
    with raises("gpu.fault.bad-free"):
        bench.run("clusters", "release", 1, 1, found[3:] + np.uint64(16))


def test_an_access_past_what_a_thread_allocated_is_a_fault(bench):
    with raises("gpu.fault.out-of-bounds") as caught:
        bench.run("clusters", "past_the_end", 1, 8, np.zeros(1, np.int32))
    assert caught.value.thread == (7, 0, 0)


def test_threads_of_a_cluster_exchange_values_between_its_barriers(bench):
    (out,) = bench.run("clusters", "exchange", 3, 128, np.zeros(3 * 128, np.int32), np.int32(10), np.int32(0))
    expected = (np.arange(128) + 370) % 128 + 10 + 1000
    assert np.array_equal(out.reshape(3, 128), np.tile(expected, (3, 1)))


def test_a_rank_that_the_cluster_does_not_have_is_a_fault(bench):
    with raises("gpu.fault.bad-cluster-rank"):
        bench.run("clusters", "exchange", 1, 128, np.zeros(128, np.int32), np.int32(1), np.int32(1))


def test_threads_that_wait_for_a_cluster_that_never_arrives_are_a_deadlock(bench):
    with raises("gpu.fault.deadlock") as caught:
        bench.run("clusters", "half_arrives", 1, 64)
    assert "32 threads (0-31) wait for the cluster's barrier" in caught.value.why


@pytest.mark.parametrize("blocks", [1, 2])
def test_kernels_for_clusters_of_several_blocks_are_refused(blocks):
    source = (
        ".version 8.6\n.target sm_90\n.address_size 64\n"
        f".visible .entry k() .explicitcluster .reqnctapercluster {blocks}, 1, 1 {{ ret; }}\n"
    )
    if blocks == 1:
        SimulatedDevice(1 << 20).load(source)
        return
    with raises("gpu.ptx.unsupported") as caught:
        SimulatedDevice(1 << 20).load(source)
    assert "clusters of 2 blocks" in caught.value.why


def test_no_thread_passes_a_clusters_barrier_before_the_last_has_arrived():
    # The second warp stores its value in code that is scheduled after that of the waiting first warp.
    source = (
        ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out) {\n"
        ".reg .pred %p; .reg .b32 %r<3>; .reg .b64 %d<3>; .shared .u32 value;\n"
        "ld.param.u64 %d0, [out]; mov.u32 %r0, %tid.x; setp.ge.u32 %p, %r0, 32; @%p bra late;\n"
        "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;\n"
        "ld.shared.u32 %r1, [value]; bra done;\n"
        "late: mov.u32 %r1, 7; st.shared.u32 [value], %r1; barrier.cluster.arrive; barrier.cluster.wait;\n"
        "done: mul.wide.u32 %d1, %r0, 4; add.u64 %d2, %d0, %d1; st.global.u32 [%d2], %r1;\nret; }\n"
    )
    device = SimulatedDevice(1 << 20)
    out = device.allocate(256)
    device.launch(device.load(source), "k", 1, 64, [out])
    assert device.copy_out(out, 256).view(np.uint32).tolist() == [7] * 64


def test_groups_of_several_warps_reduce_through_reserved_shared_memory(bench):
    given = np.random.default_rng(0).integers(-99, 99, 512, np.int32)
    _, out = bench.run("tiles", "sums", 2, 256, given, np.zeros_like(given))
    total = given.reshape(-1, 64).sum(axis=1)
    assert np.array_equal(out.reshape(-1, 64), np.repeat((65 * total)[:, None], 64, axis=1))

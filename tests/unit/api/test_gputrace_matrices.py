"""Programs inserted into kernels with warp matrix products, clusters and memory of their own, that nvcc compiled."""

from pathlib import Path

import numpy as np
import pytest

import accel_magic
from accel_magic.gpu.adapters import nvrtc

pytestmark = pytest.mark.component

SAMPLES = Path(__file__).parents[1] / "devices" / "sim" / "samples"


def kernel(sample, name):
    return nvrtc.CpuKernel((SAMPLES / f"{sample}.ptx").read_text(), name)


def test_memory_operations_around_matrix_products_are_counted_and_the_product_stays_right():
    m, n, k = 32, 16, 48
    numbers = np.random.default_rng(1).integers(-8, 9, (2, m * k)).astype(np.float16)
    a, b, c = numbers[0].reshape(m, k), numbers[1][: k * n].reshape(k, n), np.zeros((m, n), np.float32)
    with accel_magic.gputrace("memtrace", "kernelcount") as trace:
        kernel("wmma", "tiles")[(1, 2), 32](a, b, c, n, k)
    assert np.array_equal(c, 2 * (a.astype(np.float32) @ b.astype(np.float32)))
    table = trace.result.tools["memtrace"]
    # Two warps stage 16 x 16 halves, three times: a load and a store of 32 halves for every two rows.
    requests = table.groupby(["operation", "space"])["requests"].sum().to_dict()
    assert requests == {("load", "global"): 2 * 3 * 8, ("store", "shared"): 2 * 3 * 8}
    assert trace.result.tools["kernelcount"]["threads"].sum() == 64


def test_memory_that_a_kernel_allocates_is_traced_like_other_memory():
    out, keep = np.zeros(32, np.int32), np.zeros(1, np.uint64)
    with accel_magic.gputrace("memtrace") as trace:
        kernel("clusters", "lists")[1, 32](out, keep, 3)
    assert out.tolist() == [3 * me + 3 for me in range(32)]
    table = trace.result.tools["memtrace"]
    stores = table[(table["operation"] == "store") & (table["bytes"] * table["lanes"] > 0)]
    # A node has two members; the store of the result and of the list that is kept are the others.
    assert (stores["bytes"] * stores["lanes"]).sum() == 32 * 3 * (4 + 8) + 32 * 4 + 8


def test_phases_of_a_cluster_stay_right_with_programs_at_every_memory_operation():
    out = np.zeros(128, np.int32)
    with accel_magic.gputrace("memtrace") as trace:
        kernel("clusters", "exchange")[1, 128](out, 6, 0)
    assert np.array_equal(out, (np.arange(128) + 37 * 6) % 128 + 6 + 1000)
    table = trace.result.tools["memtrace"]
    assert table[table["operation"] == "load"]["lanes"].sum() == 6 * 128

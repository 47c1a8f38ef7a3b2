"""Kernels compiled by nvcc, Triton and Numba, checked against numpy or arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.component

RANDOM = np.random.default_rng(5)


def test_a_vector_add_of_a_million_elements_equals_numpy(bench):
    n = 1_000_003
    a, b = RANDOM.random((2, n), np.float32)
    _, _, c = bench.run("parallel", "vector_add", -(-n // 256), 256, a, b, np.zeros(n, np.float32), n)
    assert np.array_equal(c, a + b)


@pytest.mark.parametrize("block", [32, 96, 100, 256])
def test_a_reduction_by_shuffles_gives_the_exact_sum(bench, block):
    values = RANDOM.integers(-1000, 1000, 5000, np.int32)
    block = -(-block // 32) * 32
    _, out = bench.run("parallel", "reduce", 7, block, values, np.zeros(1, np.int32), len(values))
    assert out[0] == values.sum()


def test_a_scan_in_dynamic_shared_memory_gives_prefix_sums(bench):
    values = RANDOM.integers(0, 100, (5, 512), np.uint32)
    _, out = bench.run("parallel", "scan", 5, 512, values, np.zeros_like(values), shared=4 * 512)
    assert np.array_equal(out, np.cumsum(values, axis=1, dtype=np.uint32))


def test_a_histogram_by_shared_and_global_atomics_counts_every_value(bench):
    values = RANDOM.integers(0, 256, 20_000).astype(np.uint8)
    _, bins = bench.run("parallel", "histogram", 6, 128, values, np.zeros(256, np.uint32), len(values))
    assert np.array_equal(bins, np.bincount(values, minlength=256))


def test_a_bitonic_sort_sorts_each_block(bench):
    values = RANDOM.integers(-(2**31), 2**31, (3, 512), np.int32)
    (out,) = bench.run("parallel", "bitonic_sort", 3, 512, values)
    assert np.array_equal(out, np.sort(values, axis=1))


def test_a_transpose_through_a_tile_works_at_the_edges(bench):
    matrix = RANDOM.random((45, 70), np.float32)
    _, out = bench.run("parallel", "transpose", (3, 2), (32, 8), matrix, np.zeros((70, 45), np.float32), 70, 45)
    assert np.array_equal(out, matrix.T)


def test_a_tiled_matrix_product_equals_fused_multiply_adds_in_order(bench):
    a, b = RANDOM.random((2, 48, 48), np.float32)
    _, _, out = bench.run("parallel", "matmul", (3, 3), (16, 16), a, b, np.zeros_like(a), 48)
    expected = np.zeros((48, 48), np.float32)
    for k in range(48):
        # A product of two float32 is exact in an 80-bit sum of these sizes, so it is rounded once.
        product = a[:, k : k + 1].astype(np.longdouble) * b[k].astype(np.longdouble)
        expected = (product + expected.astype(np.longdouble)).astype(np.float32)
    assert np.array_equal(out, expected)


def test_gravity_by_reciprocal_square_roots_is_close_to_double_precision(bench):
    bodies = RANDOM.random((130, 4), np.float32)
    _, out = bench.run("parallel", "gravity", 2, 128, bodies, np.zeros_like(bodies), 130)
    wide = bodies.astype(np.float64)
    apart = wide[None, :, :3] - wide[:, None, :3]
    distance = (apart**2).sum(-1) + 0.01
    force = (apart * (wide[None, :, 3] * distance**-1.5)[..., None]).sum(1)
    assert np.abs(out[:, :3] - force).max() < 1e-4 * np.abs(force).max()


def test_votes_and_matches_count_the_lanes_of_their_warp(bench):
    values = RANDOM.integers(0, 100, 256, np.int32)
    values[40] = 77
    values[130] = 2000
    _, out = bench.run("parallel", "vote_count", 2, 128, values, np.zeros((8, 4), np.uint32))
    warps = values.reshape(8, 32)
    assert np.array_equal(out[:, 0], ((warps & 1).astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(1))
    assert np.array_equal(out[:, 1], (warps < 1000).all(1))
    assert np.array_equal(out[:, 2], (warps == 77).any(1))
    assert np.array_equal(out[:, 3], (warps % 3 == warps[:, :1] % 3).sum(1))


def test_barriers_that_reduce_see_the_whole_block(bench):
    values = RANDOM.integers(-50, 50, (4, 100), np.int32)
    values[1] = np.abs(values[1]) + 8
    values[2, 3] = -200
    values[3, 99] = 7
    _, out = bench.run("parallel", "block_votes", 4, 100, values, np.zeros_like(values))
    count, all_, any_ = (values > 0).sum(1), (values > -100).all(1), (values == 7).any(1)
    assert np.array_equal(out, np.broadcast_to((count * 4 + all_ * 2 + any_)[:, None], (4, 100)))


def test_a_barrier_does_not_wait_for_threads_that_have_returned(bench):
    (out,) = bench.run("parallel", "early_return", 3, 128, np.zeros((3, 128), np.int32), 70)
    expected = np.zeros((3, 128), np.int32)
    expected[:, :70] = (np.arange(3) * 100 + 70)[:, None]
    assert np.array_equal(out, expected)


def test_a_named_barrier_lets_one_half_arrive_and_the_other_wait(bench):
    (out,) = bench.run("parallel", "producer_consumer", 2, 128, np.zeros((2, 64), np.int32))
    assert np.array_equal(out, np.broadcast_to(np.arange(63, -1, -1) * 3, (2, 64)))


@pytest.mark.parametrize("kernel", ["spin_lock", "plain_spin_lock"])
def test_a_lock_contended_by_lanes_of_one_warp_is_released_and_counts_exactly(bench, kernel):
    _, counter = bench.run("parallel", kernel, 2, 64, np.zeros(1, np.int32), np.zeros(1, np.int32))
    assert counter[0] == 128


def test_recursion_gives_each_thread_its_own_activation(bench):
    (out,) = bench.run("functions", "recursion", 1, 96, np.zeros(96, np.uint32))
    known = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89]
    assert out.tolist() == [known[i % 12] for i in range(96)]


def test_structs_are_passed_by_value_through_calls(bench):
    kind = np.dtype([("x", "f8"), ("y", "f8"), ("tag", "i4"), ("pad", "i4")])
    given = np.zeros(40, kind)
    given["x"], given["y"], given["tag"] = RANDOM.random(40), RANDOM.random(40), np.arange(40)
    _, out = bench.run("functions", "structs", 1, 40, given, np.zeros(40, kind))
    assert np.array_equal(out["x"], -given["x"])
    assert np.array_equal(out["y"], -given["y"])
    assert np.array_equal(out["tag"], given["tag"] + 2)


def test_calls_through_a_table_of_pointers_reach_each_lanes_function(bench):
    which = RANDOM.integers(0, 3, 64, np.int32)
    _, out = bench.run("functions", "pointers", 1, 64, which, np.zeros(64, np.int32))
    i = np.arange(64)
    assert np.array_equal(out, np.choose(which, [2 * i, i * i, -i]))


def test_a_switch_sends_every_lane_to_its_case(bench):
    values = RANDOM.integers(-2, 9, 128, np.int32)
    _, out = bench.run("functions", "switches", 1, 128, values, np.zeros(128, np.int32))
    i = np.arange(128)
    ones = np.array([int(x).bit_count() for x in i])
    weights = np.array([2, 3, 5, 7])[i % 4]
    cases = [np.full(128, 11), i * 3, np.full(128, 1002), ones, np.full(128, -5), weights, i ^ 0x55]
    expected = np.where((values < 0) | (values > 6), -1, np.choose(np.clip(values, 0, 6), cases))
    assert np.array_equal(out, expected)


def test_variables_of_a_module_keep_their_values_between_launches(bench):
    module = bench.module("functions")
    for _ in range(2):
        (out,) = bench.run_module(module, "globals", 1, 64, np.zeros(64, np.int32))
    assert out.tolist() == [ord("e"), ord("o")] * 32
    address, size = module.globals["counters"]
    assert bench.device.view(address, size).view(np.int32).tolist() == [16 * w for w in [2, 3, 5, 7, 2, 3, 5, 7]]


def test_printf_of_a_kernel_formats_like_c(bench):
    bench.run("functions", "says", 1, 64, 3)
    assert bench.launch.printed == tuple(
        f"thread {i} of block: {i / 4:.2f} x -1099511627776     7|%\n" for i in range(3)
    )


def test_arrays_indexed_at_run_time_are_in_local_memory(bench):
    values = RANDOM.integers(0, 1000, 16, np.int32)
    _, out = bench.run("functions", "local_array", 1, 50, values, np.zeros(50, np.int32))
    for thread in range(50):
        work = [int(v) + thread for v in values]
        for i in range(16):
            j = work[i] & 15
            work[i], work[j] = work[j], work[i]
        total = 0
        for value in work:
            total = (total * 31 + value) & 0xFFFFFFFF
        assert int(out[thread]) & 0xFFFFFFFF == total


def test_products_of_128_bits_carry_correctly(bench):
    a, b = RANDOM.integers(0, 2**64, (2, 64), np.uint64)
    a[:4], b[:4] = 2**64 - 1, [0, 1, 2**64 - 1, 2**63]
    _, _, out = bench.run("functions", "wide_product", 1, 64, a, b, np.zeros((64, 2), np.uint64))
    for x, y, (low, high) in zip(a.tolist(), b.tolist(), out.tolist(), strict=True):
        assert low | high << 64 == (x * y + x - (y << 17)) % 2**128


def test_generic_pointers_of_one_warp_reach_shared_global_and_local_memory(bench):
    (out,) = bench.run("functions", "generic_pointers", 1, 32, np.zeros(64, np.int32))
    expected = [101 + i if i % 3 == 0 else 201 + i if i % 3 == 1 else i % 4 + 2 for i in range(32)]
    assert out[:32].tolist() == expected


def test_a_matrix_product_compiled_by_triton_with_tensor_cores_and_async_copies_is_exact(bench):
    a, b = (RANDOM.integers(-8, 9, shape).astype(np.float16) for shape in ((64, 128), (128, 96)))
    out = np.zeros((64, 96), np.float32)
    module = bench.module("triton_matmul")
    *_, got = bench.run_module(module, "tr_matmul", (2, 3), 128, a, b, out, 64, 96, 128, 0, 0, shared=16384)
    assert np.array_equal(got, a.astype(np.int64) @ b.astype(np.int64))


def test_a_matrix_product_compiled_by_numba_takes_its_arrays_as_structs(bench):
    a, b = RANDOM.integers(-8, 9, (2, 32, 32)).astype(np.float32)
    module = bench.module("numba_matmul")
    (kernel,) = module.kernels
    given = []
    for array in (a, b, np.zeros_like(a)):
        address = bench.device.allocate(array.nbytes)
        bench.device.copy_in(address, array)
        given.append([0, 0, array.size, array.itemsize, address, *array.shape, *array.strides])
    bench.device.launch(module, kernel, (2, 2), (16, 16), [value for struct in given for value in struct])
    got = bench.device.copy_out(given[2][4], a.nbytes).view(np.float32).reshape(32, 32)
    assert np.array_equal(got, a @ b)

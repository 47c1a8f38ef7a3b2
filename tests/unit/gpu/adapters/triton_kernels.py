# ruff: noqa: N803, PLR0917 - the usual names and argument lists of Triton kernels
"""Triton kernels of the tests, in their own file because Triton reads the source text of an importable module."""

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, factor, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < n
    tl.store(out + place, tl.load(x + place, mask=inside) + factor * tl.load(y + place, mask=inside), mask=inside)


@triton.jit
def multiply(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        inner = start + tl.arange(0, BK)
        left = tl.load(a + rows[:, None] * K + inner[None, :])
        right = tl.load(b + inner[:, None] * N + columns[None, :])
        total += tl.dot(left, right, input_precision="ieee")
    tl.store(c + rows[:, None] * N + columns[None, :], total)


@triton.jit
def histogram(values, counts, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < n
    tl.atomic_add(counts + tl.load(values + place, mask=inside, other=0), 1, mask=inside)


@triton.jit
def row_sums(x, BLOCK: tl.constexpr, out, pair, columns):
    row = tl.program_id(0)
    place = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + place, mask=place < columns, other=0)
    tl.store(out + row, tl.sum(values, 0) * pair[0] + pair[1])


@triton.jit
def out_of_bounds(x, BLOCK: tl.constexpr):
    tl.store(x + 1000000 + tl.arange(0, BLOCK), 1.0)


tuned = triton.autotune(
    configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128}, num_warps=2)],
    key=["n"],
    reset_to_zero=["counts"],
)(histogram)

guided = triton.heuristics({"BLOCK": lambda given: triton.next_power_of_2(given["columns"])})(row_sums)

# ruff: noqa: N803 - Triton's constants are uppercase by convention
"""Triton kernels, in a file because Triton reads their source from it."""

import triton
import triton.language as tl


@triton.jit
def mixed(v):
    for _ in tl.static_range(5):
        v = v * 1664525 + 1013904223
    return v


def work(given, out, n, BLOCK: tl.constexpr):
    block = tl.program_id(0) + tl.num_programs(0) * (tl.program_id(1) + tl.num_programs(1) * tl.program_id(2))
    i = block * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(given + i, mask=i < n, other=0)
    tl.store(out + i, tl.where(i % 3 == 0, mixed(v), v), mask=i < n)


def counted(given, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + i % 8, tl.load(given + i, mask=i < n, other=0), mask=i < n)

# ruff: noqa: ANN001, ANN201, N803, PLR0917 - Triton interprets the annotations and names of kernels itself
"""The Triton matmul of the benchmarks, in its own file because Triton reads the source of its kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import triton.language as tl


@dataclass(frozen=True)
class Half:
    """GPU memory with 16-bit floats, in the form of a Triton array argument."""

    address: Any
    dtype: str = "float16"

    def data_ptr(self) -> int:
        """The address, for Triton."""
        return int(self.address)


def multiply(a, b, c, size, BLOCK: tl.constexpr, INNER: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, size, INNER):
        inner = start + tl.arange(0, INNER)
        left = tl.load(a + rows[:, None] * size + inner[None, :])
        right = tl.load(b + inner[:, None] * size + columns[None, :])
        total += tl.dot(left, right)
    tl.store(c + rows[:, None] * size + columns[None, :], total.to(tl.float16))

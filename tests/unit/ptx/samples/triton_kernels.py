"""Generates triton_*.ptx with Triton 3.9: `python triton_kernels.py` (no GPU needed)."""

from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def matmul(a, b, c, n, BLOCK: tl.constexpr):  # noqa: N803
    x = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, 32)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for at in range(0, n, 32):
        left = tl.load(a + x[:, None] * n + at + k[None, :], mask=x[:, None] < n)
        right = tl.load(b + (at + k)[:, None] * n + y[None, :], mask=y[None, :] < n)
        acc += tl.dot(left, right)
    tl.store(c + x[:, None] * n + y[None, :], acc, mask=(x[:, None] < n) & (y[None, :] < n))


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):  # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


def save(name, function, types, block, *, capability, attributes=None):
    source = ASTSource(
        fn=function, signature={**types, "BLOCK": "constexpr"}, constexprs={"BLOCK": block}, attrs=attributes or {}
    )
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32))
    Path(f"{name}.ptx").write_text(compiled.asm["ptx"])


HALVES = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "n": "i32"}
for capability in (80, 90):
    divisible = {(place,): [["tt.divisibility", 16]] for place in range(4)}
    save(f"triton_matmul_sm{capability}", matmul, HALVES, 64, capability=capability, attributes=divisible)
save("triton_add", add, {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"}, 1024, capability=80)

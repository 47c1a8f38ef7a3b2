# Where triton_*.ptx come from: Triton 3.9, `python triton_kernels.py` (no GPU needed).
import triton, triton.language as tl
from triton.compiler import ASTSource
from triton.backends.compiler import GPUTarget


@triton.jit
def matmul(a, b, c, n, BLOCK: tl.constexpr):
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
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


D = ""
for cc in (80, 90):
    k = triton.compile(
        ASTSource(
            fn=matmul,
            signature={"a": "*fp16", "b": "*fp16", "c": "*fp32", "n": "i32", "BLOCK": "constexpr"},
            constexprs={"BLOCK": 64},
            attrs={
                (0,): [["tt.divisibility", 16]],
                (1,): [["tt.divisibility", 16]],
                (2,): [["tt.divisibility", 16]],
                (3,): [["tt.divisibility", 16]],
            },
        ),
        target=GPUTarget("cuda", cc, 32),
    )
    open(D + f"triton_matmul_sm{cc}.ptx", "w").write(k.asm["ptx"])
k = triton.compile(
    ASTSource(
        fn=add,
        signature={"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"},
        constexprs={"BLOCK": 1024},
    ),
    target=GPUTarget("cuda", 80, 32),
)
open(D + "triton_add.ptx", "w").write(k.asm["ptx"])

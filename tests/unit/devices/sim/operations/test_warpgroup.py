"""Warp-group products: kernels that Triton compiles for sm_90, against exact products of integers."""

from __future__ import annotations

import re

import numpy as np
import pytest

from accel_magic.devices.sim import SimulatedDevice
from tests.support.errors import raises

pytestmark = pytest.mark.component

triton = pytest.importorskip("triton")
compiler = pytest.importorskip("triton.backends.compiler")
tl = triton.language

RANDOM = np.random.default_rng(11)
# Triton's name of each type, the largest random element, and the conversion of numbers to its bits.
KINDS = {
    "fp16": (8, lambda x: x.astype(np.float16)),
    "bf16": (8, lambda x: (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)),
    "fp32": (8, lambda x: x.astype(np.float32)),  # as tf32
    "i8": (9, lambda x: x.astype(np.int8)),
    "fp8e4nv": (1, lambda x: np.choose(x + 1, [0xB8, 0, 0x38]).astype(np.uint8)),
    "fp8e5": (1, lambda x: np.choose(x + 1, [0xBC, 0, 0x3C]).astype(np.uint8)),
}
RESULTS = {"fp32": np.float32, "i32": np.int32, "fp16": np.float16}


@triton.jit
def matmul(  # noqa: PLR0917 - the launch's arguments
    a,
    b,
    c,
    m,
    n,
    k,
    M: tl.constexpr,  # noqa: N803
    N: tl.constexpr,  # noqa: N803
    K: tl.constexpr,  # noqa: N803
    LEFT_TURNED: tl.constexpr,  # noqa: N803
    RIGHT_TURNED: tl.constexpr,  # noqa: N803
    SUM: tl.constexpr,  # noqa: N803
):
    x = tl.program_id(0) * M + tl.arange(0, M)
    y = tl.program_id(1) * N + tl.arange(0, N)
    z = tl.arange(0, K)
    total = tl.zeros((M, N), SUM)
    for at in range(0, k, K):
        if LEFT_TURNED:
            left = tl.trans(tl.load(a + (at + z)[:, None] * m + x[None, :]))
        else:
            left = tl.load(a + x[:, None] * k + (at + z)[None, :])
        if RIGHT_TURNED:
            right = tl.trans(tl.load(b + y[:, None] * k + (at + z)[None, :]))
        else:
            right = tl.load(b + (at + z)[:, None] * n + y[None, :])
        total = tl.dot(left, right, total, out_dtype=SUM)
    tl.store(c + x[:, None] * n + y[None, :], total)


def compiled(kind, result, shape, turned, warps):
    """Compile; return the PTX and the bytes of shared memory."""
    constants = dict(zip("MNK", shape, strict=True), LEFT_TURNED=turned[0], RIGHT_TURNED=turned[1])
    constants["SUM"] = {"fp32": tl.float32, "i32": tl.int32, "fp16": tl.float16}[result]
    types = {"a": f"*{kind}", "b": f"*{kind}", "c": f"*{result}", **dict.fromkeys("mnk", "i32")}
    source = triton.compiler.ASTSource(
        fn=matmul,
        signature={**types, **dict.fromkeys(constants, "constexpr")},
        constexprs=constants,
        attrs={(place,): [["tt.divisibility", 16]] for place in range(6)},
    )
    done = triton.compile(source, target=compiler.GPUTarget("cuda", 90, 32), options={"num_warps": warps})
    return done.asm["ptx"], done.metadata.shared


@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
@pytest.mark.parametrize(
    ("kind", "result", "shape", "turned", "warps"),
    [
        ("fp16", "fp32", (64, 64, 32), (False, False), 4),  # rows of 64 and of 128 bytes
        ("fp16", "fp32", (128, 32, 64), (True, True), 4),
        ("bf16", "fp32", (128, 128, 64), (False, True), 8),
        ("fp16", "fp16", (64, 16, 32), (True, False), 4),
        ("fp32", "fp32", (64, 32, 32), (False, True), 4),
        ("i8", "i32", (64, 64, 32), (False, True), 4),
        ("fp8e4nv", "fp32", (64, 32, 64), (False, True), 4),
        ("fp8e5", "fp32", (64, 16, 128), (False, True), 4),
    ],
)
def test_products_are_exact_in_every_type_and_layout(kind, result, shape, turned, warps):
    text, shared = compiled(kind, result, shape, turned, warps)
    assert "wgmma.mma_async" in text
    m, n, k = 2 * shape[0], 2 * shape[1], 3 * shape[2]
    most, bits = KINDS[kind]
    left, right = RANDOM.integers(-most, most + 1, (m, k)), RANDOM.integers(-most, most + 1, (k, n))
    device = SimulatedDevice(1 << 26)
    given = [
        np.ascontiguousarray(bits(left.T if turned[0] else left)),
        np.ascontiguousarray(bits(right.T if turned[1] else right)),
        np.zeros((m, n), RESULTS[result]),
    ]
    addresses = [device.allocate(array.nbytes) for array in given]
    for address, array in zip(addresses, given, strict=True):
        device.copy_in(address, array)
    parameters = len(re.findall(r"\.param", text.partition(")")[0]))

    values = [*addresses, m, n, k, *[0] * (parameters - 6)]
    device.launch(device.load(text), "matmul", (2, 2), 32 * warps, values, shared)

    got = device.copy_out(addresses[2], given[2].nbytes).view(RESULTS[result]).reshape(m, n)
    assert np.array_equal(got, (left @ right).astype(RESULTS[result]))


SIGNS = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
.shared .align 1024 .b8 tile[8192];
.reg .b32 %r<4>;
.reg .b64 %rd<4>;
.reg .f32 %f<4>;
mov.u32 %r0, %tid.x;
mov.u32 %r1, tile;
mad.lo.u32 %r1, %r0, 16, %r1;
mov.u32 %r2, 0x3C003C00;
st.shared.v4.b32 [%r1], {%r2, %r2, %r2, %r2};
st.shared.v4.b32 [%r1+2048], {%r2, %r2, %r2, %r2};
st.shared.v4.b32 [%r1+4096], {%r2, %r2, %r2, %r2};
st.shared.v4.b32 [%r1+6144], {%r2, %r2, %r2, %r2};
bar.sync 0;
mov.f32 %f0, 0f40A00000;
mov.f32 %f1, %f0;
mov.f32 %f2, %f0;
mov.f32 %f3, %f0;
mov.b64 %rd1, 0;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd1, %rd1, LAST, 0, 0;
ld.param.u64 %rd2, [out];
mad.wide.u32 %rd3, %r0, 16, %rd2;
st.global.v4.f32 [%rd3], {%f0, %f1, %f2, %f3};
ret;
}
"""


@pytest.mark.parametrize(
    ("last", "expected"), [("1, 1, 1", 5 + 16), ("1, -1, 1", 5 - 16), ("1, -1, -1", 5 + 16), ("0, 1, -1", -16)]
)
def test_a_product_is_added_or_not_with_the_requested_sign(last, expected):
    device = SimulatedDevice(1 << 20)
    out = device.allocate(2048)
    device.launch(device.load(SIGNS.replace("LAST", last)), "k", 1, 128, [out])
    assert set(device.copy_out(out, 2048).view(np.float32)) == {expected}


HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n.shared .align 1024 .b8 tile[8192];\n"
REGISTERS = ", ".join(f"%f{number}" for number in range(4))
PRODUCT = f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{{REGISTERS}}}, %rd1, %rd1, 1, 1, 1, 0, 0;"
BODY = f".reg .f32 %f<4>;\n.reg .b64 %rd<2>;\nmov.b64 %rd1, DESCRIPTOR;\n{PRODUCT}\nret;\n}}\n"


@pytest.mark.parametrize(
    ("descriptor", "threads", "code"),
    [
        (0, 64, "gpu.fault.incomplete-warp-group"),
        (0, 120, "gpu.fault.incomplete-warp"),
        (0x200 | 1 << 62, 128, "gpu.fault.out-of-bounds"),
    ],
)
def test_invalid_warp_group_products_fault(descriptor, threads, code):
    device = SimulatedDevice(1 << 20)
    module = device.load(HEAD + BODY.replace("DESCRIPTOR", str(descriptor)))
    with raises(code):
        device.launch(module, "k", 1, threads, [])


def test_a_matrix_is_stored_row_by_row():
    text = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{
.shared .align 16 .b8 tile[1024];
.reg .b32 %r<8>;
.reg .b64 %rd<4>;
mov.u32 %r0, %tid.x;
ld.param.u64 %rd0, [in];
mad.wide.u32 %rd1, %r0, 16, %rd0;
ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];
mov.u32 %r5, tile;
mad.lo.u32 %r6, %r0, 16, %r5;
stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r6], {%r1, %r2, %r3, %r4};
bar.warp.sync 0xffffffff;
ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r1, %r2, %r3, %r4}, [%r6];
stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%r6], {%r1, %r2, %r3, %r4};
bar.warp.sync 0xffffffff;
ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r6];
ld.param.u64 %rd2, [out];
mad.wide.u32 %rd3, %r0, 16, %rd2;
st.global.v4.u32 [%rd3], {%r1, %r2, %r3, %r4};
ret;
}
"""
    device = SimulatedDevice(1 << 20)
    given = RANDOM.integers(0, 1 << 16, (32, 4, 2)).astype(np.uint16)  # lane, register, half
    addresses = [device.allocate(512), device.allocate(512)]
    device.copy_in(addresses[0], given)
    device.launch(device.load(text), "k", 1, 32, addresses)
    rows = device.copy_out(addresses[1], 512).view(np.uint16).reshape(4, 8, 8)
    # Lane 4r+c holds halves 2c and 2c+1 of row r; row r of matrix i is stored at the address of lane 8i+r.
    expected = [[[given[4 * r + c // 2, i, c % 2] for c in range(8)] for r in range(8)] for i in range(4)]
    assert rows.tolist() == np.array(expected).tolist()

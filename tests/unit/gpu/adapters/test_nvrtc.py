from __future__ import annotations

import struct

import numpy as np
import pytest

import accel_magic
from accel_magic.errors import AccelMagicError, MachineError, ProbeError, ProgramError
from accel_magic.gpu.adapters import attached, nvrtc
from accel_magic.gpu.adapters.nvrtc import CpuKernel
from accel_magic.ptx.entries import entries
from tests.support.errors import raises

PTX = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 values, .param .f32 factor, .param .u32 count)
{
	.reg .pred %p;
	.reg .b32 %r<8>;
	.reg .f32 %f<8>;
	.reg .b64 %rd<8>;
	ld.param.u64 %rd0, [values];
	ld.param.f32 %f0, [factor];
	ld.param.u32 %r0, [count];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, %ctaid.x;
	mov.u32 %r3, %ntid.x;
	mad.lo.u32 %r1, %r2, %r3, %r1;
	setp.ge.u32 %p, %r1, %r0;
	@%p bra done;
	mul.wide.u32 %rd1, %r1, 4;
	add.u64 %rd0, %rd0, %rd1;
	ld.global.f32 %f1, [%rd0];
	mul.rn.f32 %f1, %f1, %f0;
	add.rn.f32 %f1, %f1, %f0;
	st.global.f32 [%rd0], %f1;
done:
	ret;
}
.visible .entry nothing()
{
	ret;
}
"""
SOURCE = """
struct pair { double x; int y; };
extern "C" __global__ void sum(const float *x, double *out, pair given, short add)
{
	extern __shared__ float kept[];
	kept[threadIdx.x] = x[threadIdx.x];
	__syncthreads();
	if (threadIdx.x == 0) {
		double total = given.x * given.y + add;
		for (int i = 0; i < blockDim.x; i++)
			total += kept[i];
		out[0] = total;
	}
}
template <class T> __global__ void fill(T *out, T value) { out[threadIdx.x] = value; }
"""


@pytest.fixture(scope="module")
def compiled():
    try:
        return nvrtc.compile(SOURCE, ["fill<int>"])
    except MachineError:
        pytest.skip("NVRTC is not installed")


def test_a_kernel_runs_on_the_cpu_device_without_a_cell():
    values = np.arange(100, dtype=np.float32)
    CpuKernel(PTX, "scale")[4, 32](values, 2.0, 100)
    assert np.array_equal(values, np.arange(100) * 2 + 2)


def test_within_a_cell_it_is_rewritten_once_and_reported(altering, device):
    values = np.ones(40, np.float32)
    kernel = CpuKernel(PTX, "scale")
    with attached(altering, device):
        kernel[(2, 1, 1), (32,)](values, 3, np.uint32(40))
        kernel[2, 32](values, 3, 40)
    assert values.tolist() == [9] * 40
    (source,) = altering.sources
    assert (source.framework, source.names, source.arch) == ("NVRTC", ("scale", "nothing"), "sm_80")
    assert [launch.kernel for launch in altering.launches] == ["scale", "scale"]
    assert altering.launches[0].grid == (2, 1, 1)
    assert altering.launches[0].block == (32, 1, 1)
    kernel[2, 32](values, 1, 40)
    assert values.tolist() == [10] * 40
    assert len(altering.launches) == 2


def test_the_error_for_an_unknown_kernel_lists_the_modules_kernels():
    for name in ("scales", ""):
        with raises("gpu.no-kernel", ProbeError, match="scale, nothing"):
            CpuKernel(PTX, name)


def test_the_only_kernel_of_a_module_needs_no_name():
    assert CpuKernel(PTX[: PTX.index(".visible .entry nothing")]).name == "scale"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((1,), "gpu.wrong-argument-count", "scale takes 3 arguments, not 1"),
        ((np.zeros(4, np.float32), "two", 4), "gpu.bad-argument", "argument 2 is str, .* 4 bytes"),
        ((np.zeros(4, np.float32), np.float64(2), 4), "gpu.bad-argument", "argument 2, float64, is 8 bytes, .* 4"),
        ((np.zeros(4, np.float32), 2.0, 4.5), "gpu.bad-argument", "argument 3 is float, .* 4 bytes"),
        ((np.zeros(4, np.float32), 2.0, np.zeros(4)), "gpu.bad-argument", "argument 3, an array, is 8 bytes, .* 4"),
        ((np.array(["x"], object), 2.0, 4), "gpu.bad-argument", None),
    ],
)
def test_arguments_that_do_not_fit_are_rejected_with_their_position(arguments, code, message):
    with raises(code, ProbeError, match=message):
        CpuKernel(PTX, "scale")[1, 32](*arguments)


@pytest.mark.parametrize("launch", [5, (1,), (1, 2, 3, 4), (0, 32), ("a", 32), ((1, 1, 1, 1), 32), (1, None)])
def test_an_invalid_launch_is_rejected(launch):
    with raises("gpu.bad-launch-shape", ProbeError):
        CpuKernel(PTX, "nothing")[launch]()


def test_a_fault_names_the_kernel_and_leaves_the_array_unchanged():
    values = np.ones(4, np.float32)
    with raises("gpu.fault.out-of-bounds", AccelMagicError, match="scale"):
        CpuKernel(PTX, "scale")[1, 32](values, 2.0, 32)
    assert values.tolist() == [1] * 4


def test_cuda_c_is_compiled_and_runs(compiled):
    x, out = np.arange(32, dtype=np.float32), np.zeros(1)
    given = struct.pack("<di4x", 2.5, 4)
    CpuKernel(compiled, "sum")[1, 32, 128](x, out, given, -6)
    assert out[0] == 496 + 10 - 6


def test_an_instance_of_a_template_is_compiled_if_it_is_named(compiled):
    (name,) = set(entries(compiled)) - {"sum"}
    out = np.zeros(4, np.int32)
    CpuKernel(compiled, name)[1, 4](out, -5)
    assert out.tolist() == [-5] * 4


def test_lines_of_the_source_are_in_the_ptx(compiled):
    assert ".loc" in compiled
    assert "kernel.cu" in compiled


def test_the_architecture_can_be_chosen(compiled):
    assert ".target sm_90" in nvrtc.compile(SOURCE, arch="sm_90")


def test_the_error_for_a_program_that_does_not_compile_has_the_compilers_message(compiled):
    with raises("gpu.kernel-does-not-compile", ProgramError, match=r"kernel\.cu\(2\).*undefined_name"):
        nvrtc.compile("\n__global__ void f() { undefined_name(); }")
    with raises("gpu.kernel-does-not-compile", ProgramError, match="invalid value for --gpu-architecture"):
        nvrtc.compile(SOURCE, arch="sm_1")


def test_without_nvrtc_the_error_names_the_package_to_install(monkeypatch):
    monkeypatch.setattr(nvrtc, "_candidates", lambda: iter(["libnvrtc-not-there.so"]))
    nvrtc._library.cache_clear()
    try:
        with raises("gpu.no-nvrtc", MachineError, match="pip install nvidia-cuda-nvrtc"):
            nvrtc.compile(SOURCE)
    finally:
        nvrtc._library.cache_clear()


VARIABLES = """
.version 7.0
.target sm_80
.address_size 64
.const .align 4 .u32 limit;
.visible .const .align 4 .b8 weights[16];
.global .align 4 .f32 bias = 0f3F800000;
.visible .entry weigh(.param .u64 out)
{
	.reg .pred %p;
	.reg .b32 %r<4>;
	.reg .f32 %f<4>;
	.reg .b64 %rd<8>;
	ld.param.u64 %rd0, [out];
	mov.u32 %r0, %tid.x;
	ld.const.u32 %r1, [limit];
	setp.ge.u32 %p, %r0, %r1;
	@%p bra done;
	mul.wide.u32 %rd1, %r0, 4;
	mov.u64 %rd2, weights;
	add.u64 %rd2, %rd2, %rd1;
	ld.const.f32 %f0, [%rd2];
	ld.global.f32 %f1, [bias];
	add.rn.f32 %f0, %f0, %f1;
	add.u64 %rd0, %rd0, %rd1;
	st.global.f32 [%rd0], %f0;
done:
	ret;
}
"""
"""`weigh` writes weights[i] + bias to out[i], for i < limit. Each test appends a comment: contents belong to a text."""


def weighed(kernel):
    out = np.full(4, -1, np.float32)
    kernel[1, 32](out)
    return list(out)


def test_variables_of_a_module_can_be_set_in_and_outside_a_cell():
    kernel, weights = CpuKernel(VARIABLES + "// in a cell"), np.array([1, 2, 3, 4], np.float32)
    assert weighed(kernel) == [-1, -1, -1, -1]
    kernel.set("limit", 3)
    kernel.set("weights", weights)
    assert weighed(kernel) == [2, 3, 4, -1]
    with accel_magic.gputrace("kernelcount", device="cpu") as t:
        assert weighed(kernel) == [2, 3, 4, -1]
        kernel.set("bias", 0.5)
        kernel.set("limit", np.int32(4))
        assert weighed(kernel) == [1.5, 2.5, 3.5, 4.5]
    assert list(t.result.tools["kernelcount"]["launches"]) == [2]
    kernel.set("weights", weights[::-1])
    assert weighed(kernel) == [4.5, 3.5, 2.5, 1.5]


def test_kernels_of_one_module_share_its_variables_and_other_modules_have_their_own():
    text = VARIABLES + "// shared"
    first, second, other = CpuKernel(text), CpuKernel(text), CpuKernel(VARIABLES + "// another")
    first.set("limit", 4)
    assert weighed(second) == [1, 1, 1, 1]
    assert weighed(other) == [-1, -1, -1, -1]


def test_a_variable_of_a_compiled_program_can_be_set_by_its_name_in_the_source(compiled):
    source = """
    namespace inner { __constant__ int count; }
    static __device__ double factor;
    extern "C" __global__ void f(double *out) { if (threadIdx.x < inner::count) out[threadIdx.x] = factor; }
    """
    kernel, out = CpuKernel(nvrtc.compile(source)), np.zeros(100)
    kernel.set("inner::count", 60)
    kernel.set("factor", 2)
    kernel[1, 128](out)
    assert (out[:60] == 2).all()
    assert not out[60:].any()


@pytest.mark.parametrize(
    ("name", "value", "code", "text"),
    [
        ("limits", 1, "gpu.no-variable", "limit, weights, bias"),
        ("limit", np.int64(1), "gpu.bad-argument", "8 bytes, but the variable has 4"),
        ("limit", 1.5, "gpu.bad-argument", "float, but the variable has 4"),
        ("weights", np.ones(3, np.float32), "gpu.bad-argument", "12 bytes, but the variable has 16"),
        ("weights", 1, "gpu.bad-argument", "int, but the variable has 16"),
        ("bias", "1", "gpu.bad-argument", "str, but the variable has 4"),
    ],
)
def test_a_variable_that_is_not_there_or_a_value_that_does_not_fit_is_an_error(name, value, code, text):
    with raises(code, ProbeError) as caught:
        CpuKernel(VARIABLES).set(name, value)
    assert text in str(caught.value)

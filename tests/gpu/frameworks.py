"""The kernel `work` in each framework: `out[i] = mixed(in[i]) if i % 3 == 0 else in[i]` for i < n."""

from __future__ import annotations

import importlib.util
import itertools
import math
import os
import shutil
import sysconfig
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
CUDA_C = r"""
__device__ __noinline__ int mixed(int v) {
    for (int k = 0; k < 5; k++) v = v * 1664525 + 1013904223;
    return v;
}
extern "C" __global__ void work(const int *in, int *out, int n) {
    int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    int i = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
    if (i < n) {
        int v = in[i];
        if (i % 3 == 0) v = mixed(v);
        out[i] = v;
    }
}
"""


def compiler_missing(_gpu):
    """Report a missing compiler or header: Triton compiles its launcher in C on first use."""
    if not any(map(shutil.which, (os.environ.get("CC") or "gcc", "gcc", "clang"))):
        return "Triton needs a C compiler (gcc or clang) for its launcher"
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    return "" if header.is_file() else f"Triton needs Python's headers for its launcher: no {header}"


def runtime_missing(gpu):
    """Report a missing CUDA runtime: CuPy uses cudart, which checks for NVIDIA's own driver."""
    return "CuPy's CUDA runtime works only with NVIDIA's own driver" if gpu.simulated else ""


def answer(given):
    """Compute the result of `work` for (n,) int32 with numpy."""
    mixed = given.astype(np.uint32)
    for _ in range(5):
        mixed = mixed * np.uint32(1664525) + np.uint32(1013904223)
    return np.where(np.arange(len(given)) % 3 == 0, mixed.view(np.int32), given)


@dataclass(frozen=True)
class Shape:
    """A launch: blocks, threads per block, and the number of elements, fewer than threads."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    n: int

    @property
    def blocks(self):
        return math.prod(self.grid)

    @property
    def per_block(self):
        return math.prod(self.block)

    @property
    def threads(self):
        return self.blocks * self.per_block

    @property
    def warps(self):
        """(block, warp in the block, first thread in the grid, lanes) of each warp."""
        return [
            (block, first // 32, block * self.per_block + first, min(32, self.per_block - first))
            for block in range(self.blocks)
            for first in range(0, self.per_block, 32)
        ]

    @property
    def numbered(self):
        """(row-major number in the whole grid, block, number in the block) of each thread."""
        sizes = [range(blocks * threads) for blocks, threads in zip(self.grid, self.block, strict=True)]
        (gx, gy, _), (bx, by, bz) = self.grid, self.block
        return [
            (number, x // bx + gx * (y // by + gy * (z // bz)), x % bx + bx * (y % by + by * (z % bz)))
            for number, (z, y, x) in enumerate(itertools.product(*reversed(sizes)))
        ]

    def flat(self):
        """Return the shape with one-dimensional blocks of 64 or 128 threads, as in Triton."""
        threads = 64 if self.per_block <= 64 else 128
        return replace(self, block=(threads, 1, 1), n=self.blocks * threads - 10)


SHAPES = {
    "three dimensions": Shape((3, 2, 2), (8, 5, 2), 950),
    "many blocks": Shape((97, 1, 1), (64, 1, 1), 6200),
}


MOCK = os.environ.get("ACCEL_MAGIC_GPU") == "mock"
TOOL_SHAPES = [
    # The mock CUDA driver runs the same code for any number of blocks.
    pytest.param(shape, marks=[pytest.mark.thorough] if MOCK and shape == "many blocks" else [])
    for shape in SHAPES
]
"""Shapes for the tests of every tool."""


@dataclass(frozen=True)
class Framework:
    """A framework: `name` is its name in results; `make(gpu)` returns a newly compiled `work(shape, given, out)`."""

    name: str
    needs: tuple[str, ...]
    make: Callable
    shaped: Callable = field(default=lambda shape: shape)
    lacks: Callable = field(default=lambda _gpu: "")
    """Returns what else it needs here; '' for nothing."""
    keeps_functions: bool = True
    """Whether `mixed` is a separate function in the PTX, and the kernel's branches remain branches."""


def cuda_core(gpu):
    from cuda import core

    device = core.Device(0)
    device.set_current()
    options = core.ProgramOptions(arch=gpu.arch, name="tests")
    # The mock CUDA driver cannot load machine code.
    target = "ptx" if gpu.simulated else "cubin"
    kernel = core.Program(CUDA_C, "c++", options).compile(target).get_kernel("work")

    def work(shape, given, out):
        config = core.LaunchConfig(grid=shape.grid, block=shape.block)
        core.launch(device.default_stream, config, kernel, given.address, out.address, np.int32(shape.n))

    return work


def nvrtc_ptx(gpu, source):
    """Compile CUDA C to zero-terminated PTX."""
    from cuda.bindings import nvrtc as compiler

    from tests.gpu.memory import call

    program = call(compiler.nvrtcCreateProgram, source.encode(), b"kernels.cu", 0, [], [])
    call(compiler.nvrtcCompileProgram, program, 1, [f"--gpu-architecture={gpu.arch}".encode()])
    ptx = bytearray(call(compiler.nvrtcGetPTXSize, program))
    call(compiler.nvrtcGetPTX, program, ptx)
    call(compiler.nvrtcDestroyProgram, program)
    return bytes(ptx)


def nvrtc(gpu):
    from cuda.bindings import driver

    from tests.gpu.memory import call

    ptx = nvrtc_ptx(gpu, CUDA_C)
    module = call(driver.cuModuleLoadData, ptx)
    kernel = call(driver.cuModuleGetFunction, module, b"work")

    def work(shape, given, out):
        values = [np.array([one], kind) for one, kind in zip((given.address, out.address, shape.n), "QQi", strict=True)]
        pointers = np.array([value.ctypes.data for value in values], np.uint64)
        call(driver.cuLaunchKernel, kernel, *shape.grid, *shape.block, 0, 0, pointers.ctypes.data, 0)

    return work


def cupy(_gpu):
    import cupy

    kernel = cupy.RawKernel(CUDA_C, "work")

    def work(shape, given, out):
        kernel(shape.grid, shape.block, (np.uint64(given.address), np.uint64(out.address), np.int32(shape.n)))

    return work


def numba(_gpu):
    from numba import cuda, int32, uint32

    @cuda.jit(device=True)
    def mixed(v):
        for _ in range(5):
            v = uint32(v * uint32(1664525) + uint32(1013904223))
        return v

    @cuda.jit
    def work(given, out, n):
        block = cuda.blockIdx.x + cuda.gridDim.x * (cuda.blockIdx.y + cuda.gridDim.y * cuda.blockIdx.z)
        thread = cuda.threadIdx.x + cuda.blockDim.x * (cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z)
        i = block * (cuda.blockDim.x * cuda.blockDim.y * cuda.blockDim.z) + thread
        if i < n:
            v = given[i]
            out[i] = int32(mixed(uint32(v))) if i % 3 == 0 else v

    return lambda shape, given, out: work[shape.grid, shape.block](given, out, np.int32(shape.n))


def triton(_gpu):
    import triton

    kernels = triton_module()
    jitted = triton.jit(kernels.work)

    def work(shape, given, out):
        jitted[shape.grid](given, out, shape.n, BLOCK=shape.per_block, num_warps=shape.per_block // 32)

    return work


def triton_module():
    """Load the file with Triton's kernels as a new module, without kernels compiled by other tests."""
    spec = importlib.util.spec_from_file_location("kernels_of_the_gpu_tests", HERE / "triton_kernels.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FRAMEWORKS = {
    "triton": Framework("Triton", ("triton",), triton, Shape.flat, compiler_missing, keeps_functions=False),
    "numba": Framework("Numba-CUDA", ("numba.cuda",), numba, keeps_functions=False),
    "cuda.core": Framework("cuda.core", ("cuda.core",), cuda_core),
    "nvrtc": Framework("cuda.bindings", ("cuda.bindings.driver", "cuda.bindings.nvrtc"), nvrtc),
    "cupy": Framework("CuPy", ("cupy",), cupy, lacks=runtime_missing),
}

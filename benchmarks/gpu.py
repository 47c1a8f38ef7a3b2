"""Programs inside GPU kernels without a GPU: translating, injecting, and running them on the simulated device."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.devices.sim import SimulatedDevice
from accel_magic.gpu import programs
from accel_magic.gpu.adapters import nvrtc
from accel_magic.gpu.codegen import assemble
from accel_magic.gpu.codegen.compile import compile_probes
from accel_magic.gpu.inject import inject
from accel_magic.gpu.maps import map_layout
from benchmarks.arithmetic import Measured
from benchmarks.peers import require

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.gpu.maps.map_layout import Placement
    from accel_magic.gpu.program.program_source import GpuSource

ARCH = "sm_80"
MATMUL = r"""
#define TILE 16
extern "C" __global__ void matmul(const float *a, const float *b, float *c, int n) {
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int t = 0; t < n / TILE; t++) {
        left[threadIdx.y][threadIdx.x] = a[row * n + t * TILE + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(t * TILE + threadIdx.y) * n + column];
        __syncthreads();
        for (int k = 0; k < TILE; k++) sum += left[threadIdx.y][k] * right[k][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
"""
TRANSLATED = ("kernelcount", "threadhist", "memtrace")
BAR_S = 0.150


def translating(*, quick: bool) -> Iterator[Measured]:
    """Time from a verified program and a kernel's PTX to the instrumented PTX, compared with assembling the kernel."""
    ptx = nvrtc.compile(MATMUL, arch=ARCH)
    rounds = 3 if quick else 9
    for tool in TRANSLATED:
        sources = programs.load((tool,))
        plan = map_layout.plan_memory(sources[0].object.maps, 1024, limit=1 << 32)
        pairs = [(sources[0], map_layout.placement(plan, 1 << 44, 1 << 45))]

        instrumented = partial(_instrumented, ptx, pairs)
        require(len(instrumented()) > len(ptx), f"nothing was injected into the kernel for {tool}")
        assemble.assemble(ptx, ARCH)
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(_took(instrumented))
            theirs.append(_took(lambda: assemble.assemble(ptx, ARCH)))
        yield Measured(
            f"gpu-{tool}",
            f"translate {tool} and inject it into a tiled matmul, warm",
            "s",
            tuple(ours),
            "assembling the kernel alone (nvJitLink or ptxas)",
            tuple(theirs),
            "value",
            BAR_S,
        )


def simulating(*, quick: bool) -> Iterator[Measured]:
    """A kernel on the simulated device with each tool, compared with the same kernel without."""
    rounds, n = (2, 32) if quick else (5, 64)
    ptx = nvrtc.compile(MATMUL, arch=ARCH)
    a = np.random.default_rng(1).random((n, n), np.float32)
    for tool in TRANSLATED:
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(_simulated(ptx, a, tool))
            theirs.append(_simulated(ptx, a, ""))
        yield Measured(
            f"sim-{tool}",
            f"a matmul of {n} x {n} on the simulated device with {tool}",
            "s",
            tuple(ours),
            "the same without a program",
            tuple(theirs),
            "ratio",
        )


def _instrumented(ptx: str, pairs: list[tuple[GpuSource, Placement]]) -> str:
    return inject(ptx, compile_probes(pairs, ARCH)).code


def _took(work: object) -> float:
    start = time.perf_counter()
    work()  # type: ignore[operator]
    return time.perf_counter() - start


def _simulated(ptx: str, a: np.ndarray, tool: str) -> float:
    device, n = SimulatedDevice(), len(a)
    text = ptx
    if tool:
        sources = programs.load((tool,))
        plan = map_layout.plan_memory(sources[0].object.maps, 1 << 14, limit=1 << 32)
        sizes = (max(plan.device_bytes, 1), max(plan.host_bytes, 1))
        bases = tuple(map(device.allocate, sizes))
        text = inject(ptx, compile_probes([(sources[0], map_layout.placement(plan, *bases))], ARCH)).code
    module = device.load(text)
    addresses = [device.allocate(a.nbytes) for _ in range(3)]
    for address in addresses[:2]:
        device.copy_in(address, a)
    took = _took(lambda: device.launch(module, "matmul", (n // 16, n // 16), (16, 16), [*addresses, np.int32(n)]))
    product = device.copy_out(addresses[2], a.nbytes).view(np.float32).reshape(n, n)
    require(np.allclose(product, a @ a, rtol=1e-4), f"the product is wrong with {tool or 'no program'}")
    if tool:
        written = [device.copy_out(base, size).any() for base, size in zip(bases, sizes, strict=True)]
        require(any(written), f"{tool} has written nothing into its maps")
    return took

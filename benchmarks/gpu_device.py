"""Programs inside kernels on an NVIDIA GPU: the same launches with and without, in one process, timed by GPU events."""

from __future__ import annotations

import functools
import statistics
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import accel_magic
from accel_magic.devices.cuda import gpus
from accel_magic.errors import MachineError
from benchmarks.arithmetic import Measured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from accel_magic.devices.cuda.gpus import Gpu

LAUNCHES, WARM = 50, 5
BARS = {"kernelcount": 1.05, "threadhist": 1.15, "memtrace": 2.0}
"""Maximum ratio of the time with a tool to the time without."""
HOW = {"kernelcount": "once per warp", "threadhist": "in every thread", "memtrace": "at every memory operation"}
ADD = r"""
extern "C" __global__ void add(const float *a, const float *b, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}
extern "C" __global__ void add_strided(const float *a, const float *b, float *out, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = a[i] + b[i];
}
"""


@dataclass(frozen=True)
class Work:
    """A kernel to measure.

    Attributes:
        name: Name in the rows.
        what: Description.
        threads: Threads of its grid.
        make: Compiles it, and returns a function that launches it once.

    """

    name: str
    what: str
    threads: int
    make: Callable[[], Callable[[], None]]


def measuring(*, quick: bool) -> Iterator[Measured]:
    """Ratios of a kernel's time with a tool to its time without; skipped without an NVIDIA GPU."""
    gpu, reason = _gpu()
    if gpu is None:
        print(f"skipping gpu-device, which needs an NVIDIA GPU: {reason}", file=sys.stderr)
        return
    from cuda.bindings import driver

    _call(driver.cuCtxSetCurrent, _call(driver.cuDevicePrimaryCtxRetain, _call(driver.cuDeviceGet, gpu.number)))
    for work in _works(gpu, quick=quick):
        for tool in BARS:
            if tool != "threadhist" or work.threads <= 1 << 20:
                yield _compared(gpu, work, tool, rounds=3 if quick else 11)
    yield _launching(gpu, rounds=3 if quick else 11)


def _gpu() -> tuple[Gpu | None, str]:
    """Find the GPU; returns it, or None and the reason."""
    try:
        gpu = gpus.chosen()
    except MachineError as error:
        return None, str(error).replace("\n ", ";")
    return (None, "times on the mock CUDA driver are meaningless") if gpu.simulated else (gpu, "")


def _works(gpu: Gpu, *, quick: bool) -> Iterator[Work]:
    n = (1 << 22) if quick else (1 << 26)
    waves = gpu.multiprocessors * 8
    arrays = [_array(np.random.default_rng(seed).random(n, np.float32)) for seed in (1, 2, 3)]
    yield Work(
        "add", f"a vector add, {n >> 20} M elements, one per thread", n, lambda: _add("add", n // 256, arrays, n)
    )
    strided = functools.partial(_add, "add_strided", waves, arrays, n)
    yield Work("loop", f"a vector add, {n >> 20} M elements, 8 blocks per SM", waves * 256, strided)
    try:
        matmul = functools.partial(_matmul, 1024 if quick else 4096)
        matmul()
    except Exception as error:  # noqa: BLE001 - any error of Triton, such as a missing C compiler
        print(f"skipping the Triton matmul: {type(error).__name__}: {error}".splitlines()[0], file=sys.stderr)
        return
    size = 1024 if quick else 4096
    yield Work("mm", f"a Triton matmul, {size} x {size}, fp16", (size // 128) ** 2 * 128, matmul)


def _compared(gpu: Gpu, work: Work, tool: str, *, rounds: int) -> Measured:
    ours, theirs = [], []
    plain = work.make()
    for turn in range(rounds):
        for traced in (True, False) if turn % 2 else (False, True):
            if traced:
                ours.append(_traced(work, tool))
            else:
                theirs.append(_timed(plain))
    return Measured(
        f"{work.name}-{tool}",
        f"{work.what}, with {tool} {HOW[tool]}",
        "ms",
        tuple(ours),
        "the same without a program",
        tuple(theirs),
        "ratio",
        BARS[tool],
        gpu.name,
    )


def _traced(work: Work, tool: str) -> float:
    """Milliseconds of a launch within a traced cell. Raises AssertionError where the kernel was not instrumented."""
    with accel_magic.gputrace(tool, device="cuda", threads=1 << 20, host_api="off") as trace:
        took = _timed(work.make())
    result = trace.result
    if not result.kernels["instrumented"].any() or result.lost:
        message = f"{tool} in {work.name}: {result.lost} lost of\n{result.kernels}"
        raise AssertionError(message)
    return took


def _timed(launch: Callable[[], None]) -> float:
    """Milliseconds per launch, from two events around many launches."""
    from cuda.bindings import driver

    for _ in range(WARM):
        launch()
    first, last = (_call(driver.cuEventCreate, 0) for _ in range(2))
    _call(driver.cuEventRecord, first, 0)
    for _ in range(LAUNCHES):
        launch()
    _call(driver.cuEventRecord, last, 0)
    _call(driver.cuEventSynchronize, last)
    took = _call(driver.cuEventElapsedTime, first, last) / LAUNCHES
    for event in (first, last):
        _call(driver.cuEventDestroy, event)
    return float(took)


def _launching(gpu: Gpu, *, rounds: int) -> Measured:
    """Host time of the call that launches an empty kernel, with and without tracing."""
    ours, theirs = [], []
    plain = _empty()
    for _ in range(rounds):
        theirs.append(_host_ns(plain))
        with accel_magic.gputrace("kernelcount", device="cuda", host_api="off"):
            ours.append(_host_ns(_empty()))
    return Measured(
        "launch-host",
        "the host's call of cuLaunchKernel through cuda.bindings, empty kernel",
        "ns",
        tuple(ours),
        "the same without a program",
        tuple(theirs),
        "ratio",
        None,
        gpu.name,
    )


def _host_ns(launch: Callable[[], None]) -> float:
    from cuda.bindings import driver

    times = []
    for _ in range(200):
        start = time.perf_counter_ns()
        launch()
        times.append(time.perf_counter_ns() - start)
        _call(driver.cuCtxSynchronize)
    return statistics.median(times)


def _empty() -> Callable[[], None]:
    return _kernel('extern "C" __global__ void empty() {}', "empty", (1, 1, 1), (32, 1, 1), ())


def _add(name: str, blocks: int, arrays: list[Any], n: int) -> Callable[[], None]:
    addresses = [np.array([int(array)], np.uint64) for array in arrays]
    return _kernel(ADD, name, (blocks, 1, 1), (256, 1, 1), (*addresses, np.array([n], np.int32)))


def _kernel(
    source: str, name: str, grid: tuple[int, int, int], block: tuple[int, int, int], values: tuple[Any, ...]
) -> Callable[[], None]:
    """Compile CUDA C and load it through cuda.bindings, where the adapter intercepts it."""
    from cuda.bindings import driver, nvrtc

    program = _call(nvrtc.nvrtcCreateProgram, source.encode(), b"benchmark.cu", 0, [], [])
    arch = gpus.chosen().architecture
    _call(nvrtc.nvrtcCompileProgram, program, 1, [f"-arch={arch}".encode()])
    code = bytearray(_call(nvrtc.nvrtcGetCUBINSize, program))
    _call(nvrtc.nvrtcGetCUBIN, program, code)
    _call(nvrtc.nvrtcDestroyProgram, program)
    module = _call(driver.cuModuleLoadData, bytes(code))
    kernel = _call(driver.cuModuleGetFunction, module, name.encode())
    pointers = np.array([value.ctypes.data for value in values] or [0], np.uint64)

    def launch(_held: tuple[Any, ...] = (module, values, pointers)) -> None:
        _call(driver.cuLaunchKernel, kernel, *grid, *block, 0, 0, pointers.ctypes.data, 0)

    return launch


def _matmul(size: int) -> Callable[[], None]:
    import triton

    from benchmarks import gpu_matmul

    kernel = triton.jit(gpu_matmul.multiply)
    arrays = [gpu_matmul.Half(_array(np.ones((size, size), np.float16))) for _ in range(3)]
    grid = (size // 128, size // 128)

    def launch() -> None:
        kernel[grid](*arrays, size, BLOCK=128, INNER=32, num_warps=4, num_stages=3)

    launch()
    return launch


def _array(host: Any) -> Any:
    from cuda.bindings import driver

    address = _call(driver.cuMemAlloc, host.nbytes)
    _call(driver.cuMemcpyHtoD, address, host.ctypes.data, host.nbytes)
    return address


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    code, *values = function(*arguments)
    if int(code):
        message = f"{function.__name__}: {code.name}"
        raise RuntimeError(message)
    return values[0] if len(values) == 1 else values

"""A cell leaves nothing behind: kernels launched after it are not instrumented and not counted."""

from __future__ import annotations

import hashlib
import os
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

from accel_magic.devices.cuda.memory import CudaMemory
from accel_magic.gpu import adapters, programs
from accel_magic.gpu.instrument import Instrumenter
from accel_magic.gpu.maps import map_access
from accel_magic.gpu.maps.live_maps import LiveMaps
from accel_magic.gpu.maps.shared_memory import allocate_all
from tests.gpu import frameworks
from tests.gpu.frameworks import SHAPES, answer
from tests.gpu.memory import Array, call

RECOMPILED = ("Triton", "Numba-CUDA")
"""Frameworks whose kernels from before the cell are traced; those of others are reported."""


class Counter:
    """`kernelcount`, with a map that outlives cells: programs left in kernels would continue to count."""

    def __init__(self):
        self.memory = CudaMemory.open(0)
        self.sources = programs.load(("kernelcount",))
        self.shared = allocate_all(self.sources, self.memory, 1 << 17, 0, lambda _: {})

    @contextmanager
    def attached(self):
        """Run the block as a cell; yields what was seen in it."""
        placements = [each.placement for each in self.shared]
        instrumenter = Instrumenter(
            self.sources, placements, lambda _: True, before=self.memory.launching, after=lambda *_: None
        )
        with adapters.attached(instrumenter):
            yield instrumenter.seen

    @property
    def threads(self):
        self.memory.wait()
        (content,) = [one for one in LiveMaps(self.shared).contents() if one.spec.name == "kernels"]
        counts = map_access.frame(content.spec, content.raw, 1 << 17).sum()
        return int(32 * counts["warps"] - counts["idle"])

    def close(self):
        for each in self.shared:
            each.free()
        self.memory.close()


@pytest.fixture
def counter(gpu):
    made = Counter()
    yield made
    made.close()


@pytest.fixture
def bench(gpu, framework):
    """Run `work` once and check its result; returns the number of threads."""
    shape = framework.shaped(SHAPES["three dimensions"])
    numbers = np.arange(shape.n, dtype=np.int32)
    given = Array(numbers)

    def run(work):
        out = Array(np.zeros_like(numbers))
        work(shape, given, out)
        assert np.array_equal(out.numpy(), answer(numbers))
        return shape.threads

    return run


def test_a_kernel_first_compiled_in_the_cell_is_counted_until_the_cell_ends(gpu, framework, counter, bench):
    with counter.attached() as seen:
        work = framework.make(gpu)
        expected = bench(work) + bench(work)
        assert counter.threads == expected
    for _ in range(3):
        bench(work)
    assert counter.threads == expected
    assert [kernel.source.framework for kernel in seen.kernels] == [framework.name]
    assert len(seen.launches) == 2


def test_a_kernel_compiled_before_the_cell_is_recompiled_or_reported(gpu, framework, counter, bench):
    work = framework.make(gpu)
    bench(work)
    with counter.attached() as seen:
        threads = bench(work)
    bench(work)
    if framework.name in RECOMPILED:
        assert counter.threads == threads
        assert len(seen.kernels) == 1
    else:
        assert counter.threads == 0
        # CuPy's loaded kernels cannot be reached from Python.
        assert framework.name == "CuPy" or seen.skipped["work"]


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_after_a_failed_cell_kernels_are_not_instrumented(gpu, framework, counter, bench, error):
    with suppress(error), counter.attached():
        work = framework.make(gpu)
        expected = bench(work)
        raise error
    bench(work)
    bench(framework.make(gpu))
    assert counter.threads == expected


def test_a_second_cell_counts_like_the_first(gpu, framework, counter, bench):
    total = 0
    for _ in range(2):
        with counter.attached() as seen:
            work = framework.make(gpu)
            total += bench(work)
        assert counter.threads == total
        assert len(seen.kernels) == 1
        bench(work)
    assert counter.threads == total


def test_a_kernel_made_in_one_cell_is_traced_or_reported_in_the_next(gpu, framework, counter, bench):
    with counter.attached():
        work = framework.make(gpu)
        first = bench(work)
    with counter.attached() as seen:
        second = bench(work)
    if framework.name in RECOMPILED:
        assert counter.threads == first + second
    else:
        assert counter.threads == first
        assert seen.skipped["work"]


def contents(folder):
    """Return the checksums of a cache's files, by path."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("variable", ["TRITON_CACHE_DIR", "CUPY_CACHE_DIR"])
def test_a_cell_adds_no_instrumented_kernels_to_caches_on_disk(gpu, framework, counter, bench, variable):
    bench(framework.make(gpu))
    before = contents(os.environ[variable])
    with counter.attached():
        bench(framework.make(gpu))
    assert contents(os.environ[variable]) == before


def test_a_cell_adds_nothing_to_numbas_cache_on_disk(gpu, counter, tmp_path, monkeypatch):
    cuda = pytest.importorskip("numba.cuda", reason="Numba-CUDA is not installed")
    monkeypatch.setattr(cuda.core.config, "CACHE_DIR", str(tmp_path))

    def make():
        @cuda.jit(cache=True)
        def ones(out):
            out[cuda.grid(1)] = 1

        return ones

    out = Array(np.zeros(64, np.int32))
    with counter.attached():
        make()[2, 32](out)
    assert contents(tmp_path) == {}
    make()[2, 32](out)
    assert contents(tmp_path)
    make()[2, 32](out)  # from the cache
    assert counter.threads == 64
    assert (out.numpy() == 1).all()


def test_a_numba_kernel_is_traced_for_each_of_its_signatures(gpu, counter):
    cuda = pytest.importorskip("numba.cuda", reason="Numba-CUDA is not installed")

    @cuda.jit
    def fill(out, value):
        out[cuda.grid(1)] = value

    arrays = [Array(np.zeros(96, dtype)) for dtype in (np.int32, np.float64, np.int32)]
    fill[3, 32](arrays[2], 1)
    with counter.attached() as seen:
        for array in arrays:
            fill[3, 32](array, 5)
    fill[3, 32](arrays[0], 6)
    assert counter.threads == 3 * 96
    assert len(seen.kernels) == 2
    assert [set(array.numpy().tolist()) for array in arrays] == [{6}, {5}, {5}]


def test_a_cooperative_numba_kernel_is_traced(gpu, counter):
    cuda = pytest.importorskip("numba.cuda", reason="Numba-CUDA is not installed")
    if gpu.simulated:
        pytest.skip("grid synchronization needs CUDA's device runtime, which the simulated device lacks")

    @cuda.jit
    def shift(values, out):
        i = cuda.grid(1)
        values[i] += 1
        cuda.cg.this_grid().sync()
        out[i] = values[(i + 1) % values.size]

    values, out = Array(np.arange(128, dtype=np.int32)), Array(np.zeros(128, np.int32))
    with counter.attached():
        shift[2, 64](values, out)
    assert counter.threads == 128
    assert np.array_equal(out.numpy(), (np.arange(128) + 1) % 128 + 1)


def test_an_autotuned_triton_kernel_is_traced_in_each_run_and_tuned_again_after_the_cell(gpu, counter):
    triton = pytest.importorskip("triton", reason="Triton is not installed")
    if reason := frameworks.compiler_missing(gpu):
        pytest.skip(reason)
    runs = []

    def benchmark(call, **_):
        call()
        runs.append(call)
        return [float(len(runs))] * 3

    kernel = triton.autotune(
        configs=[triton.Config({"BLOCK": size}, num_warps=size // 32) for size in (64, 128)],
        key=["n"],
        reset_to_zero=["out"],
        do_bench=benchmark,
    )(triton.jit(frameworks.triton_module().counted))
    given, out = Array(np.ones(500, np.int32)), Array(np.zeros(8, np.int32))

    def run():
        kernel[lambda given: (triton.cdiv(500, given["BLOCK"]),)](given, out, 500)
        assert out.numpy().sum() == 500

    with counter.attached() as seen:
        run()
        counted = counter.threads
        assert counted == 512 + 512 + 512  # both are tried, then the first is used
    assert len(seen.kernels) == 2
    assert len(runs) == 2
    run()
    assert len(runs) == 4
    assert counter.threads == counted


def test_inductors_kernels_are_traced_only_within_the_cell(gpu, counter):
    if gpu.simulated:
        pytest.skip("PyTorch uses CUDA's runtime, which works only with NVIDIA's own driver")
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip(f"PyTorch {torch.__version__} cannot use this GPU")
    compiled = torch.compile(lambda x: torch.sin(x) * 2 + 1)
    given = torch.arange(10_000, dtype=torch.float32, device="cuda")
    before = compiled(given)
    with counter.attached() as seen:
        within = compiled(given)
    counted = counter.threads
    after = compiled(given)
    assert torch.equal(before, within)
    assert torch.equal(before, after)
    assert counted >= 10_000 // 16  # a thread handles several elements
    assert counter.threads == counted
    assert {kernel.source.framework for kernel in seen.kernels} == {"Triton"}
    assert "PyTorch's own kernels (aten, cuBLAS, cuDNN)" in seen.skipped


def test_a_cooperative_launch_with_cuda_core_is_traced(gpu, counter):
    core = pytest.importorskip("cuda.core", reason="cuda.core is not installed")
    device = core.Device(0)
    device.set_current()
    out = Array(np.zeros(64, np.int32))
    with counter.attached() as seen:
        kernel = compiled(core, gpu, "void ones(int *x) { x[threadIdx.x] = 1; }").get_kernel("ones")
        config = core.LaunchConfig(grid=1, block=64, is_cooperative=True)
        core.launch(device.default_stream, config, kernel, out.address)
    assert (out.numpy() == 1).all()
    assert counter.threads == 64
    assert seen.skipped == {}


def test_a_kernel_captured_into_a_graph_is_reported_and_not_instrumented(gpu, counter):
    core = pytest.importorskip("cuda.core", reason="cuda.core is not installed")
    device = core.Device(0)
    device.set_current()
    stream, out = device.create_stream(), Array(np.zeros(64, np.int32))
    with counter.attached() as seen:
        kernel = compiled(core, gpu, "void more(int *x) { x[threadIdx.x]++; }").get_kernel("more")
        builder = stream.create_graph_builder().begin_building()
        core.launch(builder, core.LaunchConfig(grid=1, block=64), kernel, out.address)
        graph = builder.end_building().complete()
        graph.launch(stream)
    graph.launch(stream)
    stream.sync()
    assert (out.numpy() == 2).all()
    assert counter.threads == 0
    assert "CUDA graph" in seen.skipped["more"]


@pytest.fixture
def recording(gpu):
    """Capture a stream into a graph: yields the stream, and appends a function that launches the graph."""
    driver = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
    stream = call(driver.cuStreamCreate, driver.CUstream_flags.CU_STREAM_NON_BLOCKING)

    @contextmanager
    def record(graphs):
        call(driver.cuStreamBeginCapture, stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
        yield int(stream)
        graph = call(driver.cuGraphInstantiate, call(driver.cuStreamEndCapture, stream), 0)
        graphs.append(lambda: (call(driver.cuGraphLaunch, graph, stream), call(driver.cuStreamSynchronize, stream)))

    yield record
    call(driver.cuStreamDestroy, stream)


def test_a_numba_kernel_captured_into_a_graph_is_reported_and_not_instrumented(gpu, counter, recording):
    cuda = pytest.importorskip("numba.cuda", reason="Numba-CUDA is not installed")

    @cuda.jit
    def more(out):
        out[cuda.grid(1)] += 1

    out, graphs = Array(np.zeros(64, np.int32)), []
    with counter.attached() as seen:
        more[2, 32](out)
        with recording(graphs) as stream:
            more[2, 32, cuda.external_stream(stream)](out)
        graphs[0]()
    graphs[0]()
    assert (out.numpy() == 3).all()
    assert counter.threads == 64
    ((_, reason),) = seen.skipped.items()
    assert "CUDA graph" in reason


def test_a_triton_kernel_captured_into_a_graph_is_reported_and_not_instrumented(gpu, counter, recording):
    triton = pytest.importorskip("triton", reason="Triton is not installed")
    if reason := frameworks.compiler_missing(gpu):
        pytest.skip(reason)
    kernel = triton.jit(frameworks.triton_module().counted)
    given, out, graphs = Array(np.ones(64, np.int32)), Array(np.zeros(8, np.int32)), []
    with counter.attached() as seen:
        held = kernel[(1,)](given, out, 64, BLOCK=64, num_warps=2)
        with recording(graphs) as stream:
            held[1, 1, 1](given, out, 64, 64, stream=stream)
        graphs[0]()
    graphs[0]()
    held[1, 1, 1](given, out, 64, 64)
    assert (out.numpy() == 4 * 8).all()
    assert counter.threads == 64
    assert "CUDA graph" in seen.skipped["counted"]


def compiled(core, gpu, source):
    options = core.ProgramOptions(arch=gpu.arch)
    return core.Program(f'extern "C" __global__ {source}', "c++", options).compile("ptx" if gpu.simulated else "cubin")


def test_a_module_with_variables_that_the_host_sets_is_not_instrumented(gpu, counter):
    driver = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
    pytest.importorskip("cuda.bindings.nvrtc", reason="cuda-bindings is not installed")
    ptx = frameworks.nvrtc_ptx(
        gpu, '__constant__ int factor; extern "C" __global__ void scale(int *x) { x[threadIdx.x] *= factor; }'
    )
    out, factor = Array(np.arange(32, dtype=np.int32)), np.array([3], np.int32)
    pointer = np.array([out.address], np.uint64)
    parameters = np.array([pointer.ctypes.data], np.uint64)
    with counter.attached() as seen:
        module = call(driver.cuModuleLoadData, ptx)
        address, size = call(driver.cuModuleGetGlobal, module, b"factor")
        call(driver.cuMemcpyHtoD, address, factor.ctypes.data, size)
        kernel = call(driver.cuModuleGetFunction, module, b"scale")
        call(driver.cuLaunchKernel, kernel, 1, 1, 1, 32, 1, 1, 0, 0, parameters.ctypes.data, 0)
    assert np.array_equal(out.numpy(), 3 * np.arange(32))
    assert counter.threads == 0
    assert "device variables (factor)" in seen.skipped["scale"]

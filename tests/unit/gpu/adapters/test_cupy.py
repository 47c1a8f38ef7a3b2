"""CuPy compiles without a GPU; loading and launching kernels are mocked."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from accel_magic.gpu.adapters import attached
from accel_magic.gpu.adapters.cupy import CupyAdapter
from accel_magic.ptx.entries import entries

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")

SOURCE = 'extern "C" __global__ void add(const float *x, float *y) { y[threadIdx.x] += x[threadIdx.x]; }'
GENERATED = "typedef int T;\n" + SOURCE


@pytest.fixture
def gpu(monkeypatch):
    """Raw kernels that compile for sm_80 and record the code that they would load."""
    compiler = cupy.cuda.compiler
    saved, loaded, made = {}, [], []
    stream = SimpleNamespace(ptr=3, is_capturing=lambda: False)

    class Backend:
        def load(self, name):
            return saved.get(name)

        def save(self, name, payload, source):
            saved[name] = payload

    class Module:
        mapping = None

        def load(self, binary):
            loaded.append(binary)

        def _set_mapping(self, mapping):
            self.mapping = mapping

    monkeypatch.setattr(compiler, "_kernel_cache_backend", Backend())
    monkeypatch.setattr(compiler, "_get_arch", lambda: "80")
    monkeypatch.setattr(compiler, "_get_arch_for_options_for_nvrtc", lambda _=None: ("-arch=sm_80", "cubin"))
    monkeypatch.setattr(compiler, "_preprocess", lambda *_: "")
    monkeypatch.setattr(compiler, "_get_cupy_cache_key", lambda: "key")
    monkeypatch.setattr(compiler.function, "Module", Module)
    monkeypatch.setattr(cupy.cuda, "get_current_stream", lambda: stream)

    class Raw:
        """A raw kernel: compiles at the first call. Unlike real ones, it does not need a current device."""

        def __init__(self, code, name, options=(), backend="nvrtc", **named):
            self.code, self.name, self.options, self.backend, self.named = code, name, options, backend, named
            self.calls, self.compiled = [], False
            made.append(self)

        @property
        def kernel(self):
            if not self.compiled:
                compiler._compile_module_with_cache(self.code, self.options, backend=self.backend)
            self.compiled = True
            return self

        def __call__(self, grid, block, args, *, shared_mem=0):
            assert self.kernel.compiled
            self.calls.append((grid, block, args, shared_mem))

    monkeypatch.setattr(cupy, "RawKernel", Raw)
    return SimpleNamespace(saved=saved, loaded=loaded, made=made, compiler=compiler, stream=stream)


@pytest.fixture
def fenced(recorder):
    recorder.change = lambda ptx: ptx.replace("ret;", "membar.sys; ret;")
    return recorder


def test_a_raw_kernel_made_within_the_cell_is_traced_within_it_and_not_after_it(gpu, fenced):
    with attached(fenced):
        kernel = cupy.RawKernel(SOURCE, "add", ("-lineinfo",), jitify=False)
        for _ in range(2):
            kernel((2,), (3, 4), ("x", "y"), shared_mem=8)
    traced = list(gpu.loaded)
    kernel((1,), (1,), ("x", "y"))
    (source,) = fenced.sources
    assert (source.framework, source.names, source.arch) == ("CuPy", ("add",), "sm_80")
    assert set(entries(source.code)) == {"add"}
    assert len(traced) == 1
    assert traced[0].startswith(b"\x7fELF")
    assert len(gpu.loaded) == 2
    assert gpu.loaded[1] != traced[0]
    assert kernel.calls == [((1,), (1,), ("x", "y"), 0)]
    (first, _) = fenced.launches
    assert (first.kernel, first.grid, first.block) == ("add", (2, 1, 1), (3, 4, 1))
    assert (first.shared_bytes, first.stream) == (8, 3)


def test_a_kernel_that_is_recorded_into_a_graph_is_not_traced_because_the_graph_outlives_the_cell(gpu, fenced):
    gpu.stream.is_capturing = lambda: True
    with attached(fenced):
        kernel = cupy.RawKernel(SOURCE, "add")
        kernel((1,), (1,), ())
    assert len(kernel.calls) == 1
    assert "CUDA graph" in fenced.skips["add"]
    assert (fenced.launches, fenced.sources) == ([], [])


def test_a_kernel_whose_module_has_variables_runs_unchanged(gpu, fenced):
    with attached(fenced):
        kernel = cupy.RawKernel("__device__ float sum;" + SOURCE.replace("+=", "= sum +="), "add")
        kernel((1,), (1,), ())
    assert len(kernel.calls) == 1
    assert "device variables (sum)" in fenced.skips["add"]
    assert len(fenced.launches) == 1


def test_a_traced_copy_may_use_as_much_shared_memory_as_its_launch(gpu, fenced):
    with attached(fenced):
        kernel = cupy.RawKernel(SOURCE, "add")
        kernel((1,), (1,), (), shared_mem=100_000)
    first, second = (one for one in gpu.made)
    assert (first.calls, second.calls) == ([], [((1,), (1,), (), 100_000)])
    assert second.max_dynamic_shared_size_bytes == 100_000


def test_compiling_restores_the_programs_method(gpu, fenced):
    with attached(fenced):
        program = gpu.compiler._NVRTCProgram(SOURCE, "a.cu", method="cubin")
        program.src += gpu.compiler._kernel_cache_backend._token
        cubin, _ = program.compile(("-arch=sm_80",))
    assert program.method == "cubin"
    assert cubin.startswith(b"\x7fELF")
    assert len(fenced.sources) == 1


def test_the_disk_cache_gets_the_same_entries_as_without_a_trace(gpu, fenced):
    with attached(fenced):
        cupy.RawKernel(SOURCE, "add")((1,), (1,), ())
        assert gpu.saved == {}
        gpu.compiler._compile_module_with_cache(SOURCE, (), extra_source="")
    within = dict(gpu.saved)
    assert len(within) == 1
    gpu.saved.clear()
    gpu.compiler._compile_module_with_cache(SOURCE, (), extra_source="")
    assert gpu.saved == within


def test_kernels_that_would_outlive_the_cell_are_reported_and_left_alone(gpu, fenced):
    older = cupy.RawKernel(SOURCE.replace("add", "older"), "older")
    with attached(fenced):
        older((1,), (1,), ())
        gpu.compiler._compile_module_with_cache(GENERATED.replace("add", "cupy_add"), (), extra_source="")
    assert fenced.sources == []
    assert fenced.launches == []
    assert set(fenced.skips) == {"older", "cupy_add"}
    assert "not created within the cell" in fenced.skips["older"]
    assert "CuPy's own" in fenced.skips["cupy_add"]


def test_cupy_is_restored_after_an_error(gpu, fenced):
    def state():
        compiler = gpu.compiler
        program = compiler._NVRTCProgram
        return cupy.RawKernel, compiler._kernel_cache_backend, compiler._compile_module_with_cache, program.compile

    before = state()
    with pytest.raises(ZeroDivisionError), attached(fenced):
        assert all(now is not then for now, then in zip(state(), before, strict=True))
        raise ZeroDivisionError
    assert state() == before


def test_on_the_simulated_device_alternatives_are_named(recorder, device):
    with attached(recorder, device):
        pass
    assert recorder.skips["CuPy"].endswith("use Triton, Numba or CpuKernel")


def test_the_installed_cupy_has_all_expected_names():
    assert CupyAdapter().missing() == ""
    assert sys.modules["cupy"] is cupy


def test_a_subclass_of_the_real_raw_kernel_can_be_made(recorder):
    with attached(recorder):
        kernel = cupy.RawKernel(SOURCE, "add", ("-O1",), enable_cooperative_groups=True)
    assert (kernel.code, kernel.name, kernel.options) == (SOURCE, "add", ("-O1",))
    assert kernel.enable_cooperative_groups
    assert recorder.sources == []

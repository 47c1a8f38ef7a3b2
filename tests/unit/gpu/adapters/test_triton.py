from __future__ import annotations

import hashlib
import importlib.util
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from accel_magic.errors import AccelMagicError, ProbeError
from accel_magic.gpu.adapters import attached
from tests.support.errors import raises

triton = pytest.importorskip("triton", reason="Triton is not installed")
pytestmark = [pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION"), pytest.mark.component]


@pytest.fixture(scope="module")
def kernels():
    spec = importlib.util.spec_from_file_location("triton_kernels", Path(__file__).with_name("triton_kernels.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Use a separate Triton cache; returns a function that lists its files by path and content."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    return lambda: {
        str(path.relative_to(tmp_path)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(tmp_path.rglob("*"))
        if path.is_file()
    }


def numbers(count, seed=1):
    """Small integers, so that sums of products are exact in any order."""
    return np.random.default_rng(seed).integers(-8, 9, count).astype(np.float32)


def compiled(kernels, arch=80):
    source = triton.compiler.ASTSource(
        fn=kernels.add,
        signature={"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "factor": "fp32", "BLOCK": "constexpr"},
        constexprs={"BLOCK": 128},
    )
    return triton.compile(source, target=triton.backends.compiler.GPUTarget("cuda", arch, 32))


@pytest.mark.parametrize("arch", [80, 90])
def test_the_rewritten_ptx_is_what_is_assembled(kernels, altering, arch):
    plain = compiled(kernels, arch)
    with attached(altering):
        traced = compiled(kernels, arch).asm.copy()
    (source,) = altering.sources
    assert source.code == plain.asm["ptx"]
    assert traced["ptx"] == altering.change(source.code) != source.code
    assert traced["cubin"] != plain.asm["cubin"]
    assert (source.framework, source.names) == ("Triton", ("add",))
    assert source.arch.removesuffix("a") == f"sm_{arch}"


def test_the_disk_cache_is_the_same_as_without_a_trace(kernels, altering, cache):
    before = compiled(kernels)
    stored = cache()
    assert stored
    with attached(altering):
        compiled(kernels)
        compiled(kernels, 90)
        assert cache() == stored
    assert cache() == stored
    after = compiled(kernels)
    assert (after.hash, after.asm["cubin"], after.asm["ptx"]) == (before.hash, before.asm["cubin"], before.asm["ptx"])


def test_all_of_tritons_settings_are_restored_after_an_error(kernels, recorder, device):
    runtime = triton.runtime

    def state():
        return (
            dict(vars(triton.knobs.runtime)),
            dict(vars(triton.knobs.cache)),
            list(triton.knobs.runtime.kernel_load_end_hook.calls),
            runtime.driver._active,
            runtime.jit.JITFunction._do_compile,
            runtime.jit.KernelInterface.__getitem__,
            runtime.autotuner.Autotuner.run,
            triton.compiler.CompiledKernel._init_handles,
            triton.backends.nvidia.driver.CudaLauncher.__call__,
            dict(os.environ),
        )

    before = state()
    for simulated in (None, device):
        with pytest.raises(ZeroDivisionError), attached(recorder, simulated):
            raise ZeroDivisionError
        assert state() == before


class Utilities:
    """The part of Triton's driver that loads kernels: functions are numbers, and `loaded` has their code."""

    def __init__(self):
        self.loaded, self.unloaded, self.capturing = {}, [], False

    def load_binary(self, _name, binary, _shared, _device):
        function = len(self.loaded) + 1
        self.loaded[function] = binary
        return f"module of {function}", function, 32, 0, 1024

    def unload_module(self, module):
        self.unloaded.append(module)

    def get_device_properties(self, _device):
        return {"max_shared_mem": 1 << 20}

    def is_stream_capturing(self, _stream):
        return self.capturing


@pytest.fixture
def gpu(monkeypatch):
    """A mock CUDA driver that loads and launches nothing; `started` records the functions that it should launch."""
    started = []
    launcher = triton.backends.nvidia.driver.CudaLauncher
    monkeypatch.setattr(launcher, "__init__", lambda *_: None)
    monkeypatch.setattr(launcher, "__call__", lambda self, x, y, z, stream, function, *_: started.append(function))
    driver = SimpleNamespace(
        utils=Utilities(),
        launcher_cls=launcher,
        get_current_device=lambda: 0,
        get_current_stream=lambda _: 0,
        get_current_target=lambda: triton.backends.compiler.GPUTarget("cuda", 80, 32),
        started=started,
    )
    monkeypatch.setattr(triton.runtime.driver, "_active", driver)
    return driver


def test_a_kernel_compiled_within_the_cell_and_kept_has_no_programs_after_it(kernels, altering, gpu):
    with attached(altering):
        held, never_launched = compiled(kernels), compiled(kernels, 86)
        held[1, 1, 1](None)
    held[1, 1, 1](None)
    held[1, 1, 1](None)
    first, second, third = gpu.started
    alone = compiled(kernels)
    assert gpu.utils.loaded[first] != gpu.utils.loaded[second]
    assert second == third
    assert gpu.utils.loaded[second] == assembled(alone.asm["ptx"])
    assert gpu.utils.unloaded == [f"module of {first}"]
    assert held.asm["ptx"] == alone.asm["ptx"]
    assert len(gpu.utils.loaded) == 2
    assert never_launched.module is None


def test_a_kernel_recorded_into_a_graph_is_not_traced_because_the_graph_outlives_the_cell(kernels, altering, gpu):
    with attached(altering):
        kernel = compiled(kernels)
        gpu.utils.capturing = True
        kernel[1, 1, 1](None)
        kernel[1, 1, 1](None)
        gpu.utils.capturing = False
        kernel[1, 1, 1](None)
    first, second, third = gpu.started
    assert first == second != third
    assert gpu.utils.loaded[first] == assembled(altering.sources[0].code)
    assert "CUDA graph" in altering.skips["add"]
    assert len(altering.launches) == 1


def assembled(ptx):
    from accel_magic.gpu.codegen.assemble import assemble

    return assemble(ptx, "sm_80").cubin


def test_kernels_that_triton_interprets_are_reported(recorder, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with attached(recorder):
        assert triton.knobs.runtime.add_stages_inspection_hook is None
    assert recorder.skips["Triton"].endswith("unset TRITON_INTERPRET")


def test_the_users_own_inspection_hook_is_called_too(kernels, altering, monkeypatch):
    called = []

    def own(backend=None, stages=None, *_):
        called.append(stages is not None)
        return None if stages is not None else ("own", "own")

    monkeypatch.setattr(triton.knobs.runtime, "add_stages_inspection_hook", own)
    with attached(altering):
        compiled(kernels)
    # Triton 3.6 calls the hook for its key only when it launches.
    assert called == ([True] if triton.__version__.startswith("3.6.") else [False, True])
    assert len(altering.sources) == 1
    assert triton.knobs.runtime.add_stages_inspection_hook is own


def test_launches_on_a_gpu_are_reported_except_those_of_kernels_from_before_the_cell(recorder, monkeypatch, gpu):
    launcher = triton.backends.nvidia.driver.CudaLauncher
    started = []
    monkeypatch.setattr(launcher, "__call__", lambda self, *arguments: started.append(arguments))
    run = launcher.__new__(launcher)
    older = SimpleNamespace(data={"name": "older"})
    with attached(recorder):
        triton.knobs.runtime.kernel_load_end_hook(None, 77, "fresh", None, None)
        run(4, 5, 6, 9, 77, (8, 1, 2048), None, None, None, "argument")
        for _ in range(2):
            run(1, 1, 1, 0, 5, (4, 1, 0), older, None, None)
    assert len(started) == 3
    assert started[0] == (4, 5, 6, 9, 77, (8, 1, 2048), None, None, None, "argument")
    (launch,) = recorder.launches
    assert (launch.kernel, launch.grid, launch.block) == ("fresh", (4, 5, 6), (256, 1, 1))
    assert (launch.shared_bytes, launch.stream) == (2048, 9)
    assert 0 < launch.time_ns <= launch.returned_ns
    assert recorder.skips["older"] == "it was compiled before the cell and is launched directly"
    assert "fresh" not in recorder.skips


def test_numpy_arrays_are_added_on_the_cpu_device(kernels, recorder, device):
    x, y, out = numbers(1000), numbers(1000, 2), np.full(1000, 77, np.float32)
    with attached(recorder, device):
        kernels.add[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, y, out, 1000, 2.5, BLOCK=256)
    assert np.array_equal(out, x + np.float32(2.5) * y)
    (launch,) = recorder.launches
    assert (launch.kernel, launch.grid, launch.block) == ("add", (4, 1, 1), (128, 1, 1))
    assert launch.device_ns > 0
    assert [when for when, _ in recorder.events] == ["launching", "launched"]
    (source,) = recorder.sources
    assert source.arch == "sm_80"
    assert Path(source.origin.file).name == "triton_kernels.py"
    assert source.origin.line == 8


def test_a_kernel_that_is_launched_several_times_is_rewritten_once(kernels, altering, device):
    x, out = numbers(256), np.zeros(256, np.float32)
    with attached(altering, device):
        for _ in range(3):
            kernels.histogram[(2,)](np.zeros(256, np.int32), np.zeros(4, np.int32), 256, BLOCK=128)
        kernels.row_sums[(1,)](x, 256, out, (1.0, 0.0), 256)
    assert [source.names for source in altering.sources] == [("histogram",), ("row_sums",)]
    assert len(altering.launches) == 4


def test_the_rewritten_kernel_is_the_one_that_runs_within_the_cell_only(kernels, device, altering, recorder):
    x, y, out = numbers(128), numbers(128, 2), np.zeros(128, np.float32)
    with attached(altering, device):
        kernels.add[(1,)](x, y, out, 128, 2.5, BLOCK=128)
    assert np.array_equal(out, np.float32(2.5) * y)
    with attached(recorder, device):
        kernels.add[(1,)](x, y, out, 128, 2.5, BLOCK=128)
    assert np.array_equal(out, x + np.float32(2.5) * y)


def test_matrices_are_multiplied_through_shared_memory(kernels, recorder, device):
    a, b = numbers(64 * 32).reshape(64, 32), numbers(32 * 64, 3).reshape(32, 64)
    c = np.zeros((64, 64), np.float32)
    with attached(recorder, device):
        kernels.multiply[(2, 2)](a, b, c, 64, 64, 32, BM=32, BN=32, BK=16)
    assert np.array_equal(c, a @ b)
    assert ".shared" in recorder.sources[0].code
    assert recorder.launches[0].shared_bytes > 0


def test_atomics_count_exactly(kernels, recorder, device):
    values = np.random.default_rng(5).integers(0, 10, 1000).astype(np.int32)
    counts = np.zeros(10, np.int32)
    with attached(recorder, device):
        kernels.histogram[(8,)](values, counts, 1000, BLOCK=128)
    assert np.array_equal(counts, np.bincount(values, minlength=10))


def test_heuristics_and_tuples_work(kernels, recorder, device):
    x, out = numbers(3 * 100).reshape(3, 100), np.zeros(3, np.float32)
    with attached(recorder, device):
        kernels.guided[(3,)](x, out=out, pair=(2.0, 5.0), columns=100)
    assert np.array_equal(out, x.sum(axis=1) * 2 + 5)


def test_the_autotuner_uses_its_first_configuration_and_forgets_it(kernels, recorder, device):
    values, counts = np.arange(500, dtype=np.int32) % 7, np.full(7, 9, np.int32)
    with attached(recorder, device):
        kernels.tuned[lambda meta: (triton.cdiv(500, meta["BLOCK"]),)](values, counts, 500)
    assert np.array_equal(counts, np.bincount(values))
    assert [(launch.grid, launch.block) for launch in recorder.launches] == [((8, 1, 1), (128, 1, 1))]
    assert kernels.tuned.cache == {}
    assert "do_bench" not in vars(kernels.tuned)


def test_no_kernels_of_the_simulated_device_are_left_in_tritons_memory(kernels, recorder, device):
    before = dict(kernels.add.device_caches)
    assert -1 not in before
    out = np.zeros(128, np.float32)
    with attached(recorder, device):
        held = kernels.add[(1,)](out, out, out, 128, 1.0, BLOCK=128)
    assert dict(kernels.add.device_caches) == before
    assert held.module is None


def test_no_kernels_compiled_for_a_gpu_within_the_cell_are_left_in_tritons_memory(kernels, recorder, monkeypatch):
    def do_compile(function, key, _signature, device, *_):
        function.device_caches[device][0][key] = "kernel"
        function.device_caches[device][1]["spelled " + key] = key

    monkeypatch.setattr(triton.runtime.jit.JITFunction, "_do_compile", do_compile)
    monkeypatch.setattr(kernels.add, "device_caches", {0: ({}, {}, "target")})
    kernels.add._do_compile("before", {}, 0)
    with attached(recorder):
        kernels.add._do_compile("within", {}, 0)
        assert set(kernels.add.device_caches[0][0]) == {"before", "within"}
    assert kernels.add.device_caches == {0: ({"before": "kernel"}, {"spelled before": "before"}, "target")}


def test_every_block_gets_the_scratch_memory_that_triton_requires_and_it_is_freed(device):
    from accel_magic.gpu.adapters.triton_cpu import _Launcher

    metadata = SimpleNamespace(global_scratch_size=100, profile_scratch_size=0)
    launcher = _Launcher(device, None, (), metadata)
    with launcher._scratch([None, None], 6) as (scratch, profile):
        assert device.view(scratch, 600).size == 600
        assert profile == 0
    with pytest.raises(AccelMagicError):
        device.view(scratch, 1)


def test_arrays_that_share_memory_share_it_on_the_device(kernels, recorder, device):
    whole = np.arange(256, dtype=np.float32)
    with attached(recorder, device):
        kernels.add[(1,)](whole[:128], whole[128:], whole[64:192], 128, 1.0, BLOCK=128)
    first, second = np.arange(128, dtype=np.float32), np.arange(128, 256, dtype=np.float32)
    assert np.array_equal(whole[64:192], first + second)
    assert np.array_equal(whole[:64], np.arange(64))


def test_a_read_only_array_can_be_an_input_but_not_an_output(kernels, recorder, device):
    x, out = numbers(128), np.zeros(128, np.float32)
    x.flags.writeable = False
    with attached(recorder, device):
        kernels.add[(1,)](x, x, out, 128, 1.0, BLOCK=128)
        assert np.array_equal(out, x + x)
        with raises("gpu.array-read-only", AccelMagicError):
            kernels.add[(1,)](out, out, x, 128, 1.0, BLOCK=128)


def test_a_fault_in_a_kernel_leaves_the_users_arrays_and_the_cell_intact(kernels, recorder, device):
    x = np.zeros(32, np.float32)
    with attached(recorder, device):
        with raises("gpu.fault.out-of-bounds", AccelMagicError, match="out_of_bounds"):
            kernels.out_of_bounds[(1,)](x, BLOCK=32)
        kernels.add[(1,)](x + 1, x, x, 32, 1.0, BLOCK=32)
    assert np.array_equal(x, np.ones(32))
    assert len(recorder.launches) == 1


def test_arrays_of_objects_are_rejected(kernels, recorder, device):
    with attached(recorder, device), raises("gpu.bad-argument", ProbeError):
        kernels.add[(1,)](np.array([None]), np.zeros(1), np.zeros(1), 1, 1.0, BLOCK=32)


def test_a_cluster_of_blocks_is_rejected(kernels, recorder, device):
    x = np.zeros(32, np.float32)
    with attached(recorder, device), pytest.raises((ProbeError, ValueError), match=r"cluster|num_ctas"):
        kernels.add[(1,)](x, x, x, 32, 1.0, BLOCK=32, num_ctas=2)


def test_pytorch_tensors_are_accepted(kernels, recorder, device):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x, out = torch.arange(100, dtype=torch.float32), torch.zeros(100)
    with attached(recorder, device):
        kernels.add[(1,)](x, x, out, 100, 3.0, BLOCK=128)
    assert torch.equal(out, 4 * x)

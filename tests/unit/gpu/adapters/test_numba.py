from __future__ import annotations

import importlib.util
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from accel_magic.errors import AccelMagicError, ProbeError
from accel_magic.gpu.adapters import attached
from tests.support.errors import raises

numba = pytest.importorskip("numba", reason="Numba is not installed")
cuda = pytest.importorskip("numba.cuda", reason="Numba-CUDA is not installed")
if importlib.util.find_spec("numba.cuda.core") is None:
    pytest.skip("the package numba-cuda is not installed", allow_module_level=True)
pytestmark = [
    pytest.mark.filterwarnings("ignore::numba.cuda.core.errors.NumbaPerformanceWarning"),
    pytest.mark.component,
]

TILE = 8
RECORDING = 77


@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


@cuda.jit
def multiply(a, b, c):
    left = cuda.shared.array((TILE, TILE), numba.float64)
    right = cuda.shared.array((TILE, TILE), numba.float64)
    i, j = cuda.grid(2)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = 0.0
    for start in range(0, a.shape[1], TILE):
        left[x, y] = a[i, start + y]
        right[x, y] = b[start + x, j]
        cuda.syncthreads()
        for k in range(TILE):
            total += left[x, k] * right[k, y]
        cuda.syncthreads()
    c[i, j] = total


@cuda.jit
def histogram(values, counts):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(counts, values[i], 1)


@cuda.jit(device=True)
def square(value):
    return value * value


@cuda.jit
def everything(out, flag, small, wide, single, double, complex_number, pair, nested):  # noqa: PLR0917 - one of each kind
    out[0] = 1.0 if flag else 2.0
    out[1] = small
    out[2] = wide
    out[3] = single
    out[4] = double
    out[5] = complex_number.real
    out[6] = complex_number.imag
    out[7] = pair[0]
    out[8] = pair[1]
    out[9] = nested[1][1][0]
    out[10] = square(double)


@cuda.jit
def reverse_in_shared(values):
    kept = cuda.shared.array(0, numba.int32)
    i = cuda.threadIdx.x
    kept[i] = values[i]
    cuda.syncthreads()
    values[i] = kept[values.size - 1 - i]


@cuda.jit
def fill(out, value):
    i, j, k = cuda.grid(3)
    out[i, j, k] = value + 100 * i + 10 * j + k


@cuda.jit
def beyond(out):
    out[1000000] = 1


@cuda.jit
def report(values):
    i = cuda.threadIdx.x
    print("value", i, values[i])


class TestOnTheCpuDevice:
    def test_what_a_kernel_prints_is_printed(self, recorder, device, capsys):
        with attached(recorder, device):
            report[1, 3](np.array([4, 5, 6]))
        assert capsys.readouterr().out == "value 0 4\nvalue 1 5\nvalue 2 6\n"

    def test_the_name_of_the_device_includes_simulated(self, recorder, device):
        with attached(recorder, device):
            gpu = cuda.get_current_device()
            assert cuda.is_available()
            assert cuda.select_device(0) is gpu
        assert gpu.name == b"simulated device"
        assert gpu.compute_capability == (8, 0)
        assert device.multiprocessors == gpu.MULTIPROCESSOR_COUNT

    def test_arrays_are_added(self, recorder, device):
        x = np.arange(1000, dtype=np.float32)
        out = np.zeros(1000, np.float32)
        with attached(recorder, device):
            add[8, 128](x, x[::-1], out)
        assert np.array_equal(out, np.full(1000, 999))
        (launch,) = recorder.launches
        assert (launch.framework, launch.grid, launch.block) == ("Numba-CUDA", (8, 1, 1), (128, 1, 1))
        (source,) = recorder.sources
        assert source.names == (launch.kernel,)
        assert "add" in launch.kernel
        assert source.arch == "sm_80"
        assert source.origin.file == __file__
        assert source.origin.line == add.py_func.__code__.co_firstlineno
        assert ".loc" in source.code

    def test_matrices_are_multiplied_through_shared_memory(self, recorder, device):
        random = np.random.default_rng(3)
        a, b = random.integers(-9, 9, (16, 24)).astype(float), random.integers(-9, 9, (24, 16)).astype(float)
        c = np.zeros((16, 16), order="F")
        with attached(recorder, device):
            multiply[(2, 2), (TILE, TILE)](a, b, c)
        assert np.array_equal(c, a @ b)

    def test_atomics_count_exactly(self, recorder, device):
        values = np.random.default_rng(5).integers(0, 10, 1000)
        counts = np.zeros(10, np.int64)
        with attached(recorder, device):
            histogram[8, 128](values, counts)
        assert np.array_equal(counts, np.bincount(values, minlength=10))

    def test_every_kind_of_argument_arrives(self, recorder, device):
        out = np.zeros(11)
        nested = (1, (2.0, (np.int16(-7),)))
        with attached(recorder, device):
            everything[1, 1](
                out, True, np.int8(-3), -(1 << 40), np.float32(0.1), 2.5, 3 - 4j, (np.uint8(200), 1.5), nested
            )
        assert out.tolist() == [1, -3, -(1 << 40), np.float32(0.1), 2.5, 3, -4, 200, 1.5, -7, 6.25]

    def test_dynamic_shared_memory_has_the_size_of_the_launch(self, recorder, device):
        values = np.arange(64, dtype=np.int32)
        with attached(recorder, device):
            reverse_in_shared[1, 64, 0, 64 * 4](values)
        assert np.array_equal(values, np.arange(64)[::-1])
        assert recorder.launches[0].shared_bytes == 256

    def test_grids_and_blocks_have_three_dimensions(self, recorder, device):
        out = np.zeros((4, 6, 2), np.int64)
        with attached(recorder, device):
            fill[(2, 2, 1), (2, 3, 2)](out, 7)
        assert np.array_equal(out, np.fromfunction(lambda i, j, k: 7 + 100 * i + 10 * j + k, (4, 6, 2)))

    def test_device_arrays_stay_on_the_device_between_launches(self, recorder, device):
        x = np.arange(100, dtype=np.float32)
        with attached(recorder, device):
            there = cuda.to_device(x)
            out = cuda.device_array_like(x)
            more = cuda.device_array((2, 50), np.float32)
            add[1, 128](there, there, out)
            add[1, 128](out, there, out)
            add[1, 64](out[:50], out[50:], more[1])
            cuda.synchronize()
            assert out.shape == (100,)
            assert np.array_equal(out.copy_to_host(), 3 * x)
            assert np.array_equal(more.copy_to_host(), [np.zeros(50), 3 * (x[:50] + x[50:])])
            into = np.empty_like(x)
            out.copy_to_host(into)
            there.copy_to_device(np.ones(100, np.float32))
            assert there.copy_to_host().sum() == 100
            assert np.array_equal(into, 3 * x)
            assert np.array_equal(there.reshape(10, 10).T[3:5].copy_to_host(), np.ones((2, 10)))
        assert np.array_equal(x, np.arange(100))

    def test_a_device_array_of_an_earlier_cell_still_works(self, recorder, device):
        from accel_magic.devices.sim import SimulatedDevice

        with attached(recorder, device):
            there = cuda.to_device(np.ones(10, np.float32))
        with attached(recorder, SimulatedDevice()):
            add[1, 32](there, there, there)
        assert np.array_equal(there.copy_to_host(), np.full(10, 2))

    def test_memory_of_device_arrays_is_freed(self, recorder, device):
        with attached(recorder, device):
            first = cuda.device_array(1000)
            part, address = first[10:20], first.address
            del first
            assert device.view(address, 8000).size == 8000
            del part
            with pytest.raises(AccelMagicError):
                device.view(address, 8000)

    def test_functions_that_need_a_driver_raise_an_error_with_their_name(self, recorder, device):
        with attached(recorder, device):
            for name in ("stream", "event", "managed_array"):
                with raises("gpu.unsupported-on-cpu", ProbeError, match=rf"cuda\.{name} "):
                    getattr(cuda, name)()
            with pytest.raises(AttributeError, match="has no 'squeeze'"):
                cuda.device_array(3).squeeze()

    def test_kernels_with_a_declared_signature_work_within_the_cell_and_convert(self, recorder, device):
        out = np.zeros(8, np.float32)
        with attached(recorder, device):

            @cuda.jit("void(float32[:], int32)")
            def declared(out, value):
                out[cuda.grid(1)] = value

            declared[1, 8](out, 3.0)
            with raises("gpu.wrong-argument-count", ProbeError, match="declared"):
                declared[1, 8](out)
        assert np.array_equal(out, np.full(8, 3))
        assert not declared.specialized
        assert len(recorder.sources) == 1

    def test_a_kernel_over_a_number_of_tasks_covers_all_of_them(self, recorder, device):
        x, out = np.ones(300, np.float32), np.zeros(300, np.float32)
        with attached(recorder, device):
            add.forall(300)(x, x, out)
            add.forall(0)(x, x, out)
        assert out.sum() == 600
        assert [launch.grid for launch in recorder.launches] == [(3, 1, 1)]

    def test_a_kernel_is_compiled_once_for_each_set_of_types(self, recorder, device):
        with attached(recorder, device):
            for dtype in (np.float32, np.float64, np.float32):
                x = np.ones(4, dtype)
                add[1, 4](x, x, x)
        assert len(recorder.sources) == 2
        assert len(recorder.launches) == 3

    def test_the_rewritten_kernel_is_the_one_that_runs(self, altering, device):
        x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
        with attached(altering, device):
            add[1, 8](x, x, out)
        assert np.array_equal(out, x)

    def test_a_fault_names_the_kernel_and_leaves_the_array_unchanged(self, recorder, device):
        out = np.zeros(10, np.int64)
        with attached(recorder, device), raises("gpu.fault.out-of-bounds", AccelMagicError, match="beyond"):
            beyond[1, 1](out)
        assert not out.any()
        assert recorder.launches == []

    def test_arguments_that_no_kernel_can_take_are_rejected(self, recorder, device):
        with attached(recorder, device), raises("gpu.bad-argument", ProbeError):
            beyond[1, 1](np.array([None]))

    def test_numba_is_restored_after_an_error(self, recorder, device):
        owners = (
            cuda,
            cuda.dispatcher,
            cuda.dispatcher.CUDADispatcher,
            cuda.dispatcher.ForAll,
            cuda.dispatcher._Kernel,
            cuda.dispatcher.CUDACache,
            cuda.dispatcher.config,
            cuda.codegen.CUDACodeLibrary,
        )

        def state():
            return [{name: value for name, value in vars(owner).items() if "cache" not in name} for owner in owners]

        before = state()
        for simulated in (None, device):
            with pytest.raises(ZeroDivisionError), attached(recorder, simulated):
                assert state() != before
                raise ZeroDivisionError
            assert state() == before

    def test_numbas_tables_have_no_entries_from_the_cell(self, recorder, device):
        out = np.zeros(11)
        context = cuda.descriptor.cuda_target.target_context
        before = len(context._defns)
        with attached(recorder, device):
            everything[1, 1](out, True, 1, 2, 3.0, 4.0, 5j, (6, 7), (1, (2.0, (3,))))
            assert square.overloads
            assert len(context._defns) > before
        assert len(context._defns) == before
        assert out[10] == 16
        assert not square.overloads
        assert not everything.overloads

    def test_numba_does_not_warn_about_low_occupancy(self, recorder, device):
        with warnings.catch_warnings(), attached(recorder, device):
            warnings.simplefilter("error")
            out = np.zeros(3, np.float32)
            add[1, 3](out, out, out)


class TestOnAGpu:
    """With a mock CUDA driver that loads and launches nothing; compiling and linking are real."""

    @pytest.fixture
    def driver(self, monkeypatch):
        if not cuda.cudadrv.driver._have_nvjitlink():
            pytest.skip("nvJitLink is not installed")
        gpu = SimpleNamespace(compute_capability=(9, 0), id=0)
        loaded = []

        def create_module_image(cubin, _setup, _teardown):
            loaded.append(bytes(cubin.code))
            module = SimpleNamespace(initialized=True)
            module.get_function = lambda name: SimpleNamespace(name=name, kernel=None, module=module)
            return module

        context = SimpleNamespace(device=gpu, create_module_image=create_module_image)
        monkeypatch.setattr(cuda.cudadrv.devices, "get_context", lambda *_: context)
        monkeypatch.setattr(cuda.dispatcher, "get_current_device", lambda: gpu)
        monkeypatch.setattr(cuda.dispatcher, "launch", lambda *_: None)
        monkeypatch.setattr(cuda.dispatcher._Kernel, "_prepare_args", lambda *_: None)
        status = cuda.cudadrv.driver.binding.CUstreamCaptureStatus
        running, recording = status.CU_STREAM_CAPTURE_STATUS_NONE, status.CU_STREAM_CAPTURE_STATUS_ACTIVE
        monkeypatch.setattr(
            cuda.cudadrv.driver.binding,
            "cuStreamIsCapturing",
            lambda stream: (0, recording if int(stream) == RECORDING else running),
        )
        return loaded

    @pytest.fixture(params=[True, False], ids=["link-time optimisation", "plain"])
    def kernel(self, request):
        @cuda.jit(lto=request.param)
        def kernel(x):
            x[cuda.grid(1)] += numba.float32(1)

        return kernel

    def test_a_kernel_compiled_before_the_cell_is_traced_within_it_and_not_afterwards(self, driver, kernel, altering):
        x = np.zeros(32, np.float32)
        kernel[1, 32](x)
        with attached(altering):
            kernel[1, 32](x)
            kernel[1, 32](x)
        kernel[1, 32](x)
        assert len(driver) == 2
        assert driver[0] != driver[1]
        (library,) = (overload._codelibrary for overload in kernel.overloads.values())
        assert [bytes(one.code) for one in library._cubin_cache.values()] == [driver[0]]
        (source,) = altering.sources
        assert source.arch == "sm_90a"
        assert source.origin.line == kernel.py_func.__code__.co_firstlineno
        assert [launch.grid for launch in altering.launches] == [(1, 1, 1)] * 2

    def test_a_kernel_that_is_recorded_into_a_graph_is_not_traced_because_the_graph_outlives_the_cell(
        self, driver, kernel, altering
    ):
        x = np.zeros(32, np.float32)
        kernel[1, 32](x)
        with attached(altering):
            kernel[1, 32, cuda.cudadrv.driver.ExperimentalStream.from_handle(RECORDING)](x)
        kernel[1, 32](x)
        assert len(driver) == 1
        (overload,) = kernel.overloads.values()
        assert "CUDA graph" in altering.skips[overload.entry_name]
        assert (altering.sources, altering.launches) == ([], [])

    def test_a_kernel_first_compiled_within_the_cell_has_its_own_cubin_afterwards(self, driver, altering):
        def make():
            @cuda.jit
            def kernel(x):
                x[cuda.grid(1)] += numba.float32(1)

            return kernel

        x = np.zeros(32, np.float32)
        never, within = make(), make()
        never[1, 32](x)
        with attached(altering):
            within[1, 32](x)
        within[1, 32](x)
        alone, traced, after = (
            code.replace(next(iter(kernel.overloads.values())).entry_name.encode(), b"the kernel")
            for code, kernel in zip(driver, (never, within, within), strict=True)
        )
        assert after == alone != traced

    def test_nothing_is_written_to_numbas_disk_cache(self, driver, altering, tmp_path, monkeypatch):
        monkeypatch.setattr(cuda.core.config, "CACHE_DIR", str(tmp_path))

        def make():
            @cuda.jit(cache=True)
            def kernel(x):
                x[cuda.grid(1)] += numba.float32(1)

            return kernel

        x = np.zeros(32, np.float32)
        with attached(altering):
            make()[1, 32](x)
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]
        make()[1, 32](x)
        assert [path for path in tmp_path.rglob("*") if path.is_file()]
        assert driver[1] != driver[0]

    def test_a_launch_that_fails_is_not_reported_as_done(self, driver, kernel, recorder, monkeypatch):
        def fail(*_):
            raise MemoryError

        monkeypatch.setattr(cuda.dispatcher, "launch", fail)
        with attached(recorder), pytest.raises(MemoryError):
            kernel[1, 32](np.zeros(32, np.float32))
        assert [when for when, _ in recorder.events] == ["launching"]

    def test_ptx_that_cannot_be_linked_is_reported_and_the_kernel_runs_unchanged(self, driver, kernel, recorder):
        x = np.zeros(32, np.float32)
        kernel[1, 32](x)
        recorder.change = lambda ptx: ptx.replace("ret;", "no such instruction;")
        with attached(recorder):
            kernel[1, 32](x)
        assert driver[0] == driver[1]
        # Other imported frameworks may be reported too.
        (reason,) = [reason for name, reason in recorder.skips.items() if "kernel" in name]
        assert reason.startswith("Numba's linker rejects its PTX")


def test_numba_imported_within_the_cell_is_attached(tmp_path):
    import subprocess
    import sys

    code = (
        "import numpy as np\n"
        "from accel_magic.gpu.adapters import attached\n"
        "from accel_magic.devices.sim import SimulatedDevice\n"
        "class Observer:\n"
        "    def rewrite(self, kernel): return kernel.code\n"
        "    def launching(self, launch): pass\n"
        "    def launched(self, launch): print(launch.framework, launch.block)\n"
        "    def skipped(self, name, reason): print(name, reason)\n"
        "with attached(Observer(), SimulatedDevice()):\n"
        "    from numba import cuda\n"
        "    @cuda.jit\n"
        "    def k(x): x[cuda.threadIdx.x] = 5\n"
        "    x = np.zeros(4)\n"
        "    k[1, 4](x)\n"
        "print(x.sum())\n"
    )
    file = tmp_path / "cell.py"
    file.write_text(code)
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["Numba-CUDA (4, 1, 1)", "20.0"], done.stderr

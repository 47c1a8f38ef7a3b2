"""With a mock CUDA driver that loads and launches nothing, and records the kernels that it should launch."""

from __future__ import annotations

import functools
import re
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from accel_magic.gpu.adapters import attached
from accel_magic.gpu.adapters.nvrtc_bindings import NvrtcAdapter

pytestmark = pytest.mark.component

driver = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
nvrtc = pytest.importorskip("cuda.bindings.nvrtc", reason="cuda-bindings is not installed")

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
PTX = HEAD + ".visible .entry add()\n{ ret; }\n.visible .entry other()\n{ ret; }\n"
SHAPE = (1, 2, 3, 32, 2, 1)
OK = driver.CUresult.CUDA_SUCCESS


class Gpu:
    """A mock CUDA driver: modules and libraries are numbers from 1, kernels from 1000."""

    def __init__(self):
        self.images, self.owners, self.names, self.ran, self.unloaded = {}, {}, {}, [], []
        self.allowed, self.capturing, self.fails = {}, set(), ()

    def load(self, make):
        def load(image, *_):
            if any(part in bytes(image) for part in self.fails):
                return driver.CUresult.CUDA_ERROR_INVALID_PTX, None
            handle = make(len(self.images) + 1)
            self.images[int(handle)] = bytes(image)
            return OK, handle

        return load

    def kernel(self, make):
        def get(owner, name):
            handle = make(1000 + len(self.names))
            self.names[int(handle)], self.owners[int(handle)] = name, int(owner)
            return OK, handle

        return get

    def launch(self, kernel, *numbers):
        self.ran.append((self.images[self.owners[int(kernel)]], self.names[int(kernel)], numbers))
        return (OK,)

    def launch_ex(self, config, kernel, *_):
        return self.launch(kernel, config)


@pytest.fixture
def gpu(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] in {"numba", "cupy", "triton", "torch"}]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "cuda.core", raising=False)
    made = Gpu()
    capturing = driver.CUstreamCaptureStatus
    state = {True: capturing.CU_STREAM_CAPTURE_STATUS_ACTIVE, False: capturing.CU_STREAM_CAPTURE_STATUS_NONE}
    fakes = {
        "cuModuleLoadData": made.load(driver.CUmodule),
        "cuModuleLoadDataEx": made.load(driver.CUmodule),
        "cuLibraryLoadData": made.load(driver.CUlibrary),
        "cuLibraryGetKernel": made.kernel(driver.CUkernel),
        "cuModuleGetFunction": made.kernel(driver.CUfunction),
        "cuKernelGetLibrary": lambda kernel: (OK, driver.CUlibrary(made.owners[int(kernel)])),
        "cuFuncGetModule": lambda kernel: (OK, driver.CUmodule(made.owners[int(kernel)])),
        "cuLibraryGetModule": lambda library: (OK, driver.CUmodule(int(library) + 500)),
        "cuKernelGetName": lambda kernel: (OK, made.names[int(kernel)]),
        "cuFuncGetName": lambda kernel: (OK, made.names[int(kernel)]),
        "cuModuleUnload": lambda module: (made.unloaded.append(int(module)), (OK,))[1],
        "cuLibraryUnload": lambda library: (made.unloaded.append(int(library)), (OK,))[1],
        "cuCtxGetDevice": lambda: (OK, driver.CUdevice(0)),
        "cuDeviceGetAttribute": lambda kind, _: (OK, 9 if "MAJOR" in kind.name else 0),
        "cuStreamIsCapturing": lambda stream: (OK, state[int(stream) in made.capturing]),
        "cuLaunchKernel": made.launch,
        "cuLaunchCooperativeKernel": made.launch,
        "cuLaunchKernelEx": made.launch_ex,
        "cuFuncSetAttribute": lambda kernel, _, size: made.allowed.__setitem__(int(kernel), size),
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(driver, name, functools.partial(fake))
    return made


@pytest.fixture
def marking(recorder):
    recorder.change = lambda ptx: ptx.replace("ret;", "membar.sys; ret;")
    return recorder


def traced(images):
    """Return whether each launched kernel has a program in it."""
    return [b"membar.sys" in image for image, _, _ in images]


def test_a_module_loaded_within_the_cell_stays_unchanged_and_its_kernels_run_traced_until_the_end(gpu, marking):
    with attached(marking):
        _, module = driver.cuModuleLoadData(PTX.encode() + b"\0")
        _, kernel = driver.cuModuleGetFunction(module, b"add")
        for _ in range(2):
            assert driver.cuLaunchKernel(kernel, *SHAPE, 16, 0, 0, 0) == (OK,)
    driver.cuLaunchKernel(kernel, *SHAPE, 16, 0, 0, 0)
    assert traced(gpu.ran) == [True, True, False]
    assert [name for _, name, _ in gpu.ran] == [b"add"] * 3
    assert gpu.ran[0][2] == gpu.ran[2][2] == (*SHAPE, 16, 0, 0, 0)
    assert gpu.ran[2][0] == PTX.encode() + b"\0"
    (source,) = marking.sources
    assert (source.framework, source.names, source.arch, source.code) == (
        "cuda.bindings",
        ("add", "other"),
        "sm_80",
        PTX,
    )
    assert [(one.kernel, one.grid, one.block, one.shared_bytes) for one in marking.launches] == [
        ("add", (1, 2, 3), (32, 2, 1), 16)
    ] * 2
    assert marking.skips == {}
    # One traced copy for both launches, unloaded at the end.
    assert len(gpu.images) == 2
    assert gpu.unloaded == [2]


@pytest.mark.parametrize("call", ["cuLaunchCooperativeKernel", "cuLaunchKernelEx"])
def test_other_launch_functions_are_traced_too(gpu, marking, call):
    names = ("gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ")
    config = SimpleNamespace(**dict(zip(names, SHAPE, strict=True)), sharedMemBytes=8, hStream=0)
    with attached(marking):
        _, module = driver.cuModuleLoadDataEx(PTX.encode(), 0, [], [])
        _, kernel = driver.cuModuleGetFunction(module, b"other")
        arguments = (config, kernel, 0, 0) if call == "cuLaunchKernelEx" else (kernel, *SHAPE, 8, 0, 0)
        getattr(driver, call)(*arguments)
    assert traced(gpu.ran) == [True]
    (launch,) = marking.launches
    assert (launch.kernel, launch.grid, launch.block, launch.shared_bytes) == ("other", (1, 2, 3), (32, 2, 1), 8)


@pytest.mark.parametrize("as_function", [False, True])
def test_kernels_of_a_library_are_traced(gpu, marking, as_function):
    with attached(marking):
        _, library = driver.cuLibraryLoadData(PTX.encode(), [], [], 0, [], [], 0)
        _, kernel = driver.cuLibraryGetKernel(library, b"add")
        if as_function:
            gpu.owners[int(kernel)] += 500
            gpu.images[501] = b"the module of the library"
            kernel = driver.CUfunction(int(kernel))
        driver.cuLaunchKernel(kernel, *SHAPE, 0, 0, 0, 0)
    assert traced(gpu.ran) == [True]
    assert marking.skips == {}


def test_machine_code_compiled_by_nvrtc_is_traced_through_its_ptx(gpu, marking):
    _, program = nvrtc.nvrtcCreateProgram(b'extern "C" __global__ void f(int *x) { *x = 1; }', b"a.cu", 0, None, None)
    assert int(nvrtc.nvrtcCompileProgram(program, 1, [b"-arch=sm_80"])[0]) == 0
    code = bytearray(nvrtc.nvrtcGetCUBINSize(program)[1])
    with attached(marking):
        nvrtc.nvrtcGetCUBIN(program, code)
        for image in (bytes(code), code):
            _, module = driver.cuModuleLoadData(image)
            _, kernel = driver.cuModuleGetFunction(module, b"f")
            driver.cuLaunchKernel(kernel, *SHAPE, 0, 0, 0, 0)
    driver.cuLaunchKernel(kernel, *SHAPE, 0, 0, 0, 0)
    first, second, after = (image for image, _, _ in gpu.ran)
    assert after == bytes(code)
    assert first == second != after
    assert (machine(first), machine(after)) == (90, 80)  # the copy is compiled for the installed GPU
    assert [source.names for source in marking.sources] == [("f",), ("f",)]


def machine(cubin):
    """Return the architecture of a cubin: in CUDA 13, the second byte of the ELF flags."""
    from io import BytesIO

    from elftools.elf.elffile import ELFFile

    flags = ELFFile(BytesIO(cubin)).header["e_flags"]
    return flags >> 8 & 0xFF or flags & 0xFF


def test_images_are_read_from_their_address(gpu, marking, monkeypatch):
    monkeypatch.setattr(driver, "cuModuleLoadData", lambda image: (OK, driver.CUmodule(1)))
    with attached(marking):
        text = np.frombuffer(PTX.encode() + b"\0", np.uint8)
        driver.cuModuleLoadData(text.ctypes.data)
    assert [source.code for source in marking.sources] == [PTX]


def test_a_kernel_from_before_the_cell_is_reported_and_runs(gpu, marking):
    _, module = driver.cuModuleLoadData(PTX.encode())
    _, kernel = driver.cuModuleGetFunction(module, b"add")
    with attached(marking):
        driver.cuLaunchKernel(kernel, *SHAPE, 0, 0, 0, 0)
    assert traced(gpu.ran) == [False]
    assert "not compiled within the cell" in marking.skips["add"]
    assert len(marking.launches) == 1


def test_a_kernel_that_is_recorded_into_a_graph_is_not_traced_because_the_graph_outlives_the_cell(gpu, marking):
    gpu.capturing.add(9)
    with attached(marking):
        _, module = driver.cuModuleLoadData(PTX.encode())
        _, kernel = driver.cuModuleGetFunction(module, b"add")
        driver.cuLaunchKernel(kernel, *SHAPE, 0, 9, 0, 0)
    assert traced(gpu.ran) == [False]
    assert "CUDA graph" in marking.skips["add"]
    assert marking.launches == []


def test_a_module_with_variables_has_no_traced_copy(gpu, marking):
    with attached(marking):
        _, module = driver.cuModuleLoadData((HEAD + ".visible .global .u32 sum;\n" + PTX.removeprefix(HEAD)).encode())
        _, kernel = driver.cuModuleGetFunction(module, b"add")
        driver.cuLaunchKernel(kernel, *SHAPE, 0, 0, 0, 0)
    assert traced(gpu.ran) == [False]
    assert "device variables (sum)" in marking.skips["add"]
    assert marking.sources == []


def test_a_traced_copy_may_use_as_much_shared_memory_as_its_launch(gpu, marking):
    with attached(marking):
        _, module = driver.cuModuleLoadData(PTX.encode())
        _, kernel = driver.cuModuleGetFunction(module, b"add")
        driver.cuLaunchKernel(kernel, *SHAPE, 48 << 10, 0, 0, 0)
        assert gpu.allowed == {}
        driver.cuLaunchKernel(kernel, *SHAPE, 100_000, 0, 0, 0)
    ((twin, size),) = gpu.allowed.items()
    assert twin != int(kernel)
    assert size == 100_000


def test_unloading_a_module_unloads_its_traced_copy(gpu, marking):
    with attached(marking):
        _, module = driver.cuModuleLoadData(PTX.encode())
        _, kernel = driver.cuModuleGetFunction(module, b"add")
        driver.cuLaunchKernel(kernel, *SHAPE, 0, 0, 0, 0)
        driver.cuModuleUnload(module)
        assert gpu.unloaded == [2, 1]
    assert gpu.unloaded == [2, 1]


def test_a_module_that_cannot_be_loaded_with_programs_runs_unchanged_and_is_reported(gpu, recorder):
    recorder.change = lambda ptx: ptx.replace("ret;", "no such instruction;")
    gpu.fails = (b"no such instruction",)
    with attached(recorder):
        _, module = driver.cuModuleLoadData(PTX.encode())
        _, kernel = driver.cuModuleGetFunction(module, b"add")
        assert driver.cuLaunchKernel(kernel, *SHAPE, 0, 0, 0, 0) == (OK,)
    assert traced(gpu.ran) == [False]
    assert recorder.skips["add"].endswith(": CUDA_ERROR_INVALID_PTX")
    assert len(recorder.launches) == 1


def test_frameworks_with_their_own_adapters_are_left_alone(gpu, marking, monkeypatch):
    framework = ModuleType("numba.cuda.cudadrv")
    framework.driver = driver
    exec(f"def load():\n    return driver.cuModuleLoadData({PTX.encode()!r})", vars(framework))
    monkeypatch.setitem(sys.modules, framework.__name__, framework)
    with attached(marking):
        framework.load()
    assert marking.sources == []


def test_functions_that_users_have_bound_are_watched_and_restored_after_an_error(gpu, marking, monkeypatch):
    user = ModuleType("users_notebook")
    user.load = driver.cuModuleLoadData
    monkeypatch.setitem(sys.modules, user.__name__, user)

    def state():
        return [*vars(driver).values(), *vars(nvrtc).values(), user.load]

    before = state()
    with pytest.raises(ZeroDivisionError), attached(marking):
        assert user.load is driver.cuModuleLoadData
        user.load(PTX.encode())
        raise ZeroDivisionError
    assert all(now is then for now, then in zip(state(), before, strict=True))
    assert len(marking.sources) == 1


def test_names_that_another_version_lacks_are_reported(monkeypatch):
    assert NvrtcAdapter().missing() == ""
    monkeypatch.delattr(driver, "cuLaunchKernelEx")
    assert NvrtcAdapter().missing() == "cuda.bindings has no cuLaunchKernelEx; cuda-bindings 13 has them"


def test_the_users_buffers_get_the_unchanged_output_of_nvrtc(gpu, marking):
    _, program = nvrtc.nvrtcCreateProgram(b'extern "C" __global__ void f() {}', b"a.cu", 0, None, None)
    nvrtc.nvrtcCompileProgram(program, 1, [b"-arch=sm_80"])

    def contents():
        texts = []
        for kind in ("PTX", "CUBIN"):
            buffer = bytearray(getattr(nvrtc, f"nvrtcGet{kind}Size")(program)[1])
            getattr(nvrtc, f"nvrtcGet{kind}")(program, buffer)
            texts.append(bytes(buffer))
        return texts

    before = contents()
    with attached(marking):
        assert contents() == before
    assert not re.search(rb"membar", before[0])

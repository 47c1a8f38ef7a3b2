"""With mocks of cuda.core's classes: the real ones compile to PTX only with a CUDA driver."""

from __future__ import annotations

import itertools
import sys
import weakref
from types import ModuleType, SimpleNamespace

import pytest

from accel_magic.gpu import adapters
from accel_magic.gpu.adapters import attached
from accel_magic.gpu.adapters.cuda_core import CudaCoreAdapter

pytestmark = pytest.mark.component

PTX = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry add()\n{ ret; }\n"
TRACED = PTX.replace("ret;", "membar.sys; ret;")


class Handle(int):
    pass


class Kernel:
    numbers = itertools.count(1000)

    def __init__(self, code, name):
        self.code, self.name, self.handle = code, name, Handle(next(Kernel.numbers))
        KERNELS[self.handle] = self


KERNELS = weakref.WeakValueDictionary()


class ObjectCode:
    handle = 0
    numbers = itertools.count(1)

    def __init__(self, kind, code, name, symbol_mapping):
        self.code_type, self.code, self.name, self.symbol_mapping = kind, code, name, symbol_mapping
        self.handle = Handle(next(ObjectCode.numbers))

    @staticmethod
    def from_ptx(module, *, name="", symbol_mapping=None):
        return ObjectCode("ptx", module, name, symbol_mapping)

    @staticmethod
    def from_cubin(module, *, name="", symbol_mapping=None):
        return ObjectCode("cubin", module, name, symbol_mapping)

    def get_kernel(self, name):
        return Kernel(self, name)


class Program:
    """Compiles nothing: its output contains its input."""

    def __init__(self, code, code_type, options=None):
        self.code, self.code_type, self.options = code, code_type, options

    def compile(self, target_type, name_expressions=(), logs=None, *, cache=None):
        if cache is not None:
            cache.append(target_type)
        text = PTX if self.code_type == "c++" else self.code
        mapping = dict.fromkeys(name_expressions, "mangled")
        if target_type == "ptx":
            return ObjectCode("ptx", text.encode(), "own", mapping)
        return ObjectCode(target_type, f"{target_type} of {text}".encode(), "own", mapping)


@pytest.fixture
def core(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] in {"cuda", "numba", "cupy", "triton", "torch"}]:
        monkeypatch.delitem(sys.modules, name)
    module = ModuleType("cuda.core")
    module.__version__ = "1.2"
    module.Program, module.ObjectCode, module.Kernel = Program, ObjectCode, SimpleNamespace(handle=0)
    module.ProgramOptions = SimpleNamespace
    module.launched = []
    module.launch = lambda *arguments: module.launched.append(arguments)
    driver = ModuleType("cuda.bindings.driver")
    driver.allowed, driver.capturing = {}, set()
    driver.cuKernelGetName = lambda handle: (0, KERNELS[handle].name.encode())
    driver.cuKernelGetLibrary = lambda handle: (0, KERNELS[handle].code.handle)
    driver.cuStreamIsCapturing = lambda stream: (0, int(stream in driver.capturing))
    driver.cuKernelSetAttribute = lambda _, size, kernel, _device: driver.allowed.__setitem__(kernel, size)
    driver.cuCtxGetDevice = lambda: (0, 0)
    driver.cuDeviceGetAttribute = lambda kind, _: (0, 9 if kind == "major" else 0)
    driver.CUdevice_attribute = SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR="major", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR="minor"
    )
    driver.CUstream, driver.CUkernel = int, Handle
    driver.CUstreamCaptureStatus = SimpleNamespace(CU_STREAM_CAPTURE_STATUS_NONE=0)
    driver.CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8)
    package, bindings = ModuleType("cuda"), ModuleType("cuda.bindings")
    package.core, package.bindings, bindings.driver = module, bindings, driver
    for one in (package, module, bindings, driver):
        monkeypatch.setitem(sys.modules, one.__name__, one)
    only = tuple(one for one in adapters.FRAMEWORKS if one.module == "cuda.core")
    monkeypatch.setattr(adapters, "FRAMEWORKS", only)
    return module


@pytest.fixture
def user(core, monkeypatch):
    """A module that binds the classes before the cell, like a notebook."""
    module = ModuleType("users_notebook")
    module.Program, module.ObjectCode, module.launch = core.Program, core.ObjectCode, core.launch
    monkeypatch.setitem(sys.modules, "users_notebook", module)
    return module


@pytest.fixture
def marking(recorder):
    recorder.change = lambda ptx: ptx.replace("ret;", "membar.sys; ret;")
    return recorder


STREAM, CONFIG = SimpleNamespace(handle=7), SimpleNamespace(grid=(4, 2), cluster=None, block=128, shmem_size=64)


def images(core):
    """Return the code of launched kernels."""
    return [kernel.code.code for _, _, kernel, *_ in core.launched]


def test_a_program_compiled_to_ptx_stays_unchanged_and_its_kernels_run_traced_until_the_end(user, core, marking):
    with attached(marking):
        made = user.Program("source", "c++", None).compile("ptx", ("add<int>",))
        kernel = made.get_kernel("add")
        for _ in range(2):
            user.launch(STREAM, CONFIG, kernel, 1, 2)
    user.launch(STREAM, CONFIG, kernel, 1, 2)
    assert (made.code.decode(), made.symbol_mapping) == (PTX, {"add<int>": "mangled"})
    assert images(core) == [TRACED.encode(), TRACED.encode(), PTX.encode()]
    assert {arguments[3:] for arguments in core.launched} == {(1, 2)}
    (source,) = marking.sources
    assert (source.framework, source.names, source.code, source.arch) == ("cuda.core", ("add",), PTX, "sm_90")
    assert [(one.kernel, one.grid, one.block) for one in marking.launches] == [("add", (4, 2, 1), (128, 1, 1))] * 2
    assert (marking.launches[0].shared_bytes, marking.launches[0].stream) == (64, 7)
    assert marking.skips == {}


def test_a_program_compiled_to_a_cubin_gets_an_assembled_copy_and_the_users_cache_the_original(user, core, marking):
    cache = []
    with attached(marking):
        made = user.Program("source", "c++", SimpleNamespace(name="mine")).compile("cubin", ("add<int>",), cache=cache)
        user.launch(STREAM, CONFIG, made.get_kernel("add"))
    assert made.code.decode() == "cubin of " + PTX
    assert cache == ["cubin"]
    assert images(core)[0].startswith(b"\x7fELF")
    assert [source.code for source in marking.sources] == [PTX]


def test_a_grid_of_clusters_is_reported_in_blocks(user, core, marking):
    config = SimpleNamespace(grid=(4, 2), cluster=(2, 1, 1), block=128, shmem_size=0)
    with attached(marking):
        user.launch(STREAM, config, user.Program("source", "c++").compile("ptx").get_kernel("add"))
    assert [launch.grid for launch in marking.launches] == [(8, 2, 1)]


def test_ptx_from_the_user_is_traced(user, core, marking, tmp_path):
    file = tmp_path / "kernel.code"
    file.write_text(PTX)
    with attached(marking):
        made = [
            user.Program(PTX, "ptx").compile("cubin"),
            user.ObjectCode.from_ptx(PTX.encode(), name="n", symbol_mapping={"a": "b"}),
            user.ObjectCode.from_ptx(str(file)),
        ]
        for one in made:
            user.launch(STREAM, CONFIG, one.get_kernel("add"))
    assert images(core)[0].startswith(b"\x7fELF")
    assert images(core)[1:] == [TRACED.encode()] * 2
    assert (made[1].name, made[1].symbol_mapping, made[1].code) == ("n", {"a": "b"}, PTX.encode())
    assert file.read_text() == PTX


def test_code_without_ptx_is_reported_and_left_alone(user, marking):
    with attached(marking):
        linked = user.Program("source", "c++").compile("ltoir")
        loaded = user.ObjectCode.from_cubin(b"cubin", name="theirs")
    assert (linked.code_type, loaded.code) == ("ltoir", b"cubin")
    assert marking.skips == {
        "a program compiled to ltoir": "it has no PTX before it is linked",
        "theirs": "it is machine code without PTX",
    }
    assert marking.sources == []


def test_a_kernel_compiled_before_the_cell_is_reported_and_runs(user, core, marking):
    kernel = user.Program("source", "c++").compile("ptx").get_kernel("add")
    with attached(marking):
        user.launch(STREAM, CONFIG, kernel)
    assert images(core) == [PTX.encode()]
    assert "not compiled within the cell" in marking.skips["add"]
    assert len(marking.launches) == 1


def test_a_kernel_without_inserted_programs_runs_unchanged(user, core, recorder):
    with attached(recorder):
        user.launch(STREAM, CONFIG, user.Program("source", "c++").compile("ptx").get_kernel("add"))
    assert images(core) == [PTX.encode()]
    assert recorder.skips == {}


class GraphBuilder:
    handle = 8


@pytest.mark.parametrize("stream", [GraphBuilder(), SimpleNamespace(handle=9)])
def test_a_kernel_that_is_recorded_into_a_graph_is_not_traced_because_the_graph_outlives_the_cell(
    user, core, marking, stream
):
    core_driver().capturing.add(9)
    with attached(marking):
        user.launch(stream, CONFIG, user.Program("source", "c++").compile("ptx").get_kernel("add"))
    assert images(core) == [PTX.encode()]
    assert "CUDA graph" in marking.skips["add"]
    assert marking.launches == []


def core_driver():
    return sys.modules["cuda.bindings.driver"]


def test_frameworks_with_their_own_adapters_are_left_alone_even_if_they_are_imported_within_the_cell(
    user, core, marking, monkeypatch
):
    framework = ModuleType("numba.cuda.dispatcher")
    monkeypatch.setitem(sys.modules, framework.__name__, framework)
    text = """
from cuda.core import ObjectCode, Program, launch
def run(stream, config, ptx):
    ObjectCode.from_cubin(b"cubin")
    Program(ptx, "ptx").compile("cubin")
    launch(stream, config, ObjectCode.from_ptx(ptx.encode()).get_kernel("add"))
"""
    with attached(marking):
        exec(text, vars(framework))
        assert framework.launch is core.launch
        framework.run(STREAM, CONFIG, PTX)
    assert images(core) == [PTX.encode()]
    assert (marking.sources, marking.launches, marking.skips) == ([], [], {})
    assert (framework.Program, framework.ObjectCode, framework.launch) == (Program, ObjectCode, core.launch)


def test_a_traced_copy_may_use_as_much_shared_memory_as_its_launch(user, core, marking):
    large = SimpleNamespace(grid=1, cluster=None, block=32, shmem_size=100_000)
    with attached(marking):
        kernel = user.Program("source", "c++").compile("ptx").get_kernel("add")
        user.launch(STREAM, CONFIG, kernel)
        assert core_driver().allowed == {}
        user.launch(STREAM, large, kernel)
    assert list(core_driver().allowed.values()) == [100_000]
    assert list(core_driver().allowed) == [core.launched[1][2].handle] != [kernel.handle]


def test_a_traced_copy_that_cannot_be_loaded_is_reported_and_the_kernel_runs(user, core, recorder):
    recorder.change = lambda ptx: ptx.replace("ret;", "no such instruction;")
    with attached(recorder):
        user.launch(STREAM, CONFIG, user.Program("source", "c++").compile("cubin").get_kernel("add"))
    assert images(core) == [b"cubin of " + PTX.encode()]
    assert "cannot be loaded" in recorder.skips["add"]


def test_an_object_made_within_the_cell_is_not_traced_after_it(user, core, marking):
    with attached(marking):
        program, code, launch = user.Program("source", "c++"), user.ObjectCode, user.launch
    made = [program.compile("ptx"), code.from_ptx(PTX.encode())]
    for one in made:
        launch(STREAM, CONFIG, one.get_kernel("add"))
    assert images(core) == [PTX.encode()] * 2
    assert isinstance(program, Program)
    assert (marking.sources, marking.launches) == ([], [])


def test_all_names_are_restored_after_an_error(user, core, marking):
    own = (core.Program, core.ObjectCode, core.launch)
    with pytest.raises(ZeroDivisionError), attached(marking):
        assert user.Program is core.Program
        assert core.Program is not own[0]
        raise ZeroDivisionError
    for module in (user, core):
        assert (module.Program, module.ObjectCode, module.launch) == own


def test_names_that_another_version_lacks_are_reported(core):
    del core.launch
    assert CudaCoreAdapter().missing() == "cuda.core has no launch; cuda.core 1.2 has them"


def test_with_the_simulated_device_nothing_is_changed(user, recorder, device):
    with attached(recorder, device):
        assert user.Program is Program
    assert recorder.skips == {}


def test_the_installed_cuda_core_has_all_expected_names():
    pytest.importorskip("cuda.core", reason="cuda.core is not installed")
    assert CudaCoreAdapter().missing() == ""


@pytest.mark.parametrize("target", ["ptx", "cubin"])
def test_the_ptx_of_the_installed_cuda_core_is_available(recorder, monkeypatch, target):
    real = pytest.importorskip("cuda.core", reason="cuda.core is not installed")
    program = pytest.importorskip("cuda.core._program")
    # The only driver call that compiling needs.
    monkeypatch.setattr(program, "driver_version", lambda *_: (13, 5, 0))
    source = 'extern "C" __global__ void add(int *x) { x[0] += 1; } template <class T> __global__ void fill(T *x) {}'

    def compile_it():
        options = real.ProgramOptions(arch="sm_90", name="mine")
        return real.Program(source, "c++", options).compile(target, name_expressions=("fill<int>",))

    before = compile_it()
    with attached(recorder):
        within = compile_it()
    assert bytes(within.code) == bytes(before.code)
    assert (within.name, within.symbol_mapping) == (before.name, before.symbol_mapping)
    (kernels,) = [source.names for source in recorder.sources]
    assert set(kernels) == {"add", before.symbol_mapping["fill<int>"].decode()}

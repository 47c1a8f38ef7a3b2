"""With stand-ins for cuda.core's classes: the real ones compile to PTX only where the CUDA driver is."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from accel_magic.gpu.adapters import attached
from accel_magic.gpu.adapters.cuda_core import CudaCoreAdapter

PTX = ".version 8.0\n.target sm_90\n.visible .entry add() { ret; }\n"


class ObjectCode:
    def __init__(self, kind, code, name, symbol_mapping):
        self.kind, self.code, self.name, self.symbol_mapping = kind, code, name, symbol_mapping

    @staticmethod
    def from_ptx(module, *, name="", symbol_mapping=None):
        return ObjectCode("ptx", module, name, symbol_mapping)

    @staticmethod
    def from_cubin(module, *, name="", symbol_mapping=None):
        return ObjectCode("cubin", module, name, symbol_mapping)


class Program:
    """Compiles nothing: what it gives tells what it was given."""

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
    module.Program, module.ObjectCode = Program, ObjectCode
    module.ProgramOptions = SimpleNamespace
    module.launched = []
    module.launch = lambda *arguments: module.launched.append(arguments)
    driver = ModuleType("cuda.bindings.driver")
    driver.cuKernelGetName = lambda handle: (0, handle)
    package, bindings = ModuleType("cuda"), ModuleType("cuda.bindings")
    package.core, package.bindings, bindings.driver = module, bindings, driver
    for one in (package, module, bindings, driver):
        monkeypatch.setitem(sys.modules, one.__name__, one)
    return module


@pytest.fixture
def user(core, monkeypatch):
    """A module that has bound the classes before the cell, as a notebook does."""
    module = ModuleType("users_notebook")
    module.Program, module.ObjectCode, module.launch = core.Program, core.ObjectCode, core.launch
    monkeypatch.setitem(sys.modules, "users_notebook", module)
    return module


@pytest.fixture
def marking(recorder):
    recorder.change = lambda ptx: ptx.replace("ret;", "probed; ret;")
    return recorder


def test_a_program_compiled_to_ptx_is_rewritten(user, marking):
    with attached(marking):
        made = user.Program("source", "c++", None).compile("ptx", ("add<int>",))
    assert made.code.decode() == PTX.replace("ret;", "probed; ret;")
    assert made.symbol_mapping == {"add<int>": "mangled"}
    (source,) = marking.sources
    assert (source.framework, source.names, source.ptx, source.arch) == ("cuda.core", ("add",), PTX, "sm_90")


def test_a_program_compiled_to_a_cubin_goes_through_rewritten_ptx_and_past_the_users_cache(user, marking):
    cache = []
    options = SimpleNamespace(name="mine")
    with attached(marking):
        made = user.Program("source", "c++", options).compile("cubin", ("add<int>",), cache=cache)
    assert made.code.decode() == "cubin of " + PTX.replace("ret;", "probed; ret;")
    assert (made.kind, made.name, made.symbol_mapping) == ("cubin", "mine", {"add<int>": "mangled"})
    assert cache == []


def test_ptx_of_the_users_is_rewritten(user, marking):
    with attached(marking):
        compiled = user.Program(PTX, "ptx").compile("cubin")
        loaded = user.ObjectCode.from_ptx(PTX.encode(), name="n", symbol_mapping={"a": "b"})
    assert b"probed" in compiled.code
    assert b"probed" in loaded.code
    assert (loaded.name, loaded.symbol_mapping) == ("n", {"a": "b"})


def test_ptx_in_a_file_is_rewritten_and_the_file_is_not(user, marking, tmp_path):
    file = tmp_path / "kernel.ptx"
    file.write_text(PTX)
    with attached(marking):
        loaded = user.ObjectCode.from_ptx(str(file))
    assert b"probed" in loaded.code
    assert file.read_text() == PTX


def test_what_carries_no_ptx_is_reported_and_left_alone(user, marking):
    with attached(marking):
        linked = user.Program("source", "c++").compile("ltoir")
        loaded = user.ObjectCode.from_cubin(b"cubin", name="theirs")
    assert (linked.kind, loaded.code) == ("ltoir", b"cubin")
    assert marking.skips == {
        "a program compiled to ltoir": "it becomes PTX only when it is linked",
        "theirs": "it is compiled already and carries no PTX",
    }
    assert marking.sources == []


def test_launches_are_reported_with_the_kernels_name(user, core, marking):
    config = SimpleNamespace(grid=(4, 2), block=128, shmem_size=64)
    with attached(marking):
        user.launch(SimpleNamespace(handle=7), config, SimpleNamespace(handle=b"add"), 1, 2)
    (launch,) = marking.launches
    assert (launch.kernel, launch.grid, launch.block) == ("add", (4, 2, 1), (128, 1, 1))
    assert (launch.shared_bytes, launch.stream) == (64, 7)
    assert core.launched[0][3:] == (1, 2)


def test_an_object_made_within_the_cell_is_plain_after_it(user, core, marking):
    cache = []
    with attached(marking):
        program, code = user.Program("source", "c++"), user.ObjectCode
    assert program.compile("ptx", cache=cache).code.decode() == PTX
    assert cache == ["ptx"]
    assert code.from_ptx(PTX.encode()).code.decode() == PTX
    assert isinstance(program, Program)
    assert marking.sources == []


def test_all_names_come_back_after_an_error(user, core, marking):
    own = (core.Program, core.ObjectCode, core.launch)
    with pytest.raises(ZeroDivisionError), attached(marking):
        assert user.Program is core.Program
        assert core.Program is not own[0]
        raise ZeroDivisionError
    for module in (user, core):
        assert (module.Program, module.ObjectCode, module.launch) == own


def test_another_version_is_refused_by_what_it_lacks(core):
    del core.launch
    assert CudaCoreAdapter().missing() == "cuda.core has no launch; cuda.core 1.2 has them"


def test_with_the_simulated_device_nothing_is_changed(user, recorder, device):
    with attached(recorder, device):
        assert user.Program is Program
    assert recorder.skips == {}


def test_the_installed_cuda_core_is_as_expected():
    pytest.importorskip("cuda.core", reason="cuda.core is not installed")
    assert CudaCoreAdapter().missing() == ""


@pytest.mark.parametrize("target", ["ptx", "cubin"])
def test_the_installed_cuda_core_compiles_rewritten_ptx(recorder, monkeypatch, target):
    real = pytest.importorskip("cuda.core", reason="cuda.core is not installed")
    program = pytest.importorskip("cuda.core._program")
    # All that compiling wants of the driver.
    monkeypatch.setattr(program, "driver_version", lambda *_: (13, 5, 0))
    source = 'extern "C" __global__ void add(int *x) { x[0] += 1; } template <class T> __global__ void fill(T *x) {}'
    recorder.change = lambda ptx: ptx.replace("ret;", "membar.sys; ret;")

    def compile_it():
        options = real.ProgramOptions(arch="sm_90", name="mine")
        return real.Program(source, "c++", options).compile(target, name_expressions=("fill<int>",))

    before = compile_it()
    with attached(recorder):
        within = compile_it()
    after = compile_it()
    assert bytes(after.code) == bytes(before.code) != bytes(within.code)
    assert (within.name, within.symbol_mapping) == (before.name, before.symbol_mapping)
    (kernels,) = [source.names for source in recorder.sources]
    assert set(kernels) == {"add", before.symbol_mapping["fill<int>"].decode()}

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest

from accel_magic.errors import ProbeError
from accel_magic.gpu.adapters import FRAMEWORKS, adapter_for, attached, hearing, nvrtc
from tests.support.errors import raises


@pytest.fixture
def alone(monkeypatch):
    """No framework is imported."""
    for name in list(sys.modules):
        if name.split(".")[0] in {"triton", "numba", "cupy", "cuda", "torch"}:
            monkeypatch.delitem(sys.modules, name)


def test_attaching_imports_no_framework():
    code = (
        "import sys; from accel_magic.gpu.adapters import attached\n"
        "with attached(None): pass\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}"
        " & {'triton', 'numba', 'cupy', 'cuda', 'torch', 'llvmlite', 'IPython', 'bokeh'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_framework_of_an_unknown_version_is_reported_and_left_alone(alone, monkeypatch, recorder):
    triton = ModuleType("triton")
    triton.__version__ = "99.0"
    monkeypatch.setitem(sys.modules, "triton", triton)
    before = dict(vars(triton))
    with attached(recorder):
        assert vars(triton) == before
    assert list(recorder.skips) == ["Triton"]
    assert recorder.skips["Triton"].startswith("Triton 99.0 has no knobs.runtime.add_stages_inspection_hook, ")


def test_a_framework_imported_within_the_cell_is_attached(alone, monkeypatch, recorder, tmp_path):
    (tmp_path / "cupy.py").write_text("__version__ = '1.0'")
    monkeypatch.syspath_prepend(tmp_path)
    with attached(recorder):
        assert recorder.skips == {}
        import cupy  # noqa: F401

        del sys.modules["cupy"]
    assert recorder.skips == {
        "CuPy": "CuPy 1.0 has no RawKernel, RawKernel.kernel, cuda.compiler._NVRTCProgram.compile, cuda.compiler."
        "_compile_module_with_cache, cuda.compiler._kernel_cache_backend.load; CuPy 14 has them"
    }


def test_everything_is_removed_after_an_error_in_the_cell(alone, recorder):
    finders = list(sys.meta_path)
    with pytest.raises(ZeroDivisionError), attached(recorder):
        raise ZeroDivisionError
    assert sys.meta_path == finders


@pytest.mark.parametrize("module", [framework.module for framework in FRAMEWORKS])
def test_every_adapter_reports_that_its_framework_is_not_imported(alone, module):
    adapter = adapter_for(module)
    assert adapter.missing().endswith("is not imported")
    assert adapter.name


@pytest.fixture
def kernel():
    ptx = nvrtc.compile('extern "C" __global__ void fill(int *x) { x[threadIdx.x] = 5; }')
    data = np.zeros(4, np.int32)
    return lambda: nvrtc.CpuKernel(ptx)[1, 4](data)


def test_an_enclosing_trace_is_notified_of_launches_and_changes_no_kernels_meanwhile(alone, kernel, recorder, device):
    inner, again = type(recorder)(), type(recorder)()
    with attached(recorder, device):
        kernel()
        with attached(inner, type(device)()):
            kernel()
            with hearing(again, type(device)()):
                kernel()
        kernel()

    assert [len(one.launches) for one in (recorder, inner, again)] == [4, 2, 1]
    # The outer trace's adapters were removed and installed again, so the kernel is compiled again.
    assert [len(one.sources) for one in (recorder, inner, again)] == [2, 1, 0]
    kernel()
    assert len(recorder.launches) == 4


def test_a_hearing_observer_installs_adapters_if_no_trace_has(alone, kernel, recorder, device):
    with hearing(recorder, device):
        kernel()

    assert (len(recorder.launches), len(recorder.sources)) == (1, 1)


def test_the_outer_traces_adapters_are_installed_again_after_an_error_in_the_inner_trace(
    alone, kernel, recorder, device
):
    inner = type(recorder)()
    with attached(recorder, device):
        with pytest.raises(ZeroDivisionError), attached(inner, type(device)()):
            raise ZeroDivisionError
        kernel()

    assert (len(recorder.launches), len(inner.launches)) == (1, 0)


def test_nested_traces_must_use_the_same_kind_of_device(alone, recorder, device):
    for outer, inner in ((device, None), (None, device)):
        for enter in (attached, hearing):
            with attached(recorder, outer), raises("device.differs", ProbeError), enter(type(recorder)(), inner):
                pytest.fail("the block must not run")

"""With a mock PyTorch: Inductor compiles GPU kernels only on machines with a GPU."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace

import pytest

from accel_magic.gpu.adapters import attached
from accel_magic.gpu.adapters.inductor import InductorAdapter


@pytest.fixture
def torch(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] in {"cuda", "numba", "cupy", "triton", "torch"}]:
        monkeypatch.delitem(sys.modules, name)
    log = []

    @contextmanager
    def noting(begin, end):
        log.append(begin)
        try:
            yield
        finally:
            log.append(end)

    config = SimpleNamespace(compile_threads=8, use_static_cuda_launcher=True)
    config.patch = lambda **settings: noting(settings, "settings restored")
    torch = ModuleType("torch")
    torch.__version__, torch.log = "2.13.0", log
    torch.cuda = SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True)
    torch._dynamo = SimpleNamespace(reset=lambda: log.append("reset"))
    torch._inductor = ModuleType("torch._inductor")
    torch._inductor.config = config
    torch._inductor.utils = ModuleType("torch._inductor.utils")
    torch._inductor.utils.fresh_cache = lambda: noting("fresh cache", "cache dropped")
    for module in (torch, torch._inductor, torch._inductor.utils):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return torch


EXPECTED = [
    "reset",
    "fresh cache",
    {"compile_threads": 1, "use_static_cuda_launcher": False},
    "settings restored",
    "cache dropped",
    "reset",
]


def test_inductor_compiles_in_this_process_with_a_fresh_cache_and_is_reset_afterwards(torch, recorder):
    with attached(recorder):
        assert torch.log == EXPECTED[:3]
    assert torch.log == EXPECTED


def test_everything_is_undone_after_an_error(torch, recorder):
    with pytest.raises(ZeroDivisionError), attached(recorder):
        raise ZeroDivisionError
    assert torch.log == EXPECTED


def test_pytorchs_own_kernels_are_reported_if_the_gpu_was_used(torch, recorder):
    with attached(recorder):
        pass
    ((name, reason),) = recorder.skips.items()
    assert name == "PyTorch's own kernels (aten, cuBLAS, cuDNN)"
    assert "without PTX" in reason
    recorder.skips.clear()
    torch.cuda.is_initialized = lambda: False
    with attached(recorder):
        pass
    assert recorder.skips == {}


@pytest.mark.parametrize("simulated", [True, False])
def test_without_a_gpu_pytorch_is_left_alone(torch, recorder, device, simulated):
    torch.cuda.is_available = lambda: simulated
    with attached(recorder, device if simulated else None):
        assert torch.log == []


def test_names_that_another_version_lacks_are_reported(torch, recorder):
    del torch._inductor.utils.fresh_cache
    with attached(recorder):
        assert torch.log == []
    assert recorder.skips["PyTorch"].startswith("PyTorch 2.13.0 has no _inductor.utils.fresh_cache;")


def test_the_installed_pytorch_has_all_expected_names(monkeypatch):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert InductorAdapter().missing() == ""

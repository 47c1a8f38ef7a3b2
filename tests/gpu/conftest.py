"""Tests that run kernels on an NVIDIA GPU, or on the mock CUDA driver with ACCEL_MAGIC_GPU=mock."""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.gpu import frameworks, machine

REQUIRED = os.environ.get("ACCEL_MAGIC_REQUIRE_GPU") == "1"


@pytest.fixture(scope="session", autouse=True)
def gpu(tmp_path_factory):
    """The GPU; without one all tests are skipped, or fail with ACCEL_MAGIC_REQUIRE_GPU=1."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("TRITON_CACHE_DIR", "CUPY_CACHE_DIR"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name.lower())))
        try:
            with machine.opened() as found:
                gc.freeze()  # exempts the imports so far from the collection after each test
                yield found
        except machine.NoGpuError as error:
            if REQUIRED:
                pytest.fail(f"a GPU is required here, but {error}")
            pytest.skip(f"no NVIDIA GPU: {error}")


@pytest.fixture(autouse=True)
def _collected(gpu):
    """Collect garbage between tests on the mock CUDA driver: see `handover`."""
    yield
    if gpu.simulated:
        gc.collect()


@pytest.fixture(params=frameworks.FRAMEWORKS)
def framework(request, gpu):
    """Each framework that is installed and usable here."""
    found = frameworks.FRAMEWORKS[request.param]
    for name in found.needs:
        try:
            import_module(name)
        except ImportError as error:
            pytest.skip(f"{found.name} is not installed: {error}")
    if reason := found.lacks(gpu):
        pytest.skip(reason)
    return found

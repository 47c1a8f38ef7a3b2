"""The driver's functions in the lab's kernels, as listed by those kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from accel_magic.errors import ProbeError
from accel_magic.probes import libraries
from tests.support.paths import ROOT

LISTED = Path(__file__).with_name("driver_functions.txt")
DRM = ("drm_gem_close_ioctl", "drm_gem_handle_delete")


@pytest.fixture(scope="session")
def driver_functions():
    """`driver_functions["7.2"]` is {function: whether a probe can be attached}."""
    kernels = {}
    for line in LISTED.read_text().splitlines()[1:]:
        name, *places = line.split()
        for place in places:
            kernels.setdefault(place.removesuffix("-"), {})[name] = not place.endswith("-")
    return kernels


@pytest.fixture(params=["6.12", "6.18", "7.2"])
def kernel(request):
    return request.param


@pytest.fixture
def functions(driver_functions, kernel):
    """{function: whether a probe can be attached} of each kernel in turn."""
    return driver_functions[kernel]


@pytest.fixture
def machine(kernel_root, functions, monkeypatch):
    """Build a folder used as `/` of a machine with that kernel: `machine(built_in=("drm",))`.

    It has the functions and neither tracepoints nor Level Zero.
    """

    def no_library(name, _pid):
        raise ProbeError(f"there is no {name}", why="nobody knows it", code="probe.no-library")

    def build(built_in=()):
        monkeypatch.setattr(libraries, "resolve", no_library)
        lines = [f"{name} [intel_vpu]" for name, traceable in functions.items() if traceable]
        lines += [name if "drm" in built_in else f"{name} [drm]" for name in DRM]
        modules = "intel_vpu 274432 0 - Live 0x0\n" + ("" if "drm" in built_in else "drm 737280 1 - Live 0x0\n")
        root = kernel_root(kallsyms="", modules=modules, traceable="\n".join(lines) + "\n", built_in=built_in)
        (root / "sys/kernel/tracing/events/sched").mkdir(parents=True, exist_ok=True)
        return root

    return build


@pytest.fixture(scope="session")
def recorded_run():
    """Folder of data about a recorded run on a real NPU; skips if it is not available."""
    folder = ROOT.parent / "shared/data"
    if not folder.is_dir():
        pytest.skip("the recorded run is not at hand")
    return folder

"""The presets `opencl` and `hip` on mock libraries with the same functions: hits, and arguments as they were passed."""

import ctypes
import subprocess

import pytest

import accel_magic
from accel_magic.subsystems.host_api import hip, opencl

FILES = {opencl: "libOpenCL.so.1", hip: "libamdhip64.so.6"}


@pytest.fixture
def libraries(tmp_path, monkeypatch):
    """Compile and load both; every function returns 0."""
    for preset, name in FILES.items():
        source = tmp_path / f"{name}.c"
        functions = (function for calls in preset.CALLS.values() for function in calls)
        source.write_text("".join(f"int {function}(void) {{ return 0; }}\n" for function in functions))
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / name, source], check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    return [ctypes.CDLL(str(tmp_path / name)) for name in FILES.values()]


def test_calls_are_counted_exactly_and_have_their_arguments(libraries):
    cl, amd = libraries
    with accel_magic.trace("opencl", "hip") as trace:
        for _ in range(3):
            cl.clFinish(ctypes.c_long(5))
        cl.clEnqueueReadBuffer(*map(ctypes.c_long, (5, 6, 1, 0, 123, 0)))
        for number in range(5):
            amd.hipMemcpyAsync(*map(ctypes.c_long, (1, 2, 4096 + number, 1, 77)))
        amd.hipModuleLaunchKernel(*map(ctypes.c_long, (16, 8, 4, 2, 64, 32, 1, 512, 99)))
    result = trace.result

    hits = result.counts["hits"].droplevel("probe")
    assert hits[hits > 0].to_dict() == {
        "clFinish": 3,
        "clEnqueueReadBuffer": 1,
        "hipMemcpyAsync": 5,
        "hipModuleLaunchKernel": 1,
    }
    events = result.events.set_index("function")
    assert events.loc["hipMemcpyAsync", "bytes"].tolist() == [4096, 4097, 4098, 4099, 4100]
    assert events.loc["hipMemcpyAsync", "stream"].tolist() == [77] * 5
    sizes = ["grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared_bytes", "stream", "handle"]
    assert events.loc["hipModuleLaunchKernel", sizes].tolist() == [8, 4, 2, 64, 32, 1, 512, 99, 16]
    assert events.loc["clEnqueueReadBuffer", ["bytes", "queue", "blocking"]].tolist() == [123, 5, 1]

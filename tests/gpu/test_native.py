"""Each tool on a C program that uses the driver API and is started by the cell."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import accel_magic
from accel_magic.gpu_tools import TOOLS
from tests.gpu import frameworks
from tests.gpu.frameworks import SHAPES, TOOL_SHAPES, answer
from tests.gpu.test_tools import COUNTED, LAUNCHES

FRAMEWORK = frameworks.Framework("native binary", (), None)


@pytest.fixture(scope="module")
def native(gpu, tmp_path_factory):
    """Run the program on an array; returns its result."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler for the program and for the library preloaded into it")
    pytest.importorskip("cuda.bindings.nvrtc", reason="cuda-bindings is not installed")
    folder = tmp_path_factory.mktemp("native")
    program, ptx = folder / "native", folder / "work.ptx"
    subprocess.run([compiler, "-w", "-o", program, Path(__file__).with_name("native.c"), "-ldl"], check=True)
    ptx.write_bytes(frameworks.nvrtc_ptx(gpu, frameworks.CUDA_C))

    def run(shape, numbers):
        given, out = folder / "given", folder / "out"
        given.write_bytes(numbers.tobytes())
        words = [ptx, *shape.grid, *shape.block, shape.n, LAUNCHES, given, out]
        environment = {**os.environ, **gpu.environment}
        subprocess.run([program, *map(str, words)], check=True, env=environment, timeout=120)
        return np.frombuffer(out.read_bytes(), np.int32)

    return run


@pytest.mark.parametrize("shape", TOOL_SHAPES)
@pytest.mark.parametrize("tool", TOOLS)
def test_counts_are_exact_and_results_are_unchanged(native, tool, shape):
    shape = SHAPES[shape]
    numbers = np.random.default_rng(7).integers(-(1 << 31), 1 << 31, shape.n, dtype=np.int32)
    plain = native(shape, numbers)

    with accel_magic.gputrace(tool, device="cuda", host_api="off") as trace:
        traced = native(shape, numbers)

    assert np.array_equal(plain, answer(numbers))
    assert np.array_equal(traced, plain)
    result = trace.result
    (kernel,) = result.kernels[result.kernels["instrumented"]].to_dict("records")
    assert (kernel["framework"], kernel["launches"]) == (FRAMEWORK.name, LAUNCHES)
    assert result.lost == 0
    COUNTED[tool](result.tools[tool], shape, FRAMEWORK)


def test_two_programs_in_one_cell_are_distinguished(native):
    shape = SHAPES["three dimensions"]
    numbers = np.arange(shape.n, dtype=np.int32)

    with accel_magic.gputrace("kernelcount", device="cuda", host_api="off") as trace:
        for _ in range(2):
            assert np.array_equal(native(shape, numbers), answer(numbers))

    counts = trace.result.tools["kernelcount"]
    assert counts["threads"].tolist() == [LAUNCHES * shape.threads] * 2
    assert counts["pid"].nunique() == 2


def test_after_the_cell_programs_run_as_before(native):
    shape = SHAPES["many blocks"]
    numbers = np.arange(shape.n, dtype=np.int32)
    before = dict(os.environ)

    with accel_magic.gputrace("kernelcount", device="cuda", host_api="off"):
        native(shape, numbers)

    assert dict(os.environ) == before
    assert np.array_equal(native(shape, numbers), answer(numbers))

"""Cooperative launches on the simulated device, with CUDA's own headers: all blocks wait for each other."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import accel_magic
from accel_magic.devices.sim import DeviceFault
from accel_magic.errors import ProbeError
from accel_magic.gpu.adapters import nvrtc
from tests.support.errors import raises

pytestmark = pytest.mark.component

SOURCE = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void waves(int *a, int *b, int steps)
{
	cg::grid_group grid = cg::this_grid();
	int i = grid.thread_rank(), n = grid.size();
	for (int k = 0; k < steps; k++) {
		b[i] = a[(i + 1) % n] + a[(i + 97) % n];
		grid.sync();
		a[i] = b[(i + 130) % n] - i;
		grid.sync();
	}
}
"""


@pytest.fixture(scope="module")
def waves():
    spec = find_spec("nvidia")
    folders = [Path(folder) / "cu13/include" for folder in spec.submodule_search_locations or ()] if spec else []
    folder = next((folder for folder in folders if (folder / "cooperative_groups.h").is_file()), None)
    if folder is None:
        pytest.skip("CUDA's headers are not installed")
    return nvrtc.CpuKernel(nvrtc.compile(SOURCE, options=("-lineinfo", f"-I{folder}", f"-I{folder}/cccl")), "waves")


def expected(a, steps):
    i = np.arange(len(a))
    for _ in range(steps):
        b = a[(i + 1) % len(a)] + a[(i + 97) % len(a)]
        a = b[(i + 130) % len(a)] - i
    return a


@pytest.mark.parametrize(("blocks", "threads"), [(1, 32), (7, 64), (40, 33), (128, 32)])
def test_every_block_sees_what_all_others_wrote_before_the_barrier(waves, blocks, threads):
    a = np.arange(blocks * threads, dtype=np.int32) * 3
    result = expected(a, 4)
    waves.cooperative[blocks, threads](a, np.zeros_like(a), 4)
    assert a.tolist() == result.tolist()


def test_it_is_traced_like_any_other_launch(waves):
    a = np.zeros(256, np.int32)
    with accel_magic.gputrace("kernelcount", "memtrace", device="cpu") as trace:
        waves.cooperative[4, 64](a, np.zeros_like(a), 2)
    assert a.tolist() == expected(np.zeros(256, np.int32), 2).tolist()
    counted = trace.result.tools["kernelcount"].query("launches > 0")
    assert counted[["name", "launches", "warps"]].values.tolist() == [["waves", 1, 8]]


def test_the_barrier_of_the_grid_orders_accesses_of_different_blocks(waves):
    with accel_magic.gputrace("races", device="cpu") as trace:
        waves.cooperative[4, 64](np.zeros(256, np.int32), np.zeros(256, np.int32), 2)
    assert trace.result.tools["races"].empty
    assert len(trace.result.maps["events"]) > 256 * 2 * 5


def test_without_a_cooperative_launch_the_barrier_stops_the_kernel_as_on_a_gpu(waves):
    with pytest.raises(DeviceFault, match="trap"):
        waves[2, 32](np.zeros(64, np.int32), np.zeros(64, np.int32), 1)


def test_more_blocks_than_can_run_together_are_refused(waves):
    with raises("gpu.bad-launch-shape", ProbeError, match="at the same time"):
        waves.cooperative[4096, 1024](np.zeros(4, np.int32), np.zeros(4, np.int32), 1)

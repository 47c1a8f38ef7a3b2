"""What tools cost on the simulated device, in executed lines, and that warps stay together in long kernels."""

import numpy as np
import pytest

import accel_magic
from accel_magic.gpu.adapters import nvrtc
from tests.every_step import lines_run
from tests.support.thorough import choose

pytestmark = pytest.mark.component

SOURCE = """
extern "C" __global__ void products(float *out, const float *x, const float *w, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
	float sum = 0;
	for (int k = 0; k < n; k++) sum += x[i * n + k] * w[j * n + k];
	out[i * n + j] = sum;
}
extern "C" __global__ void locked(int *lock, volatile int *count)
{
	for (bool done = false; !done;)
		if (atomicCAS(lock, 0, 1) == 0) {
			*count += 1;
			__threadfence();
			atomicExch(lock, 0);
			done = true;
		}
}
extern "C" __global__ void waited(int *lock, volatile int *count)
{
	while (atomicCAS(lock, 0, 1) != 0);
	*count += 1;
	__threadfence();
	atomicExch(lock, 0);
}
"""


@pytest.fixture(scope="module")
def kernel():
    ptx = nvrtc.compile(SOURCE)
    return lambda name: nvrtc.CpuKernel(ptx, name)


def multiply(kernel, n):
    x, w, out = np.ones((n, n), np.float32), np.ones((n, n), np.float32), np.zeros((n, n), np.float32)
    kernel("products")[(n // 16, n // 16), (16, 16)](out, x, w, n)
    return out


def lines(tool, kernel, n):
    with accel_magic.gputrace(tool, device="cpu"):
        multiply(kernel, 16)  # compiles and instruments
        return lines_run(lambda: multiply(kernel, n))


def test_pagetrace_costs_at_most_three_times_memtrace(kernel):
    assert lines("pagetrace", kernel, 64) <= 3 * lines("memtrace", kernel, 64)


def test_the_tenth_module_is_loaded_with_no_more_work_than_the_second():
    source = 'extern "C" __global__ void k{}(float *x) {{ for (int i = 0; i < 9; i++) x[threadIdx.x] += x[i]; }}'
    texts = [nvrtc.compile(source.format(number)) for number in range(10)]
    with accel_magic.gputrace("memtrace", "pagetrace", device="cpu"):
        loads = [lambda text=text: nvrtc.CpuKernel(text)[1, 32](np.ones(32, np.float32)) for text in texts]
        first, second = map(lines_run, loads[:2])
        for load in loads[2:-1]:  # counting lines takes long
            load()
        tenth = lines_run(loads[-1])
    assert tenth < 1.01 * second
    assert max(second, tenth) <= first


def test_in_a_long_loop_with_diverged_programs_each_warp_makes_one_request_per_access(kernel):
    """Scattered pages make the lanes of a warp leave the program at different moments, thousands of times."""
    n = choose(64, 128)
    with accel_magic.gputrace("memtrace", "pagetrace", device="cpu") as trace:
        out = multiply(kernel, n)
    assert (out == n).all()
    accesses = trace.result.tools["memtrace"]
    warps = n * n // 32
    assert accesses.groupby("operation")["requests"].sum().to_dict() == {"load": warps * 2 * n, "store": warps}
    assert (accesses["lanes"] == 32 * accesses["requests"]).all()
    # By one of its requests, a warp accesses a page at most once.
    touches = trace.result.maps["touches"]
    x, y = touches["thread"] % n, touches["thread"] // n
    warp = y // 16 * 1000 + x // 16 * 100 + (y % 16 * 16 + x % 16) // 32
    most = touches.groupby(["site", warp, "page"]).size().groupby("site").max()
    assert (most == (accesses.set_index("site")["requests"] / warps)[most.index]).all()


@pytest.mark.parametrize("tool", ["kernelcount", "memtrace", "pagetrace", "races"])
@pytest.mark.parametrize("name", ["locked", "waited"])
def test_a_lock_that_the_lanes_of_a_warp_contend_for_is_released_under_each_tool(kernel, tool, name):
    count, lanes = np.zeros(1, np.int32), choose(16, 32)
    with accel_magic.gputrace(tool, device="cpu") as trace:
        kernel(name)[1, lanes](np.zeros(1, np.int32), count)
    assert count[0] == lanes
    assert trace.result.lost == 0

"""The tool `pagetrace` and the page traces made from it: kernels write down the addresses that they access."""

import numpy as np
import pandas as pd
import pytest

import accel_magic
from accel_magic.errors import ResultError
from tests.support.errors import raises

KERNELS = r"""
extern "C" __global__ void gather(const int *in, unsigned long long *seen, int stride, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long read = 0, wrote = 0;
    for (int k = 0; k < rounds; k++) {
        const int *from = in + i * stride + k;
        unsigned long long *to = seen + 2 * i;
        read = (unsigned long long)from;
        wrote = (unsigned long long)to;
        *to = read + *(volatile const int *)from;
    }
    seen[2 * i + 1] = wrote;
}
extern "C" __global__ void count(int *out) {
    __shared__ int part[32];
    part[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (part[threadIdx.x] % 2) atomicAdd(out, 1);
}
"""
PAGE = 4096


@pytest.fixture(scope="module")
def kernel():
    nvrtc = pytest.importorskip("accel_magic.gpu.adapters.nvrtc")
    ptx = nvrtc.compile(KERNELS)
    return lambda name: nvrtc.CpuKernel(ptx, name)


def traced(run):
    with accel_magic.gputrace("pagetrace", device="cpu") as trace:
        run()
    assert trace.result.lost == 0
    return trace.result


@pytest.mark.parametrize(("stride", "rounds"), [(1, 1), (512, 1), (512, 3), (2048, 2), (0, 4)])
def test_each_request_of_a_warp_is_an_access_to_each_of_its_pages(kernel, stride, rounds):
    given, seen = np.zeros(96 * 2048 + 8, np.int32), np.zeros(2 * 96, np.uint64)

    table = traced(lambda: kernel("gather")[3, 32](given, seen, stride, rounds)).tools["pagetrace"]

    read = np.sort(seen.reshape(3, 32, 2)[:, :, 0], axis=1)  # by warp, in the last round
    last = np.unique(read // PAGE)
    pages = [len(np.unique((read[warp] - 4 * (rounds - 1 - k)) // PAGE)) for warp in range(3) for k in range(rounds)]
    loads, stores = table[~table["write"]], table[table["write"]]
    assert len(loads) == sum(pages)
    assert set(last) <= set(loads["page"]) <= set(np.concatenate([last, last - 1]))
    wrote = seen[1::2] // PAGE
    assert set(stores["page"]) == set(wrote)
    assert set(table["name"]) == {"gather"}
    assert (table["launch"] == 0).all()


def test_shared_memory_has_no_pages_and_atomic_operations_write(kernel):
    table = traced(lambda: kernel("count")[2, 32](np.zeros(1, np.int32))).tools["pagetrace"]

    assert table["write"].tolist() == [True, True]
    assert len(set(table["page"])) == 1


def test_a_recording_becomes_a_page_trace_that_says_its_device(kernel, tmp_path):
    def run():
        for _ in range(2):
            kernel("gather")[1, 32](np.zeros(32 * 512, np.int32), np.zeros(64, np.uint64), 512, 1)
        kernel("count")[1, 32](np.zeros(1, np.int32))

    result = traced(run)

    trace = result.pages
    table = result.tools["pagetrace"]
    assert trace.page.tolist() == table["page"].tolist()
    assert trace.write.tolist() == table["write"].tolist()
    assert trace.launch.tolist() == table["launch"].tolist()
    assert sorted(set(trace.launch.tolist())) == [0, 1, 2]
    assert [trace.kernels[code] for code in trace.kernel] == table["name"].tolist()
    assert trace.source == "recorded by %%gputrace pagetrace on CPU device (simulated)"
    assert accel_magic.open(trace.save(tmp_path / "t.parquet")) == trace
    assert accel_magic.open(result.to_parquet(tmp_path / "r.parquet")).pages == trace


def test_a_figure_shows_the_accesses_by_block(kernel):
    result = traced(lambda: kernel("count")[2, 32](np.zeros(1, np.int32)))

    assert result.figure("pagetrace") is not None


def test_a_trace_without_the_tool_has_no_pages(kernel):
    with accel_magic.gputrace("kernelcount", device="cpu") as trace:
        kernel("count")[1, 32](np.zeros(1, np.int32))

    with raises("pages.not-recorded", ResultError):
        trace.result.pages  # noqa: B018 - raises


def test_a_cell_without_accesses_gives_an_empty_trace():
    trace = traced(lambda: None)

    assert len(trace.pages) == 0
    assert isinstance(trace.pages.frame(), pd.DataFrame)

"""The tool `pagetrace` and the page traces made from it: kernels write down the addresses that they access."""

import numpy as np
import pandas as pd
import pytest

import accel_magic
from accel_magic.errors import ResultError
from accel_magic.gpu.adapters import nvrtc
from accel_magic.policies import recorded
from tests.support.errors import raises

pytestmark = pytest.mark.component

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
    assert trace.source == "recorded by %%gputrace pagetrace on simulated device"
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


AHEAD = """
#include "accel_gpu.h"
char LICENSE[] SEC("license") = "GPL";
GPU_PREFETCH_REQUESTS(1 << 20);
SEC("gpu.warp/load") int ahead(struct gpu_ctx *ctx) { gpu_mem_prefetch(ctx, ctx->address + 8192, BYTES); return 0; }
"""


@pytest.mark.parametrize("size", [1, 4096, 4097, 3 * 4096])
def test_prefetch_requests_are_accesses_before_those_of_the_kernel(kernel, tmp_path, size):
    program = tmp_path / "ahead.bpf.c"
    program.write_text(AHEAD.replace("BYTES", str(size)))
    given, seen = np.zeros(32 * 4096, np.int32), np.zeros(2 * 32, np.uint64)
    with accel_magic.gputrace(str(program), "pagetrace", device="cpu") as trace:
        kernel("gather")[1, 32](given, seen, 0, 6)
    table, trace = trace.result.tools["pagetrace"], trace.result.pages
    first = int(seen[0]) - 4 * 5  # the address that the kernel loads from first, in all lanes
    asked = [first + 4 * k + 8192 for k in range(6)]
    requests = trace.frame().query("origin == 'prefetch request'")
    assert (requests["block"].astype(int) * 512 + requests["page"]).tolist() == [
        page for address in asked for page in range(address // PAGE, (address + size - 1) // PAGE + 1)
    ]
    assert not requests["write"].any()
    assert len(trace) == len(table) + len(requests)
    # Without the requests, the trace is the kernel's own.
    own = trace.frame().query("origin == 'access'")
    assert (own["block"].astype(int) * 512 + own["page"]).tolist() == table["page"].tolist()
    # A request for the page that is loaded next comes right before it.
    assert trace.frame()["origin"].iloc[0] == "prefetch request"
    path = trace.save(tmp_path / "pages.parquet")
    assert accel_magic.open(path) == trace
    result = accel_magic.gpupolicy("lru", trace, memory=4)
    by = result.by("origin").query("policy == 'lru'").set_index("origin")
    total = by[["hits", "faults", "misses"]].sum(axis=1)
    assert total.to_dict() == {"access": len(table), "prefetch request": len(requests)}
    assert result.optimum <= result.counts.loc["lru", "misses"]


def test_requests_beyond_the_address_space_or_of_absurd_sizes_do_no_harm():
    table = pd.DataFrame({"launch": [0], "name": ["k"], "page": [7], "write": [True]})
    asked = pd.DataFrame(
        {
            "access": pd.array([0, 0, 1, pd.NA], "Int64"),
            "launch": 0,
            "name": "k",
            "address": np.array([2**64 - 4096, 0, 8192, 0], np.uint64),
            "bytes": np.array([2**63, 2**64 - 1, 4096, 1], np.uint64),
        }
    )
    made = recorded.trace_of(table, asked, "a device")
    assert made.page.tolist() == [2**52 - 1, 7, 2]
    assert "without 1 prefetch requests" in made.source
    assert recorded.trace_of(table, asked.iloc[[2, 3]], "a device").page.tolist() == [7, 2]
    assert recorded.trace_of(table, asked.iloc[:0], "a device").origins == ()

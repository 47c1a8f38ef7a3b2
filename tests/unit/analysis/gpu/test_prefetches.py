"""Prefetch requests of GPU programs, compared with the addresses that the kernel itself reports."""

import numpy as np
import pytest

import accel_magic
from accel_magic.gpu import programs
from accel_magic.gpu.adapters import nvrtc

pytestmark = pytest.mark.component

SOURCE = r"""
extern "C" __global__ void strided(const char *in, unsigned long long *where, int stride) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    where[i] = (unsigned long long)&in[i * stride] + in[i * stride];
}
extern "C" __global__ void other(const char *in, unsigned long long *where, int stride) {
    where[threadIdx.x] = (unsigned long long)&in[threadIdx.x * stride] + in[threadIdx.x * stride];
}
"""
HEAD = '#include "accel_gpu.h"\nchar LICENSE[] SEC("license") = "GPL";\nu64 made, refused;\n'
AHEAD = """
GPU_PREFETCH_REQUESTS({ring});
SEC("gpu/load") int ahead(struct gpu_ctx *ctx)
{{
	__sync_fetch_and_add(&made, 1);
	if (gpu_mem_prefetch(ctx, ctx->address + {after}, 5000) < 0)
		__sync_fetch_and_add(&refused, 1);
	return 0;
}}
"""
COLUMNS = ["time_ns", "launch", "name", "block", "address", "bytes", "kernel", "site", "program", "access"]
LAUNCH_NS = 2_000
"""From a launch to its first instruction, on the simulated device."""


@pytest.fixture(scope="module")
def ptx():
    return nvrtc.compile(SOURCE)


@pytest.fixture
def program(tmp_path):
    def write(text, name="ahead"):
        path = tmp_path / f"{name}.bpf.c"
        path.write_text(HEAD + text)
        return str(path)

    return write


STEPS = r"""
extern "C" __global__ void steps(volatile const char *in, int steps) {
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    for (int k = 0; k < steps + warp % 3; k++) in[(warp * 8 + k) * 4096];
}
extern "C" __global__ void none(volatile const char *in, int steps) { }
"""
"""Each warp loads from pages of its own, one after the other."""


@pytest.mark.parametrize("first", [False, True], ids=["pagetrace first", "request first"])
def test_a_request_is_made_before_the_next_access_of_its_warp(program, first):
    text = """
    GPU_PREFETCH_REQUESTS(1 << 16);
    SEC("gpu.warp/load") int ahead(struct gpu_ctx *ctx) { gpu_mem_prefetch(ctx, ctx->address, 1); return 0; }
    SEC("gpu.warp/exit") int last(struct gpu_ctx *ctx) { gpu_mem_prefetch(ctx, gpu_thread_number(), 2); return 0; }
    """
    names, ptx = [program(text), "pagetrace"], nvrtc.compile(STEPS)
    data, threads = np.zeros(8 * 16 * 4096, np.int8), 64
    with accel_magic.gputrace(*(names if first else names[::-1]), device="cpu") as trace:
        for kernel, steps in (("steps", 3), ("none", 0), ("steps", 1)):
            nvrtc.CpuKernel(ptx, kernel)[3, threads](data, steps)

    pages = trace.result.tools["pagetrace"]
    ours = trace.result.prefetches
    base = int(pages["page"].min())
    key = pages.assign(warp=(pages["page"] - base) // 8)  # each launch has the same addresses
    assert len(pages) == len(ours[ours["bytes"] == 1]) == (6 * 3 + 6) + (6 * 1 + 6)
    for request in ours.to_dict("records"):
        launch, at = request["launch"], request["access"]
        if request["bytes"] == 1:
            page = request["address"] >> 12
            own = key[(key["launch"] == launch) & (key["warp"] == (page - base) // 8)]
            (row,) = own.index[own["page"] == page]
            later = own.index[own.index > row]
            assert at == (row if first else later[0] if len(later) else row + 1)
        elif launch == 1:
            assert at == key.index[key["launch"] == 2].min()
        else:
            own = key[(key["launch"] == launch) & (key["warp"] == request["address"] // 32)]
            assert at == own.index.max() + 1


def run(ptx, *names, launches=(("strided", 3, 40, 4096),)):
    """Trace launches; returns the result and the addresses that each launch loads from, by thread."""
    loaded = []
    with accel_magic.gputrace(*names, device="cpu") as trace:
        for name, blocks, threads, stride in launches:
            where = np.zeros(blocks * threads, np.uint64)
            data = np.zeros(blocks * threads * stride, np.int8)
            nvrtc.CpuKernel(ptx, name)[blocks, threads](data, where, stride)
            loaded.append(where.tolist())
    return trace.result, loaded


def test_every_request_is_a_row_with_its_launch_kernel_block_and_range(ptx, program):
    launches = (("strided", 3, 40, 4096), ("other", 1, 32, 8), ("strided", 2, 33, 16))
    result, loaded = run(ptx, program(AHEAD.format(ring="1 << 20", after=4096)), launches=launches)

    found = result.prefetches
    assert list(found.columns) == COLUMNS
    expected = {
        (launch, name, thread // threads, address + 4096)
        for launch, ((name, _, threads, _), addresses) in enumerate(zip(launches, loaded, strict=True))
        for thread, address in enumerate(addresses)
    }
    rows = list(zip(found["launch"], found["name"], found["block"], found["address"], strict=True))
    assert len(rows) == len(expected) == 120 + 32 + 66
    assert set(rows) == expected
    assert set(found["bytes"]) == {5000}
    assert set(found["program"]) == {"ahead.bpf.c"}
    of = result.launches.loc[found["launch"]].reset_index(drop=True)
    assert (found["kernel"] == of["kernel"]).all()
    assert (result.sites.set_index("site")["kernel"].loc[found["site"]].to_numpy() == found["kernel"]).all()
    after = found["time_ns"] - of["time_ns"]
    assert after.between(LAUNCH_NS, LAUNCH_NS + of["device_ns"].astype("int64")).all()


def test_requests_that_do_not_fit_are_counted(ptx, program):
    result, _ = run(ptx, program(AHEAD.format(ring="4096", after=0)), launches=[("strided", 2, 1024, 1)])

    counts = result.maps[".bss"].iloc[0]
    assert counts["made"] == 2048
    assert 0 < len(result.prefetches) < 2048
    assert len(result.prefetches) + result.lost == 2048
    assert counts["refused"] == result.lost


def test_programs_for_blocks_can_request_too_and_files_are_told_apart(ptx, program):
    text = """
    GPU_PREFETCH_REQUESTS(1 << 16);
    SEC("gpu/block_enter") int enter(struct gpu_block_ctx *ctx)
    {
        gpu_mem_prefetch(ctx, ctx->block << 21, 1 << 21);
        return 0;
    }
    """
    result, loaded = run(ptx, program(AHEAD.format(ring="1 << 16", after=1)), program(text, "blocks"))

    blocks = result.prefetches[result.prefetches["program"] == "blocks.bpf.c"]
    assert blocks[["launch", "block", "address", "bytes"]].values.tolist() == [
        [0, block, block << 21, 1 << 21] for block in range(3)
    ]
    others = result.prefetches[result.prefetches["program"] == "ahead.bpf.c"]
    assert sorted(others["address"]) == sorted(address + 1 for address in loaded[0])


def test_a_trace_without_requests_has_an_empty_table_of_the_same_columns(ptx, program):
    never = "if (ctx->size == 77) gpu_mem_prefetch(ctx, 1, 1);"
    none = program(f'GPU_PREFETCH_REQUESTS(4096); SEC("gpu/load") int f(struct gpu_ctx *ctx) {{ {never} return 0; }}')
    some, _ = run(ptx, program(AHEAD.format(ring="1 << 16", after=0), "some"))
    for names in (["kernelcount"], [none]):
        result, _ = run(ptx, *names)
        assert list(result.prefetches.columns) == COLUMNS
        assert len(result.prefetches) == 0
        assert (result.prefetches.dtypes == some.prefetches.dtypes).all()


def test_requests_are_in_saved_recordings(ptx, program, tmp_path):
    result, _ = run(ptx, program(AHEAD.format(ring="1 << 16", after=0)))
    again = accel_magic.open(result.to_parquet(tmp_path / "g.parquet"))
    assert len(again.prefetches) == 120
    assert again.prefetches.equals(result.prefetches)
    assert again.prefetches["access"].isna().all()


def test_the_verifier_has_nothing_to_say_about_requests(program):
    (source,) = programs.load([program(AHEAD.format(ring="1 << 16", after=0))])
    assert [one.verdict.findings for one in source.gpu] == [()]

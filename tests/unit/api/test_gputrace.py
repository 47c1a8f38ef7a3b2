"""GPU programs on the simulated device: counts compared with what the kernels do."""

import itertools
import os
import signal
import threading

import numpy as np
import pytest

import accel_magic
from accel_magic.c_programs import bpf_folder
from accel_magic.errors import MachineError, ProbeError, ProgramError, TraceStateError
from accel_magic.gpu.adapters import nvrtc
from accel_magic.gpu_tools import TOOLS
from accel_magic.gpu_tools.common import STRIPES

pytestmark = pytest.mark.component

SOURCE = r"""
extern "C" __global__ void add(const float *a, const float *b, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}
extern "C" __global__ void cube(int *out) {
    int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    out[block * (blockDim.x * blockDim.y * blockDim.z) + thread] += 1;
}
extern "C" __global__ void strided(const float *in, float *out, int stride) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i * stride];
}
__device__ __noinline__ int mixed(int v) { for (int k = 0; k < 5; k++) v = v * 1664525 + 1013904223; return v; }
extern "C" __global__ void thirds(int *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i % 3 == 0) out[i] = mixed(i);
}
extern "C" __global__ void reduced(const int *in, int *out) {
    __shared__ int part[128];
    part[threadIdx.x] = in[blockIdx.x * 128 + threadIdx.x];
    __syncthreads();
    for (int step = 64; step; step /= 2) {
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(out, part[0]);
}
"""


@pytest.fixture(scope="module")
def kernel():
    ptx = nvrtc.compile(SOURCE)
    return lambda name: nvrtc.CpuKernel(ptx, name)


def traced(*tools, run, **options):
    with accel_magic.gputrace(*tools, **options) as trace:
        run()
    return trace.result


def floats(count):
    return np.arange(count, dtype=np.float32)


def test_every_thread_of_a_grid_of_three_dimensions_is_counted_once_per_launch(kernel):
    grid, block = (3, 2, 2), (8, 5, 2)
    out = np.zeros(12 * 80, np.int32)

    def run():
        for _ in range(3):
            kernel("cube")[grid, block](out)

    result = traced("threadhist", "kernelcount", run=run)

    threads = result.tools["threadhist"]
    assert threads["thread"].tolist() == list(range(960))
    assert set(threads["runs"]) == {3}
    assert (threads["cycles"] > 0).all()
    # Numbered row by row over the whole grid: 24 threads wide, 10 high, 4 deep, in blocks of 8, 5 and 2.
    places = [
        (x // 8 + 3 * (y // 5 + 2 * (z // 2)), (x % 8 + 8 * (y % 5 + 5 * (z % 2))) // 32)
        for z, y, x in itertools.product(range(4), range(10), range(24))
    ]
    assert list(zip(threads["block"], threads["warp"], strict=True)) == places
    # 80 threads are three warps, the last of them half full.
    counts = result.tools["kernelcount"][["launches", "warps", "threads"]]
    assert counts.values.tolist() == [[3, 3 * 12 * 3, 3 * 960]]
    assert (out == 3).all()


def test_blocks_and_warps_of_threads_are_known_if_all_launches_of_a_kernel_have_one_shape(kernel):
    def run():
        for grid in (2, 3):  # of one dimension: they are numbered the same
            kernel("cube")[grid, 40](np.zeros(120, np.int32))

    threads = traced("threadhist", run=run).tools["threadhist"]
    assert list(zip(threads["block"], threads["warp"], strict=True)) == [(t // 40, t % 40 // 32) for t in range(120)]

    def run_several():
        for block in (32, 64):
            kernel("cube")[2, block](np.zeros(128, np.int32))

    threads = traced("threadhist", run=run_several).tools["threadhist"]
    assert threads["thread"].tolist() == list(range(128))
    assert threads[["block", "warp"]].isna().all(axis=None)


def test_tables_are_made_even_if_several_kernels_could_not_be_instrumented(kernel):
    with accel_magic.gputrace("kernelcount", device="cpu") as trace:
        for name in ("one", "another"):
            trace.attached.instrumenter.skipped(name, "it carries no PTX")
        kernel("cube")[1, 32](np.zeros(32, np.int32))

    counts = trace.result.tools["kernelcount"]
    assert counts[["name", "launches", "warps", "threads"]].values.tolist() == [["cube", 1, 1, 32]]


def test_counters_of_all_multiprocessors_and_partial_warps_add_up(kernel):
    out = np.zeros(11 * 40, np.int32)

    result = traced("kernelcount", "memtrace", run=lambda: kernel("cube")[11, 40](out))

    counts = result.maps["kernels"].query("warps > 0")
    assert (counts["key"] % 32).tolist() == [0, 1, 2, 3]  # the device has four multiprocessors
    assert counts["warps"].sum() == 22
    assert counts["idle"].sum() == 11 * 24
    assert result.tools["kernelcount"][["warps", "threads"]].values.tolist() == [[22, 440]]
    accesses = result.tools["memtrace"].query("space == 'global'")
    assert set(zip(accesses["requests"], accesses["lanes"], strict=True)) == {(22, 440)}


def test_the_number_of_stripes_matches_the_header():
    header = (bpf_folder() / "gpu/accel_gpu.h").read_text()

    assert f"#define GPU_STRIPES {STRIPES}\n" in header


def launched_as(kernel, *numbers):
    """Trace launches with these numbers of the device."""
    with accel_magic.gputrace("launchlate", device="cpu") as trace:
        for number in numbers:
            trace.attached.memory.device._launches = number - 1
            kernel("cube")[3, 64](np.zeros(192, np.int32))
    return trace.result


FENCING = r"""
extern "C" __global__ void fencing(unsigned *out, unsigned *fences, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < i % n; k++) {
        out[i] = k;
        __threadfence();
        atomicAdd(&fences[0], 1u);
        if (i % 2) { __threadfence_block(); atomicAdd(&fences[1], 1u); }
    }
    if (i == 3) { __threadfence_system(); atomicAdd(&fences[2], 1u); }
    __syncthreads();
}
extern "C" __global__ void plain(unsigned *out) { __threadfence(); out[threadIdx.x] = 1; }
"""
FENCES = """
#include "accel_gpu.h"
GPU_MAP(threads, BPF_MAP_TYPE_GPU_ARRAY, u32, u64, 16);
GPU_MAP(warps, BPF_MAP_TYPE_GPU_ARRAY, u32, u64, 16);
static __always_inline int add(void *map, u32 site, u64 by)
{
	u64 *count = bpf_map_lookup_elem(map, &site);
	if (count)
		__sync_fetch_and_add(count, by);
	return 0;
}
SEC("gpu/fence/fenc*")
int each(struct gpu_ctx *ctx) { return add(&threads, ctx->site, 1); }
SEC("gpu.warp/fence/fenc*")
int leader(struct gpu_ctx *ctx) { return add(&warps, ctx->site, __builtin_popcount(ctx->active)); }
char LICENSE[] SEC("license") = "GPL";
"""


def test_a_program_at_fences_runs_as_often_as_the_kernel_counts_itself(tmp_path):
    source, ptx = tmp_path / "fences.bpf.c", nvrtc.compile(FENCING)
    source.write_text(FENCES)
    out, fences = np.zeros(3 * 70, np.uint32), np.zeros(3, np.uint32)

    def run():
        nvrtc.CpuKernel(ptx, "fencing")[3, 70](out, fences, 7)
        nvrtc.CpuKernel(ptx, "plain")[1, 32](np.zeros(32, np.uint32))

    result = traced(str(source), run=run)

    threads = np.arange(210)
    assert fences.tolist() == [(threads % 7).sum(), (threads % 7)[1::2].sum(), 1]  # as the source says
    sites = result.sites
    assert set(sites["where"]) == {"before a memory fence"}
    kinds = sites["instruction"].str.extract(r"(\.cta|\.gl|\.gpu|\.sys)")[0].map({".cta": 1, ".sys": 2}).fillna(0)
    for name in ("threads", "warps"):
        count = result.maps[name].set_index(result.maps[name].columns[0])["value"]
        got = [int(count.reindex(sites["site"][kinds == kind]).sum()) for kind in range(3)]
        assert got == fences.tolist()
    assert "before a memory fence of fenc*, per warp" in repr(accel_magic.gputrace(str(source)).examine())


def test_launches_are_reported_after_any_number_of_earlier_launches(kernel):
    result = launched_as(kernel, 16_383, 16_384, 70_000)

    table = result.tools["launchlate"]
    assert table["launch"].tolist() == [0, 1, 2]
    assert (table["late_ns"] > 0).all()
    assert result.lost == 0


def test_of_two_launches_with_one_entry_the_first_is_reported_and_the_other_counted_as_lost(kernel):
    result = launched_as(kernel, 5, 5 + 16_384)

    assert result.tools["launchlate"]["launch"].tolist() == [0]
    assert result.lost == 6  # warps


def test_threads_beyond_a_maps_size_are_counted_exactly_as_lost(kernel):
    out = np.zeros(256, np.int32)

    result = traced("threadhist", run=lambda: kernel("cube")[2, 128](out), threads=100)

    assert result.tools["threadhist"]["thread"].tolist() == list(range(100))
    assert result.lost == 2 * 156  # at the entry and at the exit
    assert "312 lost" in repr(result)
    assert (out == 1).all()


@pytest.mark.parametrize("stride", [1, 2, 3, 8, 33])
def test_sectors_are_those_touched_by_a_warps_addresses(kernel, stride):
    count = 128
    given = floats(count * stride)

    result = traced("memtrace", run=lambda: kernel("strided")[2, 64](given, floats(count), stride))

    table = result.tools["memtrace"].set_index("operation")
    addresses = 4 * stride * np.arange(count)  # allocations begin at a sector
    warps = [len(set(warp // 32)) for warp in addresses.reshape(-1, 32)]
    load, store = table.loc["load"], table.loc["store"]
    assert (load["requests"], load["lanes"], load["sectors"]) == (4, 128, sum(warps))
    assert (store["requests"], store["lanes"], store["sectors"]) == (4, 128, 16)
    assert (load["line"], load["space"], load["bytes"], load["passes"]) == (13, "global", 4, 0)
    assert result.diagnose().items == ()  # too few requests
    assert result.figure("memtrace") is not None


BANKS = r"""
template <typename T> __device__ void through(const T *in, T *out, int stride) {
    extern __shared__ __align__(16) char room[];
    T *tile = (T *)room;
    for (int k = threadIdx.x; k < 32 * stride; k += 32) tile[k] = in[k];
    __syncwarp();
    if (threadIdx.x < 29) out[threadIdx.x] = tile[threadIdx.x * stride];
}
#define KERNEL(name, T) \
    extern "C" __global__ void name(const T *in, T *out, int stride) { through(in, out, stride); }
KERNEL(halves, unsigned short)
KERNEL(words, float)
KERNEL(pairs, float2)
KERNEL(fours, float4)
extern "C" __global__ void matrices(int *out) {
    __shared__ __align__(16) int tile[32 * 32];
    for (int k = threadIdx.x; k < 32 * 32; k += 32) tile[k] = k;
    __syncwarp();
    unsigned at = __cvta_generic_to_shared(tile + 32 * threadIdx.x), a, b, c, d, e;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(e) : "r"(at));
    out[threadIdx.x] = a + b + c + d + e;
}
"""


@pytest.fixture(scope="module")
def banks():
    ptx = nvrtc.compile(BANKS)
    return lambda name: nvrtc.CpuKernel(ptx, name)


@pytest.mark.parametrize(("name", "bytes_"), [("halves", 2), ("words", 4), ("pairs", 8), ("fours", 16)])
@pytest.mark.parametrize("stride", [2, *(pytest.param(n, marks=pytest.mark.thorough) for n in (1, 3, 8, 32)), 33])
def test_passes_follow_from_the_banks_of_shared_memory(banks, name, bytes_, stride):
    given = np.arange(32 * stride * bytes_, dtype=np.uint8)
    out = np.zeros(32 * bytes_, np.uint8)

    result = traced("memtrace", run=lambda: banks(name)[16, 32, 32 * stride * bytes_](given, out, stride))

    table = result.tools["memtrace"].query("space == 'shared'").set_index("operation")
    parts = np.arange(32).reshape(-1, min(32, 128 // bytes_))
    words = [
        {(lane * stride * bytes_ + byte) // 4 for lane in part if lane < 29 for byte in range(bytes_)} for part in parts
    ]
    passes = sum(np.unique([word % 32 for word in each], return_counts=True)[1].max() for each in words)
    load, store = table.loc["load"], table.loc["store"]
    assert (load["requests"], load["lanes"], load["sectors"], load["bytes"]) == (16, 16 * 29, 0, bytes_)
    assert (load["passes"], load["fewest"], load["per_request"]) == (16 * passes, 16 * len(parts), passes)
    assert load["ratio"] == passes / len(parts)
    assert store["passes"].sum() == store["fewest"].sum() == 16 * stride * len(parts)
    found = [finding.id for finding in result.diagnose()]
    assert result.figure("memtrace") is not None
    assert ("banks-conflict" in found) == (passes >= 2 * len(parts))
    assert (out[: 29 * bytes_].reshape(29, bytes_) == given.reshape(32, -1)[:29, :bytes_]).all()


def test_occasional_conflicts_are_not_a_finding(banks):
    given, out = floats(64), floats(32)

    def run():
        for stride in (1, 1, 1, 2):
            banks("words")[16, 32, 64 * 4](given, out, stride)

    result = traced("memtrace", run=run)

    load = result.tools["memtrace"].query("space == 'shared' and operation == 'load'").iloc[0]
    assert (load["requests"], load["passes"], load["ratio"]) == (64, 80, 1.25)
    assert result.diagnose().items == ()


def test_a_load_of_four_matrices_takes_a_pass_for_each_row_with_a_bank_conflict(banks):
    result = traced("memtrace", run=lambda: banks("matrices")[8, 32](np.zeros(32, np.int32)))

    four, one = (
        result.tools["memtrace"].query("operation == 'load'").sort_values("bytes", ascending=False).to_dict("records")
    )
    # Rows of 16 bytes, 128 bytes apart: the eight of each matrix have the same banks.
    assert (four["bytes"], four["requests"], four["passes"], four["ratio"]) == (16, 8, 8 * 32, 8)
    assert (one["bytes"], one["requests"], one["passes"]) == (4, 8, 0)
    assert np.isnan(one["ratio"])
    (found,) = result.diagnose()
    assert (found.id, found.evidence["requests"]) == ("banks-conflict", 8)


def test_a_branch_diverges_in_the_one_warp_at_the_edge(kernel):
    n = 1000

    result = traced("branchdiv", run=lambda: kernel("add")[8, 128](floats(n), floats(n), floats(n), n))

    (row,) = result.tools["branchdiv"].to_dict("records")
    assert (row["name"], row["line"], row["warps"], row["split"], row["lanes"]) == ("add", 4, 32, 1, 1024)
    assert row["taken"] in (n, 1024 - n)  # the compiler may invert the condition


def test_calls_of_a_device_function_are_counted_in_every_calling_lane(kernel):
    out = np.zeros(256, np.int32)

    result = traced("funclat", run=lambda: kernel("thirds")[2, 128](out))

    (row,) = result.tools["funclat"].to_dict("records")
    assert "mixed" in row["name"]
    assert row["calls"] == len(range(0, 256, 3))
    assert row["cycles"] == row["calls"] * row["mean_cycles"] > 0


POINTERS = r"""
__device__ __noinline__ int one(int v) { return v + 1; }
__device__ __noinline__ int two(int v) { return v * 2; }
typedef int (*Function)(int);
__device__ Function table[2] = {one, two};
extern "C" __global__ void wanted(int *out) { out[threadIdx.x] = table[threadIdx.x % 2](threadIdx.x) + one(7); }
extern "C" __global__ void other(int *out) { out[threadIdx.x] = table[threadIdx.x % 2](threadIdx.x) + one(9); }
"""


def test_only_the_traced_kernels_calls_of_shared_functions_count_and_the_rest_is_reported():
    ptx, out = nvrtc.compile(POINTERS), np.zeros(32, np.int32)

    def run():
        for name in ("wanted", "other"):
            nvrtc.CpuKernel(ptx, name)[1, 32](out)

    result = traced("funclat", run=run, kernel="wanted")

    # Calls through the table cannot be distinguished from the other kernel's.
    assert result.tools["funclat"]["calls"].tolist() == [32]
    (reason,) = result.kernels.query("name == 'wanted'")["reason"]
    assert reason.count("not instrumented: calls of ") == 2
    assert "through its address" in reason
    assert "through its address" in str(result)
    assert out.tolist() == [v + 1 + 10 if v % 2 == 0 else 2 * v + 10 for v in range(32)]


def test_every_thread_exits_and_every_warp_and_block_is_placed_once(kernel):
    def run():
        for _ in range(2):
            kernel("cube")[(2, 3), 40](np.zeros(240, np.int32))

    result = traced("kernelretsnoop", "warpmap", "blocktime", run=run)

    exits, warps, blocks = (result.tools[name] for name in ("kernelretsnoop", "warpmap", "blocktime"))
    each = list(itertools.product(range(2), range(240)))
    assert sorted(zip(exits["launch"], exits["thread"], strict=True)) == each
    assert (exits["lane"] == exits["thread"] % 40 % 32).all()
    assert sorted(zip(warps["launch"], warps["block"], warps["warp"], warps["lanes"], strict=True)) == [
        (launch, block, warp, lanes) for launch in range(2) for block in range(6) for warp, lanes in enumerate((32, 8))
    ]
    assert sorted(zip(blocks["launch"], blocks["block"], strict=True)) == list(itertools.product(range(2), range(6)))
    assert (blocks["start_ns"] < blocks["end_ns"]).all()
    homes = warps.groupby(["launch", "block"])["sm"].agg(["min", "max"]).reset_index()
    both = blocks.merge(homes, on=["launch", "block"])
    assert (both["sm"] == both["min"]).all()
    assert (both["sm"] == both["max"]).all()


def test_launches_begin_after_the_request_and_within_their_call(kernel):
    def run():
        for n in (32, 64, 96):
            kernel("add")[1, n](floats(n), floats(n), floats(n), n)

    result = traced("launchlate", run=run)

    launches, late = result.launches, result.tools["launchlate"]
    assert launches["block_x"].tolist() == [32, 64, 96]
    assert late["launch"].tolist() == [0, 1, 2]
    assert (late["late_ns"] >= 2000).all()  # the model's launch overhead
    assert (launches["time_ns"].diff().dropna() > 0).all()
    assert (launches["device_ns"] > 0).all()


@pytest.mark.parametrize("tool", TOOLS)
def test_kernels_compute_the_same_with_and_without_each_tool(kernel, tool):
    rng = np.random.default_rng(5)
    numbers, n = rng.integers(-1000, 1000, 512, dtype=np.int32), 300
    a, b = rng.random(n, np.float32), rng.random(n, np.float32)

    def run():
        summed, total, mixed = np.zeros(n, np.float32), np.zeros(1, np.int32), np.zeros(256, np.int32)
        kernel("add")[5, 64](a, b, summed, n)
        kernel("reduced")[4, 128](numbers, total)
        kernel("thirds")[2, 128](mixed)
        return summed, total, mixed

    results = []
    traced(tool, run=lambda: results.append(run()))

    for ours, plain in zip(results[0], run(), strict=True):
        assert ours.tobytes() == plain.tobytes()
    assert np.array_equal(results[0][0], a + b)
    assert results[0][1][0] == numbers.sum()


def test_only_matching_kernels_are_traced(kernel):
    def run():
        kernel("cube")[1, 32](np.zeros(32, np.int32))
        kernel("thirds")[1, 32](np.zeros(32, np.int32))

    result = traced("kernelcount", run=run, kernel="thi*")

    assert result.tools["kernelcount"]["name"].tolist() == ["thirds"]
    kernels = result.kernels.set_index("name")
    assert (kernels.loc["cube", "reason"], kernels.loc["cube", "launches"]) == ("not selected", 1)
    assert kernels.loc["thirds", "instrumented"]


SHARED_COUNT = """\
#include "accel_gpu.h"

GPU_MAP(count, BPF_MAP_TYPE_GPU_ARRAY, u32, u64, 1);

SEC("gpu/entry")
int enter(struct gpu_ctx *ctx)
{
    u32 key = 0;
    u64 *value = bpf_map_lookup_elem(&count, &key);

    if (value)
        *value += 1;
    return 0;
}

char LICENSE[] SEC("license") = "GPL";
"""


def test_a_plain_update_of_a_shared_value_loses_no_counts_and_is_reported(kernel, tmp_path):
    path = tmp_path / "mine.bpf.c"
    path.write_text(SHARED_COUNT)

    result = traced(str(path), run=lambda: kernel("cube")[4, 96](np.zeros(384, np.int32)))

    assert result.maps["count"]["value"].tolist() == [384]
    assert any("mine.bpf.c:12" in finding and "atomic" in finding for finding in result.recording.findings)


def test_with_per_warp_a_program_runs_once_per_warp(kernel, tmp_path):
    path = tmp_path / "mine.bpf.c"
    path.write_text(SHARED_COUNT)

    result = traced(str(path), run=lambda: kernel("cube")[4, 80](np.zeros(320, np.int32)), per="warp")

    assert result.maps["count"]["value"].tolist() == [12]


def test_programs_print_from_the_device(kernel, tmp_path):
    path = tmp_path / "prints.bpf.c"
    text = SHARED_COUNT.replace(
        "    if (value)\n        *value += 1;\n", '    bpf_printk("thread %u", (u32)gpu_thread_number());\n'
    )
    path.write_text(
        text.replace("    u64 *value = bpf_map_lookup_elem(&count, &key);\n", "").replace("    u32 key = 0;\n", "")
    )

    result = traced(str(path), run=lambda: kernel("cube")[1, 4](np.zeros(4, np.int32)))

    assert sorted(line.split("thread ")[-1].strip() for line in result.printed) == ["0", "1", "2", "3"]


def test_an_unsafe_program_is_rejected_with_its_line_and_nothing_is_attached(tmp_path):
    path = tmp_path / "unsafe.bpf.c"
    path.write_text(SHARED_COUNT.replace("    if (value)\n", ""))

    with pytest.raises(ProgramError, match=r"(?s)unsafe\.bpf\.c:11.*null") as caught, accel_magic.gputrace(str(path)):
        pytest.fail("the block must not run")

    assert caught.value.fix
    with accel_magic.gputrace("kernelcount"):
        pass


def test_an_unknown_tool_name_lists_the_tools():
    with pytest.raises(ProbeError, match="did you mean threadhist"), accel_magic.gputrace("threadhits"):
        pass
    with pytest.raises(ProbeError, match="nowhere/mine"), accel_magic.gputrace("nowhere/mine.bpf.c"):
        pass
    with pytest.raises(ProbeError, match="twice"), accel_magic.gputrace("threadhist", "threadhist"):
        pass


def test_an_error_in_the_block_keeps_the_result_and_allows_another_trace(kernel):
    trace = accel_magic.gputrace("kernelcount")
    with pytest.raises(ZeroDivisionError), trace:
        kernel("cube")[1, 32](np.zeros(32, np.int32))
        1 / 0  # noqa: B018
    assert trace.result.recording.outcome == "error"
    assert trace.result.tools["kernelcount"]["threads"].tolist() == [32]

    trace = accel_magic.gputrace("kernelcount")
    with pytest.raises(KeyboardInterrupt), trace:
        raise KeyboardInterrupt
    assert trace.result.recording.outcome == "interrupted"
    assert accel_magic.last is trace.result


def test_traces_do_not_nest(kernel):
    with accel_magic.gputrace("kernelcount") as outer:
        with pytest.raises(TraceStateError), accel_magic.gputrace("threadhist"):
            pass
        kernel("cube")[1, 32](np.zeros(32, np.int32))

    assert outer.result.tools["kernelcount"]["threads"].tolist() == [32]


def test_an_interrupt_waits_until_a_kernel_is_instrumented(kernel, monkeypatch):
    """Interrupting LLVM would crash the process."""
    from accel_magic.gpu import instrument

    compiled, compile_probes = [], instrument.compile_probes

    def interrupted(*arguments):
        os.kill(os.getpid(), signal.SIGINT)
        compiled.append(compile_probes(*arguments))
        return compiled[-1]

    monkeypatch.setattr(instrument, "compile_probes", interrupted)
    trace = accel_magic.gputrace("kernelcount")
    with pytest.raises(KeyboardInterrupt), trace:
        kernel("cube")[1, 32](np.zeros(32, np.int32))
    monkeypatch.undo()

    assert len(compiled) == 1
    assert trace.result.recording.outcome == "interrupted"
    result = traced("kernelcount", device="cpu", run=lambda: kernel("cube")[1, 32](np.zeros(32, np.int32)))
    assert result.tools["kernelcount"]["threads"].tolist() == [32]


def test_threads_that_launch_one_kernel_at_the_same_time_instrument_it_once(kernel):
    together = threading.Barrier(4)

    def launch():
        together.wait()
        kernel("cube")[1, 32](np.zeros(32, np.int32))

    def run():
        threads = [threading.Thread(target=launch) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    result = traced("kernelcount", run=run)

    kernels = result.kernels[result.kernels["name"] == "cube"]
    assert kernels[["instrumented", "launches"]].to_numpy().tolist() == [[True, 4]]
    assert result.tools["kernelcount"][["launches", "threads"]].to_numpy().tolist() == [[4, 4 * 32]]
    assert result.launches["tid"].nunique() == 4


def test_after_a_trace_kernels_run_without_programs(kernel):
    cube = kernel("cube")
    traced("kernelcount", run=lambda: cube[1, 32](np.zeros(32, np.int32)))

    result = traced("kernelcount", run=lambda: None)
    cube[1, 32](np.zeros(32, np.int32))

    assert len(result.launches) == len(result.tools["kernelcount"]) == 0


def test_a_kernel_that_faults_is_named_and_the_partial_result_is_kept(kernel):
    trace = accel_magic.gputrace("kernelcount")
    with pytest.raises(accel_magic.AccelMagicError, match="strided"), trace:
        kernel("strided")[1, 32](floats(8), floats(32), 1 << 20)

    assert trace.result.recording.outcome == "error"


@pytest.mark.parametrize("wrong", [{"device": "npu"}, {"per": "block"}, {"verify": "maybe"}, {"threads": 0}])
def test_an_unknown_option_value_is_rejected(wrong):
    (name,) = wrong

    with pytest.raises(ProbeError, match=name):
        accel_magic.gputrace("kernelcount", **wrong)


def test_a_missing_gpu_is_reported_with_a_fix():
    with pytest.raises(MachineError, match="--device cpu"), accel_magic.gputrace("kernelcount", device="cuda"):
        pass
    with accel_magic.gputrace("kernelcount"):
        pass


def test_without_clang_the_fix_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("ACCEL_MAGIC_CLANG", "no-such-clang")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    mine = tmp_path / "mine.bpf.c"
    mine.write_text('#include "accel_gpu.h"\n')

    with pytest.raises(MachineError, match="clang"), accel_magic.gputrace(str(mine)):
        pass


def test_a_dry_run_reports_rejected_programs_and_shows_the_ptx_of_accepted_ones(tmp_path):
    from accel_magic.api.gpu_options import GpuOptions
    from accel_magic.api.gputrace import GpuTrace

    path = tmp_path / "unsafe.bpf.c"
    path.write_text(SHARED_COUNT.replace("    if (value)\n", ""))

    refused = repr(GpuTrace((str(path),), GpuOptions()).examine())
    accepted = GpuTrace(("threadhist",), GpuOptions(threads=1000)).examine()

    assert "unsafe.bpf.c:11" in refused
    assert "null-not-checked" in refused
    assert ".version" not in refused
    assert "192,000" in repr(accepted)  # 8 kernels, 24 bytes, 1,000 threads
    assert set(accepted.code) == {"threadhist_begin", "threadhist_end"}
    assert all("define" in ir and ".func" in ptx for ir, ptx in accepted.code.values())


def test_the_assembler_reports_the_cost_of_programs_per_kernel(kernel, tmp_path):
    def run():
        kernel("add")[2, 64](floats(128), floats(128), floats(128), 128)
        kernel("reduced")[1, 128](np.zeros(128, np.int32), np.zeros(1, np.int32))

    result = traced("threadhist", run=run, save=tmp_path / "t.parquet")

    costs = result.resources.set_index("name")
    assert sorted(costs.index) == ["add", "reduced"]
    assert (costs["registers_before"] < costs["registers_after"]).all()
    assert (costs[["spills_before_bytes", "spills_after_bytes"]] == 0).all(axis=None)
    assert ((costs["occupancy_before"] > 0) & (costs["occupancy_before"] <= 1)).all()
    again = accel_magic.open(tmp_path / "t.parquet")
    assert again.resources.equals(result.resources)


def test_large_maps_are_reported_before_anything_runs():
    from accel_magic.api.gpu_options import GpuOptions
    from accel_magic.api.gputrace import GpuTrace

    report = repr(GpuTrace(("threadhist",), GpuOptions(threads=6 << 20)).examine())

    assert f"{8 * 24 * 6 << 20:,}" in report
    assert "map-memory" in report
    with pytest.raises(ProgramError, match="threads"), accel_magic.gputrace("threadhist", threads=1 << 24):
        pass
    with accel_magic.gputrace("kernelcount"):
        pass


def test_kernels_beyond_the_end_of_a_tools_map_are_counted_as_lost():
    many = "".join(f'extern "C" __global__ void k{n}(int *x) {{ x[threadIdx.x] = {n}; }}' for n in range(9))
    ptx = nvrtc.compile(many)
    x = np.zeros(64, np.int32)

    def run():
        nvrtc.CpuKernel(ptx, first)[1, 64](x)
        nvrtc.CpuKernel(ptx, last)[1, 64](x)

    first, last = "k0", "k8"
    numbers = traced("kernelcount", run=run).kernels.set_index("name")["kernel"]
    result = traced("threadhist", run=run)

    past = [name for name in (first, last) if numbers[name] >= 8]
    assert result.lost == 2 * 64 * len(past)
    assert set(result.tools["threadhist"]["name"]) == {first, last} - set(past)
    assert len(past) == 1

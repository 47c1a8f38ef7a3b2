"""Programs for whole blocks on the simulated device: when they run, their values, and which blocks workers steal."""

import heapq
from pathlib import Path

import numpy as np
import pytest

import accel_magic
from accel_magic.c_programs import bpf_folder
from accel_magic.devices import mock_cuda, targets
from accel_magic.devices.sim import SimulatedDevice
from accel_magic.errors import AccelMagicError, ProgramError
from accel_magic.gpu import programs
from accel_magic.gpu.adapters import nvrtc
from tests.support.errors import raises

pytestmark = pytest.mark.component

SOURCE = r"""
// Every fifth block, and those of the first eighth, take longer than the others.
extern "C" __global__ void uneven(unsigned *runs, int first) {
    int block = blockIdx.x + first, v = threadIdx.x;
    for (int i = 0; i < (block % 5 == 0) * 40 + (block < 6) * 100 + block % 3; i++) v = v * 1664525 + 1013904223;
    if (threadIdx.x == 0) atomicAdd(&runs[block], 1u + (v == 77));
}
extern "C" __global__ void grid(unsigned *out) {
    if (threadIdx.x == 0) out[blockIdx.x + gridDim.x * blockIdx.y] += 1;
}
extern "C" __global__ void chain(unsigned *done) {
    if (threadIdx.x == 0) {
        while (atomicAdd(done, 0u) < blockIdx.x) ;
        atomicAdd(done, 1u);
    }
}
"""
HEAD = r"""
#include "accel_gpu.h"
struct event {
	u64 block, time, launch, number, x, y, z, gx, gy, bx, by, tx, thread;
	u32 worker, kernel, site, executed, stolen, left, victim, victim_left, sm, what;
};
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
	__type(value, struct event);
} events SEC(".maps");
static __always_inline void note(struct gpu_block_ctx *ctx, u32 what)
{
	struct event *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	u64 none;
	if (!e)
		return;
	gpu_block_idx(&e->x, &e->y, &e->z);
	gpu_grid_dim(&e->gx, &e->gy, &none);
	gpu_block_dim(&e->bx, &e->by, &none);
	gpu_thread_idx(&e->tx, &none, &none);
	e->number = gpu_block_number(), e->thread = gpu_thread_number(), e->sm = gpu_sm_id(), e->what = what;
	e->block = ctx->block, e->time = ctx->time_ns, e->launch = ctx->launch, e->worker = ctx->worker;
	e->kernel = ctx->kernel, e->site = ctx->site, e->executed = ctx->executed, e->stolen = ctx->stolen;
	e->left = ctx->left, e->victim = ctx->victim, e->victim_left = ctx->victim_left;
	bpf_ringbuf_submit(e, 0);
}
char LICENSE[] SEC("license") = "GPL";
"""
ENTER, EXIT, STEAL = 1, 2, 3
BOTH = """
SEC("gpu/block_enter") int enter(struct gpu_block_ctx *ctx) { note(ctx, 1); return 0; }
SEC("gpu/block_exit") int leave(struct gpu_block_ctx *ctx) { note(ctx, 2); return 0; }
"""
DECIDE = """
SEC("gpu/should_try_steal") int steal(struct gpu_block_ctx *ctx) {{ note(ctx, 3); return {answer}; }}
"""
BLOCKS, THREADS, WORKERS = 43, 1024, 8
"""Two blocks of 1024 threads fit on each of four multiprocessors."""


@pytest.fixture(scope="module")
def ptx():
    return nvrtc.compile(SOURCE)


@pytest.fixture
def program(tmp_path):
    def write(text, name="mine", head=HEAD):
        path = tmp_path / f"{name}.bpf.c"
        path.write_text(head + text)
        return str(path)

    return write


@pytest.fixture(scope="module")
def durations(ptx):
    """Time of each block of `uneven`, in a launch of its own."""
    device = SimulatedDevice(1 << 24)
    module, runs = device.load(ptx), device.allocate(4 * BLOCKS)
    found = [device.launch(module, "uneven", 1, THREADS, [runs, block]).duration_ns for block in range(BLOCKS)]
    assert len(set(found)) > 5
    return found


def run_uneven(ptx, *names, **options):
    runs = np.zeros(BLOCKS, np.uint32)
    with accel_magic.gputrace(*names, device="cpu", **options) as trace:
        nvrtc.CpuKernel(ptx, "uneven")[BLOCKS, THREADS](runs, 0)
    assert runs.tolist() == [1] * BLOCKS
    return trace.result


def shares():
    """Consecutive blocks of each worker; the shares differ by at most one block."""
    return [list(range(w * BLOCKS // WORKERS, (w + 1) * BLOCKS // WORKERS)) for w in range(WORKERS)]


def scheduled(durations, answer):
    """Simulate the workers one event at a time: (worker, block, start, end) in order, and the questions asked."""
    left, turns = shares(), [(0, worker) for worker in range(WORKERS)]
    ran, asked, stolen, last = [], [], [0] * WORKERS, [-1] * WORKERS
    while turns:
        now, worker = heapq.heappop(turns)
        if left[worker]:
            block = left[worker].pop(0)
        else:
            victim = max(range(WORKERS), key=lambda one: (len(left[one]), -one))
            if not left[victim]:
                continue
            total, most = sum(map(len, left)), len(left[victim])
            asked.append((worker, last[worker], now, stolen[worker], total, victim, most))
            if not answer(worker, last[worker], now):
                continue
            block = left[victim].pop()
            stolen[worker] += 1
        last[worker] = block
        ran.append((worker, block, now, now + durations[block]))
        heapq.heappush(turns, (now + durations[block], worker))
    return ran, asked


def since_start(events, what):
    rows = events[events["what"] == what]
    return rows.assign(time=rows["time"].astype("int64") - int(events["time"].min()))


def test_without_stealing_a_launch_takes_as_long_as_the_longest_share(ptx, program, durations):
    result = run_uneven(ptx, program(DECIDE.format(answer="0")))

    assert result.launches["device_ns"].tolist() == [max(sum(durations[block] for block in one) for one in shares())]
    asked = result.maps["events"]["worker"].tolist()
    assert len(asked) == len(set(asked))  # a worker that stopped is not asked again


ANSWERS = {
    "1": lambda _worker, _block, _now: True,
    "(ctx->worker ^ ctx->block) & 1": lambda worker, block, _now: bool((worker ^ block) & 1),
    "ctx->worker == 3": lambda worker, _block, _now: worker == 3,
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_workers_steal_the_last_block_of_the_largest_share_in_the_order_of_time(ptx, program, durations, answer):
    result = run_uneven(ptx, program(BOTH + DECIDE.format(answer=answer)))

    ran, asked = scheduled(durations, ANSWERS[answer])
    events = result.maps["events"]
    assert events["time"].is_monotonic_increasing
    begun, ended, questions = (since_start(events, what) for what in (ENTER, EXIT, STEAL))
    assert begun[["worker", "block", "time"]].values.tolist() == [list(one[:3]) for one in ran]
    assert sorted(ended[["worker", "block", "time"]].values.tolist()) == sorted([w, b, end] for w, b, _, end in ran)
    names = ["worker", "block", "time", "stolen", "left", "victim", "victim_left"]
    assert questions[names].values.tolist() == [list(one) for one in asked]
    assert len(questions) > 0
    assert (ended.groupby("worker")["executed"].apply(list).map(lambda n: n == list(range(1, len(n) + 1)))).all()
    assert result.launches["device_ns"].tolist() == [max(end for *_, end in ran)]


def test_stealing_makes_an_unbalanced_launch_shorter(ptx, program, durations):
    never, always = (run_uneven(ptx, program(DECIDE.format(answer=one))).launches["device_ns"][0] for one in "01")
    # A quarter less at least, but not less than an equal share of all work.
    assert sum(durations) / WORKERS <= always < 0.75 * never


def test_the_example_steals_only_within_its_budget(ptx, durations):
    longest = max(sum(durations[block] for block in one) for one in shares())
    result = run_uneven(ptx, str(bpf_folder() / "examples/stealing.bpf.c"))

    text = (bpf_folder() / "examples/stealing.bpf.c").read_text()
    budget = int(text.split("#define BUDGET_NS ")[1].split()[0])
    ran, asked = scheduled(durations, lambda _worker, _block, now: now < budget)
    answers, workers = result.maps["answers"], result.maps["workers"]
    assert answers["after_ns"].tolist() == [one[2] for one in asked]
    assert answers["steals"].tolist() == [int(one[2] < budget) for one in asked]
    assert workers["blocks"].iloc[:WORKERS].tolist() == [sum(one[0] == w for one in ran) for w in range(WORKERS)]
    ends = [max(one[3] for one in ran if one[0] == w) for w in range(WORKERS)]
    assert workers["end_ns"].iloc[:WORKERS].tolist() == ends
    assert result.launches["device_ns"][0] == max(ends) <= longest


def test_programs_run_once_at_the_start_and_the_end_of_each_block(ptx, program, durations):
    events = run_uneven(ptx, program(BOTH)).maps["events"]

    begun, ended = (since_start(events, what).set_index("block") for what in (ENTER, EXIT))
    assert sorted(begun.index) == sorted(ended.index) == list(range(BLOCKS))
    assert (ended["time"] - begun["time"]).loc[range(BLOCKS)].tolist() == durations
    assert (begun["worker"] == ended["worker"].loc[begun.index]).all()
    # A worker begins its next block when the last one ended.
    for _, rows in begun.groupby("worker"):
        assert rows["time"].tolist() == [0, *ended["time"].loc[rows.index[:-1]]]
    assert set(begun["worker"]) == set(range(WORKERS))
    assert (events["sm"] == events["worker"] % 4).all()
    assert since_start(events, ENTER)["left"].tolist()[-1] == 0


def test_identity_helpers_return_what_the_blocks_first_thread_would_get(ptx, program):
    out = np.zeros(12, np.uint32)
    with accel_magic.gputrace(program(BOTH), device="cpu") as trace:
        for _ in range(2):
            nvrtc.CpuKernel(ptx, "grid")[(4, 3), (8, 6)](out)

    assert out.tolist() == [2] * 12
    events, sites = trace.result.maps["events"], trace.result.sites.set_index("site")
    assert (events["block"] == events["number"]).all()
    assert (events["block"] == events["x"] + 4 * events["y"]).all()
    assert (events["thread"] == events["x"] * 8 + events["y"] * 6 * 32).all()  # row by row over the whole grid
    for name, value in (("z", 0), ("gx", 4), ("gy", 3), ("bx", 8), ("by", 6), ("tx", 0)):
        assert set(events[name]) == {value}
    assert events["launch"].tolist() == trace.result.launches["device_launch"].repeat(24).tolist()
    kernel = trace.result.kernels.set_index("name")["kernel"]["grid"]
    assert set(events["kernel"]) == {kernel}
    assert {(what, sites["where"][site]) for what, site in zip(events["what"], events["site"], strict=True)} == {
        (ENTER, "start of each block"),
        (EXIT, "end of each block"),
    }
    assert set(sites["kernel"][events["site"].unique()]) == {kernel}


SHARED = Path(__file__).with_name("shared_by_blocks.bpf.c").read_text("utf-8")


@pytest.mark.parametrize("more", ["", DECIDE.format(answer="1")], ids=["", "stealing"])
def test_they_run_before_and_after_all_of_a_blocks_threads_and_share_the_maps_of_other_programs(ptx, program, more):
    result = run_uneven(ptx, program(SHARED + more))

    blocks, totals = result.maps["blocks"].iloc[:BLOCKS], result.maps[".bss"].iloc[0]
    assert set(blocks["entered"]) == {1}
    assert set(blocks["threads"]) == set(blocks["left"]) == {THREADS}
    assert (totals["early"], totals["late"], totals["entries"]) == (0, 0, BLOCKS)
    (source,) = programs.load([program(SHARED)])
    assert not any(one.verdict.findings for one in source.gpu if one.per == "block")


def test_blocks_that_wait_for_blocks_of_other_workers_end(ptx, program):
    done = np.zeros(1, np.uint32)
    with accel_magic.gputrace(program(BOTH + DECIDE.format(answer="1")), device="cpu") as trace:
        nvrtc.CpuKernel(ptx, "chain")[2 * WORKERS, THREADS](done)

    assert done[0] == 2 * WORKERS
    assert sorted(since_start(trace.result.maps["events"], ENTER)["block"]) == list(range(2 * WORKERS))


def test_programs_are_only_for_the_kernels_that_their_section_names(ptx, program):
    text = (BOTH + DECIDE.format(answer="0")).replace('")', '/un*")')
    with accel_magic.gputrace(program(text), device="cpu") as trace:
        nvrtc.CpuKernel(ptx, "grid")[(4, 3), (8, 6)](np.zeros(12, np.uint32))
        nvrtc.CpuKernel(ptx, "uneven")[BLOCKS, THREADS](np.zeros(BLOCKS, np.uint32), 0)

    kernels = trace.result.kernels.set_index("name")
    assert kernels["instrumented"].to_dict() == {"chain": False, "grid": False, "uneven": True}
    assert kernels["sites"]["uneven"] == 3
    assert set(trace.result.maps["events"]["kernel"]) == {kernels["kernel"]["uneven"]}


def test_a_kernel_with_two_deciding_programs_runs_unchanged_and_is_reported(ptx, program):
    result = run_uneven(ptx, *(program(DECIDE.format(answer="1"), name=name) for name in ("one", "two")))

    (reason,) = result.kernels[result.kernels["name"] == "uneven"]["reason"]
    assert "2 programs decide whether workers steal blocks of uneven" in reason
    assert 'SEC("gpu/should_try_steal/KERNEL")' in reason
    assert all(not len(frame) for name, frame in result.maps.items() if name.endswith("events"))


def test_a_fault_in_such_a_program_names_the_block_and_leaves_the_device_usable(ptx, program):
    path = program(
        'SEC("gpu/block_exit") int leave(struct gpu_block_ctx *ctx) { *(volatile u64 *)ctx->block = 1; return 0; }'
    )
    with raises("gpu.fault.out-of-bounds", AccelMagicError) as caught:
        run_uneven(ptx, path, verify="off")
    assert "in a program for block" in caught.value.why

    run_uneven(ptx, program(BOTH))


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ("gpu_barrier(); return 0;", "gpu.verifier.thread-helper", "no other thread can arrive"),
        ("gpu_exit(); return 0;", "gpu.verifier.thread-helper", "it would only end this program"),
        ("return *(u64 *)((char *)ctx + 24);", "gpu.verifier.partial-context-field", "field `worker` has 4 bytes"),
        ("return *(u32 *)((char *)ctx + 56);", "gpu.verifier.out-of-bounds-context", "(56 bytes)"),
    ],
)
def test_what_needs_a_thread_of_the_kernel_or_leaves_the_context_is_rejected(program, body, code, words):
    path = program(f'SEC("gpu/block_enter") int f(struct gpu_block_ctx *ctx) {{ {body} }}')
    with raises(code, ProgramError) as caught:
        programs.load([path])
    assert words in caught.value.why


def test_every_field_of_the_header_is_one_of_the_context():
    from accel_magic.gpu.program.context import BLOCK

    text = (bpf_folder() / "gpu/accel_gpu.h").read_text().split("struct gpu_block_ctx {")[1].split("};")[0]
    declared = [line.split(";")[0].split() for line in text.splitlines() if ";" in line]
    assert [(name, {"__u64": 8, "__u32": 4}[kind]) for kind, name in declared] == [
        (field.name, field.size) for field in BLOCK.fields
    ]
    assert [field.offset for field in BLOCK.fields] == [0, 8, 16, *range(24, 56, 4)]
    assert BLOCK.size == 56


def test_on_a_gpu_they_are_rejected_with_the_device_that_runs_them(program, monkeypatch):
    monkeypatch.setattr("accel_magic.api.gputrace.target", targets.target)
    path = program(BOTH)
    with mock_cuda.driver():
        for use in (lambda trace: trace.examine(), lambda trace: trace.prepare()):
            with raises("gpu.blocks-by-hardware", ProgramError) as caught:
                use(accel_magic.gputrace(path, device="cuda"))
            assert 'SEC("gpu/block_enter")' in caught.value.what
            assert "--device cpu" in caught.value.fix
        assert "gpu/block_enter" in repr(accel_magic.gputrace(path, device="cpu").examine())


def test_the_assembler_accepts_kernels_with_them(ptx, program):
    result = run_uneven(ptx, program(BOTH + DECIDE.format(answer="1")))
    cost = result.resources.set_index("name").loc["uneven"]
    assert cost["registers_after"] == cost["registers_before"] > 0


@pytest.mark.parametrize(
    "text", ["STEAL", "BLOCK_ENTER missing 0 0", "BLOCK_ENTER k x y", "OTHER k 0 0", "BLOCK_ENTER k 0 0"]
)
def test_directives_that_this_package_did_not_write_do_no_harm(text):
    device = SimulatedDevice(1 << 20)
    module = device.load(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 out)\n{\n"
        f'.pragma "accel_magic {text}";\n.pragma "nounroll";\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [out];\n'
        "st.global.u32 [%rd1], 7;\nret;\n}\n"
    )
    out = device.allocate(4)
    if text == "BLOCK_ENTER k 0 0":  # not a program for blocks
        with raises("gpu.wrong-argument-count", ProgramError):
            device.launch(module, "k", 1, 32, [out])
    else:
        device.launch(module, "k", 1, 32, [out])
        assert device.copy_out(out, 4).view(np.uint32)[0] == 7


def test_a_dry_run_shows_that_they_run_for_blocks(program):
    shown = repr(accel_magic.gputrace(program(BOTH + DECIDE.format(answer="1")), device="cpu", per="warp").examine())
    assert "mine_enter: start of each block of *, per block" in shown
    assert "mine_steal: workers without blocks of *, per block" in shown
    assert ".visible .entry accel_mine_steal(" in shown

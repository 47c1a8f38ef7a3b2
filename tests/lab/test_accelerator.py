"""The lab's accelerator: policies decide in the kernel as in the model, jobs are traced exactly, nothing breaks."""

import contextlib
import errno
import json
import os

import numpy as np
import pytest

import accel_magic
from accel_magic.errors import MachineError, ProgramError
from accel_magic.gpu.program import clang
from accel_magic.lab import image
from accel_magic.policies import generators, policy
from accel_magic.policies.model_engine import ModelMemory
from tests.lab.conftest import GUEST, KERNELS, TEST_S, Guest, build_image
from tests.support import generated_policies, gpu_ext, thorough
from tests.support.paths import ROOT

IMPORTED = ("accel_magic.policies.kernel_engine", "accel_magic.policies.policy", "accel_magic.results.trace_result")
"""What the scripts find imported."""
LONG_S = thorough.choose(TEST_S, 2 * 3600)
HEADER = '#include "gpu_policy.h"\n'
HOOK = """SEC("struct_ops/gpu_block_activate")
int BPF_PROG(activate, uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision)
"""
TABLE = '\nSEC(".struct_ops.link") struct gpu_mem_ops ops = { .gpu_block_activate = (void *)activate };\n'
BAD = {
    "writes": "{ chunk->address = 0; return 0; }",
    "forges": "{ uvm_bpf_pmm_decision_ctx_t own = {}; bpf_gpu_request_reorder(&own, 1, 1); return 0; }",
    "nonsense": "{ bpf_gpu_request_reorder(decision, 77, 1); return 0; }",
}
STUBBORN = """
SEC("struct_ops/gpu_evict_prepare")
int BPF_PROG(prepare, uvm_pmm_gpu_t *pmm, struct list_head *used, struct list_head *unused)
{
	return GPU_ACTION_BYPASS;
}
SEC("struct_ops/gpu_block_access")
int BPF_PROG(access, uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision)
{
	bpf_gpu_request_reorder(decision, NV_GPU_PMM_DESTINATION_USED, NV_GPU_PMM_POSITION_TAIL);
	return GPU_ACTION_BYPASS;
}
SEC(".struct_ops.link")
struct gpu_mem_ops ops = { .gpu_evict_prepare = (void *)prepare, .gpu_block_access = (void *)access };
"""
"""A policy that never wants anything to be evicted."""
MUTATED = ("lfu", "2q", "quota", "prefetch_stride", "clock")
SCHEDULING = "timeslices"
TENANTS = "chat*2:work=2ms,every=40ms batch*2:work=20ms,asks=2048us late:work=20ms,asks=2048us"


@pytest.fixture(scope="module", params=KERNELS)
def lab(request, tmp_path_factory):
    """A guest with the accelerator, and a folder that it can write to."""
    build_image(request.param)
    try:
        files = image.build_accelerator(request.param)
    except MachineError as error:
        if os.environ.get("ACCEL_MAGIC_REQUIRE_LAB") == "1":
            pytest.fail(f"cannot build the accelerator, which is required: {error}")
        pytest.skip(f"cannot build the accelerator: {error}")
    folder = tmp_path_factory.mktemp("accelerator")
    guest = Guest(request.param, IMPORTED, accelerator=True, share=(folder,), memory_mib=3072, deadline_s=2 * LONG_S)
    with contextlib.closing(guest):
        lab = guest.lab
        lab.folder, lab.files, lab.script = folder, files, guest.script
        yield lab


def run(lab, script, *arguments, timeout=TEST_S):
    return json.loads(lab.script(GUEST / script, *arguments, timeout=timeout).splitlines()[-1])


def kernel_log(lab):
    return [
        line
        for line in lab.run(["dmesg"]).text.splitlines()
        if any(bad in line for bad in ("BUG:", "WARNING:", "Oops"))
    ]


def random_job(random, number):
    """A small memory, and a generated trace with tenants for it; the second of three tells of faults only."""
    blocks, tenants = int(random.integers(4, 40)), int(random.choice([1, 3]))
    sizes = {
        "chunks": int(random.integers(1, blocks + 2)),
        "blocks": blocks,
        "tenants": tenants,
        "observe": number % 3 != 1,
    }
    count = 1500
    if number % 2:
        pages = random.zipf(1.3, count) % blocks * 512 + random.integers(0, 512, count)
    else:
        pages = (np.arange(count) * int(random.integers(1, 700)) + int(random.integers(0, 512))) % (blocks * 512)
    return sizes, pages.astype(np.uint64), (pages // 512 % tenants).astype(np.uint16)


def assert_equal(lab, jobs):
    """Run jobs in the model and in the kernel, and compare every decision; returns the model's totals.

    A job is (name of a policy or "", settings, loaded policy or None, sizes, pages, tenants).
    """
    expected, described = [], []
    for number, (name, settings, loaded, sizes, pages, tenants) in enumerate(jobs):
        if loaded:
            (lab.folder / f"{name}.o").write_bytes(loaded.object.data)
        np.savez(lab.folder / f"trace-{number}.npz", pages=pages, tenants=tenants)
        model = ModelMemory(loaded, **sizes)
        expected.append((model.run(pages, tenants), vars(model.counts)))
        described.append({"policy": name, "settings": settings, "trace": f"trace-{number}.npz", "sizes": sizes})
    (lab.folder / "jobs.json").write_text(json.dumps(described))
    counts = run(lab, "policies_in_kernel.py", lab.folder, timeout=LONG_S)
    for number, (job, (told, total)) in enumerate(zip(described, expected, strict=True)):
        found = np.load(lab.folder / f"{number}.npy")
        for column in ("evicted", "pages_in", "pages_out", "outcome", "refused"):
            different = np.flatnonzero(found[column] != told[column])
            assert not len(different), (job, column, different[:3], found[different[:3]], told[different[:3]])
        assert counts[number] == total, job
    return [total for _, total in expected]


@pytest.mark.timeout(LONG_S)
def test_policies_decide_in_the_kernel_as_in_the_model(lab):
    random = np.random.default_rng(7)
    policies = {"": None, **{name: policy.load(path) for name, path in policy.shipped().items() if name != SCHEDULING}}
    totals = assert_equal(
        lab,
        [
            (name, {}, loaded, *random_job(random, number))
            for number in range(thorough.choose(1, 92))
            for name, loaded in policies.items()
        ],
    )
    assert sum(total["evictions"] for total in totals) > 300 * thorough.choose(1, 92)


@gpu_ext.needed
@pytest.mark.timeout(LONG_S)
def test_gpu_exts_own_policies_decide_in_the_kernel_as_in_the_model(lab):
    random, jobs = np.random.default_rng(5), []
    sizes = {"chunks": 64, "blocks": 96, "tenants": 3, "observe": True}
    traces = {
        "eviction": [block * 512 + page for _ in range(10) for block in range(80) for page in (0, 1)],
        "prefetch": [*range(8 * 512), *range(8 * 512, 24 * 512, 8)],
    }
    popular = random.zipf(1.3, 4000) % 96 * 512 + random.integers(0, 512, 4000)
    for name, path in gpu_ext.files().items():
        if name not in gpu_ext.LOADED or (lab.settings.kernel == "6.12" and name in gpu_ext.TOO_COMPLEX):
            continue
        settings = gpu_ext.CONFIGURED.get(name, {})
        loaded = policy.load(path, settings=settings)
        for pages in (np.array(traces[name.partition("_")[0]]), popular):
            tenants = (pages // 512 % 3).astype(np.uint16)
            jobs.append((name, settings, loaded, sizes, pages.astype(np.uint64), tenants))
    assert_equal(lab, jobs)
    assert kernel_log(lab) == []


def verified_here(folder, number):
    """Verify a generated policy here, and run it on the model; its object is kept if it is accepted."""
    if number % 2:
        source = generated_policies.program(number)
    else:
        source = folder / "changed.o"
        source.write_bytes(generated_policies.changed(policy.load(MUTATED[number // 2 % 5]).object.data, number))
    try:
        loaded = policy.load(source)
    except ProgramError:
        return False
    finally:
        (folder / "changed.o").unlink(missing_ok=True)
    (folder / f"{number}.o").write_bytes(loaded.object.data)
    random = np.random.default_rng(number)
    ModelMemory(loaded, chunks=3, blocks=6, tenants=2).run(
        random.integers(0, 6 * 512, 200).astype(np.uint64), random.integers(0, 2, 200).astype(np.uint16)
    )
    return True


@pytest.mark.timeout(LONG_S)
def test_policies_that_are_accepted_here_are_accepted_by_the_kernel(lab):
    folder = lab.folder / "generated"
    folder.mkdir()
    accepted = [number for number in range(thorough.choose(16, 2000)) if verified_here(folder, number)]
    said = run(lab, "policies_loaded.py", folder, timeout=LONG_S)
    assert {int(number) for number in said} == set(accepted)
    refused = {number: log for number, log in said.items() if log}
    assert not refused, (len(refused), refused)
    assert len(accepted) > thorough.choose(5, 700)
    assert kernel_log(lab) == []


def test_tenants_share_the_engine_of_the_kernels_scheduler_under_policies(lab):
    settings = {"critical.chat": 1, "others_us": 300, "most": 2}
    for _ in range(3):  # a busy machine delays the engine's timers
        told = run(lab, "tenants_in_kernel.py", TENANTS, json.dumps(settings), SCHEDULING, "preempt")
        jobs = {(row["policy"], row["name"]): row for row in told["counts"]}
        if jobs[SCHEDULING, "chat"]["p50_us"] < jobs["default", "chat"]["p50_us"]:
            break
    result = accel_magic.gpuschedule([SCHEDULING, "preempt"], TENANTS, runs=1, settings=settings)
    expected = json.loads(result.tasks.to_json(orient="values"))
    assert [row[:-1] for row in told["tasks"]] == [row[:-1] for row in expected]
    # What the module counted, and what the policies counted themselves.
    assert told["maps"][SCHEDULING]["admitted"] == 2
    assert told["hooks"]["on_task_init"] == 2 * 5
    assert told["hooks"]["on_timeslice_control"] == 2 * 3
    assert told["maps"]["preempt"] == {"known": 3, "launches": jobs["preempt", "chat"]["jobs"]}
    shared = next(ring for ring in told["rings"] if ring["ring"] == "shared")
    assert shared["queued"] == shared["run"] == shared["done"] >= sum(row["ended"] for row in told["counts"])
    chat, batch, late = (told["clients"][at] for at in (-11, -9, -7))
    assert chat == [1000000, 2, 0, 0, "chat"]
    assert batch == [300, 1, 0, 0, "batch"]
    assert late == [300, 1, 1, 0, "late"]
    # The engine has one job at a time, and the kernel's scheduler loses none.
    assert all(busy <= 1.001e6 for busy in told["busy_us"])
    for per_policy in told["jobs"]:
        assert all(job["latency_us"] >= 2000 for job in per_policy if job["name"] == "chat" and job["latency_us"])
        assert all(job["latency_us"] >= 20_000 for job in per_policy if job["name"] == "batch" and job["latency_us"])
    # Critical tenants wait for a time slice of 0.3 ms of one other instead of 2 ms each of four.
    assert jobs[SCHEDULING, "chat"]["p50_us"] < jobs["default", "chat"]["p50_us"]
    default, timeslices, preempt = told["preempted"]
    assert sum(default) == sum(timeslices) == 0
    assert preempt[:2] == [0, 0]
    assert preempt == [row[-1] for row in told["tasks"][10:]]
    assert 0 < sum(preempt) <= 3 * told["maps"]["preempt"]["launches"]  # the scheduler hands jobs over a moment later
    assert "lab's accelerator" in told["shown"]
    assert kernel_log(lab) == []


@pytest.mark.timeout(LONG_S)
def test_touching_mapped_memory_faults_where_the_model_does(lab):
    random, jobs, expected = np.random.default_rng(11), [], []
    policies = {"": None, **{name: policy.load(name) for name in ("mru", "lfu", "prefetch_max", "prefetch_none", "2q")}}
    for number, (name, loaded) in enumerate(policies.items()):
        if loaded:
            (lab.folder / f"{name}.o").write_bytes(loaded.object.data)
        sizes = {"chunks": int(random.integers(2, 6)), "blocks": 8}
        pages = random.zipf(1.2, 3000) % 8 * 512 + random.integers(0, 40, 3000)
        np.savez(lab.folder / f"touched-{number}.npz", pages=pages)
        model = ModelMemory(loaded, **sizes, observe=False)
        expected.append((pages, model.run(pages.astype(np.uint64)), model.counts))
        jobs.append({"policy": name, "trace": f"touched-{number}.npz", "sizes": sizes})
    (lab.folder / "jobs.json").write_text(json.dumps(jobs))
    told = run(lab, "accelerator_buffer.py", lab.folder, timeout=LONG_S)
    for number, (made, (pages, decisions, counted)) in enumerate(zip(told["touched"], expected, strict=True)):
        heard = np.load(lab.folder / f"{number}.npy")
        at = np.flatnonzero(decisions["outcome"])  # a page that is there is touched without a fault
        assert heard["page"].tolist() == pages[at].tolist(), jobs[number]
        for column in ("evicted", "pages_in", "pages_out", "outcome", "refused"):
            assert heard[column].tolist() == decisions[column][at].tolist(), (jobs[number], column)
        assert (np.diff(heard["time_ns"].astype(np.int64)) >= 0).all()
        assert made["kept"], "pages that were evicted keep what was written"
        assert (made["lost"], made["length"]) == (0, len(at))
        assert len(at) <= made["faults"] <= len(at) + 200, "this process's own count of its page faults"
        assert {**vars(counted), "accesses": len(at)} == made["counts"], jobs[number]
    assert told["tenants"] == [0, [[0, 0], [3 * 512, 1]]]
    assert told["refused"] == [errno.ENXIO, errno.EINVAL, errno.EINVAL, errno.EINVAL, 0]
    assert told["replaced"] == [[7] * 4, [0] * 4, 2]
    # Two blocks take turns in the one chunk; the trace itself lies in the first, which is there at first.
    assert told["inside"] == [1, 0, 63]
    killed = told["killed"]
    assert killed["replayed"] == 8000
    assert killed["heard"] > 0
    assert killed["evictions"]
    assert told["memories"] == 0
    assert kernel_log(lab) == []


def test_nothing_breaks(lab):
    for name, body in BAD.items():
        (lab.folder / f"{name}.bpf.o").write_bytes(
            clang.compile_program(HEADER + HOOK + body + TABLE, include=[ROOT / "bpf/policies"], name=f"{name}.bpf.c")
        )
    (lab.folder / "stubborn.bpf.o").write_bytes(
        clang.compile_program(HEADER + STUBBORN, include=[ROOT / "bpf/policies"], name="stubborn.bpf.c")
    )
    (lab.folder / "mru.bpf.o").write_bytes(policy.load("mru").object.data)
    told = run(lab, "accelerator_survives.py", lab.folder, lab.files.module)
    assert told["without"] == told["after the loader was killed"] == 0
    assert told["under a policy"] > 8
    assert told["unloaded under a policy"] == errno.EWOULDBLOCK
    assert told["second policy"] == "policy.refused-by-kernel"
    for name, words in (("writes", "write"), ("forges", "must point to scalar")):
        code, log = told[name]
        assert code == "policy.refused-by-kernel"
        assert words in log, log
    assert told["nonsense"] == [64, 64]
    assert told["stubborn"] == [64, 64 - 8], "the device evicts what is needed, whatever a policy wants"
    assert told["bad trace"] == told["no memory"] == "accelerator.call-failed"
    assert (told["unloaded"], told["loaded again"]) == (0, 0)
    jobs = told["jobs"]
    assert [jobs[what] for what in ("queued", "run", "done", "timed_out", "cancelled")] == [2, 2, 1, 1, 0]
    model = ModelMemory(policy.load("mru"), chunks=32, blocks=60)
    trace = generators.parse("loop:blocks=60,accesses=3000").compact()
    for part in trace.parts(1 << 20):
        model.run(part.page, part.tenant)
    assert told["policies"]["mru"] == model.counts.misses
    assert kernel_log(lab) == []


COUNTING = """
volatile const u64 step = 1;
u64 calls;
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u64);
} by_processor SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, u64);
	__type(value, u64);
} blocks SEC(".maps");
SEC("struct_ops/gpu_block_activate")
int BPF_PROG(activate, uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision)
{
	uvm_va_block_t *block = chunk->va_block;
	u64 start = block ? block->start : 0, one = 1, *seen = bpf_map_lookup_elem(&blocks, &start);
	u32 key = 1;

	calls += step;
	if (seen)
		*seen += 1;
	else
		bpf_map_update_elem(&blocks, &start, &one, BPF_ANY);
	seen = bpf_map_lookup_elem(&by_processor, &key);
	if (seen)
		*seen += 1;
	return GPU_ACTION_DEFAULT;
}
"""


@pytest.mark.thorough
def test_a_policy_acts_in_a_driver_as_long_as_a_block_runs(lab):
    folder = lab.folder / "driver"
    folder.mkdir()
    for name, path in policy.shipped().items():
        (folder / f"{name}.o").write_bytes(policy.load(path).object.data)
    (folder / "counting.o").write_bytes(policy.load(HEADER + COUNTING + TABLE).object.data)
    told = run(lab, "policy_on_driver.py", folder)
    assert told["differences"] == {name: [] for name in (*policy.shipped(), "counting")}
    # 60 blocks do not fit into 32 chunks: each access of each round is a miss, and so a call of the hook.
    assert (told["without"], told["during"], told["after"]) == (0, 180, 0)
    assert told["second"] == "trace.already-running"
    assert told["maps before"][".bss"] == [{"calls": 0}]
    assert told["maps before"]["blocks"] == []
    assert told["maps"][".rodata"] == [{"step": 2}]
    assert told["maps"][".bss"] == [{"calls": 360}]
    assert [row["value"] for row in told["maps"]["blocks"]] == [3] * 60
    assert [row["value"] for row in told["maps"]["by_processor"]] == [0, 180]
    assert "not modelled" in told["summary"]
    assert told["seconds"] > 0
    assert told["after an error"] == [0, "error"]
    assert told["killed"] == [180, 0]
    assert kernel_log(lab) == []


def test_jobs_of_the_kernels_scheduler_are_those_that_the_device_counted(lab):
    before = run_counts(lab)
    told = run(lab, "accelerator_jobs.py")
    made = {
        ring["ring"]: {what: ring[what] - before[ring["ring"]][what] for what in ("queued", "run", "done", "timed_out")}
        for ring in told["counted"]
        if ring["ring"] != "shared"
    }
    assert made == {
        "compute": {"queued": 9, "run": 9, "done": 9, "timed_out": 0},
        "copy": {"queued": 2, "run": 2, "done": 1, "timed_out": 1},
    }
    jobs = told["jobs"]
    assert [sum(job["ring"] == ring for job in jobs) for ring in ("compute", "copy")] == [9, 2]
    # The kernel skips, and counts, hits in interrupts of a program that traces: such a job has no end, or no timeout.
    unfinished = [job for job in jobs if job["done_ns"] is None]
    assert 2 * len(unfinished) <= told["missed"]
    assert [job["status"] for job in jobs].count("timed out") == 1 or told["missed"]
    short = [job for job in jobs if job["ring"] == "compute"][1:]
    assert all(job["run_ns"] >= 2_000_000 for job in short if job not in unfinished)
    started = [job["started_ns"] for job in short]
    assert max(started[5:]) < min(started[:5]), "jobs of high priority were submitted last and start first"
    copied = [job for job in jobs if job["ring"] == "copy"]
    assert copied
    assert all(job["started_ns"] >= end for job in copied for end in [short[-1]["done_ns"]] if end)
    assert told["findings"].count("gave up on a job") >= 1 or told["missed"]
    assert kernel_log(lab) == []


def run_counts(lab):
    """The module's own sums by ring."""
    rows = [row.split() for row in lab.run(["cat", "/sys/kernel/debug/accel_lab/jobs"]).text.splitlines()[1:]]
    columns = ("queued", "run", "done", "timed_out", "cancelled")
    return {row[0]: dict(zip(columns, map(int, row[2:]), strict=True)) for row in rows if row[1] == "0"}

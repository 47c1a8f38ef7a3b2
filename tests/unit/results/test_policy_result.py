"""Trials of policies: tables agree with each other and with known answers; findings are shown where they apply."""

import itertools

import numpy as np
import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell

import accel_magic
from accel_magic.analysis.policies import RULES
from accel_magic.api.gpupolicy import check
from accel_magic.errors import AccelMagicError, ProbeError
from accel_magic.policies import generators, known_algorithms, link_model
from accel_magic.policies.lints import LINTS
from accel_magic.policies.page_trace import PageTrace
from accel_magic.policies.trial import memory_size
from tests.support.errors import raises

pytestmark = pytest.mark.component

KERNEL = """
import numpy as np
from numba import cuda

@cuda.jit
def scale(x, factor):
    at = cuda.grid(1)
    if at < x.size:
        x[at] *= factor

x = np.zeros(1 << 15, np.float32)

def work():
    scale[128, 256](x, 2.0)
"""


@pytest.fixture(scope="module")
def loop():
    return accel_magic.gpupolicy(["mru", "fifo"], "loop:accesses=20000,blocks=80", memory=64)


def blocks(numbers, **columns):
    return PageTrace.of(np.array(numbers, np.uint64) * 512, source="made by a test", **columns)


def test_a_loop_larger_than_memory_always_misses_with_the_default_and_is_optimal_with_mru(loop):
    counts = loop.counts
    assert list(counts.index) == ["mru", "default", "fifo"]
    assert counts["misses"].to_dict() == {"mru": loop.optimum, "default": 20_000, "fifo": 20_000}
    assert loop.optimum == known_algorithms.count(loop.trace, "opt", 64)
    assert (counts["hits"] + counts["faults"] == 20_000).all()
    assert counts["over_optimum"]["mru"] == 1.0
    assert (counts["in_bytes"] - counts["out_bytes"] <= 64 * 512 * 4096).all()
    assert accel_magic.gpupolicy([], loop.trace, memory=64).counts.equals(counts.loc[["default"]])


def test_steps_and_groups_add_up_to_the_totals_and_the_optimum_is_never_beaten():
    halves = [generators.generate(name, accesses=6000, blocks=96) for name in ("zipf", "loop")]
    found = accel_magic.gpupolicy(["lru", "lfu", "quota"], generators.shared(halves), memory="40%")

    over_time = found.over_time.groupby("policy")[["hits", "faults", "misses"]].sum()
    tenants = found.by("tenant").groupby("policy")[["hits", "faults", "misses"]].sum()
    for name, row in found.counts.iterrows():
        expected = [row["hits"], row["faults"] - row["misses"], row["misses"]]
        assert over_time.loc[name].tolist() == tenants.loc[name].tolist() == expected
        steps = found.over_time[found.over_time["policy"] == name]["misses"]
        assert (steps.cumsum().to_numpy() >= found.trials.optimum.cumsum()).all()
    assert over_time.loc["optimum", "misses"] == found.optimum
    assert found.counts.loc["lru"].equals(found.counts.loc["default"])
    assert set(found.by("tenant")["tenant"]) == set(found.trace.tenants)


def test_the_curve_has_the_misses_of_the_default_and_of_the_optimum_at_the_size_that_was_tried(loop):
    assert loop.curve.loc[64].to_dict() == {"lru": 20_000, "opt": loop.optimum}
    assert loop.curve["lru"].iloc[-1] == 80
    assert (loop.curve["opt"].dropna() <= loop.curve["lru"][loop.curve["opt"].notna()]).all()


def test_policies_that_hear_of_faults_only_cannot_tell_what_is_used_often():
    trace = blocks(np.random.default_rng(3).zipf(1.2, 4000) % 64)
    every = accel_magic.gpupolicy(["lru", "fifo"], trace, memory=16)
    faults = accel_magic.gpupolicy(["lru", "fifo"], trace, memory=16, faults_only=True)
    assert every.counts["misses"]["lru"] < every.counts["misses"]["fifo"]
    assert set(faults.counts["misses"]) == {every.counts["misses"]["fifo"]}
    assert "faults only" in str(faults)


STARVING = """
#include "gpu_policy.h"
SEC("struct_ops/gpu_block_activate")
int BPF_PROG(on_activate, uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision)
{
	if (chunk->va_block->managed_range->va_range.va_space->va_space_mm.mm->owner->tgid == 1000)
		bpf_gpu_request_reorder(decision, NV_GPU_PMM_DESTINATION_UNUSED, NV_GPU_PMM_POSITION_TAIL);
	return GPU_ACTION_DEFAULT;
}
SEC(".struct_ops.link")
struct gpu_mem_ops starving = { .gpu_block_activate = (void *)on_activate };
"""
CONFUSED = """
#include "gpu_policy.h"
SEC("struct_ops/gpu_block_access")
int BPF_PROG(on_access, uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision)
{
	bpf_gpu_request_reorder(decision, NV_GPU_PMM_DESTINATION_USED, NV_GPU_PMM_POSITION_HEAD);
	bpf_gpu_request_reorder(decision, NV_GPU_PMM_DESTINATION_USED, NV_GPU_PMM_POSITION_TAIL);
	return GPU_ACTION_BYPASS;
}
SEC(".struct_ops.link")
struct gpu_mem_ops confused = { .gpu_block_access = (void *)on_access };
"""
ROUND = list(itertools.chain.from_iterable([*range(8)] for _ in range(40)))
RANDOM = np.random.default_rng(7)
SCATTERED = RANDOM.zipf(1.2, 3000) % 24 * 512 + RANDOM.integers(0, 512, 3000)
POPULAR = RANDOM.zipf(1.2, 4000) % 32


@pytest.mark.parametrize(
    ("policy", "trace", "memory", "finding", "shown"),
    [
        ([], blocks(ROUND), 6, "thrashing", True),
        ([], blocks(ROUND), 8, "thrashing", False),
        ([], blocks(range(64)), 8, "thrashing", False),
        ([], blocks(list(np.random.default_rng(5).permutation(64)) * 4), 3, "no-policy-helps", True),
        ([], blocks(ROUND), 6, "no-policy-helps", False),
        (["mru"], blocks(np.random.default_rng(3).zipf(1.2, 4000) % 64), 16, "worse-than-default", True),
        (["mru"], blocks(ROUND), 6, "worse-than-default", False),
        ([CONFUSED], blocks(ROUND), 8, "requests-ignored", True),
        (["mru"], blocks(ROUND), 8, "requests-ignored", False),
        (["prefetch_max"], PageTrace.of(SCATTERED, source="made by a test"), 8, "prefetches-too-much", True),
        (["prefetch_none"], PageTrace.of(SCATTERED, source="made by a test"), 8, "prefetches-too-much", False),
        (["mru"], blocks(POPULAR), 16, "hot-blocks-evicted", True),
        ([], blocks(POPULAR), 16, "hot-blocks-evicted", False),
        (["mru"], blocks(ROUND), 6, "hot-blocks-evicted", False),
        (["lru"], blocks(ROUND), 6, "decides-on-access-only", True),
        (["mru"], blocks(ROUND), 6, "decides-on-access-only", False),
        (["lfu"], blocks(ROUND), 6, "hash-in-hot-hook", True),
        (["2q"], blocks(ROUND), 6, "hash-in-hot-hook", False),
    ],
)
def test_each_finding_is_shown_where_it_applies_and_only_there(policy, trace, memory, finding, shown):
    found = accel_magic.gpupolicy(policy, trace, memory=memory).diagnose()
    assert (finding in found.ids) == shown
    assert len(found.checked) == len(RULES) + len(LINTS)


@pytest.mark.parametrize(("policy", "shown"), [(STARVING, True), ("lru", False)])
def test_a_process_whose_memory_is_taken_for_the_others_is_found(policy, shown):
    tenant = np.arange(len(POPULAR)) % 2
    trace = blocks(POPULAR + 32 * tenant, tenant=tenant)
    assert ("tenant-starved" in accel_magic.gpupolicy([policy], trace, memory=16).diagnose().ids) == shown


LINTED = """
#include "gpu_policy.h"
volatile const u32 rounds = 5;
SEC("struct_ops/gpu_block_activate")
int BPF_PROG(on_activate, uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision)
{
	u64 sum = 0;
	for (u32 at = 0; at < rounds && at < 10; at++)
		sum += bpf_get_prandom_u32();
	if (sum % 2 && bpf_get_current_pid_tgid() >> 32 == 1000)
		bpf_gpu_request_reorder(decision, NV_GPU_PMM_DESTINATION_USED, NV_GPU_PMM_POSITION_HEAD);
	return GPU_ACTION_DEFAULT;
}
SEC(".struct_ops.link")
struct gpu_mem_ops linted = { .gpu_block_activate = (void *)on_activate };
"""


def test_what_is_known_to_go_wrong_on_gpus_is_found_in_the_code_and_nothing_runs():
    found = check([LINTED, "quota"])
    assert found.ids == ("current-process", "loop-in-hot-hook", "hash-in-hot-hook")
    assert "bpf_get_current_pid_tgid" in found[0].title
    assert "(chunks, owners) in gpu_block_activate, gpu_block_access" in found[2].title
    assert check("mru").ids == ()


def test_the_time_is_that_of_faults_and_moved_bytes_over_the_link(loop):
    row = loop.counts.loc["mru"]
    moved = row["in_bytes"] + row["out_bytes"]
    assert row["modelled_s"] == pytest.approx(row["faults"] * 20e-6 + moved / 31.5e9)
    other = accel_magic.gpupolicy(["mru"], loop.trace, memory=64, link="nvlink-c2c:fault_us=5")
    assert other.counts["modelled_s"]["mru"] == pytest.approx(row["faults"] * 5e-6 + moved / 450e9)
    assert "450 GB/s" in str(other)
    assert "5 us a fault" in str(other)


@pytest.mark.parametrize("text", ["", "usb", "pcie4:speed=3", "pcie4:fault_us=0", "pcie4:gb_per_s=-1"])
def test_a_wrong_link_is_an_error(text):
    with raises("policy.no-link", ProbeError):
        link_model.parse(text)


def test_blocks_are_listed_with_their_accesses_and_evictions(loop):
    assert loop.blocks["accesses"].sum() == len(loop.trace)
    for name, row in loop.counts.iterrows():
        assert loop.blocks[name].sum() == row["evictions"]
    assert loop.blocks["default"].min() > 0


def test_trials_are_compared_policy_by_policy(loop):
    more = accel_magic.gpupolicy(["mru", "2q"], loop.trace, memory=72)
    table = more.compare(loop).table
    assert table.loc["mru", "misses_ratio"] == more.counts["misses"]["mru"] / loop.counts["misses"]["mru"]
    assert table.loc["default", "baseline_misses"] == 20_000
    assert table.loc["2q", ["baseline_misses", "misses_ratio"]].isna().all()
    assert table.loc["fifo", ["misses", "misses_ratio"]].isna().all()
    text = str(more.compare(loop))
    assert "memory 144 MiB" in text
    assert "compared with generated: loop" in text
    assert "am-tables" in more.compare(loop)._repr_mimebundle_()["text/html"]


def test_settings_reach_the_policy_that_has_them_and_others_are_errors(loop):
    trace = generators.shared([generators.generate(name, accesses=3000, blocks=48) for name in ("zipf", "loop")])
    few = accel_magic.gpupolicy(["quota", "lru"], trace, memory=32, settings={"quota": 4})
    many = accel_magic.gpupolicy(["quota", "lru"], trace, memory=32, settings={"quota": 400})
    assert many.counts["misses"]["quota"] == many.counts["misses"]["default"]
    assert few.counts["misses"]["quota"] != few.counts["misses"]["default"]
    with raises("program.bad-setting", ProbeError):
        accel_magic.gpupolicy(["lru"], trace, memory=32, settings={"quota": 4})


def test_a_map_is_filled_with_what_the_device_counted():
    """Of 40 blocks far apart, 8 are used again and again; the driver hears of faults only."""
    random = np.random.default_rng(2)
    numbers = np.where(random.random(6000) < 0.7, random.integers(0, 8, 6000), random.integers(8, 40, 6000))
    trace = PageTrace.of((1000 + 3 * numbers).astype(np.uint64) * 512, source="made by a test")
    frame = trace.frame()
    counts = frame.groupby("block").size().rename("count").reset_index()
    tables = (
        counts,
        counts.assign(block=counts["block"] * 512 + 7).rename(columns={"block": "page"}),
        counts.assign(block=counts["block"] * 2**21 + 4097).rename(columns={"block": "address"}),
        pd.concat([counts.assign(count=counts["count"] - 1), counts.assign(count=1)]),
        pd.concat([counts, pd.DataFrame({"block": np.array([5], np.uint64), "count": [99]})]),
    )
    for table in tables:
        found = accel_magic.gpupolicy(
            "hot", trace, memory=16, faults_only=True, fill={"hot": table}, settings={"least": 300}
        )
        assert found.counts["misses"]["hot"] < 0.8 * found.counts["misses"]["default"]
        assert len(found.maps["hot"]["hot"]) == 40
        assert found.maps["hot"]["hot"]["key"].max() == 39 << 21
    cold = accel_magic.gpupolicy("hot", trace, memory=16, faults_only=True)
    assert cold.counts["misses"]["hot"] > found.counts["misses"]["hot"]
    for wrong in (counts[["count"]], counts.assign(page=1), counts.assign(block=0.5), counts.assign(more=1)):
        with raises("program.bad-setting", ProbeError):
            accel_magic.gpupolicy("hot", trace, fill={"hot": wrong})
    with raises("program.bad-setting", ProbeError):
        accel_magic.gpupolicy("lru", trace, fill={"hot": counts})


COUNTING = """
#include "accel_gpu.h"
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u64); /* page */
	__type(value, u64);
} seen SEC(".maps");
SEC("gpu/store")
int count(struct gpu_ctx *ctx)
{
	u64 page = ctx->address >> 12, zero = 0, *there = bpf_map_lookup_elem(&seen, &page);
	if (!there) {
		bpf_map_update_elem(&seen, &page, &zero, BPF_NOEXIST);
		there = bpf_map_lookup_elem(&seen, &page);
	}
	if (there)
		__sync_fetch_and_add(there, 1);
	return 0;
}
char _license[] SEC("license") = "GPL";
"""


def test_the_map_of_a_program_in_the_kernels_feeds_a_policy(tmp_path):
    pytest.importorskip("numba.cuda")
    program = tmp_path / "counting.bpf.c"
    program.write_text(COUNTING)
    names = {}
    exec(KERNEL, names)
    with accel_magic.gputrace("pagetrace", str(program), device="cpu") as traced:
        names["work"]()
    seen = traced.result.maps["seen"].rename(columns={"key": "page"})
    assert seen["value"].sum() == 128 * 256  # a store of each thread
    found = accel_magic.gpupolicy("hot", traced.result, memory=4, faults_only=True, fill={"hot": seen})
    assert found.maps["hot"]["hot"]["value"].sum() == 128 * 256


def test_two_queues_keep_what_is_used_often_and_a_part_of_a_loop():
    for trace, memory in (("zipf:blocks=256", 32), ("zipf+scan:blocks=256", 32), ("loop:blocks=80", 64)):
        misses = accel_magic.gpupolicy(["2q"], f"{trace},accesses=30000", memory=memory).counts["misses"]
        assert misses["2q"] < 0.9 * misses["default"]


def test_progress_is_told_after_every_million_accesses():
    told = []
    trace = generators.parse("loop:accesses=2500000,blocks=64")
    accel_magic.gpupolicy(["fifo"], trace, memory=64, progress=lambda *step: told.append(step))
    assert told == [(name, at) for name in ("default", "fifo") for at in (1 << 20, 2 << 20, 2_500_000)]


def test_text_html_and_figures_say_what_was_modelled(loop, tmp_path):
    lines = str(loop).splitlines()
    assert "20,000 accesses to 160 MiB" in lines[0]
    assert lines[1].startswith("modelled: no GPU was used")
    assert lines[2].startswith("time: pcie4, 31.5 GB/s")
    assert lines[5].split()[0] == "mru"
    bundle = loop._repr_mimebundle_()
    assert "modelled" in bundle["text/html"]
    assert loop.figures == ("misses", "memory")
    renderers = loop.figure().renderers
    assert len(renderers) == 4
    assert max(renderers[0].data_source.data["y"]) == 1.0  # the default misses always
    assert loop.to_html(tmp_path / "page.html").stat().st_size > 1000


def test_maps_of_policies_are_data_frames():
    found = accel_magic.gpupolicy("lfu", "loop:accesses=1000,blocks=10", memory=8)
    table = found.maps["lfu"]["frequency"]
    assert len(table) == 10
    assert table["value"].sum() == 1000
    assert "mru" not in found.maps


@pytest.mark.parametrize(
    ("memory", "chunks"), [("50%", 40), (7, 7), ("7", 7), ("64MiB", 32), ("0.5 GiB", 256), ("100%", 80)]
)
def test_sizes_of_memory_have_units(memory, chunks):
    assert memory_size(memory, 80) == chunks


@pytest.mark.parametrize("memory", ["0", "1MiB", "many", "-3", "", "1%"])
def test_other_sizes_are_typed_errors(memory):
    with raises("policy.bad-memory", ProbeError):
        memory_size(memory, 80)


def test_the_magic_tries_policies_on_files_variables_and_generated_traces(tmp_path):
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "accel_magic")
    try:
        shell.user_ns["mine"] = blocks(ROUND)
        shell.user_ns["mine"].save(tmp_path / "round.parquet")
        variable = shell.run_line_magic("gpupolicy", "mru --trace mine --memory 6 -o kept")
        assert shell.user_ns["kept"] is variable
        file = shell.run_line_magic("gpupolicy", f"mru --trace {tmp_path}/round.parquet --memory 75% --faults-only")
        assert not file.trials.observed
        pd.testing.assert_series_equal(file.trace.frame()["page"], variable.trace.frame()["page"])
        with raises("policy.name-twice", ProbeError):
            shell.run_line_magic("gpupolicy", "mru mru --trace mine")
        with raises("option.output-name", ProbeError):
            shell.run_line_magic("gpupolicy", "mru --trace mine -o 7")
        with raises("policy.one-trace", ProbeError):
            shell.run_line_magic("gpupolicy", "mru")
        with raises("option.unknown", ProbeError):
            shell.run_line_magic("gpupolicy", "--trace mine")
    finally:
        shell.run_line_magic("unload_ext", "accel_magic")
        InteractiveShell.clear_instance()


def test_the_magic_tries_policies_on_the_pages_of_the_cells_kernels():
    pytest.importorskip("numba.cuda")
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "accel_magic")
    try:
        shell.run_cell(KERNEL)
        found = shell.run_cell_magic("gpupolicy", "mru --memory 4 --device cpu", "for _ in range(3): work()\n7")
        assert found.value == 7
        assert "simulated device" in str(found)
        pages = np.unique(found.trace.page)  # of the device's copy
        assert 32 <= len(pages) <= 33
        assert pages[-1] - pages[0] == len(pages) - 1
        assert found.by("kernel")["kernel"].str.contains("scale").all()
        for line, cell in (("mru --trace loop", "1"), ("mru", None)):
            with raises("policy.one-trace", ProbeError):
                shell.find_cell_magic("gpupolicy")(line, cell)
        for line, code in (("mruu", "program.unreadable"), ("mru --set nope=1", "program.bad-setting")):
            with raises(code, AccelMagicError):
                shell.find_cell_magic("gpupolicy")(line, "ran = True")
        assert "ran" not in shell.user_ns
    finally:
        shell.run_line_magic("unload_ext", "accel_magic")
        InteractiveShell.clear_instance()


def test_a_trace_without_accesses_and_a_file_of_something_else_are_typed_errors():
    with raises("policy.no-accesses", ProbeError):
        accel_magic.gpupolicy("mru", blocks([]))
    with raises("policy.no-trace", ProbeError):
        accel_magic.gpupolicy("mru", "notebooks/recordings/flame-inference.parquet")

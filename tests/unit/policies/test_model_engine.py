"""The model's decisions are those of independent implementations, access by access."""

import random
import shutil
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel_magic.errors import ProgramError
from accel_magic.policies import policy
from accel_magic.policies.model_engine import FAULT, HIT, MISS, ModelMemory
from accel_magic.policies.page_trace import PAGES_PER_BLOCK
from tests.support import thorough
from tests.support.errors import raises
from tests.support.paths import ROOT

pytestmark = pytest.mark.component

BLOCKS = st.lists(st.integers(0, 24), min_size=1, max_size=400)
POLICIES = [None, *(name for name in policy.shipped() if name != "timeslices")]


def replaced(blocks, chunks, *, moved, last=False):
    """Misses and victims of a list from which the first (or last) goes; `moved`: accesses put a block at its end."""
    there, told = OrderedDict(), []
    for block in blocks:
        victim, missed = -1, block not in there
        if missed and len(there) == chunks:
            victim, _ = there.popitem(last=last)
        if missed or moved:
            there.pop(block, None)
            there[block] = None
        told.append((MISS if missed else HIT, victim))
    return told


def decisions(name, blocks, chunks, *, observe=True):
    model = ModelMemory(policy.load(name) if name else None, chunks=chunks, blocks=25, observe=observe)
    told = model.run(np.array(blocks, np.uint64) * PAGES_PER_BLOCK)
    return list(zip(told["outcome"].tolist(), told["evicted"].tolist(), strict=True))


@pytest.mark.parametrize(
    ("name", "observe", "rule"),
    [
        (None, True, {"moved": True}),
        ("lru", True, {"moved": True}),
        ("fifo", True, {"moved": False}),
        (None, False, {"moved": False}),  # a driver that hears of faults only
        ("mru", True, {"moved": True, "last": True}),
    ],
)
@settings(max_examples=thorough.choose(3, 200))
@given(blocks=BLOCKS, chunks=st.integers(1, 12))
def test_every_miss_and_victim_is_that_of_the_algorithm(name, observe, rule, blocks, chunks):
    assert decisions(name, blocks, chunks, observe=observe) == replaced(blocks, chunks, **rule)


class Memory:
    """The same memory in plain Python, with whole pages and the driver's own prefetching."""

    def __init__(self, chunks):
        self.chunks, self.there = chunks, OrderedDict()

    def access(self, number):
        block, page = divmod(number, PAGES_PER_BLOCK)
        pages, victim, out = self.there.get(block), -1, 0
        if pages is not None and page in pages:
            self.there.move_to_end(block)
            return HIT, -1, 0, 0
        outcome = FAULT
        if pages is None:
            outcome = MISS
            if len(self.there) == self.chunks:
                victim, gone = self.there.popitem(last=False)
                out = len(gone)
            self.there[block] = pages = set()
        self.there.move_to_end(block)
        before = len(pages)
        pages.add(page)
        chosen = ()
        for bits in range(1, 10):
            region = range(page >> bits << bits, (page >> bits << bits) + (1 << bits))
            if 100 * sum(one in pages for one in region) > 51 * len(region):
                chosen = region
        pages.update(chosen)
        return outcome, victim, len(pages) - before, out


@pytest.mark.parametrize("seed", range(3))
def test_pages_moved_and_victims_are_those_of_the_drivers_own_rules(seed):
    source = random.Random(seed)
    pages = []
    for _ in range(120):
        start, block = source.randrange(PAGES_PER_BLOCK), source.randrange(6)
        run = range(start, min(start + source.randrange(1, 60), PAGES_PER_BLOCK), source.choice((1, 1, 2, 3)))
        pages += [block * PAGES_PER_BLOCK + page for page in run]
    memory, model = Memory(4), ModelMemory(None, chunks=4, blocks=6)

    told = model.run(np.array(pages, np.uint64))

    columns = [told[name].tolist() for name in ("outcome", "evicted", "pages_in", "pages_out")]
    assert list(zip(*columns, strict=True)) == [memory.access(page) for page in pages]
    counts = model.counts
    assert (counts.accesses, counts.faults) == (len(pages), int((told["outcome"] != HIT).sum()))
    assert (counts.misses, counts.evictions) == (
        int((told["outcome"] == MISS).sum()),
        int((told["evicted"] >= 0).sum()),
    )
    assert (counts.pages_in, counts.pages_out) == (int(told["pages_in"].sum()), int(told["pages_out"].sum()))
    assert counts.refused == 0


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("observe", [True, False])
def test_memory_never_holds_more_than_it_has_and_only_what_is_there_is_evicted(name, observe):
    source = np.random.default_rng(7)
    pages = (source.zipf(1.3, 20_000) % 96).astype(np.uint64) * PAGES_PER_BLOCK + source.integers(0, 512, 20_000)
    model = ModelMemory(policy.load(name) if name else None, chunks=16, blocks=96, tenants=3, observe=observe)

    told = model.run(pages.astype(np.uint64), source.integers(0, 3, 20_000).astype(np.uint16))

    there = set()
    for block, outcome, victim in zip(
        (pages // PAGES_PER_BLOCK).tolist(), told["outcome"].tolist(), told["evicted"].tolist(), strict=True
    ):
        assert (block in there) == (outcome != MISS)
        if victim >= 0:
            there.remove(victim)
        there.add(block)
        assert len(there) <= 16
    assert int(told["pages_in"].sum()) - int(told["pages_out"].sum()) <= 16 * PAGES_PER_BLOCK


def test_the_memory_keeps_its_state_between_runs_and_a_new_model_begins_anew():
    pages = np.arange(8, dtype=np.uint64) * PAGES_PER_BLOCK
    model = ModelMemory(policy.load("lfu"), chunks=8, blocks=8)
    assert model.run(pages)["outcome"].tolist() == [MISS] * 8
    assert model.run(pages)["outcome"].tolist() == [HIT] * 8
    assert ModelMemory(policy.load("lfu"), chunks=8, blocks=8).run(pages)["outcome"].tolist() == [MISS] * 8


@pytest.mark.parametrize(
    ("name", "faults"),
    [("prefetch_none", 1024), ("prefetch_max", 2), ("prefetch_stride", 2 * (2 + 57)), (None, 34)],
)
def test_prefetching_brings_the_pages_that_the_policy_asked_for(name, faults):
    pages = np.arange(1024, dtype=np.uint64)
    model = ModelMemory(policy.load(name) if name else None, chunks=4, blocks=2)
    model.run(pages)
    assert model.counts.faults == faults
    assert model.counts.pages_in == 1024


REQUEST = """
#include "gpu_policy.h"
SEC("struct_ops/gpu_block_access")
int BPF_PROG(on_access, uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision)
{{
	{requests}
}}
SEC(".struct_ops.link")
struct gpu_mem_ops asking = {{ .gpu_block_access = (void *)on_access }};
"""


@pytest.mark.parametrize(
    ("requests", "refused"),
    [
        ("bpf_gpu_request_reorder(decision, 9, 1); return 1;", 1),
        ("bpf_gpu_request_reorder(decision, 1, 9); return 1;", 1),
        ("bpf_gpu_request_reorder(decision, 1, 1); bpf_gpu_request_reorder(decision, 1, 2); return 1;", 1),
        ("bpf_gpu_request_reorder(decision, 1, 1); bpf_gpu_request_reorder(decision, 1, 1); return 1;", 0),
        ("return 7;", 1),
    ],
)
def test_requests_that_make_no_sense_are_refused_counted_and_change_nothing(requests, refused):
    model = ModelMemory(policy.load(REQUEST.format(requests=requests)), chunks=4, blocks=8)
    pages = np.array([0, 1, 2, 0], np.uint64) * PAGES_PER_BLOCK
    assert model.run(pages)["refused"].tolist() == [0, 0, 0, refused]


@pytest.mark.parametrize(
    "sizes", [{"chunks": 0, "blocks": 1}, {"chunks": 1, "blocks": 0}, {"chunks": 1, "blocks": 1 << 40}]
)
def test_sizes_out_of_range_are_typed_errors(sizes):
    with raises("policy.bad-size", ProgramError):
        ModelMemory(None, **sizes)


def test_accesses_out_of_range_are_typed_errors_and_change_nothing():
    model = ModelMemory(None, chunks=1, blocks=2)
    for pages, tenants in (([3 * PAGES_PER_BLOCK], [0]), ([2**64 - 1], [0]), ([0], [1])):
        with raises("policy.bad-size", ProgramError):
            model.run(np.array(pages, np.uint64), np.array(tenants, np.uint16))
    assert model.counts.accesses == 0


def test_tenants_have_processes_of_their_own():
    model = ModelMemory(policy.load("quota"), chunks=32, blocks=64, tenants=2)
    first, second = np.arange(24), np.arange(24, 48)
    pages = np.concatenate([first, second]).astype(np.uint64) * PAGES_PER_BLOCK
    told = model.run(pages, np.repeat([0, 1], 24).astype(np.uint16))
    # Of both, what exceeds the quota of 16 goes first; only when nothing does, the oldest.
    assert told["evicted"][told["evicted"] >= 0].tolist() == [*range(23, 15, -1), 0, *range(40, 47)]


def test_the_committed_model_is_compiled_from_the_present_source(tmp_path):
    clang = shutil.which("clang-19")
    if not clang:
        pytest.skip("clang 19 is not installed; other versions generate different IR")
    tool = ROOT / "tools/build_policy_model"
    subprocess.run([sys.executable, tool, tmp_path], check=True, env={"PATH": "/usr/bin:/bin", "CLANG": clang})
    for name in ("model.ll", "known.ll", "interface.btf"):
        committed = (Path(policy.__file__).parent / name).read_bytes()
        assert (tmp_path / name).read_bytes() == committed, "run tools/build_policy_model"

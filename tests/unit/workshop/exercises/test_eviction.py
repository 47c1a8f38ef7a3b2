"""Exercise 10: the solution is close to the optimum on all programs; each mistake has a sentence of its own."""

from __future__ import annotations

import itertools
from pathlib import Path
from random import Random

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from accel_magic import gpupolicy, gputrace
from accel_magic.workshop import material
from accel_magic.workshop.exercise import BadAnswerError
from accel_magic.workshop.exercises import eviction
from accel_magic.workshop.exercises.eviction import MOST_MISSES, Eviction, Program, fewest_misses, room, trace

pytestmark = pytest.mark.component

HEAD, TAIL = "NV_GPU_PMM_POSITION_HEAD", "NV_GPU_PMM_POSITION_TAIL"
TUNED_FOR = 0
"""A seed for whose program it suffices to keep the first 12 blocks."""


def solution():
    """Return the answer that the master's solution gives."""
    variables = {"Path": Path}
    exec("\n".join(material.solution_code("eviction")), variables)
    return variables["policy"]


def skeleton():
    """Return the policy that the notebook begins with."""
    cell = next(one for one in material.student("eviction")["cells"] if "# your policy" in "".join(one["source"]))
    return "".join(cell["source"]).split('"""')[1]


def verdict(exercise, policy):
    """Return the keys of recognized mistakes, and whether all remarks are right."""
    remarks = exercise.judge({"policy": policy})
    return [one.wrong for one in remarks if one.wrong], all(one.right for one in remarks)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_solution_is_close_to_the_optimum(seed):
    assert verdict(Eviction(seed), solution()) == ([], True)


def with_unchecked_lookup(policy):
    counted = """
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 4096);
    __type(key, u64);
    __type(value, u64);
} seen SEC(".maps");
"""
    used = "{\n    u64 block = (u64)chunk->va_block, *times = bpf_map_lookup_elem(&seen, &block);\n    *times += 1;\n"
    return policy.replace("\n\nSEC", f"\n{counted}\nSEC", 1).replace("{\n    bpf_gpu", used + "    bpf_gpu", 1)


MISTAKES = {
    "unchanged": lambda begun, _: begun,
    "access-only": lambda begun, _: begun.replace(TAIL, HEAD),
    "hot-blocks": lambda _, good: good.replace(TAIL, HEAD),
    "tuned": lambda _, good: good.replace(HEAD, f"(chunk->va_block->start >> 21) < 12 ? {TAIL} : {HEAD}"),
    "rejected": lambda _, good: with_unchecked_lookup(good),
}


@pytest.mark.parametrize("key", Eviction.wrong)
def test_each_mistake_is_recognized(key):
    assert verdict(Eviction(TUNED_FOR), MISTAKES[key](skeleton(), solution())) == ([key], False)


def test_the_verifiers_own_reason_is_shown():
    (remark,) = Eviction(0).judge({"policy": with_unchecked_lookup(solution())})

    assert "*times += 1" in remark.text
    assert "it may be null here" in remark.text


@pytest.mark.parametrize(
    ("policy", "part"),
    [
        ("lru", "should be the text of a policy"),
        ("/etc/passwd", "should be the text of a policy"),
        ("struct_ops.bpf.c", "should be the text of a policy"),
        ("int\nstruct_ops", "policy.bpf.c:2"),
        ("int\nstruct_ops\ud800", "surrogates not allowed"),
    ],
)
def test_a_text_that_is_no_policy_gets_a_remark(policy, part):
    try:
        (remark,) = Eviction(0).judge({"policy": policy})
    except BadAnswerError as error:
        remark = error.remark

    assert not remark.right
    assert part in remark.text


@pytest.mark.parametrize("answer", [3, ["lru"], b"lru", np.zeros(3), Path("mine.bpf.c")])
def test_an_answer_that_is_no_text_is_refused(answer):
    with pytest.raises(BadAnswerError, match="should be a text"):
        Eviction(0).judge({"policy": answer})


def fewest_by_search(blocks, chunks):
    """Try all victims at each miss."""
    memories = {frozenset(): 0}
    for block in blocks:
        following = {}
        for memory, misses in memories.items():
            if block in memory:
                choices = [(memory, misses)]
            elif len(memory) < chunks:
                choices = [(memory | {block}, misses + 1)]
            else:
                choices = [(memory - {victim} | {block}, misses + 1) for victim in memory]
            for one, count in choices:
                following[one] = min(following.get(one, count), count)
        memories = following
    return min(memories.values())


def test_the_optimum_is_the_fewest_misses_of_all_ways_to_evict():
    random = Random(1)
    for _ in range(50):
        blocks = [random.randrange(6) for _ in range(14)]
        assert fewest_misses(blocks, 3) == fewest_by_search(blocks, 3)


def misses(blocks, chunks, *, new_first):
    """Count misses if the block used longest ago goes, or (`new_first`) the one that came last."""
    memory, count = [], 0
    for block in blocks:
        if block in memory:
            memory.remove(block)
            memory.append(block)
            continue
        count += 1
        if len(memory) == chunks:
            memory.pop(0)
        memory.insert(0 if new_first else len(memory), block)
    return count


def test_for_all_programs_the_default_misses_twice_as_often_and_a_simple_policy_suffices():
    for loop, hot, scan, every in itertools.product(range(20, 27), (2, 3), (2, 3), (6, 7, 8)):
        blocks = Program(loop, hot, scan, rounds=24, every=every).accesses()
        fewest = fewest_misses(blocks, room(blocks))
        assert misses(blocks, room(blocks), new_first=False) > 2 * fewest
        assert misses(blocks, room(blocks), new_first=True) < MOST_MISSES * fewest


def test_the_model_of_the_driver_misses_as_often_as_the_simple_policies():
    blocks = Program(20, 2, 2, rounds=24, every=6).accesses()

    counts = gpupolicy(solution(), trace(blocks), memory=room(blocks)).counts["misses"]

    assert counts["default"] == misses(blocks, room(blocks), new_first=False)
    assert counts["policy"] == misses(blocks, room(blocks), new_first=True)


def test_the_kernel_accesses_the_blocks_that_the_checker_assumes(monkeypatch):
    exercise = Eviction(0)
    small = Program(4, 2, 1, rounds=4, every=2)
    monkeypatch.setattr(exercise, "_program", small)

    with gputrace("pagetrace", device="cpu") as traced:
        exercise.run()

    blocks = traced.result.pages.frame()["block"].astype(int)
    assert list(blocks - blocks.min())[:-1] == small.accesses()  # the last one is of the sums


def test_hidden_programs_are_of_the_same_kind_and_the_same_for_each_check():
    one, same = Eviction(5), Eviction(5)

    assert one._others == same._others
    assert all(28 <= len(set(blocks)) <= 41 for blocks in one._others)
    assert len(one._others) == eviction._HIDDEN

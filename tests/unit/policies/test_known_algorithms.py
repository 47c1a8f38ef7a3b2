"""Known algorithms of replacement, against independent implementations."""

from collections import OrderedDict, deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel_magic.errors import ProbeError
from accel_magic.policies import known_algorithms
from accel_magic.policies.generators import GENERATORS, generate
from accel_magic.policies.page_trace import PageTrace
from tests.support.errors import raises
from tests.support.thorough import choose

pytestmark = pytest.mark.component

ROUNDS = choose(300, 2000)


def lru(blocks, chunks):
    there, missed = OrderedDict(), []
    for block in blocks:
        missed.append(block not in there)
        there[block] = None
        there.move_to_end(block)
        if len(there) > chunks:
            there.popitem(last=False)
    return missed


def fifo(blocks, chunks):
    there, missed = deque(), []
    for block in blocks:
        missed.append(block not in there)
        if missed[-1]:
            if len(there) == chunks:
                there.popleft()
            there.append(block)
    return missed


def mru(blocks, chunks):
    there, missed = OrderedDict(), []
    for block in blocks:
        missed.append(block not in there)
        if missed[-1] and len(there) == chunks:
            there.popitem(last=True)
        there[block] = None
        there.move_to_end(block)
    return missed


def belady(blocks, chunks):
    """Evict the block that is wanted latest."""
    never = len(blocks)
    upcoming, next_use = [never] * len(blocks), {}
    for at in range(len(blocks) - 1, -1, -1):
        upcoming[at] = next_use.get(blocks[at], never)
        next_use[blocks[at]] = at
    there, missed = {}, []
    for at, block in enumerate(blocks):
        missed.append(block not in there)
        if missed[-1] and len(there) == chunks:
            del there[max(there, key=there.get)]
        there[block] = upcoming[at]
    return missed


def fewest_of_all(blocks, chunks):
    """Try every choice of what to evict."""
    reached = {frozenset(): 0}
    for block in blocks:
        following = {}
        for there, misses in reached.items():
            if block in there:
                choices = [there]
            elif len(there) < chunks:
                choices = [there | {block}]
            else:
                choices = [there - {out} | {block} for out in there]
            for choice in choices:
                following[choice] = min(misses + (block not in there), following.get(choice, len(blocks)))
        reached = following
    return min(reached.values())


INDEPENDENT = {"lru": lru, "fifo": fifo, "mru": mru}
blocks_of_a_trace = st.integers(1, 12).flatmap(lambda most: st.lists(st.integers(0, most), max_size=120))


def trace_of(blocks):
    return PageTrace.of(np.array(blocks, np.uint64) * 512 + 5, source="test")


def misses(trace, algorithm, chunks):
    """Whether each access misses."""
    return known_algorithms.misses_by_step(trace, algorithm, chunks, np.arange(len(trace))).astype(bool)


@settings(max_examples=ROUNDS)
@given(blocks_of_a_trace, st.integers(1, 14))
def test_each_access_misses_as_in_an_independent_implementation(blocks, chunks):
    for algorithm, independent in INDEPENDENT.items():
        assert misses(trace_of(blocks), algorithm, chunks).tolist() == independent(blocks, chunks), algorithm


@settings(max_examples=ROUNDS)
@given(blocks_of_a_trace, st.integers(1, 14))
def test_the_optimum_is_that_of_belady_and_up_to_each_access_nobody_has_fewer_misses(blocks, chunks):
    missed = misses(trace_of(blocks), "opt", chunks)

    assert missed.sum() == sum(belady(blocks, chunks)) == known_algorithms.count(trace_of(blocks), "opt", chunks)
    for independent in (lru, fifo, mru, belady):
        assert (np.cumsum(missed) <= np.cumsum(independent(blocks, chunks))).all()


@settings(max_examples=ROUNDS // 3)
@given(st.lists(st.integers(0, 5), max_size=14), st.integers(1, 4))
def test_no_choice_of_evictions_has_fewer_misses_than_the_optimum(blocks, chunks):
    assert known_algorithms.count(trace_of(blocks), "opt", chunks) == fewest_of_all(blocks, chunks)


@settings(max_examples=ROUNDS // 3)
@given(blocks_of_a_trace)
def test_the_curve_has_the_misses_of_every_size(blocks):
    curve = known_algorithms.curve(trace_of(blocks), sizes=(2, 3))

    assert curve.index.tolist() == list(range(1, len(set(blocks)) + 1))
    assert curve["lru"].tolist() == [sum(lru(blocks, chunks)) for chunks in curve.index]
    for chunks in curve.index:
        wanted = sum(belady(blocks, chunks)) if chunks in (2, 3) else None
        assert (curve["opt"].isna()[chunks]) if wanted is None else curve["opt"][chunks] == wanted


@pytest.mark.parametrize("name", GENERATORS)
def test_long_traces_of_many_blocks_agree_too(name):
    """Long enough that timelines are packed, and that trees and bits have several levels."""
    options = {} if name == "scan" else {"blocks": 900}
    trace = generate(name, accesses=30_000, seed=4, **options)
    blocks = (trace.page // 512).tolist()
    for chunks in (1, 2, 63, 400, len(set(blocks))):
        for algorithm, independent in INDEPENDENT.items():
            if algorithm != "fifo" or chunks < 100:
                assert misses(trace, algorithm, chunks).tolist() == independent(blocks, chunks), algorithm
    for chunks in (1, 63):
        assert known_algorithms.count(trace, "opt", chunks) == sum(belady(blocks, chunks))


@pytest.mark.parametrize("algorithm", known_algorithms.ALGORITHMS)
def test_a_trace_in_several_parts_is_one_trace(algorithm):
    """More than a part, of more blocks than one level of bits has: a loop, with known misses."""
    trace = generate("loop", accesses=2_500_000, blocks=5000)
    fewest = 5000 + 499 * 1000  # in each later round, about 4,000 of the 5,000 blocks are there
    wanted = {"lru": 2_500_000, "fifo": 2_500_000}.get(algorithm, fewest)

    assert wanted <= known_algorithms.count(trace, algorithm, 4000) <= wanted * 1.002
    assert known_algorithms.count(trace, algorithm, 5000) == 5000


def test_the_optimum_of_a_loop_is_mru():
    trace = generate("loop", accesses=20_000, blocks=80)

    assert (
        known_algorithms.count(trace, "opt", 64)
        == known_algorithms.count(trace, "mru", 64)
        < known_algorithms.count(trace, "lru", 64)
        == 20_000
    )


def test_a_scan_misses_once_a_block_whatever_the_algorithm():
    trace = generate("scan", accesses=5000, touches=5)

    assert {known_algorithms.count(trace, algorithm, 7) for algorithm in known_algorithms.ALGORITHMS} == {1000}


def test_block_numbers_may_be_any():
    far = PageTrace.of(np.array([0, 2**55 - 1, 0, 77, 2**55 - 1], np.uint64) * 512, source="x")

    assert misses(far, "lru", np.int64(2)).tolist() == [True, True, False, True, True]
    assert known_algorithms.count(far, "opt", np.int64(2)) == 3


def test_an_empty_trace_has_no_misses():
    empty = PageTrace.of([], source="x")

    assert [known_algorithms.count(empty, algorithm, 1) for algorithm in known_algorithms.ALGORITHMS] == [0] * 4
    assert known_algorithms.curve(empty, sizes=(1,)).empty


@pytest.mark.parametrize(
    ("algorithm", "chunks", "code"), [("best", 1, "pages.unknown-algorithm"), ("lru", 0, "pages.bad-memory")]
)
def test_unknown_algorithms_and_empty_memory_are_rejected(algorithm, chunks, code):
    with raises(code, ProbeError):
        known_algorithms.count(generate("zipf", accesses=5), algorithm, chunks)

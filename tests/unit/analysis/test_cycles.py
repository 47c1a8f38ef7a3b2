import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_magic.analysis.cycles import find
from tests.every_step import lines_per_row


def found(text, groups=None, **options):
    """Loops in a text, as (index, cycle, repeats)."""
    codes = np.array([ord(letter) for letter in text], np.int32)
    cycles = find(codes, None if groups is None else np.array(groups), **options)
    at = zip(cycles.first.tolist(), cycles.period.tolist(), cycles.repeats.tolist(), strict=True)
    return [(first, text[first : first + period], repeats) for first, period, repeats in at]


def owners(text, groups, longest, least):
    """For each call the loop it belongs to, as (length, -period, -first): the greatest of all that contain it."""
    size = len(text)
    run = np.cumsum([place == 0 or groups[place] != groups[place - 1] for place in range(size)])

    def goes_on(place, period):
        return place + period < size and text[place] == text[place + period] and run[place] == run[place + period]

    best = [(0, 0, 0)] * size
    for period, first in itertools.product(range(1, longest + 1), range(size)):
        if first and goes_on(first - 1, period):
            continue
        end = next(place for place in range(first, size) if not goes_on(place, period))
        length = end - first + period
        if end > first and length >= least * period:
            best[first : first + length] = [max(one, (length, -period, -first)) for one in best[first : first + length]]
    return best


def slowly(text, groups, longest, least):
    """The same from its definition, call by call."""
    stretches, place = [], 0
    for (_, period, _), calls in itertools.groupby(owners(text, groups, longest, least)):
        size = len(list(calls))
        if period and size // -period >= least:
            stretches.append((place, text[place : place - period], size // -period))
        place += size
    return stretches


def test_a_loop_is_found_with_its_shortest_cycle():
    assert found("xabcabcabcaby") == [(1, "abc", 3)]
    assert found("aaaaaaaa") == [(0, "a", 8)]
    assert found("abababab") == [(0, "ab", 4)]


def test_a_run_inside_a_cycle_belongs_to_the_cycle():
    assert found("zaaabaaabaaab") == [(1, "aaab", 3)]


def test_adjacent_loops_do_not_overlap():
    assert found("ababababcbcbcbc") == [(0, "ab", 4), (8, "cb", 3)]
    assert found("aaabbb") == [(0, "a", 3), (3, "b", 3)]


def test_fewer_repeats_are_not_a_loop():
    assert found("abab") == []
    assert found("abab", least=2) == [(0, "ab", 2)]
    assert found("a") == []
    assert found("") == []


def test_a_cycle_has_at_most_the_given_number_of_calls():
    assert found("abcdefgh" * 3) == [(0, "abcdefgh", 3)]
    assert found("abcdefghi" * 3) == []
    assert found("abcdefghi" * 3, longest=9) == [(0, "abcdefghi", 3)]


def test_a_loop_lies_within_one_group():
    assert found("aaaaaa", [0, 0, 0, 1, 1, 1]) == [(0, "a", 3), (3, "a", 3)]
    assert found("ababab", [0, 0, 0, 1, 0, 0]) == []


@given(st.text("ab", max_size=40), st.integers(1, 5), st.integers(2, 4), st.randoms(use_true_random=False))
def test_cycles_match_a_plain_search(text, longest, least, random):
    groups = [random.random() < 0.9 for _ in text]

    assert found(text, groups, longest=longest, least=least) == slowly(text, groups, longest, least)


@given(st.lists(st.tuples(st.text("abc", min_size=1, max_size=4), st.integers(1, 6)), max_size=8))
def test_consecutive_loops_match_a_plain_search(loops):
    text = "".join(cycle * repeats for cycle, repeats in loops)

    assert found(text) == slowly(text, [0] * len(text), 8, 3)


@pytest.mark.parametrize("kinds", [2, 100])
def test_cycles_are_found_without_python_code_per_call(kinds):
    codes = np.random.default_rng(1).integers(0, kinds, 200_000).astype(np.int32)

    assert lines_per_row(lambda calls: find(codes[:calls]), 10_000, 200_000) < 0.2

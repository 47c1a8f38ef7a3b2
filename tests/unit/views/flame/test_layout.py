"""The tree of a flame graph, against sums by path made the slow way."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel_magic.profiles.model import Kind, ProfileBuilder, State
from accel_magic.views.flame import layout
from accel_magic.views.flame.cells import Grid
from accel_magic.views.flame.layout import ALL, tree

STACKS = st.lists(
    st.tuples(st.lists(st.sampled_from("abcd"), min_size=1, max_size=6), st.integers(0, 2**50), st.sampled_from(State)),
    min_size=1,
    max_size=30,
)


def profile(stacks):
    builder = ProfileBuilder()
    for names, weight, state in stacks:
        builder.add(builder.stack([builder.frame(name, Kind.NATIVE) for name in names]), weight, state=state)
    return builder.build()


def paths(drawn):
    """Names from the root to each node, read back from the preorder."""
    found, above = [], []
    for depth, frame in zip(drawn.depths.tolist(), drawn.node_frames.tolist(), strict=True):
        above = [*above[:depth], drawn.frames[frame].name]
        found.append("/".join(above[1:]))
    return found


def weights(drawn, entries):
    found = paths(drawn)
    sums = Counter()
    for node, state, weight in zip(entries.node, entries.state, entries.weight, strict=True):
        sums[found[node], int(state)] += int(weight)
    return sums


def expected(stacks):
    sums = Counter()
    for names, weight, state in stacks:
        sums["/".join(names), int(state)] += weight
    return +sums


@settings(max_examples=60, deadline=None)
@given(STACKS)
def test_every_stack_keeps_its_weight_in_every_state(stacks):
    drawn = tree(profile(stacks))

    assert weights(drawn, drawn.entries) == expected(stacks)
    assert len(set(paths(drawn))) == len(drawn.depths)
    assert drawn.frames[drawn.node_frames[0]] == ALL
    assert (np.diff(drawn.depths) <= 1).all()


@settings(max_examples=60, deadline=None)
@given(STACKS, STACKS)
def test_both_profiles_of_a_comparison_keep_theirs_in_one_tree(stacks, before):
    drawn = tree(profile(stacks), profile(before))

    assert weights(drawn, drawn.entries) == expected(stacks)
    assert weights(drawn, drawn.baseline) == expected(before)
    assert len(set(paths(drawn))) == len(drawn.depths)


def test_the_heaviest_sibling_is_first():
    drawn = tree(profile([(["a", "x"], 1, State.CPU), (["b"], 5, State.CPU), (["a", "y"], 2, State.CPU)]))

    assert paths(drawn) == ["", "b", "a", "a/y", "a/x"]


def test_what_weighs_nothing_is_not_drawn():
    assert paths(tree(profile([(["a"], 1, State.CPU), (["a", "b"], 0, State.CPU)]))) == ["", "a"]


def test_of_too_many_frames_the_lightest_count_as_their_callers(monkeypatch):
    monkeypatch.setattr(layout, "NODES", 4)
    stacks = [(["a", "x"], 1, State.CPU), (["a", "y", "z"], 4, State.CPU), (["b"], 2, State.CPU)]
    drawn = tree(profile(stacks))

    assert paths(drawn) == ["", "a", "a/y", "a/y/z"]
    assert weights(drawn, drawn.entries) == {("a", 0): 1, ("a/y/z", 0): 4, ("", 0): 2}
    assert drawn.folded == 2


def test_samples_of_one_cell_are_one_entry():
    made = profile([(["a"], 1, State.CPU), (["a"], 2, State.CPU), (["a"], 4, State.CPU), (["a"], 8, State.OFF_CPU)])
    made = replace(made, samples=replace(made.samples, time_ns=np.array([70, 30, 75, 71])))
    drawn = tree(made, grid=Grid(column_ns=20, rows=2, columns=10))

    entries = drawn.entries
    found = zip(entries.node, entries.cell, entries.state, entries.weight, strict=True)
    assert [tuple(map(int, row)) for row in found] == [(1, 3, 0, 2), (1, 7, 0, 5), (1, 7, 1, 8)]
    assert len(entries.lasting.node) == 0


def test_a_wait_beyond_its_cell_is_kept_with_its_two_ends():
    made = profile([(["a"], 35, State.OFF_CPU), (["a"], 35, State.CPU)])
    made = replace(made, unit="ns", samples=replace(made.samples, time_ns=np.array([14, 14])))
    entries = tree(made, grid=Grid(column_ns=20, rows=2, columns=10)).entries

    assert entries.weight.tolist() == [35]  # a sample of the clock is of a moment
    lasting = entries.lasting
    assert [column.tolist() for column in (lasting.first, lasting.last, lasting.head, lasting.tail)] == [
        [1],
        [4],
        [6],
        [9],
    ]
    assert [array.tolist() for array in entries.by_node] == [[1, 1], [35, 35]]


def test_a_frame_called_like_the_root_is_its_own():
    builder = ProfileBuilder()
    builder.add(builder.stack([builder.frame(ALL.name, ALL.kind), builder.frame("a")]), 3)

    assert paths(tree(builder.build())) == ["", "all", "all/a"]


@pytest.mark.parametrize("depth", [1, 3000])
def test_stacks_may_be_very_deep(depth):
    drawn = tree(profile([(["a"] * depth, 1, State.CPU)]))

    assert drawn.depths.tolist() == list(range(depth + 1))

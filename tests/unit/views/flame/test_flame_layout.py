"""The tree of a flame graph, compared with sums by path computed the slow way."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_magic.kernel.stacks.frames import FrameKind
from accel_magic.recording.profile import ProfileBuilder, ThreadState
from accel_magic.views.flame.flame_layout import ALL, tree

STACKS = st.lists(
    st.tuples(
        st.lists(st.sampled_from("abcd"), min_size=1, max_size=6), st.integers(0, 2**50), st.sampled_from(ThreadState)
    ),
    min_size=1,
    max_size=30,
)


def profile(stacks):
    builder = ProfileBuilder()
    for names, weight, state in stacks:
        builder.add(builder.stack([builder.frame(name, FrameKind.NATIVE) for name in names]), weight, state=state)
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


@given(STACKS)
def test_every_stack_keeps_its_weight_in_every_state(stacks):
    drawn = tree(profile(stacks))

    assert weights(drawn, drawn.entries) == expected(stacks)
    assert len(set(paths(drawn))) == len(drawn.depths)
    assert drawn.frames[drawn.node_frames[0]] == ALL
    assert (np.diff(drawn.depths) <= 1).all()


@given(STACKS, STACKS)
def test_both_profiles_of_a_comparison_keep_their_weights_in_one_tree(stacks, before):
    drawn = tree(profile(stacks), profile(before))

    assert weights(drawn, drawn.entries) == expected(stacks)
    assert weights(drawn, drawn.baseline) == expected(before)
    assert len(set(paths(drawn))) == len(drawn.depths)


def test_the_heaviest_sibling_is_first():
    drawn = tree(
        profile([(["a", "x"], 1, ThreadState.CPU), (["b"], 5, ThreadState.CPU), (["a", "y"], 2, ThreadState.CPU)])
    )

    assert paths(drawn) == ["", "b", "a", "a/y", "a/x"]


def test_frames_without_weight_are_not_drawn():
    assert paths(tree(profile([(["a"], 1, ThreadState.CPU), (["a", "b"], 0, ThreadState.CPU)]))) == ["", "a"]


def test_with_too_many_frames_the_lightest_count_as_their_callers():
    stacks = [(["a", "x"], 1, ThreadState.CPU), (["a", "y", "z"], 4, ThreadState.CPU), (["b"], 2, ThreadState.CPU)]
    drawn = tree(profile(stacks), most=4)

    assert paths(drawn) == ["", "a", "a/y", "a/y/z"]
    assert weights(drawn, drawn.entries) == {("a", 0): 1, ("a/y/z", 0): 4, ("", 0): 2}
    assert drawn.folded == 2


def test_the_stack_of_each_sample_and_the_parent_of_each_node_are_known():
    stacks = [
        (["a", "b"], 1, ThreadState.CPU),
        (["c"], 5, ThreadState.CPU),
        (["a"], 2, ThreadState.CPU),
        (["c"], 3, ThreadState.OFF_CPU),
    ]
    drawn = tree(profile(stacks))
    found = paths(drawn)

    assert [found[node] for node in drawn.stacks] == ["a/b", "c", "a", "c"]
    assert {found[node]: found[parent] for node, parent in enumerate(drawn.parents) if node} == {
        "a": "", "a/b": "a", "c": "",
    }  # fmt: skip
    assert drawn.parents[0] == -1


def test_a_frame_named_like_the_root_is_a_separate_frame():
    builder = ProfileBuilder()
    builder.add(builder.stack([builder.frame(ALL.name, ALL.kind), builder.frame("a")]), 3)

    assert paths(tree(builder.build())) == ["", "all", "all/a"]


@pytest.mark.parametrize("depth", [1, 3000])
def test_very_deep_stacks_work(depth):
    drawn = tree(profile([(["a"] * depth, 1, ThreadState.CPU)]))

    assert drawn.depths.tolist() == list(range(depth + 1))

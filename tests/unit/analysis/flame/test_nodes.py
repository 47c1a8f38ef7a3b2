"""Profiles of several nodes as one: weights, times and threads stay those of each node."""

import numpy as np
import pytest

from accel_magic.analysis.flame.nodes import NodeProfile, apart, together
from accel_magic.cluster.node import Node
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.recording.profile import Lost
from tests.support.profiles import PHASES, phases

SECOND = 1_000_000_000


class Shifted:
    """A clock that differs by a constant."""

    def __init__(self, offset_ns):
        self.offset_ns = offset_ns

    def to_reference(self, times):
        return times + self.offset_ns


@pytest.fixture
def parts():
    """Two nodes: the second one began 3 s after the first, on a clock that is a day behind, and also waited."""
    first = phases(
        lost=[Lost(2, "x"), Lost(1, "y", "missed")], notes=["a"], started="2026-01-02", machine={"host": "h"}
    )
    second = phases(
        [(0, 20, "main;compute;gemm[n]")],
        waits=[(20, 25, "main;lock[w]")],
        lost=[Lost(5, "x")],
        banners=["simulated"],
        started="2026-01-01",
        machine={"host": "g"},
    )
    day = 86_400 * SECOND
    return [
        NodeProfile(Node("h", 0, name="rank 0"), first, 10 * SECOND, Shifted(0)),
        NodeProfile(Node("g", 1, name="rank 1"), second, 13 * SECOND + day, Shifted(-day)),
    ]


def test_the_total_below_each_root_is_the_nodes_own(parts):
    profile = together(parts)

    roots = [profile.frames[frame] for frame in profile.node_frames[profile.parents < 0].tolist()]
    assert roots == [Frame("h/rank 0", FrameKind.PROCESS), Frame("g/rank 1", FrameKind.PROCESS)]
    assert profile.totals()[profile.parents < 0].tolist() == [part.profile.total for part in parts]
    assert profile.total == sum(part.profile.total for part in parts)


def test_stacks_are_unchanged_below_the_root(parts):
    profile = together(parts)

    def weights(of, skip):
        found = {}
        for node, weight in zip(of.samples.stack.tolist(), of.samples.weight.tolist(), strict=True):
            path = of.path(node)[skip:]
            found[path] = found.get(path, 0) + weight
        return found

    expected = weights(parts[0].profile, 0)
    for path, weight in weights(parts[1].profile, 0).items():
        expected[path] = expected.get(path, 0) + weight
    assert weights(profile, 1) == expected
    assert len(expected) == len(PHASES) + 1
    table = profile.frame_table().set_index("name")
    assert table.loc["gemm", "own_ns"] == (15 + 20) * SECOND


def test_times_are_on_the_first_nodes_clock_and_in_order(parts):
    samples = together(parts).samples

    own = [part.profile.samples.time_ns for part in parts]
    assert samples.time_ns.tolist() == sorted([*own[0].tolist(), *(own[1] + 3 * SECOND).tolist()])
    assert together(parts).duration_ns == 30 * SECOND


def test_losses_notes_and_banners_are_those_of_all(parts):
    profile = together(parts)

    assert profile.lost == (Lost(7, "x"), Lost(1, "y", "missed"))
    assert profile.notes == ("rank 0: a",)
    assert profile.banners == ("simulated",)
    assert (profile.started, profile.machine) == ("2026-01-01", {"host": "h, g"})


def test_threads_of_different_nodes_are_told_apart(parts):
    profile = together(parts)

    assert np.unique(profile.samples.tid).tolist() == [1]
    samples = apart(profile, [part.node for part in parts]).samples
    counts = dict(zip(*(each.tolist() for each in np.unique(samples.tid, return_counts=True)), strict=True))
    assert counts == {1: len(parts[0].profile.samples), (1 << 22) + 1: len(parts[1].profile.samples)}
    many = [NodeProfile(Node("h", name=str(n)), parts[0].profile, 0, Shifted(0)) for n in range(513)]
    tids = np.unique(apart(together(many), [part.node for part in many]).samples.tid)
    assert len(tids) == 511
    assert tids.min() == 1

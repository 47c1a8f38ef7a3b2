"""The live row of many nodes: which nodes and numbers it shows."""

import re

import pytest

from accel_magic.cluster.node_samples import ClusterSample, NodeCounters, NodeSample
from accel_magic.views.live.cluster_row import TOP_NODES, ClusterRow

SECOND = 1_000_000_000


def node(name, state="tracing", hits=0, *, at=SECOND, lost=0, host="vm", problem="", fix=""):
    return NodeSample(name, host, state, NodeCounters(at, {"t:a:b": hits}, hits, lost), problem, fix)


@pytest.fixture
def draw():
    """Draw samples one after the other; return the last drawing."""

    def draw_(*samples):
        drawn = []
        row = ClusterRow(len(samples[0].nodes))
        row.draw = drawn.append
        for sample in samples:
            row.update(sample)
        return drawn[-1]

    return draw_


def words(html):
    return " ".join(re.sub(r"<style>.*?</style>|<[^>]*>", " ", html, flags=re.DOTALL).split())


def cells(html):
    pieces = re.split(r'(?=<span class="am-(?:node[ "]|wide|more))', html)
    return [words(piece) for piece in pieces if piece.startswith('<span class="am-node')]


def test_rates_are_by_the_times_of_the_nodes_and_totals_are_sums(draw):
    html = draw(
        ClusterSample(SECOND, (node("a", hits=1000), node("b", hits=10))),
        ClusterSample(3 * SECOND, (node("a", hits=5000, at=3 * SECOND), node("b", hits=30, at=2 * SECOND))),
    )

    assert cells(html) == ["a 5 k 2 k/s", "b 30 20/s"]
    assert "3 s 2.02 k/s hits 5.03 k hits 5.03 k events 0 lost 2 of 2 nodes" in words(html)


def test_losses_are_an_alarm_and_only_where_there_are_some(draw):
    html = draw(ClusterSample(SECOND, (node("a", lost=7), node("b"))))

    assert re.findall(r'<span class="am-alarm">(.*?)</span>', html) == ["7 lost", "7 lost"]
    assert [("lost" in cell) for cell in cells(html)] == [True, False]


def test_untraced_nodes_are_named_with_the_reason_and_the_fix_once(draw):
    weak = [node(name, "untraced", problem="no <privilege>", fix='run "sudo"') for name in ("x", "y")]
    html = draw(ClusterSample(SECOND, (node("a"), *weak, node("z", "untraced", problem="no BCC"))))

    assert "not traced: x, y no &lt;privilege&gt;; fix: run &quot;sudo&quot;" in words(html)
    assert "not traced: z no BCC" in words(html)
    assert "1 of 4 nodes" in words(html)
    assert [cell.split()[0] for cell in cells(html)] == ["a"]


@pytest.mark.parametrize(
    ("state", "shown"), [("starting", "starting"), ("busy", "busy"), ("silent", "no answer"), ("ended", "worker ended")]
)
def test_the_state_of_a_node_replaces_its_rate(draw, state, shown):
    html = draw(ClusterSample(SECOND, (node("a", state, hits=12, problem="the reason"),)))

    assert cells(html) == [f"a 12 {shown}"]
    assert "the reason" in re.search(r'title="([^"]*)"', html)[1]


def test_of_many_nodes_those_with_problems_and_the_busiest_are_shown(draw):
    nodes = [node(f"n{number:02}", hits=number) for number in range(64)]
    nodes[0], nodes[1] = node("n00", "ended"), node("n01", lost=1)
    html = draw(ClusterSample(SECOND, tuple(nodes)))

    names = [cell.split()[0] for cell in cells(html)]
    assert names == ["n00", "n01", *(f"n{number:02}" for number in range(64 - TOP_NODES + 2, 64))]
    assert f"and {64 - TOP_NODES} more" in words(html)
    assert "64 of 64 nodes" in words(html)


def test_hosts_are_shown_if_there_are_several(draw):
    several = draw(ClusterSample(SECOND, (node("0", host="one"), node("1", host="two"))))

    assert [cell.split()[:3] for cell in cells(several)] == [["node", "0", "one"], ["node", "1", "two"]]
    assert "one" not in words(draw(ClusterSample(SECOND, (node("0", host="one"),))))

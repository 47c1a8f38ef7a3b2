"""Results of many nodes that have results of their own."""

import pytest

from accel_magic import ResultError
from accel_magic.cluster import clock
from accel_magic.cluster.folders import Problem
from accel_magic.cluster.node import Node
from accel_magic.results.cluster_results import NodeResult
from accel_magic.results.flame_cluster_result import FlameClusterResult
from accel_magic.results.flame_result import SampledResult
from accel_magic.results.gpu_cluster_result import GpuClusterResult
from tests.support.errors import raises
from tests.support.profiles import phases

SECOND = 1_000_000_000
GONE = NodeResult(
    Node("g", name="1"), None, None, Problem("it has ended", "killed", "look", "cluster.node-gone"), pid=7
)


def test_without_any_recording_there_is_an_error_with_the_reasons():
    for kind in (FlameClusterResult, GpuClusterResult):
        with raises("cluster.none-traced", ResultError) as caught:
            kind([GONE])
        assert caught.value.why == "it has ended"


@pytest.fixture
def result():
    """One node with a profile of 30 s, another that was killed."""
    own = SampledResult(phases(waits=[(30, 31, "main;lock[w]")]))
    return FlameClusterResult(
        [NodeResult(Node("h", 3, name="0"), own, clock.same_machine(), None, SECOND, "", 5), GONE]
    )


def test_nodes_with_and_without_a_result_are_listed(result):
    nodes = result.nodes.set_index("node")

    assert nodes["pid"].to_dict() == {"0": 5, "1": 7}
    assert nodes.loc["0", ["host", "rank", "hits", "lost"]].tolist() == ["h", 3, 3001, 0]
    assert nodes.loc["1", ["problem", "fix"]].tolist() == ["it has ended: killed", "look"]
    assert nodes["hits"].isna().tolist() == [False, True]
    assert result.clock["node"].tolist() == ["0"]
    assert "1 of 2 nodes traced" in str(result)


def test_a_part_is_found_by_name_or_rank(result):
    assert result.part("0") is result.part(3)
    with raises("cluster.no-node", ResultError, match="'2'"):
        result.part("2")
    with raises("cluster.no-node", ResultError) as caught:
        result.part("1")
    assert "it has ended" in caught.value.why


def test_sums_by_node_are_its_own(result):
    (row,) = result.by_node.to_dict("records")

    assert (row["node"], row["rank"], row["cpu_ns"], row["off_cpu_ns"]) == ("0", 3, 30 * SECOND, SECOND)
    assert result.total == 31 * SECOND

"""Results of many nodes: each node's tables beside each other, and compared with those of an earlier run."""

import pytest

import accel_magic
from accel_magic.cluster import clock
from accel_magic.cluster.folders import Problem
from accel_magic.cluster.node import Node
from accel_magic.results.cluster_result import ClusterResult, NodeTrace
from accel_magic.results.trace_result import TraceResult
from tests.support.errors import raises
from tests.support.paths import ROOT

pytestmark = pytest.mark.component

PROBE = "latency:uprobe:/lib/x:f"


@pytest.fixture
def job(make_recording):
    """A function that makes the result of a job: its ranks' numbers of calls, and how long each call takes."""

    def build(calls, took_ns=5000):
        parts = []
        for rank, count in calls.items():
            events = [(i * 1_000_000, 0, took_ns) for i in range(count)]
            recording = make_recording([PROBE], events)
            parts.append(NodeTrace(Node(f"h{rank}", rank, 0, "j", f"rank {rank}"), recording, clock.same_machine()))
        lost = NodeTrace(Node("h9", 9, 0, "j", "rank 9"), None, None, Problem("it was killed", fix="try again"))
        return ClusterResult([*parts, lost])

    return build


@pytest.mark.parametrize("table", ["counts", "latency"])
def test_tables_per_node_are_those_of_each_part(job, table):
    result = job({0: 30, 3: 200})
    found = result.per_node(table)

    assert found["node"].tolist() == ["rank 0", "rank 3"]
    assert found["host"].tolist() == ["h0", "h3"]
    assert found["rank"].tolist() == [0, 3]
    own = [getattr(TraceResult(part.recording), table) for part in result.parts[:2]]
    assert found["function"].tolist() == ["f", "f"]
    for column in own[0].columns.drop("histogram", errors="ignore"):
        assert found[column].tolist() == [one[column].item() for one in own]


def test_an_unknown_table_is_an_error(job):
    with raises(code="cluster.no-table", match="there is no table 'events' per node"):
        job({0: 1}).per_node("events")


def test_nodes_are_compared_with_their_counterparts(job):
    result, baseline = job({0: 100, 1: 100, 2: 7}, 5000), job({1: 50, 0: 200}, 50_000)
    compared = result.compare(baseline)

    assert (compared.table["hits"].item(), compared.table["baseline_hits"].item()) == (207, 250)
    assert compared.nodes["rank"].tolist() == [0, 1]
    assert compared.nodes["hits"].tolist() == [100, 100]
    assert compared.nodes["baseline_hits"].tolist() == [200, 50]
    assert compared.nodes["rate_ratio"].tolist() == pytest.approx([0.5, 2])
    assert compared.nodes["p50_ratio"].tolist() == pytest.approx([0.1, 0.1], rel=0.07)
    text = str(compared).partition("by node\n")[2].splitlines()
    assert text[1].split()[:4] == ["rank", "0", "f", "100"]
    assert "rank 1" in compared._repr_mimebundle_()["text/html"]


def test_compared_with_one_process_only_the_sums_are_compared(job):
    result = job({0: 100, 1: 100})
    compared = result.compare(TraceResult(result.parts[0].recording))

    assert compared.table["rate_ratio"].item() == pytest.approx(2)
    assert not hasattr(compared, "nodes")


def test_without_a_counterpart_no_node_is_compared(job):
    compared = job({0: 100}).compare(job({1: 100}))

    assert len(compared.nodes) == 0
    assert "no node has a counterpart" in str(compared)
    assert "no node has a counterpart" in compared._repr_mimebundle_()["text/html"]


@pytest.fixture(scope="module")
def labs():
    """Two machines whose NPU drivers number their jobs from 1 on: one works, one's NPU has hung."""
    files = {"works": "npu_lab_7.2-calls.parquet", "hangs": "npu_lab_7.2-hang.parquet"}
    own = {name: accel_magic.open(ROOT / "notebooks/recordings" / file) for name, file in files.items()}
    parts = [NodeTrace(Node(name, name=name), one.recording, clock.same_machine()) for name, one in own.items()]
    return own, ClusterResult(parts)


def test_drivers_of_several_nodes_are_diagnosed_one_by_one(labs):
    own, result = labs
    expected = {f"{name}: {finding.title}" for name, one in own.items() for finding in one.diagnose()}

    found = result.diagnose()

    assert {finding.title for finding in found} == expected
    assert found[0].severity == "problem"
    assert sorted(found.checked) == sorted(set(own["works"].diagnose().checked))
    for name in own:
        jobs = len(own[name].npu.jobs)
        for text in (str(result), result._repr_mimebundle_()["text/html"]):
            assert f"{name}: {jobs} job" in text
    assert "NPU LAB" in str(result)


@pytest.mark.parametrize("analysis", ["npu", "openvino", "drm", "gpu_jobs"])
def test_drivers_of_several_nodes_are_not_analyzed_as_one(labs, analysis):
    own, result = labs

    with raises(code="cluster.analyzed-per-node", match="several nodes") as caught:
        getattr(result, analysis)
    assert "part('works')" in caught.value.fix
    alone = ClusterResult(result.parts[:1])
    assert len(alone.npu.jobs) == len(own["works"].npu.jobs)

"""GPU traces of several nodes as one, on the simulated device."""

from dataclasses import replace

import numpy as np
import pytest

import accel_magic
from accel_magic import ResultError
from accel_magic.cluster import clock
from accel_magic.cluster.node import Node
from accel_magic.gpu.adapters import nvrtc
from accel_magic.results.cluster_results import NodeResult
from accel_magic.results.gpu_cluster_result import GpuClusterResult
from accel_magic.results.gpu_result import GpuResult
from tests.support.errors import raises

pytest.importorskip("llvmlite")

SOURCE = r"""
extern "C" __global__ void ones(int *out) { out[threadIdx.x] += 1; }
extern "C" __global__ void twos(int *out) { out[threadIdx.x] += 2; }
"""
DAY = 86_400 * 1_000_000_000


def traced(*launches):
    """Trace launches of kernels: name, and number of threads."""
    ptx = nvrtc.compile(SOURCE)
    with accel_magic.gputrace("kernelcount", device="cpu") as trace:
        for name, threads in launches:
            nvrtc.CpuKernel(ptx, name)[1, threads](np.zeros(threads, np.int32))
    return trace.result


@pytest.fixture(scope="module")
def results():
    return traced(("ones", 32), ("twos", 64)), traced(("ones", 96), ("ones", 32), ("ones", 32))


@pytest.fixture(scope="module")
def cluster(results):
    """Two ranks, and a node that sees nothing; the clock of the second is a day behind."""
    first, second = results
    behind = replace(clock.same_machine(), offset_ns=DAY)
    lost = replace(second.recording, api_lost=4)
    return GpuClusterResult(
        [
            NodeResult(Node("h", 0, name="rank 0"), first, clock.same_machine(), None, first.recording.start_ns),
            NodeResult(Node("g", 1, name="rank 1"), GpuResult(lost), behind, None, second.recording.start_ns - DAY),
        ]
    )


def test_counts_are_sums_and_each_nodes_own(cluster):
    assert cluster.counts["hits"].to_dict() == {"ones": 4, "twos": 1}
    assert cluster.by_node["rank 1"].to_dict() == {"ones": 3, "twos": 0}  # compiled, but not launched
    assert cluster.by_node["rank 0"].to_dict() == {"ones": 1, "twos": 1}
    table = cluster.tools["kernelcount"]
    assert sorted(table[["node", "host", "rank", "name", "launches", "threads"]].values.tolist()) == [
        ["rank 0", "h", 0, "ones", 1, 32],
        ["rank 0", "h", 0, "twos", 1, 64],
        ["rank 1", "g", 1, "ones", 3, 160],
    ]
    assert cluster.nodes[["hits", "events", "lost"]].values.tolist() == [[2, 2, 0], [3, 3, 4]]
    assert cluster.lost == 4
    assert cluster.losses["why"].str.startswith("rank 1: ").all()
    assert set(cluster.maps) == set(cluster.part(0).maps)


def test_times_are_on_one_clock(cluster, results):
    """Both traces were made by this process: its clock is the truth."""
    first, second = (result.recording for result in results)
    moments = [
        *(first.launches["time_ns"] + first.start_ns),
        *(second.launches["time_ns"] + second.start_ns),
    ]

    assert (cluster.launches["time_ns"] + first.start_ns).tolist() == moments
    assert cluster.launches["launch"].tolist() == [0, 1, 0, 1, 2]
    assert cluster.events["time_ns"].tolist() == cluster.launches["time_ns"].tolist()
    assert cluster.events["launch"].tolist() == [0, 1, 0, 1, 2]
    ended = second.start_ns + second.duration_ns
    assert cluster.duration_s == pytest.approx((ended - first.start_ns) / 1e9)


def test_what_it_shows_is_of_each_node(cluster):
    text, html = str(cluster), cluster._repr_mimebundle_()["text/html"]

    assert "2 of 2 nodes traced, on 2 hosts" in text
    assert "simulated device: kernels run in an interpreter" in text
    assert "simulated device: kernels run in an interpreter" in html
    assert "rank 1: " in text
    (row,) = (line.split() for line in text.splitlines() if line.startswith("ones"))
    assert row == ["ones", "1", "3"]


@pytest.mark.parametrize("word", ["figure", "diagnose", "plan"])
def test_what_it_lacks_has_a_fix(cluster, word):
    with raises(f"result.no-{word}", ResultError) as caught:
        value = getattr(cluster, word)
        value()
    assert caught.value.fix

"""The nodes of a trace, as text and HTML: problems first, then the nodes that were traced."""

import pytest

from accel_magic.cluster import clock
from accel_magic.cluster.folders import Problem
from accel_magic.cluster.node import Node
from accel_magic.results.cluster_result import ClusterResult, NodeTrace
from accel_magic.views.cluster_view import NAMED, TOP

pytestmark = pytest.mark.component

WEAK = Problem("weak0: no <privilege>", "CAP_BPF is missing", "run sudo", "machine.no-privilege")


@pytest.fixture
def job(make_recording):
    """Make the result of `count` nodes, the first of which has the most hits, with more parts after them."""

    def build(count, *more):
        parts = [
            NodeTrace(
                Node(f"h{n % 3}", name=f"n{n}"),
                make_recording(["t:a:b"], [(i, 0) for i in range(count - n)]),
                clock.same_machine(),
            )
            for n in range(count)
        ]
        return ClusterResult([*parts, *more])

    return build


def weak(number):
    problem = Problem(f"weak{number}: no <privilege>", WEAK.why, WEAK.fix, WEAK.code)
    return NodeTrace(Node("h0", name=f"weak{number}"), None, None, problem)


def test_one_node(job):
    lines = job(1).summary().splitlines()

    assert lines[0] == "1 of 1 node traced, on 1 host"
    assert [line.split() for line in lines[2:4]] == [
        ["node", "host", "hits", "events", "lost", "clock", "error"],
        ["n0", "h0", "1", "1", "0", "0", "ns"],
    ]


def test_problems_come_first_with_the_fix_and_the_same_problem_once(job, make_recording):
    ended = Problem("n9: the worker ended", "process 3 was killed", "look into its log", "cluster.worker-ended")
    early = NodeTrace(Node("h1", name="n9"), make_recording(["t:a:b"], [(1, 0)]), clock.same_machine(), ended)
    result = job(2, early, weak(0), weak(1))
    text, html = result.summary(), result._repr_mimebundle_()["text/html"]

    assert text.splitlines()[:9] == [
        "3 of 5 nodes traced, on 2 hosts, 2 without a recording",
        "",
        "not traced: weak0, weak1",
        "  no <privilege>: CAP_BPF is missing",
        "  fix: run sudo",
        "incomplete: n9",
        "  the worker ended: process 3 was killed",
        "  fix: look into its log",
        "",
    ]
    assert "not traced: weak0, weak1</span> no &lt;privilege&gt;: CAP_BPF is missing; fix: run sudo<" in html
    assert html.index("not traced: weak0") < html.index("incomplete: n9") < html.index("<table>")
    assert "<privilege>" not in html


def test_of_many_nodes_the_busiest_are_shown_and_of_many_problems_the_first_names(job):
    text = job(64, *map(weak, range(20))).summary()

    assert f"and {64 - TOP} more" in text
    assert f" n{TOP - 1} " in text.replace("\n", " ")
    assert f" n{TOP} " not in text.replace("\n", " ")
    assert f"weak{NAMED - 1} and {20 - NAMED} more\n" in text
    assert text.startswith("64 of 84 nodes traced, on 3 hosts, 20 without a recording\n")

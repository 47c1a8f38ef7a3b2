"""Which workers are asked for the counters of a machine's agents, and how nodes are shown that do not answer."""

import itertools
import threading
import time

import pytest

from accel_magic import codec
from accel_magic.api.cluster import agent_counters
from accel_magic.api.cluster.agent_counters import LiveNodes, WatchedNode
from accel_magic.cluster.adapters import NodeName
from accel_magic.cluster.agent_messages import Returned
from accel_magic.errors import MachineError

COUNTERS = {"time_ns": 1, "hits": {"t:a:b": 5}, "recorded": 5, "lost": 0, "worker_ended": False}


def returned(value):
    """The encoded answer with a value."""
    return codec.encoded(Returned(value=value))


class Answer:
    """The answer of one worker, which comes when the test lets it."""

    def __init__(self):
        self.value = None

    def wait(self, timeout):
        return self.value is not None

    def get(self):
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


class Cluster:
    """An adapter and its workers: they all run, on one other machine."""

    def __init__(self, names, *, queues):
        self.queues, self.slowness = queues, 1.0
        self.nodes = [NodeName(name, "far", 1, name, place="far") for name in names]
        self.calls = []

    def by_place(self):
        return {"far": self.nodes}

    def submit(self, address, function):
        answer = Answer()
        self.calls.append((address, function.arguments, answer))
        return answer


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test moves."""
    now = [100.0]
    monkeypatch.setattr(agent_counters.time, "monotonic", lambda: now[0])
    return now


def look(nodes):
    vars(type(nodes))["_ask"](nodes)
    return {node.name: node for node in nodes.sample(100.0).nodes}


def watch(cluster, **errors):
    watched = [WatchedNode(node, f"@{node.name}", errors.get(node.name)) for node in cluster.nodes]
    return LiveNodes(cluster, cluster, watched, lambda _: None)


def test_one_worker_is_asked_for_all_agents_of_its_machine_and_again_only_once_it_has_answered(clock):
    cluster = Cluster("ab", queues=True)
    nodes = watch(cluster)

    assert look(nodes)["a"].state == "starting"
    assert [call[:2] for call in cluster.calls] == [("a", (("@a", "@b"),))]
    clock[0] += agent_counters.TIMEOUT_S / 2
    look(nodes)
    assert len(cluster.calls) == 1
    cluster.calls[0][2].value = returned({"@a": COUNTERS, "@b": {**COUNTERS, "worker_ended": True}})
    shown = look(nodes)
    assert [shown[name].state for name in "ab"] == ["tracing", "ended"]
    assert shown["a"].counted.total == 5
    assert [call[0] for call in cluster.calls] == ["a", "a"]


def test_another_worker_is_asked_if_one_does_not_answer_and_stays_the_one_that_is_asked(clock):
    cluster = Cluster("ab", queues=True)
    nodes = watch(cluster)
    look(nodes)
    clock[0] += 2 * agent_counters.TIMEOUT_S
    look(nodes)
    assert [call[0] for call in cluster.calls] == ["a", "b"]
    cluster.calls[1][2].value = returned({"@a": COUNTERS})
    look(nodes)
    clock[0] += 2 * agent_counters.TIMEOUT_S
    cluster.calls[2][2].value = returned({})
    look(nodes)
    assert [call[0] for call in cluster.calls] == ["a", "b", "b", "b"]


@pytest.mark.parametrize(("queues", "state"), [(True, "busy"), (False, "silent")])
def test_nodes_of_which_nothing_was_heard_for_a_while_keep_their_counts(clock, queues, state):
    cluster = Cluster("a", queues=queues)
    nodes = watch(cluster)
    look(nodes)
    cluster.calls[0][2].value = returned({"@a": COUNTERS})
    look(nodes)
    clock[0] += 2 * agent_counters.SILENT_S

    shown = look(nodes)["a"]
    assert (shown.state, shown.counted.total) == (state, 5)
    assert shown.problem


def test_answers_that_are_no_counters_or_failed_or_are_older_change_nothing(clock):
    cluster = Cluster("a", queues=False)
    nodes = watch(cluster)
    values = [
        returned({"@a": {**COUNTERS, "time_ns": 9}}),
        returned({"@a": {"hits": {"t:a:b": -3}}}),
        codec.encoded(codec.Failure.of(MachineError("a call failed there", code="cluster.call-failed"))),
        RuntimeError("the worker has ended"),
        returned({"@a": {**COUNTERS, "time_ns": 8, "hits": {"t:a:b": 4}}}),
    ]
    look(nodes)
    for number, value in enumerate(values):
        cluster.calls[number][2].value = value
        shown = look(nodes)["a"]
        assert (shown.counted.time_ns, shown.counted.total) == (9, 5)


def test_a_node_that_is_not_traced_has_its_error(clock):
    error = MachineError("a: no privilege", why="CAP_BPF is missing", fix="sudo", code="machine.no-privilege")
    shown = look(watch(Cluster("a", queues=False), a=error))["a"]

    assert (shown.state, shown.problem, shown.fix) == ("untraced", "no privilege: CAP_BPF is missing", "sudo")


def test_it_shows_until_it_is_over_even_if_the_cluster_fails(monkeypatch):
    monkeypatch.setattr(agent_counters, "EVERY_S", 0.001)
    cluster, shown, over = Cluster("a", queues=False), [], threading.Event()
    cluster.by_place = lambda: 1 / 0
    nodes = LiveNodes(cluster, cluster, [WatchedNode(cluster.nodes[0], "@a", None)], shown.extend)
    thread = threading.Thread(target=nodes.run, args=(time.monotonic(), over))
    thread.start()
    for _ in itertools.count():
        if len(shown) > 2:
            break
        time.sleep(0.01)
    over.set()
    thread.join(60)
    assert not thread.is_alive()

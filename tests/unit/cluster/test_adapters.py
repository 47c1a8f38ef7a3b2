"""Reaching workers: which clients are known, and what comes back from workers that cannot be used."""

import os
import pickle
import socket
from dataclasses import replace

import pytest

from accel_magic import MachineError, ProbeError, codec
from accel_magic.api.cluster.routes import Route
from accel_magic.api.cluster.workers import workers_of
from accel_magic.cluster import clock, remote
from accel_magic.cluster.adapters import ClusterAdapter, DaskAdapter, IpyparallelAdapter, NodeGoneError, adapter_of
from accel_magic.cluster.agent_messages import Returned
from accel_magic.cluster.remote import RemoteCall
from tests.support.errors import raises


def client(module, name, **members):
    """An object of a class with this name, as it is recognised without importing its package."""
    return type(name, (), {"__module__": module, **members})()


class Answer:
    def __init__(self, ask):
        self._ask = ask

    def wait(self, timeout):
        return self._ask is not None

    def get(self):
        return self._ask()


class Local(ClusterAdapter):
    """Workers a, b and c, all of them this process; a function in `instead` answers for a worker."""

    queues = False

    def __init__(self, **instead):
        self.instead = instead
        self.gone = set()

    def addresses(self):
        return {name: name for name in "abc" if name not in self.gone}

    def submit(self, address, function):
        sent = pickle.loads(pickle.dumps(function))
        if address in self.instead and isinstance(function, RemoteCall):
            return Answer(self.instead[address] and (lambda: self.instead[address](sent)))
        return Answer(sent)


def called(adapter, node, function, **options):
    """Make one call; return its value or raise its error."""
    (answer,) = adapter.call_each({node: RemoteCall(function, answer=Returned[int])}, **options).values()
    if isinstance(answer, Exception):
        raise answer
    return answer


def failing(error):
    def fail(_):
        raise error

    return fail


def refuse():
    raise MachineError("it refuses", why="for a reason", fix="ask again", code="cluster.no-agent")


def fail():
    raise ZeroDivisionError("1/0")


def test_clients_are_recognised_by_the_names_of_their_classes():
    dask = adapter_of(client("distributed.client", "Client", asynchronous=False))
    engines = adapter_of(client("ipyparallel.client.client", "Client", ids=[0, 1, 2]))
    some = adapter_of(
        client("ipyparallel.client.view", "DirectView", targets=[0, 2], client=client("x", "y", ids=[0, 1, 2]))
    )
    one = adapter_of(client("ipyparallel.client.view", "DirectView", targets=1, client=client("x", "y", ids=[0, 1])))

    assert isinstance(dask, DaskAdapter)
    assert isinstance(engines, IpyparallelAdapter)
    assert engines.addresses() == {0: "0", 1: "1", 2: "2"}
    assert some.addresses() == {0: "0", 2: "2"}
    assert one.addresses() == {1: "1"}


@pytest.mark.parametrize("on", [object(), "tcp://host:8786", client("ipyparallel.client.view", "LoadBalancedView")])
def test_other_objects_are_an_error_that_lists_what_can_be_given(on):
    with raises("cluster.unknown-client", ProbeError) as caught:
        adapter_of(on)
    assert "distributed.Client" in caught.value.fix
    assert "DirectView" in caught.value.fix


def test_an_asynchronous_dask_client_is_an_error():
    with raises("cluster.asynchronous-client", ProbeError):
        adapter_of(client("distributed.client", "Client", asynchronous=True))


def test_nodes_are_described():
    nodes = Local().nodes()

    assert [(node.name, node.host, node.pid, node.error) for node in nodes] == [
        (name, socket.gethostname(), os.getpid(), None) for name in "abc"
    ]
    assert len({node.place for node in nodes}) == 1


def test_a_node_with_another_version_is_named_with_the_fix():
    local = Local(b=lambda call: codec.encoded(Returned(value=replace(remote.facts(), version="0.0.1"))))
    a, b, _ = local.nodes()

    assert a.error is None
    assert b.error.code == "cluster.other-version"
    assert "b: " in b.error.what
    assert "0.0.1" in b.error.why
    assert "pip install accel-magic==" in b.error.fix


@pytest.mark.parametrize(
    "error",
    [ModuleNotFoundError("No module named 'accel_magic'"), Exception("ImportError('accel_magic.cluster')")],
)
def test_a_node_without_the_package_is_named_with_its_host_and_process(error):
    _, b, _ = Local(b=failing(error)).nodes()

    assert b.error.code == "cluster.no-package"
    assert "pip install accel-magic==" in b.error.fix
    assert (b.host, b.pid) == (socket.gethostname(), os.getpid())


def test_errors_there_name_the_node():
    local = Local()
    (a, *_) = local.nodes()

    with raises("cluster.no-agent", MachineError, match="a: it refuses") as caught:
        called(local, a, refuse)
    assert (caught.value.why, caught.value.fix) == ("for a reason", "ask again")
    with raises("cluster.call-failed", MachineError, match="ZeroDivisionError"):
        called(local, a, fail)


def test_a_worker_that_left_is_gone_also_while_a_call_waits_for_it():
    local = Local()
    a, b, c = local.nodes()
    local.gone = {"a"}
    local.instead["b"] = None  # never answers

    answers = local.call_each({node: RemoteCall(os.getpid, answer=Returned[int]) for node in (a, c)})
    assert isinstance(answers[a], NodeGoneError)
    assert answers[c] == os.getpid()
    with raises("cluster.no-answer", MachineError, match="b: "):
        called(local, b, os.getpid, timeout_s=0)
    local.gone = {"a", "b"}
    with raises("cluster.node-gone", NodeGoneError, match="b: "):
        called(local, b, os.getpid)


def test_files_travel_in_parts_through_any_worker_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(remote, "CHUNK", 1000)
    content = os.urandom(3500)
    (tmp_path / "file").write_bytes(content)
    local = Local()
    a, *_ = local.nodes()

    for gone in ("", "a", "b"):
        local.gone = {gone}
        parts = list(Route(local, a, str(tmp_path)).read("file"))
        assert [len(part) for part in parts] == [1000, 1000, 1000, 500]
        assert b"".join(parts) == content


def test_the_clock_of_this_machine_is_compared_with_itself():
    local = Local()
    a, *_ = local.nodes()

    line = clock.line(local.exchange(a), local.exchange(a))
    assert abs(line.offset_ns) <= line.error_ns < 1e9


def test_a_call_is_pickled_by_reference():
    pickled = pickle.dumps(RemoteCall(remote.facts))

    assert b"accel_magic.cluster.remote" in pickled
    assert len(pickled) < 400


def test_workers_are_chosen_by_name_or_host():
    local = Local()

    assert [node.name for node in workers_of(local, None)] == ["a", "b", "c"]
    assert [node.name for node in workers_of(local, "[ac]")] == ["a", "c"]
    assert [node.name for node in workers_of(local, socket.gethostname()[:2] + "*")] == ["a", "b", "c"]
    with raises("cluster.no-such-worker", ProbeError) as caught:
        workers_of(local, "B")
    assert f"a on {socket.gethostname()}" in caught.value.why
    local.gone = {"a", "b", "c"}
    with raises("cluster.no-workers", MachineError):
        workers_of(local, None)
    local.addresses = lambda: 1 / 0
    with raises("cluster.unreachable", MachineError) as caught:
        workers_of(local, None)
    assert "ZeroDivisionError" in caught.value.why

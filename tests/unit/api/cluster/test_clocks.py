"""Comparing the clocks of workers: once per clock, through any worker that answers."""

import threading
import time
from dataclasses import replace

import pytest

from accel_magic.api.cluster.clocks import ClockComparisons
from accel_magic.cluster import clock
from accel_magic.cluster.adapters import NodeGoneError, NodeName
from accel_magic.cluster.clock import ClockExchange

S = 10**9
BOOTS = [f"{number:08x}-7d7f-4f0e-9a51-3d8f1c2b7a60" for number in range(40)]


def gone(node):
    return NodeGoneError(f"{node.name} is gone", code="cluster.node-gone")


class Machines:
    """Workers of machines whose clocks are ahead of this one by exactly their number of seconds; 0 is this one."""

    def __init__(self, machines):
        self.nodes = {NodeName(str(at), "h", 1, at): machine for at, machine in enumerate(machines)}
        self.gone, self.asked, self.slept_ns = set(), [], 0
        self._changing = threading.Lock()

    def call_each(self, calls):
        return {node: gone(node) if node.name in self.gone else self.reading(node) for node in calls}

    def reading(self, node):
        own, machine = clock.read(), self.nodes[node]
        if not machine:
            return own
        ahead = {name: getattr(own, name) + machine * S for name in ("monotonic_ns", "realtime_ns", "tai_ns")}
        return replace(own, **ahead, boottime_ns=own.boottime_ns + machine * S + self.slept_ns, boot_id=BOOTS[machine])

    def exchange(self, node):
        with self._changing:
            self.asked.append(node.name)
        if node.name in self.gone:
            raise gone(node)
        before = time.monotonic_ns()
        return ClockExchange(before, before + 500 + self.nodes[node] * S, before + 1000, 256)


def test_each_clock_is_compared_once_at_the_start_and_once_at_the_end():
    machines = Machines([0, 1, 1, 0, *range(2, 30), 1])
    clocks = ClockComparisons(machines)

    assert clocks.start(machines.nodes) == {}
    assert sorted(map(int, machines.asked)) == [1, *range(4, 32)]
    machines.asked.clear()
    clocks.end()
    assert sorted(map(int, machines.asked)) == [1, *range(4, 32)]

    for node, machine in machines.nodes.items():
        line = clocks.line(node)
        if not machine:
            assert line == clock.same_machine()
            continue
        assert line.how == "exchanges at start and end"
        assert line.exchanges == 512
        assert abs(line.offset_ns + machine * S) <= line.error_ns < 1000


def test_another_worker_with_the_same_clock_is_asked_if_one_has_ended():
    machines = Machines([1, 1, 2])
    clocks = ClockComparisons(machines)
    one, other, third = machines.nodes
    clocks.start(machines.nodes)

    machines.gone = {"0", "2"}
    clocks.end()

    assert clocks.line(one) == clocks.line(other)
    assert clocks.line(one).how == "exchanges at start and end"
    assert clocks.line(third).how == "exchanges at the start only"


def test_workers_that_do_not_answer_are_errors():
    machines = Machines([1, 0, 2])
    machines.gone = {"0"}
    clocks = ClockComparisons(machines)

    errors = clocks.start(machines.nodes)

    assert [node.name for node in errors] == ["0"]
    assert machines.asked == ["2"]


def test_a_worker_that_ends_before_its_clock_is_compared_is_an_error():
    machines = Machines([1, 1, 2])
    answers = machines.call_each

    def then_gone(calls):
        found = answers(calls)
        machines.gone = {"0", "2"}
        return found

    machines.call_each = then_gone
    clocks = ClockComparisons(machines)

    errors = clocks.start(machines.nodes)

    assert sorted(node.name for node in errors) == ["0", "2"]
    assert clocks.line(next(node for node in machines.nodes if node.name == "1")).exchanges == 256


@pytest.mark.parametrize("slept_ns", [0, 20_000_000])
def test_a_machine_that_was_suspended_has_a_larger_error(slept_ns):
    machines = Machines([0, 3])
    clocks = ClockComparisons(machines)
    clocks.start(machines.nodes)
    machines.slept_ns = slept_ns
    clocks.end()

    own, other = map(clocks.line, machines.nodes)

    assert own == clock.same_machine()
    assert other.how == ("exchanges that disagree" if slept_ns else "exchanges at start and end")
    assert slept_ns <= other.error_ns < slept_ns + S // 10

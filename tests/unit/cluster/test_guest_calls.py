"""Calls in a lab's guest; here its process runs on this machine. What it answers is not trusted."""

import contextlib
import io
import os
import pickle
import subprocess
import sys
import threading
from types import SimpleNamespace

import msgspec
import pytest
from msgspec import msgpack

from accel_magic import MachineError, ProbeError, TraceStateError
from accel_magic.cluster import clock, guest_calls, guest_server, remote
from accel_magic.cluster.adapters import LabAdapter, NodeGoneError, adapter_of
from accel_magic.cluster.agent_messages import Returned, value_of
from accel_magic.cluster.guest_server import SIZE
from accel_magic.cluster.remote import RemoteCall
from accel_magic.lab.vm.connection import GuestGoneError
from accel_magic.own_python import command
from tests.support.errors import raises

pytestmark = pytest.mark.component

PID = RemoteCall(os.getpid, answer=Returned[int])


class Process:
    """A process whose output is taken by a thread, like a guest's."""

    def __init__(self, argv, on_output):
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._thread = threading.Thread(target=self._read, args=(on_output,))
        self._thread.start()
        self.ended = False

    def _read(self, on_output):
        while data := self._process.stdout.read1(7):  # in small pieces
            on_output(1, data)
        self.ended = True

    def write(self, data):
        try:
            self._process.stdin.write(data)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise GuestGoneError from None

    def kill(self):
        self._process.kill()
        self._thread.join()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def make(**members):
    """An object that is recognised as a lab."""
    return type("Lab", (), {"__module__": "accel_magic.lab.vm.lab", **members})()


@pytest.fixture
def lab():
    """Make a lab of a kernel; `argv` answers in place of the guest's process."""
    made = []

    def build(kernel="7.2", argv=None):
        def popen(self, asked, *, on_output):
            assert asked == command("accel_magic.cluster.guest_server")
            self.processes.append(Process(argv or asked, on_output))
            return self.processes[-1]

        made.append(make(settings=SimpleNamespace(kernel=kernel), running=True, popen=popen, processes=[]))
        return made[-1]

    yield build
    for one in made:
        for process in one.processes:
            process.kill()


def answering(data):
    """A program that answers the first request with these bytes, whatever it is, and waits for the end."""
    code = f"import os, sys\nsys.stdin.buffer.read1(1)\nos.write(1, {data!r})\nsys.stdin.buffer.read()"
    return [sys.executable, "-c", code]


def called(adapter, node, kind, function, *arguments):
    (answer,) = adapter.call_each({node: RemoteCall(function, arguments, Returned[kind])}).values()
    return answer


def test_functions_run_in_the_guests_process_one_after_the_other(lab, tmp_path):
    (tmp_path / "file").write_bytes(content := bytes(range(256)) * 20)
    one = lab()
    adapter = adapter_of(one)

    (node,) = adapter.nodes()

    assert (node.name, node.host, node.address) == ("lab-7.2", "lab-7.2", "lab-7.2")
    assert node.error is None
    assert node.pid not in (0, os.getpid())
    assert called(adapter, node, bytes, remote.read, str(tmp_path / "file"), 100) == content[100:]
    assert called(adapter, node, clock.Reading, clock.read).boot_id == clock.read().boot_id
    assert isinstance(called(adapter, node, bytes, remote.read, "/nowhere", 0), MachineError)
    exchange = adapter.exchange(node)
    assert exchange.count == 256
    assert exchange.before_ns < exchange.node_ns < exchange.after_ns  # the clock of this machine
    assert adapter_of([one]).nodes()[0].pid == node.pid  # one process for all
    assert len(one.processes) == 1


def test_labs_are_named_by_their_kernels(lab):
    labs = [lab("7.2"), lab("6.12"), lab("7.2")]

    assert list(adapter_of(labs).addresses()) == ["lab-7.2-1", "lab-6.12", "lab-7.2-2"]
    assert list(adapter_of((labs[1], labs[1])).addresses()) == ["lab-6.12"]


def test_a_lab_that_does_not_run_is_an_error(lab):
    stopped = lab()
    stopped.running = False

    with raises("lab.not-running", TraceStateError, match="lab-7.2 is not running"):
        adapter_of([lab("6.12"), stopped])


@pytest.mark.parametrize("on", [[], [object()], [[]], [None, 5]])
def test_lists_of_other_things_are_an_error(on):
    with raises("cluster.unknown-client", ProbeError):
        adapter_of(on)


def test_a_lab_that_ends_during_a_call_is_gone(lab):
    one, other = lab(), lab("6.12")
    adapter = LabAdapter([one, other])
    nodes = adapter.nodes()
    waiting = adapter.submit("lab-7.2", RemoteCall(input))

    one.processes[0].kill()
    one.running = False

    assert waiting.wait(0)
    with pytest.raises(ConnectionError):
        waiting.get()
    (there, gone) = adapter.call_each(dict.fromkeys(nodes, PID)).values()
    assert there == nodes[0].pid
    assert isinstance(gone, NodeGoneError)


def test_a_process_that_was_killed_is_replaced(lab):
    one = lab()
    adapter = LabAdapter([one])
    (node,) = adapter.nodes()
    one.processes[0].kill()

    (found,) = adapter.nodes()

    assert found.error is None
    assert found.pid != node.pid


def test_a_lab_that_has_just_ended_is_gone(lab):
    one = lab()

    def refuse(_, argv, **__):
        raise MachineError("the lab has ended", code="lab.guest-gone")

    type(one).popen = refuse
    (node,) = LabAdapter([one]).nodes()

    assert node.error.code == "cluster.node-gone"


def of(answer):
    data = answer if isinstance(answer, bytes) else msgpack.encode(answer)
    return SIZE.pack(len(data)) + data


def returned(value):
    return of({"type": "Returned", "value": value})


FACTS = msgspec.to_builtins(remote.facts())


@pytest.mark.parametrize(
    "data",
    [
        SIZE.pack(guest_calls.LARGEST + 1),
        of(b"\xff"),
        of(b"\x91" * 20_000),
        of(pickle.dumps(Returned(value=remote.facts()))),
        *(of(answer) for answer in (None, [], 5, {}, {"type": "Returned"}, {"type": "Other", "value": FACTS})),
        *(returned(value) for value in (None, [], {}, b"", {**FACTS, "host": 5}, {**FACTS, "pid": "1"})),
        of({"type": "Failure"}),
        of({"type": "Failure", "kind": "ProbeError"}),
        of({"type": "Failure", "kind": "ProbeError", "what": 5}),
    ],
)
def test_wrong_answers_are_errors_that_name_the_lab(lab, data):
    (node,) = LabAdapter([lab(argv=answering(data))]).nodes()

    assert node.error.code in ("cluster.call-failed", "cluster.node-gone")
    assert "lab-7.2: " in node.error.what
    assert (node.host, node.pid) == ("lab-7.2", 0)


@pytest.mark.parametrize("answer", [-1, (1 << 64) - 1, True, 1.5, "5", None])
def test_a_clock_that_makes_no_sense_is_an_error(lab, answer):
    adapter = LabAdapter([lab(argv=answering(returned(answer)))])
    (node,) = LabAdapter([lab()]).nodes()

    with raises("cluster.call-failed", MachineError, match="lab-7.2: "):
        adapter.exchange(node, 1)


def test_more_answers_than_requests_end_the_process(lab):
    one = lab(argv=answering(returned(1) + returned(2)))
    adapter = LabAdapter([one])
    answer = adapter.submit("lab-7.2", PID)
    assert answer.wait(60)

    assert value_of(answer.get(), Returned[int]) == 1
    assert guest_calls.calls_in(one) is not None


def test_what_cannot_be_sent_is_reported_and_the_next_request_served():
    data = [pickle.dumps(RemoteCall(object)), b"nonsense", pickle.dumps(PID)]
    answers = io.BytesIO()

    guest_server.serve(io.BytesIO(b"".join(SIZE.pack(len(one)) + one for one in data)), answers)

    first, second, third = parts(answers.getvalue())
    for failed, why in ((first, "object is unsupported"), (second, "UnpicklingError")):
        with raises("cluster.call-failed", MachineError) as caught:
            value_of(failed, Returned[int])
        assert why in caught.value.why
    assert value_of(third, Returned[int]) == os.getpid()


def parts(data):
    while data:
        (size,) = SIZE.unpack_from(data)
        yield data[SIZE.size : SIZE.size + size]
        data = data[SIZE.size + size :]

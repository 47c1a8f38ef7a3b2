"""A guest of a lab is a node of a cluster, and may answer a client's calls with anything."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec import msgpack

import accel_magic
from accel_magic import own_python
from accel_magic.cluster.adapters import LabAdapter
from accel_magic.cluster.guest_server import SIZE
from accel_magic.errors import AccelMagicError
from tests.support import fresh_python, thorough

pytestmark = pytest.mark.live

ROUNDS = thorough.choose(8, 400)
PROBE = "tracepoint:syscalls:sys_enter_getppid"
BOOT = Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
ANSWERS = 12
"""Answers of an honest node to a trace whose events are read, at least, besides the numbers of its clock."""
VALUES = [
    None,
    True,
    -1,
    (1 << 64) - 1,
    1.5,
    float("nan"),
    "",
    "x" * 100_000,
    "/etc/passwd",
    "../../../etc/passwd",
    [],
    {},
    [[]] * 1000,
    b"",
    b"AAA",
    bytes(1 << 20),
]
WHOLE = [b"", b"\xc0", b"\x91" * 100_000, b"\xff\xfe", b"\x82\xa4type\xa8Returned"]
WHOLE += [msgpack.encode({"type": kind, "value": {}, "kind": {}}) for kind in ("Returned", "Failure", "Other")]


class Guest:
    """A process that serves calls as in a lab's guest, on this machine; its answers can be changed.

    Args:
        changed: Gets the number and the bytes of each answer, and returns what is sent.

    """

    def __init__(self, command, on_output, changed):
        module = command[len(own_python.command("")) - 1 :]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = fresh_python.Popen([sys.executable, "-m", *module], start_new_session=True, **pipes)
        self._changed, self._on_output = changed, on_output
        self._boot = str(uuid.uuid4()).encode()  # nodes are traced once for each kernel
        self.answered = 0
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def ended(self):
        return self._process.poll() is not None

    def write(self, data):
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def _read(self):
        while head := self._process.stdout.read(SIZE.size):
            data = self._process.stdout.read(*SIZE.unpack(head)).replace(BOOT, self._boot)
            data = self._changed(self.answered, data)
            self.answered += 1
            self._on_output(1, SIZE.pack(len(data)) + data)

    def end(self):
        with contextlib.suppress(ProcessLookupError):  # a second time
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


class Lab:
    """What a cluster's client uses of a lab."""

    def __init__(self, changed=lambda _, data: data):
        self.running, self.settings = True, SimpleNamespace(kernel="7.2")
        self._changed, self.guest = changed, None

    def popen(self, command, on_output):
        self.guest = Guest(command, on_output, self._changed)
        return self.guest


def places(value, path=()):
    """The path of each value in an answer."""
    yield path
    if isinstance(value, dict):
        for name in value:
            yield from places(value[name], (*path, name))
    elif isinstance(value, list):
        for number, one in enumerate(value[:5]):
            yield from places(one, (*path, number))


def is_clock(data):
    """Whether an answer is one number."""
    return isinstance(msgpack.decode(data).get("value"), int)


def lying(rng, at):
    """Change one value in an answer, or all of it; answers that are one number count once."""
    seen = set()

    def changed(number, data):
        before = len(seen)
        seen.add("clock" if is_clock(data) else number)
        if (before, len(seen)) != (at, at + 1):
            return data
        if rng.randrange(4) == 0:
            return rng.choice(WHOLE)
        answer = msgpack.decode(data)
        *path, last = rng.choice(list(places(answer))[1:])
        inner = answer
        for name in path:
            inner = inner[name]
        inner[last] = rng.choice(VALUES)
        return msgpack.encode(answer)

    return changed


@pytest.fixture
def labs(monkeypatch):
    """Makes labs that the client takes for real ones."""
    made = []
    monkeypatch.setattr("accel_magic.api.cluster.cluster_block.adapter_of", LabAdapter)

    def make(*changed):
        made[:] = [Lab(), *map(Lab, changed)]
        return made

    yield make
    for lab in made:
        lab.guest.end()


def traced(labs, seen):
    """Trace, and use everything of the result."""
    with accel_magic.trace(PROBE, on=labs, mode="events") as t:
        for _ in range(100):
            os.getppid()
    seen.append(t.result)
    t.result.nodes, t.result.counts, t.result.hits, repr(t.result)
    return len(t.result.events)


def test_an_honest_pair_of_nodes_records_everything(labs):
    kinds = set()
    made, seen = labs(lambda number, data: kinds.add(0 if is_clock(data) else number) or data), []
    events = traced(made, seen)
    assert events >= 200
    assert seen[0].nodes["problem"].tolist() == [""] * 2
    assert len(kinds) >= ANSWERS


@pytest.mark.timeout(thorough.choose(300, 7200))
def test_lies_of_a_node_cost_its_part_only_or_are_a_typed_error(labs, monkeypatch):
    raised, codes = [], []
    monkeypatch.setattr(threading, "excepthook", lambda one: raised.append(repr(one.exc_value)))
    rng = random.Random(29)
    for _ in range(ROUNDS):
        made = labs(lying(rng, rng.randrange(ANSWERS)))
        try:
            traced(made, [])
            codes.append("")
        except AccelMagicError as error:
            codes.append(error.code)
        finally:
            for lab in made:
                lab.guest.end()
    assert raised == []
    assert len(codes) == ROUNDS

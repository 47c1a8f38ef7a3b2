"""Requests from anybody: decoded as they were encoded, or refused."""

import json
import random
import socket
from pathlib import Path

import pytest

from accel_magic.broker import broker_messages
from accel_magic.broker.broker_messages import FilePlaces, MessageError, TraceRequest
from accel_magic.probes.plan import ProbePoint, Skipped, UsdtArgument
from tests.support import thorough

POINT = ProbePoint(
    0,
    "",
    "uprobe",
    "/lib/libc.so.6",
    "atoi",
    offset=16,
    semaphore=2,
    aliases=("a",),
    usdt_arguments=(UsdtArgument("memory", -4, "bp", -8, "cx", 8), UsdtArgument("constant", 8, "unreadable")),
)
REQUEST = TraceRequest(
    ("uprobe:libc:atoi", "offcpu"),
    "count",
    "self",
    "arg0 > 1",
    "size=arg0:u64",
    10,
    2.5,
    8.0,
    ("user", "python"),
    {
        0: FilePlaces((POINT,), (0,), (Skipped("f", "why"),), ("note",)),
        3: FilePlaces(error=("what", "why", "fix", "code")),
    },
)


def wire(value):
    return json.loads(json.dumps(value))


def test_a_request_is_decoded_as_it_was_encoded():
    assert broker_messages.decoded_request(wire(REQUEST.encoded()), 1) == REQUEST


def mutated(source, value):
    """Replace or remove one part of a JSON value."""
    if isinstance(value, dict) and value and source.random() < 0.85:
        name = source.choice([*value])
        if source.random() < 0.1:
            return {key: each for key, each in value.items() if key != name}
        return {**value, name: mutated(source, value[name])}
    if isinstance(value, list) and value and source.random() < 0.85:
        at = source.randrange(len(value))
        return [*value[:at], mutated(source, value[at]), *value[at + 1 :]]
    odd = [
        None,
        True,
        -1,
        1 << 70,
        1e308,
        float("nan"),
        "",
        "\0",
        "ax; }",
        "a" * 5000,
        [],
        {},
        [[]] * 11_000,
        {"a": {}},
    ]
    return source.choice(odd)


def test_a_request_with_any_part_replaced_is_refused_or_has_the_right_types():
    source, refused = random.Random(5), 0
    whole = wire(REQUEST.encoded())
    count = thorough.choose(5000, 100_000)
    for _ in range(count):
        try:
            found = broker_messages.decoded_request(mutated(source, whole), 1)
        except MessageError:
            refused += 1
            continue
        assert all(isinstance(each, str) and "\0" not in each for each in found.specs)
        for places in found.places.values():
            assert len(places.points) == len(places.files)
            assert not set(places.files) - {0}
            for point in places.points:
                assert 0 <= point.offset < 1 << 62
                assert all(
                    argument.register in {*broker_messages.REGISTERS, "", "unreadable"}
                    for argument in point.usdt_arguments
                )
    assert count * 0.3 < refused < count


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"1", b"{", b"\xff", b"[" * 50_000, b'{"a":' * 10_000, b'{"a": ' + b"9" * 10_000 + b"}", b"nul"],
    ids=lambda data: repr(data[:8]),
)
def test_what_is_not_a_json_object_is_refused(data):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(len(data).to_bytes(4, "little") + data)
        with pytest.raises(MessageError):
            broker_messages.receive(ours, largest=1 << 20, timeout_s=5)


def test_a_message_that_is_too_long_is_refused_before_it_is_read_and_a_slow_one_times_out():
    for head, error in (
        ((1 << 30).to_bytes(4, "little"), MessageError),
        (b"\x09\0\0\0ab", TimeoutError),
        (b"\x09", TimeoutError),
    ):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.sendall(head)
            with pytest.raises(error):
                broker_messages.receive(ours, largest=1 << 20, timeout_s=0.2)


def test_descriptors_of_a_refused_message_are_closed():
    before = len(list(Path("/proc/self/fd").iterdir()))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        socket.send_fds(theirs, [b"\x02\0\0\0[]"], [0] * 100)
        with pytest.raises(MessageError):
            broker_messages.receive(ours, largest=100, timeout_s=5)
    assert len(list(Path("/proc/self/fd").iterdir())) == before

"""Requests from anybody: decoded as they were encoded, or refused."""

import gc
import os
import random
import socket
from pathlib import Path

import msgspec
import pytest
from msgspec import msgpack

from accel_magic import channel, codec
from accel_magic.broker import broker_messages
from accel_magic.broker.broker_messages import FilePlaces, FilePoint, Hello, PlanRequest
from accel_magic.codec import Descriptor, Failure, MessageError
from accel_magic.errors import MachineError
from accel_magic.probes.plan import Skipped, TraceRequest, UsdtArgument
from tests.support import thorough

POINT = FilePoint(
    "/lib/libc.so.6",
    "atoi",
    offset=16,
    file=0,
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
)
PLACES = {
    0: FilePlaces((POINT,), (Skipped("f", "why"),), ("note",)),
    3: FilePlaces(error=("what", "why", "fix", "code")),
}
WHOLE = {
    "type": "attach",
    "request": msgspec.to_builtins(REQUEST),
    "places": msgspec.to_builtins(PLACES),
    "files": [0],
    "stacks": ["user", "python"],
}


def decoded(data, descriptors=()):
    """Decode and check a request, as a session does."""
    request = codec.received(data, descriptors, *broker_messages.REQUESTS)
    try:
        broker_messages.check(request)
    except MessageError:
        close(request)
        raise
    return request


def close(request):
    for file in codec.descriptors_of(request):
        os.close(file)


def open_descriptors():
    gc.collect()  # earlier tests may have left some to be closed
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_request_is_decoded_as_it_was_encoded():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        codec.send(ours, PlanRequest(request=REQUEST, places=PLACES, files=(Descriptor(ours.fileno()),)))
        found = decoded(*channel.receive_bytes(theirs))
    assert len([*codec.descriptors_of(found)]) == 1
    close(found)
    assert (found.request, found.places) == (REQUEST, PLACES)


def mutated(source, value):
    """Replace or remove one part of a message."""
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
        (1 << 64) - 1,
        1e308,
        float("nan"),
        "",
        "\0",
        "ax; }",
        "a" * 5000,
        b"a",
        [],
        {},
        [[]] * 11_000,
        {"a": {}},
    ]
    return source.choice(odd)


def test_a_request_with_any_part_replaced_is_refused_or_has_the_right_types():
    source, refused, before = random.Random(5), 0, open_descriptors()
    count = thorough.choose(5000, 100_000)
    for _ in range(count):
        try:
            found = decoded(msgpack.encode(mutated(source, WHOLE)), [os.dup(0)])
        except MessageError:
            refused += 1
            continue
        close(found)
        assert all(isinstance(each, str) and "\0" not in each for each in found.request.specs)
        assert found.stacks in ((), ("user", "python"))
        for places in found.places.values():
            for point in places.points:
                assert point.file in range(len(found.files))
                assert 0 <= point.offset < 1 << 62
                assert all(
                    argument.register in {*broker_messages.REGISTERS, "", "unreadable"}
                    for argument in point.usdt_arguments
                )
    assert count * 0.3 < refused < count
    assert open_descriptors() == before


@pytest.mark.parametrize(
    "change",
    [
        {"stacks": ["kernel"]},
        {"stacks": ["python", "user"]},
        {"request": {"specs": ["offcpu"] * 257}},
        {"request": {"specs": ["x" * 4097]}},
        {"request": {"specs": [{"text": "a", "kind": "kprobe", "target": "", "name": "a"}]}},
        {"request": {"filter": "pid == 1\0"}},
        {"request": {"duration_s": float("inf")}},
        {"request": {"buffer_mib": float("nan")}},
        {"places": {0: {"points": [{"target": "a", "function": "b", "offset": 1, "file": 1}]}}},
    ],
    ids=repr,
)
def test_values_of_the_right_type_that_no_user_may_send_are_refused(change):
    with pytest.raises(MessageError):
        decoded(
            msgpack.encode({**WHOLE, **change, "request": {**WHOLE["request"], **change.get("request", {})}}),
            [os.dup(0)],
        )


def test_the_version_and_errors_are_understood_whatever_another_version_adds():
    hello = codec.received(msgpack.encode({"type": "hello", "version": 99, "more": [1]}), (), *broker_messages.REQUESTS)
    failed = codec.decoded(msgpack.encode({"type": "Failure", "kind": "NewError", "what": "x", "more": 1}), Failure)

    assert hello == Hello(version=99)
    assert (type(failed.error()), failed.error().what) == (MachineError, "x")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x90",
        b"1",
        b"\xc1",
        b"\x82\xa4type\xa5hello\xa7version\xa1\xff",
        b"\x91" * 50_000,
        b"\x82\xa4type\xa5hello\xa1a" + b"\x91" * 50_000,
        b'{"type": "hello", "version": 2}',
    ],
    ids=lambda data: repr(data[:8]),
)
def test_what_is_not_a_request_is_refused(data):
    before = open_descriptors()
    with pytest.raises(MessageError):
        decoded(data, [os.dup(0)])
    assert open_descriptors() == before

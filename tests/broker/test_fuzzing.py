"""Messages with random changes: in bytes, and in requests that are otherwise valid."""

import os
import random
import socket
from pathlib import Path

import msgspec
from msgspec import msgpack

from accel_magic import channel, codec
from accel_magic.broker import broker_messages
from accel_magic.probes.file_functions import functions
from accel_magic.probes.plan import TraceRequest
from tests.broker.test_attacks import WORKS, mutated
from tests.broker.test_hostile_texts import PIECES
from tests.support import callers, thorough
from tests.support.kernel_objects import kernel_objects

GETPPID = "tracepoint:syscalls:sys_enter_getppid"
LIBC = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libc.so" in line)


def requests():
    """Valid requests; with the second and the third comes the C library."""
    offset = next(function.offset for function in functions(Path(LIBC)).match("atoi"))
    place = {"target": LIBC, "function": "atoi", "offset": offset, "file": 0, "aliases": []}
    places = {0: {"points": [place], "skipped": [{"function": "a", "why": "b"}], "notes": ["c"]}}
    counted = msgspec.to_builtins(TraceRequest((GETPPID,), mode="count", filter="pid != 0"))
    breakpoints = {**counted, "specs": ["latency:uprobe:libc:atoi"], "args": "x=arg0:u64"}
    python = {"type": "PythonFrames", "fields": {}, "hops": [1]}
    return [
        {"type": "plan", "request": counted},
        {"type": "plan", "request": {**breakpoints, "mode": "events"}, "places": places, "files": [0]},
        {"type": "attach", "request": breakpoints, "places": places, "files": [0], "tracers": [1]},
        {"type": "attach", "request": counted, "python": python, "tracers": [1, 2]},
        {"type": "statistics", "trace": 1},
        {"type": "detach", "trace": 1},
        {"type": "status"},
    ]


def changed(source, data):
    """Change, repeat, remove or insert some bytes."""
    data = bytearray(data)
    for _ in range(source.randrange(1, 4)):
        at = source.randrange(len(data))
        end = at + source.choice([0, 1, 1, 2, 8])
        data[at:end] = source.choice([b"", source.randbytes(end - at), data[at:end] * 2, source.randbytes(3)])
    return bytes(data)


def replaced(source, message):
    """Replace one part of a request, mostly by something of the same type."""
    if "request" not in message or source.random() < 0.1:
        name = source.choice([*message])
        return {**message, name: mutated(source, message[name])}
    request = message["request"]
    name = source.choice([*request])
    text = "".join(source.choices(PIECES, k=source.randrange(1, 5))).encode(errors="replace").decode()
    number = source.choice([-1, 0, 0.5, 1, 3, 100, 1e6, 1e300, 1 << 50])
    values = {"specs": [*request["specs"], text], "stacks": [source.choice(["user", "python", text])]}
    values |= dict.fromkeys(("filter", "args"), text) | {"mode": source.choice(["auto", "events", text])}
    values |= {"scope": source.choice(["self", "all", "1", text])}
    values |= dict.fromkeys(("max_events", "duration_s", "buffer_mib"), number)
    value = mutated(source, request[name]) if name not in values or source.random() < 0.2 else values[name]
    return {**message, "request": {**request, name: value}}


def test_changed_bytes_are_a_message_or_refused():
    source, whole = random.Random(17), [msgpack.encode(each) for each in requests()]
    outcomes = {"message": 0, "request": 0, "refused": 0}
    for _ in range(thorough.choose(4500, 80_000)):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            data = source.choice(whole)
            sent = changed(source, len(data).to_bytes(4, "little") + data)
            if source.random() < 0.5:
                body = changed(source, data)
                sent = len(body).to_bytes(4, "little") + body
            ours.sendall(sent)
            ours.shutdown(socket.SHUT_WR)
            try:
                data, _ = channel.receive_bytes(theirs, largest=broker_messages.LARGEST_REQUEST, timeout_s=5)
                outcomes["message"] += 1
                request = codec.received(data, [os.dup(0)], *broker_messages.REQUESTS)
                for file in codec.descriptors_of(request):
                    os.close(file)
                broker_messages.check(request)
                outcomes["request"] += 1
            except (ValueError, ConnectionError):
                outcomes["refused"] += 1
    assert all(outcomes.values()), outcomes


def test_requests_of_a_user_with_any_part_replaced_are_answered_with_a_typed_error(broker):
    source, whole, codes, before = random.Random(19), requests(), {}, kernel_objects()
    file, number = os.open(LIBC, os.O_RDONLY), thorough.choose(500, 100_000)
    wanted = number
    while wanted:
        with callers.connected(broker) as connection:
            while wanted:
                wanted -= 1
                answer = callers.ask(connection, replaced(source, source.choice(whole)), [file])
                if answer is None:
                    codes["closed"] = codes.get("closed", 0) + 1
                    break
                code = answer.get("code", "")
                codes[code] = codes.get(code, 0) + 1
    os.close(file)
    assert {"", "broker.bad-request"} < set(codes)
    assert codes.get("closed", 0) < number / 20
    callers.until(lambda: not kernel_objects() - before)
    assert broker.run(WORKS) == [1]

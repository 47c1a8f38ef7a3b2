"""Lists of running traces: what a session sends is what is shown, and nonsense is not."""

import pytest
from msgspec import msgpack

from accel_magic import codec
from accel_magic.broker import trace_registry
from accel_magic.broker.trace_registry import ListedTrace, TraceList
from accel_magic.codec import MessageError


def test_lists_arrive_as_they_were_sent_with_long_probes_cut():
    sent = TraceList(traces=(ListedTrace.of(1, 2.5, ("a", "b")), ListedTrace.of(7, 3.0, ("x" * 1000,))))

    first, second = codec.decoded(codec.encoded(sent), TraceList).traces

    assert first == ListedTrace(1, 2.5, "a, b")
    assert (second.number, len(second.probes)) == (7, 200)


def test_the_longest_list_fits_what_the_service_receives():
    longest = ListedTrace.of((1 << 64) - 1, 1.0, ("\U0001f600" * 4096,))

    data = codec.encoded(TraceList(traces=(longest,) * trace_registry.MOST))

    assert len(data) <= trace_registry.LARGEST
    assert codec.decoded(data, TraceList).traces[-1] == longest


GOOD = {"number": 3, "since": 4.0, "probes": "kept"}


@pytest.mark.parametrize(
    "change",
    [
        {"number": True},
        {"number": 0},
        {"number": "1"},
        {"since": float("nan")},
        {"since": float("inf")},
        {"since": -1.0},
        {"probes": ["x"]},
        {"probes": "x" * 201},
    ],
)
def test_a_list_with_something_that_is_not_a_trace_is_refused(change):
    for traces in ([GOOD, None], [GOOD, {"number": 1}], [GOOD, {**GOOD, **change}], [GOOD] * 1000):
        with pytest.raises(MessageError):
            codec.decoded(msgpack.encode({"type": "TraceList", "traces": traces}), TraceList)


@pytest.mark.parametrize("data", [b"", b"\xff", b"\x91" * 60_000, b"\x80", b"7"])
def test_what_is_not_a_list_is_refused(data):
    with pytest.raises(MessageError):
        codec.decoded(data, TraceList)

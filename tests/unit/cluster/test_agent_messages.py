"""Answers of workers, which may be anything."""

import pytest

from accel_magic import codec
from accel_magic.cluster.agent_messages import Returned, value_of
from accel_magic.cluster.node_samples import NodeCounters
from accel_magic.codec import MessageError

WHOLE = {"time_ns": 1, "hits": {"a": 2}, "recorded": 2, "lost": 0, "worker_ended": False}


def counters(value):
    return value_of(codec.encoded(Returned(value=value)), Returned[NodeCounters])


def test_counters_are_decoded():
    assert counters(WHOLE) == NodeCounters(1, {"a": 2}, 2, 0)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        "counters",
        {**WHOLE, "hits": {"a": -1}},
        {**WHOLE, "hits": {"a": "1"}},
        {**WHOLE, "hits": {1: 1}},
        {**WHOLE, "hits": []},
        {**WHOLE, "time_ns": 1.5},
        {**WHOLE, "lost": True},
        {**WHOLE, "worker_ended": 0},
    ],
    ids=repr,
)
def test_answers_that_are_not_counters_are_refused(value):
    with pytest.raises(MessageError):
        counters(value)


@pytest.mark.parametrize("data", [None, b"", b"\xc1", "text", codec.encoded(Returned(value=1))[:-1]], ids=repr)
def test_what_is_no_message_is_refused(data):
    with pytest.raises(MessageError):
        value_of(data, Returned[int])

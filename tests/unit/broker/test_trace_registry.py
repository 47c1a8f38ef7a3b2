"""Lists of running traces: what a session sends is what is shown, and nonsense is not."""

import json

import pytest

from accel_magic.broker import trace_registry


def test_lists_arrive_as_they_were_sent():
    data = trace_registry.encoded([(1, 2.5, ("a", "b")), (7, 3.0, ("x" * 1000,))])

    first, second = trace_registry.decoded(data)

    assert first == {"trace": 1, "since": 2.5, "probes": "a, b"}
    assert (second["trace"], len(second["probes"])) == (7, 200)


@pytest.mark.parametrize("probe", ["a" * 4096, "\U0001f600" * 4096])
def test_long_lists_are_cut_to_what_the_service_receives(probe):
    data = trace_registry.encoded([(number, 1.0, (probe,)) for number in range(1, 5000)])

    found = trace_registry.decoded(data)

    assert len(data) <= trace_registry.LARGEST
    assert [one["trace"] for one in found] == [*range(1, len(found) + 1)]
    assert len(found) > 20


GOOD = [3, 4.0, "kept"]


@pytest.mark.parametrize(
    "row",
    [
        None,
        {},
        [1, 2.0],
        [True, 2.0, "x"],
        [0, 2.0, "x"],
        [1 << 60, 2.0, "x"],
        ["1", 2.0, "x"],
        [1, 2, "x"],
        [1, float("nan"), "x"],
        [1, float("inf"), "x"],
        [1, -1.0, "x"],
        [1, 2.0, ["x"]],
        [1, 2.0, "x" * 201],
    ],
)
def test_what_is_not_a_trace_is_left_out(row):
    assert trace_registry.decoded(json.dumps([row, GOOD]).encode()) == [{"trace": 3, "since": 4.0, "probes": "kept"}]


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b"[" * 60_000, b"{}", b"7", b'[[1, 2.0, "x"', b"[" + b"9" * 5000 + b"]"]
)
def test_what_is_not_a_list_is_empty(data):
    assert trace_registry.decoded(data) == []

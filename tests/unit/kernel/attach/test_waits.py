"""Unfinished waits: from the kernel's table to ordinary records."""

import numpy as np
import pytest

from accel_magic.kernel.attach import waits
from accel_magic.kernel.attachment import PayloadItem, PointLayout, RecordLayout
from accel_magic.probes.plan import Filter, ProbePoint
from accel_magic.recording.record_decoder import decode

ITEMS = tuple(PayloadItem(name, type_, 8 * at) for at, (name, type_, _) in enumerate(waits.VALUES))
WITH_STACK = (*ITEMS, PayloadItem("kernel_stack", "u64", 8 * len(ITEMS)))
END = 10_000


def layout(items):
    return RecordLayout(2, 8, 1, (40 + 48,), (PointLayout(0, ()), PointLayout(0, items)))


def point(**fields):
    return ProbePoint(1, "offcpu", "offcpu", "sched", "wait", latency=True, **fields)


@pytest.fixture
def under_way():
    table = np.zeros(2, waits.WAIT)
    table[0] = (9_000, 5, 6, b"six", 1, 8193, 202, (0xFFFF_8000_0000_0001, 7), (11, 12, 13))
    table[1] = (2_000, 5, 7, b"seven", 0, 0, -1, (0, 0), (0, 0, 0))
    return table


def test_unfinished_waits_last_until_the_end_of_the_trace(under_way):
    records = waits.records(under_way, point(), layout(WITH_STACK), END)
    events = decode(layout(WITH_STACK), [records.view(np.uint8).ravel()], 1_000).columns

    columns = {name: column.values.tolist() for name, column in events.items() if name not in ("comm", "point")}
    assert columns == {
        "time_ns": [1_000, 8_000],
        "pid": [5, 5],
        "tid": [7, 6],
        "cpu": [0, 1],
        "duration_ns": [8_000, 1_000],
        "state": [0, 8193],
        "syscall": [-1, 202],
        "arg0": [0, 0xFFFF_8000_0000_0001],
        "arg1": [0, 7],
        "kernel_stack": [0, 11],
    }
    assert [events["comm"].categories[code] for code in events["comm"].values] == ["seven", "six"]
    assert events["point"].values.tolist() == [1, 1]


def test_waits_below_the_minimum_are_omitted(under_way):
    made = waits.records(under_way, point(shortest_ns=8_000), layout(ITEMS), END)

    assert made["head"]["tid"].tolist() == [7]


def test_a_filter_on_the_duration_omits_unfinished_waits(under_way):
    assert len(waits.records(under_way, point(filter=Filter("x", exit="(1)")), layout(ITEMS), END)) == 0

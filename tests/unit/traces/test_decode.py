"""Records written byte by byte with struct, decoded in bulk."""

import random
import struct

import numpy as np
import pytest

from accel_magic.traces import decode as module
from accel_magic.traces.attachment import Item, Layout, PointLayout
from accel_magic.traces.decode import decode

START = 5_000_000_000


def record(time, point=0, comm=b"loop", *, payload=b"", pid=7, tid=8, cpu=1):
    """One record as the kernel leaves it in the ring: its header, `struct am_record`, the payload."""
    head = struct.pack("<QII16sHHI", START + time, pid, tid, comm, point, cpu, 0)
    return struct.pack("<II", len(head) + len(payload), 0) + head + payload


def ring(*records):
    return np.frombuffer(b"".join(records), np.uint8)


def layout(*places, sizes=(40,)):
    points = tuple(PointLayout(ring, items) for ring, items in places)
    return Layout(cpus=2, points=8, latencies=0, record_sizes=sizes, point_layouts=points)


def texts(column):
    names = (*column.categories, None)
    return [names[code] for code in column.values]


def test_every_column_of_a_head_comes_out_as_it_went_in():
    raw = ring(
        record(10, 3, b"one", pid=4_000_000, tid=4_000_001, cpu=300), record(20, 1, b"a name of 15 by", pid=1, tid=2)
    )
    columns = decode(layout((0, ()), (0, ()), (0, ()), (0, ())), [raw], START).columns
    assert columns["time_ns"].values.tolist() == [10, 20]
    assert columns["point"].values.tolist() == [3, 1]
    assert columns["pid"].values.tolist() == [4_000_000, 1]
    assert columns["tid"].values.tolist() == [4_000_001, 2]
    assert columns["cpu"].values.tolist() == [300, 1]
    assert texts(columns["comm"]) == ["one", "a name of 15 by"]


def test_records_of_several_rings_are_in_order_of_time_and_keep_what_belongs_together():
    size = (Item("size", "u32", 0),)
    one = ring(record(30, 0, b"c"), record(10, 0, b"a"))
    two = ring(
        record(20, 1, b"b", payload=struct.pack("<II8x", 22, 0)),
        record(40, 1, b"d", payload=struct.pack("<II8x", 44, 0)),
    )
    events = decode(layout((0, ()), (1, size), sizes=(40, 56)), [one, two], START)
    assert events.columns["time_ns"].values.tolist() == [10, 20, 30, 40]
    assert texts(events.columns["comm"]) == ["a", "b", "c", "d"]
    column = events.columns["size"]
    assert column.valid.tolist() == [False, True, False, True]
    assert column.values[column.valid].tolist() == [22, 44]


def test_the_limit_keeps_the_first_events_in_order_of_time():
    raw = ring(record(30), record(10), record(20))
    assert decode(layout((0, ())), [raw], START, 2).columns["time_ns"].values.tolist() == [10, 20]
    assert decode(layout((0, ())), [ring(record(1), record(2))], START, 1).columns["time_ns"].values.tolist() == [1]


def test_bytes_after_the_end_of_a_string_are_not_part_of_it():
    path = (Item("path", "string", 0),)
    raw = ring(
        record(1, payload=b"/tmp\0left over".ljust(64, b"x")),
        record(2, payload=b"/tmp\0other".ljust(64, b"y")),
        record(3, payload=b"x" * 64),
    )
    column = decode(layout((0, path), sizes=(104,)), [raw], START).columns["path"]
    assert texts(column) == ["/tmp", "/tmp", "x" * 64]
    assert column.categories == ("/tmp", "x" * 64)


def test_many_records_decode_like_one_by_one(monkeypatch):
    monkeypatch.setattr(module, "_STRETCH", 64)  # several stretches, the last one not full
    rng = random.Random(1)
    rows = [
        (rng.randrange(10**6), rng.choice([b"", b"sh", b"python3", b"python3.11"]), rng.randrange(99))
        for _ in range(999)
    ]
    items = (Item("arg0", "s64", 0),)
    raw = ring(*(record(time, 0, comm, payload=struct.pack("<q8x", -value)) for time, comm, value in rows))
    columns = decode(layout((0, items), sizes=(56,)), [raw], START).columns
    expected = sorted(rows, key=lambda row: row[0])
    assert columns["time_ns"].values.tolist() == [time for time, _, _ in expected]
    assert texts(columns["comm"]) == [comm.decode() for _, comm, _ in expected]
    assert columns["arg0"].values.tolist() == [-value for _, _, value in expected]


def test_names_whose_mixes_are_the_same_are_still_told_apart(monkeypatch):
    monkeypatch.setattr(module.pd, "factorize", lambda mix: (np.zeros(len(mix), np.intp), mix[:1]))
    raw = ring(record(1, comm=b"one"), record(2, comm=b"two"), record(3, comm=b"one"))
    assert texts(decode(layout((0, ())), [raw], START).columns["comm"]) == ["one", "two", "one"]


@pytest.mark.parametrize("rings", [[], [np.empty(0, np.uint8)]])
def test_no_records_give_empty_columns(rings):
    places = [(0, ())] if rings else []  # counting alone has neither rings nor records
    events = decode(layout(*places, sizes=(40,) * len(rings)), rings, START)
    assert len(events) == 0
    assert events.columns["comm"].categories == ()

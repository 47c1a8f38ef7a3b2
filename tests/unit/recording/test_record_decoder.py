"""Decoding raw records into columns."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_magic.kernel.attachment import HEAD, PayloadItem, PointLayout, RecordLayout
from accel_magic.recording.record_decoder import decode
from tests.every_step import lines_per_row


def record(size, time, point, payload=b"", *, pid=1, tid=2, cpu=0, comm=b"work"):
    """One record, laid out like `struct am_record` in bpf/kernel/common.h: `size` bytes without the ring's header."""
    head = struct.pack("<QII16sHHI", time, pid, tid, comm, point, cpu, 0xDEADBEEF)
    return struct.pack("<II", size, 0) + (head + payload).ljust(size, b"\xee")


def layout(*points, sizes):
    return RecordLayout(cpus=1, points=8, latencies=0, record_sizes=sizes, point_layouts=tuple(points))


def ring(*records):
    return np.frombuffer(b"".join(records), np.uint8)


def column(events, name):
    found = events.columns[name]
    values = found.values.tolist()
    if found.categories is not None:
        values = [found.categories[code] if code >= 0 else None for code in values]
    if found.valid is not None:
        values = [value if valid else None for value, valid in zip(values, found.valid, strict=True)]
    return values


def test_the_head_has_the_size_of_the_kernels_struct():
    assert HEAD.itemsize == struct.calcsize("<QII16sHHI") == 40


def test_heads_become_columns_in_order_of_time_across_rings():
    shape = layout(PointLayout(0, ()), PointLayout(1, ()), sizes=(40, 56))
    rings = [
        ring(
            record(40, 1_000_300, 0, pid=7, tid=8, cpu=1, comm=b"one"),
            record(40, 1_000_100, 0, pid=2**31 - 1, tid=9, cpu=300, comm=b"sixteen-letters"),
        ),
        ring(record(56, 1_000_200, 1, pid=5, tid=6, comm=b"one\0two")),
    ]

    events = decode(shape, rings, 1_000_000)

    assert column(events, "time_ns") == [100, 200, 300]
    assert column(events, "point") == [0, 1, 0]
    assert column(events, "pid") == [2**31 - 1, 5, 7]
    assert column(events, "tid") == [9, 6, 8]
    assert column(events, "cpu") == [300, 0, 1]
    assert column(events, "comm")[0] == "sixteen-letters"
    assert column(events, "comm")[2] == "one"
    assert [events.columns[name].values.dtype for name in ("time_ns", "point", "pid", "tid", "cpu")] == [
        "int64",
        "uint16",
        "int32",
        "int32",
        "int16",
    ]


def test_events_of_the_same_time_keep_their_order_and_a_limit_keeps_the_first():
    shape = layout(PointLayout(0, (PayloadItem("n", "u64", 0),)), sizes=(56,))
    rings = [ring(*(record(56, 50 + n // 4, 0, struct.pack("<Q", n)) for n in range(12)))]

    assert column(decode(shape, rings, 0), "n") == list(range(12))
    assert column(decode(shape, rings, 0, limit=5), "n") == list(range(5))


@pytest.mark.parametrize(
    ("type_", "format_", "value"),
    [
        ("u8", "<B", 255),
        ("s8", "<b", -1),
        ("u16", "<H", 65535),
        ("s16", "<h", -32768),
        ("u32", "<I", 2**32 - 1),
        ("s32", "<i", -5),
        ("u64", "<Q", 2**64 - 1),
        ("s64", "<q", -(2**63)),
    ],
)
def test_numbers_are_read_with_their_width_whatever_the_adjacent_bytes(type_, format_, value):
    shape = layout(PointLayout(0, (PayloadItem("x", type_, 3),)), sizes=(56,))
    payload = b"\xff\xff\xff" + struct.pack(format_, value) + b"\x11" * 5

    events = decode(shape, [ring(record(56, 1, 0, payload))], 0)

    assert column(events, "x") == [value]
    assert events.columns["x"].values.dtype.itemsize == struct.calcsize(format_)


def test_points_that_share_a_ring_are_separated_and_columns_they_lack_are_missing():
    shape = layout(
        PointLayout(0, (PayloadItem("a", "u32", 0),)),
        PointLayout(0, (PayloadItem("b", "s64", 8),)),
        PointLayout(1, ()),
        sizes=(56, 40),
    )
    rings = [
        ring(record(56, 1, 0, struct.pack("<Qq", 11, -1)), record(56, 2, 1, struct.pack("<Qq", 12, -22))),
        ring(record(40, 3, 2)),
    ]

    events = decode(shape, rings, 0)

    assert column(events, "a") == [11, None, None]
    assert column(events, "b") == [None, -22, None]


def test_items_of_one_name_and_several_types_become_one_column_of_a_common_type():
    shape = layout(
        PointLayout(0, (PayloadItem("x", "u8", 0),)), PointLayout(1, (PayloadItem("x", "s32", 0),)), sizes=(48, 56)
    )
    rings = [ring(record(48, 1, 0, b"\xff")), ring(record(56, 2, 1, struct.pack("<i", -7)))]

    events = decode(shape, rings, 0)

    assert column(events, "x") == [255, -7]


def test_texts_end_at_their_first_nul():
    shape = layout(PointLayout(0, (PayloadItem("s", "string", 0), PayloadItem("c", "char[5]", 64))), sizes=(40 + 80,))

    def text(string, chars):
        return string.ljust(64, b"\xaa") + chars

    rings = [
        ring(
            record(120, 1, 0, text(b"hello\0rubbish", b"abcde")),
            record(120, 2, 0, text(b"\0rubbish", b"ab\0de")),
            record(120, 3, 0, text(b"hello\0other rubbish", b"\0\0\0\0\0")),
            record(120, 4, 0, text(b"x" * 63 + b"\0", "né".encode() + b"\0\0")),
            record(120, 5, 0, text(b"\xff\xfe\0", b"abcde")),
        )
    ]

    events = decode(shape, rings, 0)

    assert column(events, "s") == ["hello", "", "hello", "x" * 63, "��"]
    assert column(events, "c") == ["abcde", "ab", "", "né", "abcde"]
    assert len(set(events.columns["s"].categories)) == len(events.columns["s"].categories)


@given(
    st.lists(
        st.tuples(st.binary(max_size=63).filter(lambda text: b"\0" not in text), st.binary(max_size=20)), max_size=40
    )
)
def test_any_texts_are_decoded_as_written(rows):
    shape = layout(PointLayout(0, (PayloadItem("s", "string", 0),)), sizes=(104,))
    records = [record(104, n, 0, (text + b"\0" + rest)[:64].ljust(64, b"z")) for n, (text, rest) in enumerate(rows)]

    events = decode(shape, [ring(*records)], 0)

    if rows:
        assert column(events, "s") == [text.decode("utf-8", "replace") for text, _ in rows]
    assert len(events) == len(rows)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 1), st.integers(0, 2**64 - 1)), max_size=60))
def test_any_records_of_two_rings_are_sorted_and_complete(rows):
    shape = layout(
        PointLayout(0, (PayloadItem("x", "u64", 0),)), PointLayout(1, (PayloadItem("x", "u64", 8),)), sizes=(56, 72)
    )
    rings = [
        ring(*(record(56, time, 0, struct.pack("<Q", x)) for time, point, x in rows if point == 0)),
        ring(*(record(72, time, 1, struct.pack("<QQ", 0, x)) for time, point, x in rows if point == 1)),
    ]

    events = decode(shape, rings, 0)

    expected = sorted(rows, key=lambda row: (row[0], row[1]))
    assert column(events, "time_ns") == [time for time, _, _ in expected]
    assert column(events, "point") == [point for _, point, _ in expected]
    if rows:
        assert column(events, "x") == [x for _, _, x in expected]


def test_no_records_give_empty_columns():
    shape = layout(PointLayout(0, (PayloadItem("x", "u64", 0),)), sizes=(56,))

    events = decode(shape, [np.empty(0, np.uint8)], 0)

    assert len(events) == 0
    assert set(events.columns) >= {"time_ns", "point", "pid", "tid", "cpu", "comm"}


def test_no_rings_at_all_give_empty_columns():
    assert len(decode(layout(sizes=()), [], 0)) == 0


def test_records_are_not_decoded_one_by_one_in_python():
    shape = layout(PointLayout(0, (PayloadItem("x", "u64", 0),)), sizes=(56,))

    def decoded(count):
        records = np.zeros(count, shape.record(0))
        records["head"]["time"] = np.arange(count)
        records["head"]["comm"] = b"work"
        assert len(decode(shape, [records.view(np.uint8)], 0)) == count

    assert lines_per_row(decoded, 1000, 20_000) < 0.01

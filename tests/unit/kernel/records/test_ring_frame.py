"""Finding records of any size in a ring's memory; the expected offsets follow the kernel's documentation."""

import random
import struct

import numpy as np
import pytest

from accel_magic.kernel.records.map_frames import ring_frame
from accel_magic.kernel.records.rings import record_starts

BUSY, DISCARD = 1 << 31, 1 << 30


def ring(records):
    """Memory of a ring with these (flags, data) records, and the offset of each."""
    memory, starts = bytearray(), []
    for flags, data in records:
        starts.append(len(memory))
        memory += struct.pack("<II", len(data) | flags, 0) + data + b"\xff" * (-len(data) % 8)
    return np.frombuffer(bytes(memory), np.uint8), starts


@pytest.mark.parametrize("sizes", [[24], [16, 40], [8, 9, 200, 1, 0], [3000, 8]], ids=str)
def test_records_of_mixed_sizes_are_found(sizes):
    numbers = random.Random(7)
    records = [(numbers.choice((0, 0, 0, DISCARD)), numbers.randbytes(numbers.choice(sizes))) for _ in range(20_000)]
    memory, starts = ring(records)
    found, end = record_starts(memory)
    assert found.tolist() == starts
    assert end == len(memory)


@pytest.mark.parametrize("position", [0, 1, 31, 40, 4095, 4999])
@pytest.mark.parametrize("sizes", [[24], [16, 40]], ids=str)
def test_the_search_ends_at_the_first_record_still_being_written(position, sizes):
    numbers = random.Random(11)
    records = [(0, numbers.randbytes(numbers.choice(sizes))) for _ in range(5000)]
    records[position] = (BUSY, records[position][1])
    memory, starts = ring(records)
    found, end = record_starts(memory)
    assert found.tolist() == starts[:position]
    assert end == starts[position]


def test_nothing_is_found_in_an_empty_ring():
    found, end = record_starts(np.empty(0, np.uint8))
    assert (len(found), end) == (0, 0)


def test_discarded_records_are_skipped_and_the_order_is_kept():
    memory, _ = ring([(0, struct.pack("<QI4x", i, i * 2)) if i % 3 else (DISCARD, b"x" * 16) for i in range(1000)])
    frame, unknown = ring_frame(memory, [("number", "u64"), ("double", "u32")])
    expected = [i for i in range(1000) if i % 3]
    assert frame["number"].tolist() == expected
    assert frame["double"].tolist() == [i * 2 for i in expected]
    assert not unknown


def test_records_with_a_size_other_than_the_structs_are_kept_as_bytes_in_place():
    memory, _ = ring([(0, struct.pack("<Q", 1)), (0, b"abc"), (0, struct.pack("<Q", 2))])
    frame, unknown = ring_frame(memory, [("number", "u64")])
    assert frame["number"].tolist()[::2] == [1, 2]
    assert frame["raw"].tolist()[1] == b"abc"
    assert frame["raw"].isna().tolist() == [True, False, True]
    assert unknown == {3: 1}


def test_an_empty_ring_has_the_structs_columns_and_no_rows():
    frame, unknown = ring_frame(np.empty(0, np.uint8), [("number", "u64")])
    assert (list(frame.columns), len(frame), unknown) == (["number"], 0, {})

"""Draining a ring buffer, in memory with the kernel's layout."""

import mmap
import os
import struct

import numpy as np
import pytest

from accel_magic.kernel.attachment import HEAD, PointLayout, RecordLayout
from accel_magic.kernel.records.rings import RecordRing

PAGE = mmap.PAGESIZE
SIZE = 4096
BUSY, DISCARDED = 1 << 31, 1 << 30
LAYOUT = RecordLayout(
    cpus=1, points=1, latencies=0, record_sizes=(HEAD.itemsize + 16,), point_layouts=(PointLayout(0, ()),)
)
RECORD = LAYOUT.record(0)
STRIDE = RECORD.itemsize


class Kernel:
    """The producer's side: a consumer page, a producer page, and the data mapped twice in a row."""

    def __init__(self, size=SIZE):
        self.size = size
        self.fd = os.memfd_create("ring")
        os.ftruncate(self.fd, 2 * PAGE + 2 * size)
        self.produced = 0

    def write(self, number, flags=0):
        record = np.zeros((), RECORD)
        record["header"]["length"] = (STRIDE - 8) | flags
        record["head"]["time"] = number
        for index, byte in enumerate(record.tobytes()):
            at = (self.produced + index) % self.size
            for half in (0, self.size):
                os.pwrite(self.fd, bytes([byte]), 2 * PAGE + half + at)
        place = self.produced
        self.produced += STRIDE
        os.pwrite(self.fd, struct.pack("<Q", self.produced), PAGE)
        return place

    def commit(self, place):
        for half in (0, self.size):
            os.pwrite(self.fd, struct.pack("<I", STRIDE - 8), 2 * PAGE + half + place % self.size)

    @property
    def consumed(self):
        return struct.unpack("<Q", os.pread(self.fd, 8, 0))[0]


@pytest.fixture
def kernel():
    made = Kernel()
    yield made
    os.close(made.fd)


@pytest.fixture
def file():
    fd = os.memfd_create("records")
    yield fd
    os.close(fd)


def times(file):
    data = os.pread(file, 1 << 24, 0)
    return np.frombuffer(data, RECORD)["head"]["time"].tolist()


def test_record_sizes_match_the_kernels():
    assert STRIDE % 8 == 0
    assert STRIDE == 8 + 40 + 16


def test_records_move_in_order_and_their_space_is_released(kernel, file):
    ring = RecordRing(kernel.fd, SIZE, RECORD)
    assert ring.drain(file) == 0
    for number in range(10):
        kernel.write(number)

    assert ring.waiting == 10 * STRIDE
    assert ring.drain(file) == 10
    assert times(file) == list(range(10))
    assert kernel.consumed == 10 * STRIDE
    assert ring.waiting == 0
    assert ring.drain(file) == 0


def test_records_that_wrap_around_the_end_are_whole(file):
    kernel = Kernel(size=SIZE)
    ring = RecordRing(kernel.fd, SIZE, np.dtype([*RECORD.descr[:-1], ("payload", "V24")]))
    # 72-byte records do not divide the ring evenly: some wrap around its end.
    stride = ring.record.itemsize
    written = 0
    for round_ in range(20):
        for _ in range(50):
            record = np.zeros((), ring.record)
            record["header"]["length"] = stride - 8
            record["head"]["time"] = written
            record["payload"] = struct.pack("<QQQ", written, ~written & 2**64 - 1, round_)
            data = record.tobytes()
            at = kernel.produced % SIZE
            first = data[: SIZE - at]
            for half in (0, SIZE):
                os.pwrite(kernel.fd, first, 2 * PAGE + half + at)
                os.pwrite(kernel.fd, data[len(first) :], 2 * PAGE + half)
            kernel.produced += stride
            written += 1
        os.pwrite(kernel.fd, struct.pack("<Q", kernel.produced), PAGE)
        assert ring.drain(file) == 50

    records = np.frombuffer(os.pread(file, 1 << 24, 0), ring.record)
    assert records["head"]["time"].tolist() == list(range(1000))
    payload = np.ascontiguousarray(records["payload"]).view("<u8").reshape(-1, 3)
    assert payload[:, 0].tolist() == list(range(1000))
    assert (payload[:, 0] ^ payload[:, 1] == 2**64 - 1).all()
    os.close(kernel.fd)


def test_an_incomplete_record_holds_back_itself_and_later_records(kernel, file):
    ring = RecordRing(kernel.fd, SIZE, RECORD)
    kernel.write(0)
    place = kernel.write(1, BUSY)
    kernel.write(2)

    assert ring.drain(file) == 1
    assert times(file) == [0]
    assert ring.drain(file) == 0
    kernel.commit(place)
    assert ring.drain(file) == 2
    assert times(file) == [0, 1, 2]
    assert ring.waiting == 0


def test_nothing_moves_if_the_first_record_is_incomplete(kernel, file):
    kernel.write(0, BUSY)
    ring = RecordRing(kernel.fd, SIZE, RECORD)

    assert ring.drain(file) == 0
    assert kernel.consumed == 0
    assert ring.waiting == STRIDE


def test_more_records_than_one_batch_all_arrive(file):
    size, count = 1 << 22, 60_000
    fd = os.memfd_create("ring")
    os.ftruncate(fd, 2 * PAGE + 2 * size)
    records = np.zeros(count, RECORD)
    records["header"]["length"] = STRIDE - 8
    records["head"]["time"] = np.arange(count)
    os.pwrite(fd, records.tobytes(), 2 * PAGE)
    os.pwrite(fd, struct.pack("<Q", count * STRIDE), PAGE)

    assert RecordRing(fd, size, RECORD).drain(file) == count
    assert times(file) == list(range(count))
    os.close(fd)

"""Interval between drains of the ring buffers: long while nothing arrives, but too short for a ring to fill up."""

import mmap
import os
import struct

import pytest

from accel_magic.codec import Descriptor
from accel_magic.kernel.attachment import HEAD, PointLayout, RecordLayout
from accel_magic.recording.reader.reader_messages import KernelMapsToRead, Ring
from accel_magic.recording.reader.sources import KernelMapSource, Pace, quiet_s

PAGE = mmap.PAGESIZE
LAYOUT = RecordLayout(cpus=1, points=1, latencies=0, record_sizes=(HEAD.itemsize,), point_layouts=(PointLayout(0, ()),))
SIZE = 4 << 20
RECORD = HEAD.itemsize + 8  # with the ring buffer's own header


@pytest.mark.parametrize(
    ("rooms", "hit_ns", "cpus", "seconds"),
    [
        ([], 100, 2, 0.05),  # no rings: the counters are due every 50 ms
        ([1_000_000], 100, 2, 0.025),  # 2 CPUs record 500,000 in that time
        ([1_000_000], 100, 1, 0.05),
        ([1_000_000, 600_000], 100, 2, 0.015),
        ([1_000_000], 100, 64, 0.01),
        ([1_000_000], 500, 8, 0.03125),
    ],
)
def test_the_interval_is_at_most_the_time_in_which_all_cpus_fill_half_a_ring(monkeypatch, rooms, hit_ns, cpus, seconds):
    monkeypatch.setattr(os, "cpu_count", lambda: cpus)

    assert quiet_s(rooms, hit_ns) == pytest.approx(seconds)


@pytest.fixture
def kernel():
    """Descriptors of control, counters, histograms and an empty ring."""
    descriptors = [os.memfd_create(name) for name in ("control", "counters", "histograms", "ring")]
    for descriptor, size in zip(descriptors, (PAGE, PAGE, PAGE, 2 * PAGE + 2 * SIZE), strict=True):
        os.ftruncate(descriptor, size)
    yield descriptors
    for descriptor in descriptors:
        os.close(descriptor)


def test_a_ring_that_is_filling_is_drained_again_soon(monkeypatch, kernel):
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    control, counters, histograms, ring = map(Descriptor, kernel)

    def pause(waiting, *, native_stacks=True):
        os.pwrite(ring.fd, struct.pack("<Q", waiting), PAGE)  # the producer's position
        given = KernelMapsToRead(
            layout=LAYOUT,
            control=control,
            counters=counters,
            histograms=histograms,
            rings=(Ring(map=ring, size=SIZE),),
            points=1,
            latencies=0,
            native_stacks=native_stacks,
            most_bytes=1 << 40,
        )
        return KernelMapSource(given).pause_s()

    assert pause(0) == pytest.approx(SIZE // RECORD * 500e-9 / 2)
    assert pause(SIZE // 16) == pause(0) > 0.02
    assert pause(SIZE // 16 + RECORD) == 0.01
    assert pause(0, native_stacks=False) == 0.01  # a hit costs nothing extra in processes without Python


def test_rings_are_left_alone_until_they_are_a_quarter_full():
    pace = Pace(0.05)
    assert [pace.next(0.0) for _ in range(4)] == [0.02, 0.04, 0.05, 0.05]
    assert pace.next(0.25) == 0.05
    assert pace.next(0.5) == 0.025
    assert pace.next(0.1) == 0.05  # twice as long at most
    assert pace.next(1.0) == 0.0125
    assert [pace.next(1.0) for _ in range(2)] == [0.01, 0.01]
    assert Pace(0.01).next(0.0) == 0.01

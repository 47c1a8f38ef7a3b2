"""The helpers as GPU code, run in whole grids of lock-step warps on the simulated device."""

import itertools
from collections import Counter
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_magic.gpu.maps import map_access
from accel_magic.gpu.program.helpers import MapType
from tests.unit.gpu.device_host import PID_TGID, spec
from tests.unit.gpu.device_kernels import Simulated

HASH, RING, OWN, THREADS, ARRAY, SMALL_RING = range(6)
ROOM = 192
E2BIG, EAGAIN, EEXIST, ENOENT, ENOSPC = (np.uint64(-error & (1 << 64) - 1) for error in (7, 11, 17, 2, 28))


@pytest.fixture(scope="module")
def built():
    return Simulated(
        spec(MapType.HASH, entries=40),
        spec(MapType.RINGBUF, key=0, value=0, entries=1 << 14),
        spec(MapType.GPU_RINGBUF, value=12, entries=2),
        spec(MapType.PER_THREAD_ARRAY, value=8, entries=3),
        spec(MapType.GPU_ARRAY, value=6, entries=3),
        spec(MapType.RINGBUF, key=0, value=0, entries=256),
        threads=ROOM,
    )


@pytest.fixture
def gpu(built):
    for region in (*built.plan.maps, built.plan.losses, built.plan.printk):
        built.region(region)[:] = 0
    return built


def each(gpu, values, dtype):
    """Copy one value per thread to the device and return their addresses."""
    values = np.asarray(values, dtype)
    return gpu.put(values) + values.itemsize * np.arange(len(values), dtype=np.uint64)


@cache
def alike(count):
    """Keys in pairs with the same hash bits, as stored in a slot."""
    keys, found = {}, []
    for key in itertools.count():
        other = keys.setdefault(map_access.hash_of(key.to_bytes(4, "little")) >> 2, key)
        found += [other, key] if other != key else []
        if len(found) == count:
            break
    return found


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
@pytest.mark.parametrize(
    "keys_of",
    [lambda: [7] * 128, lambda: [thread % 40 for thread in range(128)], lambda: alike(32) * 4],
    ids=["one", "forty", "with equal hashes"],
)
def test_exactly_one_of_the_threads_that_create_a_key_succeeds(gpu, keys_of):
    keys = keys_of()
    results = gpu.call(2, HASH, each(gpu, keys, np.uint32), each(gpu, range(128), np.uint64), 1, grid=2, block=64)
    created = Counter(np.array(keys)[results == 0].tolist())
    assert created == dict.fromkeys(keys, 1)
    assert (results == EEXIST).sum() == 128 - len(created)
    frame = map_access.entries(gpu.specs[HASH], gpu.raw(HASH), ROOM)
    winner = {keys[thread]: thread for thread in np.flatnonzero(results == 0)}
    assert dict(zip(frame["key"], frame["value"], strict=True)) == winner
    assert sum(gpu.losses) == 0


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
def test_keys_that_do_not_fit_are_rejected_and_counted(gpu):
    keys = each(gpu, np.arange(128) % 64, np.uint32)
    results = gpu.call(2, HASH, keys, keys, 0, grid=4)
    frame = map_access.entries(gpu.specs[HASH], gpu.raw(HASH), ROOM)
    assert len(frame) == 40
    assert set(results[np.isin(np.arange(128) % 64, frame["key"])]) == {0}
    assert (results == E2BIG).sum() == gpu.losses[HASH] == 2 * (64 - 40)
    assert gpu.raw(HASH)[:8].view(np.uint32).tolist() == [40, 0]


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
def test_threads_that_delete_and_create_the_same_keys_leave_each_key_once_or_not_at_all(gpu):
    keys = each(gpu, np.arange(128) % 16, np.uint32)
    for turn in range(4):
        calls = np.arange(128) % 4 != turn  # twelve of the keys, eight threads each
        created = gpu.call(2, HASH, keys, keys, 1, grid=4, calls=calls)[calls]
        assert Counter(created.tolist()) == {0: 12, int(EEXIST): 84}
        deleted = gpu.call(3, HASH, keys, grid=4)
        assert Counter(deleted.tolist()) == {0: 12, int(ENOENT): 116}
    assert len(map_access.entries(gpu.specs[HASH], gpu.raw(HASH), ROOM)) == 0


def test_every_thread_finds_the_entry_of_its_key(gpu):
    keys = np.arange(96) % 48
    gpu.call(2, HASH, each(gpu, keys[:40], np.uint32), each(gpu, np.arange(40) * 3, np.uint64), 0, block=40)
    found = gpu.call(1, HASH, each(gpu, keys, np.uint32), grid=3)
    assert [int(gpu.device.view(int(one), 8).view(np.uint64)[0]) if one else None for one in found] == [
        int(key) * 3 if key < 40 else None for key in keys
    ]
    assert sum(gpu.losses) == 0


def test_records_of_divergent_threads_arrive_once_with_their_thread_and_launch(gpu):
    threads = np.arange(256)
    sizes = 8 + 8 * (threads % 3)
    data = each(gpu, np.arange(258), np.uint64)[:256]  # the longest records end behind their thread's own number
    results = gpu.call(130, RING, data, sizes, 0, grid=4, block=64, calls=threads % 5 != 0)
    assert set(results[threads % 5 != 0]) == {0}
    frame = map_access.ring_records(gpu.specs[RING], gpu.raw(RING), ROOM)
    assert sorted(frame["thread"]) == [thread for thread in range(256) if thread % 5]
    assert set(frame["launch"]) == {gpu.launch.number}
    assert [len(record) for record in frame["raw"]] == [8 + 8 * (thread % 3) for thread in frame["thread"]]
    assert [int.from_bytes(record[:8], "little") for record in frame["raw"]] == frame["thread"].tolist()
    assert gpu.losses[RING] == 0


def test_a_warp_fills_a_ring_with_room_for_some_lanes_and_counts_the_others(gpu):
    data = each(gpu, range(32), np.uint64)
    # 256 bytes hold eight records of 32.
    results = gpu.call(130, SMALL_RING, data, 8, 0)
    assert results.tolist() == [0] * 8 + [int(EAGAIN)] * 24
    assert gpu.losses[SMALL_RING] == 24
    frame = map_access.ring_records(gpu.specs[SMALL_RING], gpu.raw(SMALL_RING), ROOM)
    assert frame["thread"].tolist() == list(range(8))
    assert gpu.call(130, SMALL_RING, data[:3], 8, 0, block=3).tolist() == [0, 0, 0]


def test_reserved_records_arrive_when_they_are_submitted(gpu):
    records = gpu.call(131, RING, 8, 0)
    assert len(set(records.tolist())) == 32
    for thread, address in enumerate(records):
        gpu.device.view(int(address), 8)[:] = thread
    gpu.call(133, records, calls=np.arange(32) % 2 == 0)
    assert len(map_access.ring_records(gpu.specs[RING], gpu.raw(RING), ROOM)) == 0, (
        "the second one is not submitted yet"
    )
    gpu.call(132, records, calls=np.arange(32) % 2 == 1)
    frame = map_access.ring_records(gpu.specs[RING], gpu.raw(RING), ROOM)
    assert frame["raw"].tolist() == [bytes([thread]) * 8 for thread in range(1, 32, 2)]


def test_rings_per_thread_hold_what_fits_and_reject_threads_without_a_ring(gpu):
    data = each(gpu, range(256), np.uint64)
    for turn in range(3):
        results = gpu.call(25, 0, OWN, 0, data, 8, grid=8)
        assert results[:ROOM].tolist() == [0 if turn < 2 else int(ENOSPC)] * ROOM
        assert set(results[ROOM:]) == {ENOSPC}
    frame = map_access.ring_records(gpu.specs[OWN], gpu.raw(OWN), ROOM)
    assert frame["thread"].tolist() == [thread for thread in range(ROOM) for _ in range(2)]
    assert [int.from_bytes(record, "little") for record in frame["raw"]] == frame["thread"].tolist()
    assert frame["launch"].nunique() == 2
    assert gpu.losses[OWN] == ROOM + 3 * 64


@pytest.mark.parametrize(("grid", "block"), [(5, 32), ((2, 3, 1), (4, 2, 3)), ((1, 1, 4), (3, 5, 2))])
def test_each_thread_has_its_own_value_in_a_grid_of_any_shape(gpu, grid, block):
    threads = int(np.prod(grid) * np.prod(block))
    key = gpu.put(np.array([1], np.uint32))
    values = gpu.call(1, THREADS, key, grid=grid, block=block)
    first = gpu.call(1, THREADS, key, block=1)[0]
    assert values.tolist() == [first + 8 * thread for thread in range(threads)]
    assert gpu.call(607, grid=grid, block=block).tolist() == list(range(threads))
    assert gpu.losses[THREADS] == 0


def test_misaligned_values_are_copied_byte_by_byte(gpu):
    data = np.arange(24, dtype=np.uint8)
    # From an odd address, where wider accesses are not allowed.
    assert gpu.call(2, ARRAY, gpu.put(np.array([1], np.uint32)), gpu.put(data) + 1, 0, block=1).tolist() == [0]
    assert gpu.raw(ARRAY).tolist() == [0] * 6 + list(range(1, 7)) + [0] * 6


def test_votes_count_only_the_active_lanes(gpu):
    lanes = np.arange(32)
    came, yes = lanes % 2 == 1, lanes % 3 == 0
    mask = sum(1 << int(lane) for lane in lanes[came & yes])
    for helper, condition, expected in (
        (602, yes, mask),
        (603, yes, 1),
        (603, ~came, 0),
        (604, yes, 0),
        (604, came, 1),
        (600, yes, sum(1 << int(lane) for lane in lanes[came])),
    ):
        assert set(gpu.call(helper, condition, calls=came)[came]) == {expected}
    leaders = gpu.call(601, calls=lanes >= 5)
    assert leaders.tolist() == [0] * 5 + [1] + [0] * 26


def passes_of(addresses, size):
    """Bank passes, computed word by word, for {lane: address} of one warp, each access of `size` bytes."""
    parts = {1: 32, 2: 32, 4: 32, 8: 16, 16: 8}[size]
    passes = 0
    for first in range(0, 32, parts):
        words = {
            byte // 4
            for lane, address in addresses.items()
            if first <= lane < first + parts
            for byte in range(address, address + size)
        }
        passes += max(Counter(word % 32 for word in words).values(), default=0)
    return passes


@st.composite
def requests(draw):
    """Size, addresses of a warp's lanes, and which lanes are active."""
    size, stride = draw(st.sampled_from([1, 2, 4, 8, 16])), draw(st.integers(0, 70))
    wrap, came = (
        draw(st.sampled_from([1, 3, 8, 64, 4096])),
        draw(st.integers(1, (1 << 32) - 1) | st.just((1 << 32) - 1)),
    )
    lanes = draw(st.permutations(range(32)) | st.just(list(range(32))))
    return size, [size * (lane * stride % wrap) for lane in lanes], [came >> lane & 1 for lane in range(32)]


@given(requests())
def test_bank_passes_follow_from_the_words_that_the_lanes_access(built, asked):
    size, addresses, calls = asked

    results = built.call(611, np.array(addresses, np.uint64), size, calls=np.array(calls))

    here = {lane: addresses[lane] for lane in range(32) if calls[lane]}
    assert {int(results[lane]) for lane in here} == {passes_of(here, size)}


def test_known_access_patterns_take_the_passes_given_in_the_programming_guide(gpu):
    lanes = np.arange(32)
    for size, address, passes in (
        (4, 4 * lanes, 1),
        (4, 8 * lanes, 2),
        (4, 12 * lanes, 1),
        (4, 128 * lanes, 32),
        (4, 132 * lanes, 1),
        (4, 0 * lanes, 1),
        (4, 128 * (lanes // 16), 2),
        (1, lanes, 1),
        (2, 128 * (lanes % 4) + 2 * (lanes // 4), 4),
        (8, 8 * lanes, 2),
        (8, 16 * lanes, 4),
        (16, 16 * lanes, 4),
        (16, 128 * lanes, 32),
        (16, 144 * lanes, 4),
    ):
        assert set(gpu.call(611, address.astype(np.uint64), size)) == {passes}, (size, address)


@given(st.lists(st.integers(0, 3), min_size=32, max_size=32), st.integers(1, (1 << 32) - 1))
def test_the_lowest_lane_that_passes_a_value_is_its_first(built, values, came):
    calls = np.array([came >> lane & 1 for lane in range(32)])
    results = built.call(612, np.array(values, np.uint64), calls=calls)

    here = [lane for lane in range(32) if calls[lane]]
    firsts = {min(lane for lane in here if values[lane] == value) for value in {values[lane] for lane in here}}
    assert {lane for lane in here if results[lane]} == firsts


def test_helpers_return_each_threads_position(gpu):
    out = gpu.put(np.zeros((96, 3), np.uint64))
    x = out + 24 * np.arange(96, dtype=np.uint64)

    def read(helper):
        gpu.call(helper, x, x + 8, x + 16, grid=(2, 1, 2), block=(3, 4, 2))
        return gpu.device.copy_out(out, 96 * 24).view(np.uint64).reshape(96, 3)

    # Row-major over the whole grid of 6 x 4 x 4 threads.
    z, y, gx = (axis.ravel() for axis in np.indices((4, 4, 6)))
    assert (read(503) == np.stack([gx // 3, y * 0, z // 2], 1)).all()
    assert (read(505) == np.stack([gx % 3, y, z % 2], 1)).all()
    assert (read(504) == [3, 4, 2]).all()
    assert (read(508) == [2, 1, 2]).all()
    assert (gpu.call(608, grid=(2, 1, 2), block=(3, 4, 2)) == gx // 3 + 2 * (z // 2)).all()
    lanes = gpu.call(511, grid=2, block=48).reshape(2, 48)
    assert (lanes == np.arange(48) % 32).all()
    assert (gpu.call(510, grid=1, block=48) == np.arange(48) // 32).all()
    assert set(gpu.call(14)) == {PID_TGID}
    assert (gpu.call(509, grid=4) < gpu.device.multiprocessors).all()
    assert (gpu.call(8, grid=4) == gpu.call(509, grid=4)).all()


def test_time_advances_from_launch_to_launch(gpu):
    first, second = gpu.call(502), gpu.call(5)
    assert first.max() < second.min()
    assert gpu.call(606).min() > 0


def test_exit_ends_the_thread_immediately(gpu):
    results = gpu.call(507, calls=np.arange(32) < 4)
    assert results.tolist() == [1] * 4 + [0] * 28, "what marks a call is not replaced by its result"


def test_fences_barriers_and_prefetches_return(gpu):
    for helper in (506, 609):
        assert not gpu.call(helper, block=64).any()
    assert not gpu.call(605, gpu.put(np.zeros(8, np.uint8))).any()


def test_lines_are_printed_with_thread_and_launch(gpu):
    text = np.frombuffer(b"thread %d of %lu\n\0", np.uint8)
    address, threads = gpu.put(text), np.arange(64)
    results = gpu.call(6, address, len(text), threads, threads + (1 << 33), grid=2, calls=threads % 7 == 0)
    assert set(results[threads % 7 == 0]) == {len(text)}
    frame = map_access.print_records(gpu.region(gpu.plan.printk))
    expected = range(0, 64, 7)
    assert frame["text"].tolist() == [f"thread {thread} of {thread + (1 << 33)}" for thread in expected]
    assert frame["thread"].tolist() == list(expected)
    assert set(frame["launch"]) == {gpu.launch.number}
    gpu.call(501, gpu.put(np.frombuffer(b"done\0", np.uint8)), block=1)
    assert map_access.printed(gpu.region(gpu.plan.printk)) == ["done"]

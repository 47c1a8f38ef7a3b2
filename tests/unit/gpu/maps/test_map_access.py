import ctypes

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_magic.errors import ProgramError
from accel_magic.gpu.maps import map_access, map_layout, printing
from accel_magic.gpu.program.helpers import MapType
from accel_magic.kernel.records.c_layout import value_layout
from tests.every_step import lines_per_row
from tests.support.errors import raises
from tests.unit.gpu.device_host import HostDevice, at, spec

PAIR = value_layout(["pair", [["sum", "unsigned long long"], ["count", "unsigned int"]], "struct"], 16, "value")
PLACE = value_layout(["place", [["block", "unsigned int"], ["lane", "unsigned int"]], "struct"], 8, "key")
LAYOUTS = {"key_columns": PLACE, "value_columns": PAIR}


def u32(number):
    return number.to_bytes(4, "little")


def u64(number):
    return number.to_bytes(8, "little")


@pytest.fixture(scope="module")
def built():
    return HostDevice(
        spec(MapType.HASH, key=8, value=16, entries=50),
        spec(MapType.GPU_ARRAY, entries=4),
        spec(MapType.PER_THREAD_ARRAY, entries=2),
        spec(MapType.RINGBUF, key=0, value=0, entries=1024),
        spec(MapType.GPU_RINGBUF, value=16, entries=2),
        threads=5,
    )


@pytest.fixture
def device(built):
    for block in built.blocks.values():
        block[:] = 0
    return built


def rows(frame):
    return list(frame.itertuples(index=False, name=None))


def test_entries_of_a_hash_have_the_columns_of_key_and_value_in_order_of_the_keys(device):
    for block, lane in ((2, 1), (1, 7), (1, 3)):
        device.call(2, 0, u32(block) + u32(lane), u64(block * 100) + u32(lane) + bytes(4), 0)
    frame = map_access.entries(spec(MapType.HASH, key=8, value=16, entries=50, **LAYOUTS), device.raw(0), 5)
    assert frame.columns.tolist() == ["block", "lane", "sum", "count"]
    assert rows(frame) == [(1, 3, 100, 3), (1, 7, 100, 7), (2, 1, 200, 1)]
    assert [str(dtype) for dtype in frame.dtypes] == ["uint32", "uint32", "uint64", "uint32"]


def test_without_declared_types_data_of_a_numbers_size_is_a_number_and_other_data_bytes(device):
    device.call(2, 0, u64(9), b"x" * 16, 0)
    assert rows(map_access.entries(device.specs[0], device.raw(0), 5)) == [(9, b"x" * 16)]


def test_only_entries_of_a_hash_that_change_while_they_are_read_are_left_out(device):
    one = device.specs[0]
    for key in range(3):
        map_access.update(one, device.raw(0), key, b"%d" % key * 16)
    states = device.raw(0)[map_layout.HEAD :].reshape(map_layout.slots(one), -1)[:, :4].view(np.uint32)[:, 0]
    moving = next(slot for slot in np.flatnonzero(states) if states[slot] >> 2 == map_access.hash_of(u64(1)) >> 2)
    for state in (0, 1, 3):  # never used, being filled, deleted
        states[moving] = states[moving] & ~np.uint32(3) | np.uint32(state)
        assert map_access.entries(one, device.raw(0), 5)["key"].tolist() == [0, 2]


def test_only_entries_with_the_same_key_in_two_copies_of_a_hash_are_kept(device):
    one = device.specs[0]
    for key in range(5):
        map_access.update(one, device.raw(0), key, b"a" * 16)
    first = device.raw(0).copy()
    assert device.error(3, 0, u64(1)) == 0  # deleted
    assert device.error(3, 0, u64(2)) == 0  # deleted, and in again
    map_access.update(one, device.raw(0), 2, b"b" * 16)
    map_access.update(one, device.raw(0), 3, b"c" * 16)  # another value
    map_access.update(one, device.raw(0), 9, b"d" * 16)  # new
    second = device.raw(0).copy()
    states = map_access.rows_of(one, first)[:, :4].view(np.uint32)[:, 0]
    slot = next(slot for slot in np.flatnonzero(states) if states[slot] >> 2 == map_access.hash_of(u64(4)) >> 2)
    states[slot] = states[slot] & ~np.uint32(3) | 1  # was being filled

    kept = map_access.steady(one, first, second)

    assert rows(map_access.entries(one, kept, 5)) == [(0, b"a" * 16), (2, b"b" * 16), (3, b"c" * 16)]
    assert (second == device.raw(0)).all()


def test_arrays_have_a_row_for_every_index(device):
    device.call(2, 1, u32(2), u64(7), 0)
    assert rows(map_access.entries(device.specs[1], device.raw(1), 5)) == [(0, 0), (1, 0), (2, 7), (3, 0)]
    assert rows(map_access.entries(device.specs[1], device.raw(1), 5, untouched=False)) == [(2, 7)]


def test_per_thread_arrays_have_a_row_for_every_index_and_thread(device):
    for thread in (0, 3):
        device.be(thread, dims=(5, 1, 1))
        device.call(2, 2, u32(1), u64(100 + thread), 0)
    frame = map_access.entries(device.specs[2], device.raw(2), 5)
    expected = [
        (key, thread, 100 + thread if (key, thread) in {(1, 0), (1, 3)} else 0) for key in (0, 1) for thread in range(5)
    ]
    assert rows(frame) == expected
    assert rows(map_access.frame(device.specs[2], device.raw(2), 5)) == [(1, 0, 100), (1, 3, 103)]
    assert frame.columns.tolist() == ["key", "thread", "value"]


def test_a_values_column_with_the_name_of_a_keys_column_gets_a_prefix():
    value = value_layout(
        ["v", [["thread", "unsigned int"], ["key", "unsigned int"], ["x", "unsigned long"]], "struct"], 16, ""
    )
    one = spec(MapType.PER_THREAD_ARRAY, value=16, entries=1, value_columns=value)
    raw = np.arange(32, dtype=np.uint8)
    assert map_access.entries(one, raw, 2).columns.tolist() == ["key", "thread", "value_thread", "value_key", "x"]


def test_global_data_are_one_row_with_a_column_for_each_variable():
    data = value_layout(
        ["", [["hits", "unsigned long"], ["limit", "int"], ["mode", "char"]], "struct_packed"], 13, "value"
    )
    one = spec(MapType.ARRAY, value=13, entries=1, name=".data", value_columns=data)
    raw = np.frombuffer(u64(5) + (-3).to_bytes(4, "little", signed=True) + b"\x07", np.uint8)
    assert map_access.entries(one, raw, 1).to_dict("records") == [{"hits": 5, "limit": -3, "mode": 7}]


def test_entries_of_rings_and_of_unknown_types_are_an_error():
    for kind in (MapType.RINGBUF, 4):
        with raises("gpu.map.no-entries", ProgramError):
            map_access.entries(spec(kind), np.zeros(100, np.uint8), 1)


def test_reading_many_threads_needs_no_python_loop():
    one = spec(MapType.PER_THREAD_ARRAY, entries=1)

    def read(threads):
        values = np.zeros(threads, np.uint64)
        values[::2] = np.arange(threads // 2) + 1
        frame = map_access.frame(one, values.view(np.uint8), threads)
        assert (frame["thread"] == np.arange(0, threads, 2)).all()
        assert (frame["value"] == np.arange(1, threads // 2 + 1)).all()

    assert lines_per_row(read, 1 << 10, 1 << 15) < 0.01


@given(st.lists(st.tuples(st.binary(min_size=13, max_size=13), st.binary(min_size=5, max_size=5)), max_size=9))
def test_the_device_finds_entries_that_the_host_wrote_to_a_hash(odd, written):
    for block in odd.blocks.values():
        block[:] = 0
    expected = dict(written)
    for key, value in written:
        map_access.update(odd.specs[0], odd.raw(0), key, value)
    found = {key: at(odd.call(1, 0, key), 5) for key in expected}
    assert found == expected
    assert odd.call(1, 0, b"absent key...") == 0
    assert [odd.error(3, 0, key) for key in expected] == [0] * len(expected)
    assert len(map_access.entries(odd.specs[0], odd.raw(0), 5)) == 0


@pytest.fixture(scope="module")
def odd():
    return HostDevice(spec(MapType.GPU_HASH, key=13, value=5, entries=9))


def test_the_host_and_the_device_overwrite_each_others_entries(device):
    one = device.specs[0]
    device.call(2, 0, u64(1), b"device" + bytes(10), 0)
    map_access.update(one, device.raw(0), 1, b"host" + bytes(12))
    map_access.update(one, device.raw(0), 2, b"host" + bytes(12))
    device.call(2, 0, u64(2), b"device" + bytes(10), 2)
    assert rows(map_access.entries(one, device.raw(0), 5)) == [(1, b"host" + bytes(12)), (2, b"device" + bytes(10))]


def test_the_host_reuses_deleted_slots_and_a_full_hash_is_an_error(odd):
    for block in odd.blocks.values():
        block[:] = 0
    one = odd.specs[0]
    for number in range(50):
        key = b"%13d" % number
        map_access.update(one, odd.raw(0), key, b"value")
        if number >= 8:
            assert odd.error(3, 0, b"%13d" % (number - 8)) == 0
    map_access.update(one, odd.raw(0), b"the ninth one", b"value")
    with raises("gpu.map.full", ProgramError):
        map_access.update(one, odd.raw(0), b"the tenth one", b"value")
    assert len(map_access.entries(one, odd.raw(0), 5)) == 9


def test_the_host_writes_arrays_by_index_and_per_thread_arrays_for_every_thread(device):
    map_access.update(device.specs[1], device.raw(1), 3, -1)
    map_access.update(device.specs[2], device.raw(2), u32(1), 6)
    assert device.raw(1).view(np.uint64).tolist() == [0, 0, 0, (1 << 64) - 1]
    assert device.raw(2).view(np.uint64).tolist() == [0] * 5 + [6] * 5


@pytest.mark.parametrize(
    ("place", "entry", "code", "message"),
    [
        (1, (4, 0), "gpu.map.no-entry", "4"),
        (1, (1 << 32, 0), "gpu.map.bad-key-or-value", "4294967296 .* key"),
        (1, (b"abc", 0), "gpu.map.bad-key-or-value", "b'abc' .* key"),
        (1, (0, 1 << 64), "gpu.map.bad-key-or-value", "18446744073709551616 .* value"),
        (0, (0, b"short"), "gpu.map.bad-key-or-value", "b'short' .* value"),
        (3, (0, 0), "gpu.map.bad-key-or-value", "key"),
        (4, (0, bytes(16)), "gpu.map.no-entries", None),
    ],
)
def test_invalid_keys_values_and_maps_are_an_error_for_the_host(device, place, entry, code, message):
    with raises(code, ProgramError, match=message):
        map_access.update(device.specs[place], device.raw(place), *entry)
    assert not any(block.any() for block in device.blocks.values())


def test_records_of_the_declared_size_have_the_declared_columns_and_others_stay_bytes(device):
    device.be(3, launch=11)
    device.call(130, 3, u64(5) + u32(6) + bytes(4), 16, 0)
    device.call(130, 3, b"abc", 3, 0)
    device.call(130, 3, u64(7) + u32(8) + bytes(4), 16, 0)
    frame = map_access.ring_records(device.specs[3], device.raw(3), 5, PAIR)
    assert frame.columns.tolist() == ["thread", "launch", "sum", "count", "raw"]
    assert frame["thread"].tolist() == [3, 3, 3]
    assert frame["launch"].tolist() == [11, 11, 11]
    assert frame["sum"].fillna(-1).tolist() == [5, -1, 7]
    assert frame["raw"].tolist()[1] == b"abc"


def test_the_frame_of_an_empty_ring_has_all_columns(device):
    assert map_access.ring_records(device.specs[3], device.raw(3), 5, PAIR).columns.tolist() == [
        "thread",
        "launch",
        "sum",
        "count",
    ]
    assert map_access.ring_records(device.specs[4], device.raw(4), 5).columns.tolist() == ["thread", "launch", "raw"]


def test_a_frame_of_per_thread_rings_is_sorted_by_thread_however_often_they_were_drained(device):
    chunks = []
    for number in range(6):
        device.be(number * 3 % 5, dims=(5, 1, 1))
        device.call(25, 0, 4, 0, u64(number), 8)
        chunks.append(map_access.drain(device.specs[4], device.raw(4), 5))
    frame = map_access.frame(device.specs[4], np.concatenate(chunks), 5)
    assert frame.columns.tolist() == ["thread", "launch", "raw"]
    expected = [(0, 0), (0, 5), (1, 2), (2, 4), (3, 1), (4, 3)]
    assert [(row.thread, int.from_bytes(row.raw, "little")) for row in frame.itertuples()] == expected
    assert frame.index.tolist() == list(range(6))


def test_a_frame_of_a_ring_for_all_threads_is_in_the_order_of_its_records(device):
    chunks = []
    for number in range(6):
        device.be(number * 3 % 5, dims=(5, 1, 1))
        device.call(130, 3, u64(number), 8, 0)
        chunks.append(map_access.drain(device.specs[3], device.raw(3), 5))
    frame = map_access.frame(device.specs[3], np.concatenate(chunks), 5)
    assert [int.from_bytes(each, "little") for each in frame["raw"]] == list(range(6))


def test_results_of_several_drains_can_be_concatenated(device):
    chunks = []
    for number in range(30):
        device.call(130, 3, bytes([number]) * number, number, 0)
        chunks.append(map_access.drain(device.specs[3], device.raw(3), 5))
    frame = map_access.records(np.concatenate(chunks))
    assert frame["raw"].tolist() == [bytes([number]) * number for number in range(30)]


def test_losses_are_a_copy_of_the_counters():
    raw = np.array([3, 0, 1 << 40], np.uint64)
    counted = map_access.losses(raw.view(np.uint8))
    raw[0] = 9
    assert counted.tolist() == [3, 0, 1 << 40]


LIBC = ctypes.CDLL(None)


def as_c_prints(text, arguments):
    """Print with the C library, the oracle for formats; the kernel prints numbers in the same way."""
    room = ctypes.create_string_buffer(1000)
    LIBC.snprintf(room, 1000, text.encode(), *(ctypes.c_uint64(each) for each in arguments))
    return room.value.decode()


conversions = st.builds(
    "%{}{}{}".format,
    st.sampled_from(["", "8", "08", "-8", "+", " ", "3", "+012", "-0 25", "%"]),
    st.sampled_from(["", "l", "ll"]),
    st.sampled_from("diuxX"),
)


@given(
    st.lists(st.one_of(conversions, st.sampled_from(["%%", "abc", " ", "100", "é"])), max_size=6).map("".join),
    st.lists(st.integers(0, (1 << 64) - 1), min_size=9, max_size=9),
)
def test_numbers_are_printed_as_in_c(text, arguments):
    assert printing.compiled(text).text(tuple(arguments)) == as_c_prints(text, arguments)


def test_pointers_and_characters_are_printed(device):
    device.call(6, b"%c at %p and %lx\n\0", 18, ord("x"), 0xDEADBEEF, 0xABC)
    assert map_access.printed(device.printk) == ["x at 0xdeadbeef and abc"]


def test_printed_lines_have_their_thread_and_launch_and_are_read_once(device):
    device.be(4, launch=2)
    device.call(6, b"i=%d\0", 5, 1 << 32 | 7)
    frame = map_access.print_records(device.printk)
    assert rows(frame) == [(4, 2, "i=7")]
    assert len(map_access.print_records(device.printk)) == 0
    assert map_access.printed(device.printk) == []


def test_text_of_puts_is_not_a_format(device):
    device.call(501, b"100% %d %s\0")
    assert map_access.printed(device.printk) == ["100% %d %s"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name %s", "'%s'"),
        ("%lf", "'%lf'"),
        ("%.3d", "'%.'"),
        ("%o", "'%o'"),
        ("100%", "'%'"),
        ("%d %d %d %d", "4 arguments"),
    ],
)
def test_formats_that_cannot_be_printed_are_rejected(text, message):
    with raises("gpu.bad-format", ProgramError, match=message):
        printing.check_format(text)


def test_formats_that_can_be_printed_are_accepted():
    printing.check_format("%d%% of %lu at %p\n")


def test_a_string_of_the_device_prints_as_its_address(device):
    device.call(6, b"name %s\0", 8, 0x1000)
    assert map_access.printed(device.printk) == ["name 0x1000"]


def test_frames_of_rings_can_be_concatenated(device):
    device.call(130, 3, u64(1), 8, 0)
    first = map_access.ring_records(device.specs[3], device.raw(3), 5)
    second = map_access.ring_records(device.specs[3], device.raw(3), 5)
    assert pd.concat([first, second])["raw"].tolist() == [u64(1)]

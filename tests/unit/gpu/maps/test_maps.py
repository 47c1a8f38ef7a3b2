import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_magic.errors import ProgramError
from accel_magic.gpu.maps import map_layout
from accel_magic.gpu.maps.map_layout import Placement
from accel_magic.gpu.program.helpers import MapType
from tests.support.errors import raises
from tests.unit.gpu.device_host import UNLIMITED, spec

KINDS = list(MapType)


def test_arrays_are_contiguous_values():
    for kind in (MapType.ARRAY, MapType.GPU_ARRAY, MapType.SHARED_ARRAY, MapType.GPU_ARRAY_HOST):
        assert map_layout.layout_of(spec(kind, value=12, entries=5), 1000).bytes == 60


def test_per_thread_arrays_hold_a_value_for_each_key_and_thread():
    for kind in (MapType.PER_THREAD_ARRAY, MapType.PER_THREAD_ARRAY_HOST):
        assert map_layout.layout_of(spec(kind, value=12, entries=5), 1000).bytes == 60_000


def test_a_ring_per_thread_has_the_layout_that_existing_programs_expect():
    # 24 bytes, then 16 times a u64 and the value, for each of 100 threads.
    assert map_layout.layout_of(spec(MapType.GPU_RINGBUF, value=1024, entries=16), 100).bytes == 100 * (
        24 + 16 * (8 + 1024)
    )


@pytest.mark.parametrize(("entries", "slots"), [(1, 2), (2, 4), (3, 8), (4, 8), (5, 16), (1000, 2048), (1024, 2048)])
def test_a_hash_has_twice_as_many_slots_as_entries_rounded_up(entries, slots):
    # A slot: 8 bytes, 16 for the key of 13, 8 for the value of 5.
    layout = map_layout.layout_of(spec(MapType.HASH, key=13, value=5, entries=entries), 1)
    assert layout.bytes == 64 + slots * (8 + 16 + 8)


@pytest.mark.parametrize(("wanted", "size"), [(1, 64), (64, 64), (65, 128), (4096, 4096), (5000, 8192)])
def test_a_ring_for_all_threads_is_a_power_of_two_with_an_overflow_area_of_the_same_size(wanted, size):
    assert map_layout.layout_of(spec(MapType.RINGBUF, key=0, value=0, entries=wanted), 1).bytes == 64 + 2 * size


def test_maps_that_the_host_reads_live_are_in_host_memory():
    host = {kind for kind in KINDS if map_layout.layout_of(spec(kind), 1).memory == "host"}
    assert host == {27, 1504, 1512, 1513, 1527}


def test_global_data_begin_with_their_content():
    one = spec(MapType.ARRAY, value=8, entries=1, name=".data", initial=b"abc")
    assert map_layout.layout_of(one, 1).initial == b"abc"
    plan = map_layout.plan_memory([spec(MapType.ARRAY), one], 1, limit=UNLIMITED)
    assert [region.initial for region in plan.maps] == [b"", b"abc"]


@given(
    st.lists(st.builds(spec, st.sampled_from(KINDS), value=st.integers(1, 40), entries=st.integers(1, 70)), max_size=8),
    st.integers(1, 50),
)
def test_nothing_overlaps_and_everything_is_aligned_and_inside_its_block(specs, threads):
    plan = map_layout.plan_memory(specs, threads, limit=UNLIMITED)
    sizes = {"device": plan.device_bytes, "host": plan.host_bytes}
    ends = {"device": 0, "host": 0}
    for region in sorted([*plan.maps, plan.losses, plan.launch, plan.printk], key=lambda each: each.offset):
        assert region.offset % 256 == 0
        assert region.offset >= ends[region.memory]
        ends[region.memory] = region.offset + region.bytes
    assert ends == sizes
    assert (plan.losses.bytes, plan.launch.bytes) == (8 * (len(specs) + 1), 8)
    assert [region.bytes for region in plan.maps] == [map_layout.layout_of(one, threads).bytes for one in specs]


def test_addresses_are_those_of_the_blocks_and_the_offsets():
    specs = [spec(MapType.ARRAY), spec(MapType.GPU_RINGBUF), spec(MapType.PER_THREAD_ARRAY)]
    plan = map_layout.plan_memory(specs, 10, limit=UNLIMITED)
    placed = map_layout.placement(plan, 0x10000, 0x900000, pid_tgid=7)
    # 8 values of 8 bytes, then 80 of 8, the losses, the launch; in the other block 10 rings of 24 + 8 * 16 bytes.
    losses = 0x10000 + 256 + 768
    assert placed == Placement((0x10000, 0x900000, 0x10100), 10, losses, 0x900000 + 1536, 7, losses + 256)


def test_a_trace_without_maps_still_has_its_losses_and_its_print_ring():
    plan = map_layout.plan_memory([], 1, limit=UNLIMITED)
    assert (plan.maps, plan.losses.bytes, plan.printk.bytes) == ((), 8, 64 + 2 * 262144)


def test_the_error_for_maps_over_the_limit_names_the_largest_map_its_bytes_and_the_fix():
    specs = [spec(MapType.ARRAY, name="few"), spec(MapType.PER_THREAD_ARRAY, entries=100, name="many")]
    with raises("gpu.map.too-large", ProgramError) as error:
        map_layout.plan_memory(specs, 1 << 20, limit=1 << 20)
    assert str(error.value) == (
        "map many needs 838,860,800 bytes, all maps 839,385,672, and the limit is 1,048,576\n"
        "  why: it has values for 1,048,576 threads\n"
        "  fix: lower its max_entries, or trace fewer threads: --threads N"
    )


def test_the_error_for_a_large_hash_does_not_blame_the_threads():
    with raises("gpu.map.too-large", ProgramError) as error:
        map_layout.plan_memory([spec(MapType.HASH, entries=1 << 20)], 4, limit=1 << 20)
    assert (error.value.why, error.value.fix) == ("it has 1,048,576 entries", "lower its max_entries")


def test_the_error_for_a_limit_too_low_for_any_map_has_both_sizes():
    with raises("gpu.map.too-large", ProgramError, match=r"524,616 bytes.* 1,000"):
        map_layout.plan_memory([], 1, limit=1000)


def test_maps_of_exactly_the_limit_are_allowed():
    needed = map_layout.plan_memory([spec(MapType.HASH)], 4, limit=UNLIMITED)
    total = needed.device_bytes + needed.host_bytes
    assert map_layout.plan_memory([spec(MapType.HASH)], 4, limit=total) == needed
    with raises("gpu.map.too-large", ProgramError):
        map_layout.plan_memory([spec(MapType.HASH)], 4, limit=total - 1)


@pytest.mark.parametrize(
    ("one", "why", "fix"),
    [
        (spec(4), "its type is 4", "use one of HASH (1), ARRAY (2), RINGBUF (27), GPU_HASH (1501)"),
        (spec(MapType.ARRAY, entries=0), "max_entries is 0", "__uint(max_entries, N)"),
        (spec(MapType.HASH, entries=1 << 32), "max_entries is 4294967296", "__uint(max_entries, N)"),
        (spec(MapType.PER_THREAD_ARRAY, key=8), "its keys have 8 bytes, but indexes have four", "__type(key, __u32)"),
        (spec(MapType.HASH, key=0), "its keys have no bytes", "__type(key, ...)"),
        (spec(MapType.GPU_RINGBUF, value=0), "its values have no bytes", "__type(value, ...)"),
        (spec(MapType.RINGBUF, key=0, value=0, entries=1 << 31), "its ring has 2147483648 bytes", "at most 1073741824"),
        (
            spec(MapType.ARRAY, value=2, initial=b"abc"),
            "its initial content has 3 bytes, its value 2",
            "compile the program",
        ),
    ],
)
def test_the_error_for_an_unusable_declaration_has_the_reason_and_the_fix(one, why, fix):
    with raises("gpu.map.unusable", ProgramError) as error:
        map_layout.layout_of(one, 1)
    assert error.value.why == why
    assert fix in error.value.fix

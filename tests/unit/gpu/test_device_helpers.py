import ctypes
import itertools
import re
import shutil
import subprocess
import sys
from collections import deque
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from accel_magic.errors import MachineError
from accel_magic.gpu.codegen import device
from accel_magic.gpu.codegen.assemble import assemble
from accel_magic.gpu.maps import map_access
from accel_magic.gpu.maps.map_layout import Placement
from accel_magic.gpu.program.helpers import MapType
from tests.unit.gpu.device_host import GPU_HELPERS, PID_TGID, HostDevice, at, spec
from tests.unit.gpu.device_kernels import ptx_of_kernels

pytestmark = pytest.mark.component

ANY, NOEXIST, EXIST = range(3)
ENOENT, E2BIG, EAGAIN, EEXIST, EINVAL, ENOSPC = -2, -7, -11, -17, -22, -28
THREADS = 6
ROOT = Path(device.__file__).parents[4]


def u32(number):
    return number.to_bytes(4, "little")


def u64(number):
    return number.to_bytes(8, "little")


class Maps(RuleBasedStateMachine):
    """Hashes, arrays and per-thread arrays compared with dictionaries, including the kernel's return values."""

    SPECS = (
        spec(MapType.HASH, entries=3, name="small"),
        spec(MapType.GPU_HASH, key=13, value=5, entries=5, name="odd"),
        spec(MapType.GPU_HASH, key=16, value=24, entries=1, name="single"),
        spec(MapType.ARRAY, entries=3, name="array"),
        spec(MapType.GPU_ARRAY, value=3, entries=4, name="odd_array"),
        spec(MapType.PER_THREAD_ARRAY, entries=2, name="threads"),
        spec(MapType.PER_THREAD_ARRAY_HOST, value=12, entries=3, name="host_threads"),
    )
    HASHES = frozenset(range(3))
    OWN = frozenset({5, 6})
    places = st.integers(0, len(SPECS) - 1)
    keys = st.integers(0, 5)
    values = st.integers(0, 255)
    flags = st.sampled_from([ANY, ANY, NOEXIST, EXIST, 3, 4, 1 << 63])
    device = None

    @initialize()
    def begin(self):
        if Maps.device is None:
            Maps.device = HostDevice(*self.SPECS, threads=THREADS)
        self.device = Maps.device
        for block in self.device.blocks.values():
            block[:] = 0
        self.model = [{} for _ in self.SPECS]
        self.losses = [0] * (len(self.SPECS) + 1)
        self.be(0)

    @rule(thread=st.integers(0, THREADS + 1))
    def be(self, thread):
        self.thread = thread
        self.device.be(thread, dims=(THREADS + 2, 1, 1))

    def key(self, place, key):
        # Keys that differ in only their last byte, only their first byte, or both.
        size = self.SPECS[place].key_size
        return u32(key) if size == 4 else bytes([key % 2]) + bytes(size - 2) + bytes([key // 2])

    def value(self, place, value):
        return bytes((value + index) % 256 for index in range(self.SPECS[place].value_size))

    def entry(self, place, key):
        return (key, self.thread) if place in self.OWN else key

    def without_room(self, place):
        return place in self.OWN and self.thread >= THREADS

    @rule(place=places, key=keys, value=values, flags=flags)
    def update(self, place, key, value, flags):
        model, entry, limit = self.model[place], self.entry(place, key), self.SPECS[place].max_entries
        if flags > EXIST:
            expected = EINVAL
        elif place not in self.HASHES:
            beyond = key >= limit or self.without_room(place)
            expected = E2BIG if beyond else EEXIST if flags == NOEXIST else 0
        elif entry in model:
            expected = EEXIST if flags == NOEXIST else 0
        else:
            expected = ENOENT if flags == EXIST else E2BIG if len(model) == limit else 0
        if expected == 0:
            model[entry] = self.value(place, value)
        self.losses[place] += expected == E2BIG
        assert self.device.error(2, place, self.key(place, key), self.value(place, value), flags) == expected

    @rule(place=places, key=keys)
    def delete(self, place, key):
        missing = place in self.HASHES and self.model[place].pop(key, None) is None
        expected = EINVAL if place not in self.HASHES else ENOENT if missing else 0
        assert self.device.error(3, place, self.key(place, key)) == expected

    @rule(place=places, key=keys)
    def lookup(self, place, key):
        size, limit = self.SPECS[place].value_size, self.SPECS[place].max_entries
        expected = self.model[place].get(self.entry(place, key))
        if place not in self.HASHES and key < limit:
            expected = expected or bytes(size)
            if self.without_room(place):
                self.losses[place] += 1
                expected = None
        address = self.device.call(1, place, self.key(place, key))
        assert (at(address, size) if address else None) == expected

    @invariant()
    def losses_are_exact(self):
        if self.model:
            assert self.device.losses == self.losses

    @precondition(lambda self: self.model)
    @rule()
    def the_host_sees_the_same(self):
        for place, one in enumerate(self.SPECS):
            frame = map_access.entries(one, self.device.raw(place), THREADS, untouched=False)
            columns = ["key", "thread", "value"] if place in self.OWN else ["key", "value"]
            found = {}
            for *entry, value in frame[columns].itertuples(index=False):
                stored = value if isinstance(value, bytes) else u64(value)
                found[tuple(entry) if place in self.OWN else entry[0]] = stored
            expected = {
                self.key(place, entry) if place in self.HASHES and one.key_size != 4 else entry: value
                for entry, value in self.model[place].items()
            }
            assert found == expected

    def teardown(self):
        plan = self.device.plan
        outside = {name: np.ones(len(block), bool) for name, block in self.device.blocks.items()}
        for region in (*plan.maps, plan.losses, plan.printk):
            outside[region.memory][region.offset : region.offset + region.bytes] = False
        assert not any(self.device.blocks[name][mask].any() for name, mask in outside.items())


Maps.TestCase.settings = settings(stateful_step_count=30)
test_maps_behave_like_the_kernels = Maps.TestCase


@pytest.fixture(scope="module")
def rings():
    return HostDevice(
        spec(MapType.RINGBUF, key=0, value=0, entries=256),
        spec(MapType.GPU_RINGBUF, value=20, entries=3),
        spec(MapType.ARRAY),
        threads=3,
    )


@pytest.fixture
def ring(rings):
    for block in rings.blocks.values():
        block[:] = 0
    rings.be(0)
    return rings


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("output"), st.integers(0, 240)),
            st.tuples(st.sampled_from(["submit", "discard"]), st.integers(0, 240)),
            st.tuples(st.just("drain"), st.just(0)),
        ),
        max_size=40,
    )
)
def test_a_shared_ring_delivers_every_record_once_and_in_order_or_counts_it_as_lost(rings, steps):
    for block in rings.blocks.values():
        block[:] = 0
    written, read, lost, used = [], [], 0, 0
    for number, (what, size) in enumerate([*steps, ("drain", 0)]):
        rings.be(number % 5, launch=number)
        data = bytes([number]) * size
        if what == "drain":
            frame = map_access.ring_records(rings.specs[0], rings.raw(0), 3)
            read += list(frame.itertuples(index=False, name=None)) if len(frame) else []
            used = 0
            continue
        needed = 24 + (size + 7) // 8 * 8
        fits = used + needed <= 256
        used, lost = (used + needed, lost) if fits else (used, lost + 1)
        if what == "output":
            assert rings.error(130, 0, data or b"\0", size, 0) == (0 if fits else EAGAIN)
        else:
            address = rings.call(131, 0, size, 0)
            assert bool(address) == fits
            if fits:
                ctypes.memmove(address, data, size)
                assert rings.call(132 if what == "submit" else 133, address, 0) == 0
        if fits and what != "discard":
            written.append((number % 5, number, data))
    assert read == written
    assert rings.losses == [lost, 0, 0, 0]
    assert not rings.raw(0)[64:].any()


@pytest.mark.parametrize("header", ["busy", "not yet written"])
def test_an_unfinished_record_holds_back_later_ones(ring, header):
    held = ring.call(131, 0, 8, 0)
    words = ring.raw(0)[64:].view(np.uint32)
    written = int(words[0])
    words[0] = written if header == "busy" else 0
    ring.call(130, 0, u64(2), 8, 0)
    assert len(map_access.ring_records(ring.specs[0], ring.raw(0), 3)) == 0
    ctypes.memmove(held, u64(1), 8)
    words[0] = written
    ring.call(132, held, 0)
    assert list(map_access.ring_records(ring.specs[0], ring.raw(0), 3)["raw"]) == [u64(1), u64(2)]


def test_an_unfinished_record_in_a_threads_ring_holds_back_later_ones(ring):
    def read():
        return map_access.ring_records(ring.specs[1], ring.raw(1), 3)["raw"].tolist()

    for number in range(3):
        ring.call(25, 0, 1, 0, u64(number), 8)
    assert len(read()) == 3
    head_and_tail = ring.raw(1)[:16].view(np.uint64)
    head_and_tail[1] += 1  # a thread claimed the first slot, whose earlier record has been read
    ring.call(25, 0, 1, 0, u64(8), 8)
    assert read() == []
    place = ring.raw(1)[24:].view(np.uint32)
    place[0], place[2:4] = 1 << 31 | 8, [7, 0]
    assert read() == [u64(7), u64(8)]


def test_rings_reject_flags_that_the_kernel_rejects_and_invalid_maps(ring):
    assert ring.error(130, 0, u64(1), 8, 4) == EINVAL
    assert ring.call(131, 0, 8, 1) == 0
    for other in (2, 3, 1 << 40):
        assert ring.error(130, other, u64(1), 8, 0) == EINVAL
        assert ring.error(25, 0, other, 0, u64(1), 8) == EINVAL
        assert ring.call(131, other, 8, 0) == 0
    assert ring.call(1, 0, u32(0)) == ring.call(1, 3, u32(0)) == 0
    assert ring.error(2, 0, u32(0), u64(0), 0) == ring.error(2, 3, u32(0), u64(0), 0) == EINVAL
    assert ring.losses == [0, 0, 0, 0]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 24)), max_size=60))
def test_rings_per_thread_deliver_every_record_once_and_in_order_or_count_it_as_lost(rings, steps):
    for block in rings.blocks.values():
        block[:] = 0
    waiting, lost = {thread: deque() for thread in range(3)}, 0
    for number, (thread, size) in enumerate([*steps, (0, 24)]):
        if size == 24:  # drain
            frame = map_access.ring_records(rings.specs[1], rings.raw(1), 3)
            expected = [(one, *record) for one, records in waiting.items() for record in records]
            assert list(frame.itertuples(index=False, name=None)) == expected
            waiting = {one: deque() for one in waiting}
            continue
        rings.be(thread, launch=number)
        data = bytes([number]) * size
        expected = E2BIG if size > 20 else ENOSPC if thread == 3 or len(waiting[thread]) == 3 else 0
        assert rings.error(25, 0, 1, 0, data or b"\0", size) == expected
        lost += expected != 0
        if expected == 0:
            waiting[thread].append((number, data))
    assert rings.losses == [0, lost, 0, 0]


def test_prints_that_do_not_fit_are_counted_after_the_last_map(ring):
    written = sum(ring.error(501, b"a line\0") == 6 for _ in range(6000))
    lines = map_access.printed(ring.printk)
    assert lines == ["a line"] * written
    assert ring.losses == [0, 0, 0, 6000 - written]
    assert written == (1 << 18) // (24 + 32 + 8)


def test_long_texts_are_cut_off_at_128_bytes(ring):
    ring.call(501, b"x" * 200 + b"\0")
    ring.call(6, b"%d " + b"y" * 200 + b"\0", 204, 7)
    assert map_access.printed(ring.printk) == ["x" * 128, "7 " + "y" * 125]


def test_printk_without_a_format_is_rejected(ring):
    assert ring.error(6, b"\0", 0) == EINVAL


def test_every_thread_has_a_unique_number_row_major_over_the_whole_grid(ring):
    grid, dims = (3, 2, 2), (2, 4, 3)
    shape = tuple(blocks * threads for blocks, threads in zip(grid, dims, strict=True))
    expected = np.arange(np.prod(shape)).reshape(shape[::-1])
    for block in itertools.product(*map(range, grid)):
        for thread in itertools.product(*map(range, dims)):
            ring.be(thread, block=block, grid=grid, dims=dims)
            x, y, z = (one * size + other for one, size, other in zip(block, dims, thread, strict=True))
            assert ring.call(607) == expected[z, y, x]
            assert ring.call(608) == block[0] + 3 * (block[1] + 2 * block[2])


def test_thread_numbers_of_the_largest_grids_do_not_wrap(ring):
    ring.be((1023, 0, 0), block=((1 << 31) - 2, 65534, 65534), grid=((1 << 31) - 1, 65535, 65535), dims=(1024, 1, 1))
    width = ((1 << 31) - 1) * 1024
    assert ring.call(607) == ((65534 * 65535 + 65534) * width + width - 1) & ((1 << 64) - 1)


def test_helpers_return_a_threads_identity(ring):
    ring.be((3, 5, 1), block=(7, 8, 9), grid=(10, 11, 12), dims=(16, 8, 2), launch=99)
    ring.self.sm = 77
    for helper, expected in ((503, (7, 8, 9)), (504, (16, 8, 2)), (505, (3, 5, 1)), (508, (10, 11, 12))):
        x, y, z = (np.zeros(8, np.uint8) for _ in range(3))
        assert ring.call(helper, x, y, z) == 0
        assert tuple(int(each.view(np.uint64)[0]) for each in (x, y, z)) == expected
    lane = 3 + 16 * (5 + 8 * 1)
    assert [ring.call(helper) for helper in (8, 509, 510, 511)] == [77, 77, lane // 32, lane % 32]
    assert [ring.call(14), ring.call(600), ring.call(601)] == [PID_TGID, 1 << lane % 32, 1]


def test_a_single_lanes_vote_is_its_own_condition(ring):
    ring.be(5)
    votes = [[ring.call(helper, condition) for helper in (602, 603, 604)] for condition in (0, 1, 1 << 40)]
    assert votes == [[0, 0, 0], [1 << 5, 1, 1], [1 << 5, 1, 1]]


def test_the_host_builds_clock_advances_each_time_it_is_read(ring):
    ring.self.clock = 100
    assert [ring.call(helper) for helper in (5, 502, 606)] == [101, 102, 103]


def test_in_the_host_build_exit_sets_a_flag_and_fences_prefetches_and_barriers_do_nothing(ring):
    ring.self.exited = 0
    assert [ring.call(506), ring.call(605, 0xDEAD), ring.call(609)] == [0, 0, 0]
    assert ring.self.exited == 0
    ring.call(507)
    assert ring.self.exited == 1


@pytest.mark.parametrize("build", ["nvptx64", "host"])
def test_both_builds_define_every_helper_and_name_no_target(build):
    text = device.helpers_ir(build)
    defined = set(
        re.findall(r"^define \S* ?(?:noundef )?(?:range\(.*?\) )?i64 @accel_helper_(\d+)\(", text, re.MULTILINE)
    )
    assert {int(number) for number in defined} == set(GPU_HELPERS)
    assert not re.search(r"target (triple|datalayout)|target-cpu|target-features|noinline", text)


def test_atomics_and_fences_for_gpus_have_device_scope():
    orderings = re.findall(
        r"^.*(?:atomicrmw|cmpxchg|load atomic|store atomic|fence) .*$", device.helpers_ir("nvptx64"), re.MULTILINE
    )
    assert len(orderings) >= 6
    assert all('syncscope("device")' in line for line in orderings)


MAPS_ON_DEVICE = (
    spec(MapType.HASH, key=12, value=24, entries=1000),
    spec(MapType.GPU_HASH, key=3, value=5, entries=7),
    spec(MapType.ARRAY, entries=10),
    spec(MapType.PER_THREAD_ARRAY, value=12, entries=2),
    spec(MapType.RINGBUF, key=0, value=0, entries=4096),
    spec(MapType.GPU_RINGBUF, value=40, entries=16),
)
PLACED = Placement(tuple(0x7F0000000000 + (place << 20) for place in range(6)), 4096, 0x7E0000000000, 0x7E0000001000)


BETWEEN = [pytest.param(arch, marks=pytest.mark.thorough) for arch in ("sm_80", "sm_86", "sm_89", "sm_100")]


@pytest.mark.parametrize("arch", ["sm_75", *BETWEEN, "sm_90", "sm_120"])
def test_the_helpers_assemble_for_every_generation(arch):
    ptx = ptx_of_kernels(MAPS_ON_DEVICE, PLACED, arch)
    assert not re.search(r"^\s*(call|\.extern)", ptx, re.MULTILINE), "everything is inlined and defined"
    try:
        made = assemble(ptx, arch)
    except MachineError as error:
        pytest.skip(str(error))
    assert {int(name.removeprefix("helper_")) for name in made.functions} == set(GPU_HELPERS)


def test_helpers_for_the_oldest_generation_use_its_instructions():
    ptx = ptx_of_kernels(MAPS_ON_DEVICE, PLACED, "sm_75")
    assert ".target sm_75" in ptx
    for wanted in ("activemask.b32", "vote.sync.ballot", "bar.warp.sync", "membar.sys", "bar.sync", "%gridid", "exit;"):
        assert wanted in ptx


def test_a_call_with_a_known_map_is_reduced_to_that_maps_case():
    ptx = ptx_of_kernels(MAPS_ON_DEVICE, PLACED, "sm_90", maps={1: 2})
    lookup = ptx.partition(".entry helper_1(")[2].partition("\n}")[0]
    assert "0x" not in lookup
    assert len(re.findall(r"^\t\S.*;$", lookup, re.MULTILINE)) < 80
    assert str(PLACED.bases[2]) in lookup
    assert not any(str(PLACED.bases[place]) in lookup for place in (0, 1, 3))


def clang_19():
    found = shutil.which("clang-19") or shutil.which("clang")
    version = subprocess.run([found, "--version"], check=True, capture_output=True, text=True).stdout if found else ""
    return found if re.search(r"clang version 19\.", version) else ""


def test_the_committed_ir_matches_the_source(tmp_path):
    if not clang_19():
        pytest.skip("clang 19 is not installed; other versions generate different IR")
    tool = ROOT / "tools/build_gpu_helpers"
    subprocess.run([sys.executable, tool, tmp_path], check=True, env={"PATH": "/usr/bin:/bin", "CLANG": clang_19()})
    for build in ("nvptx64", "host"):
        made = (tmp_path / f"helpers_{build}.ll").read_text()
        assert made == device.helpers_ir(build), "run tools/build_gpu_helpers"

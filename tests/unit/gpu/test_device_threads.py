"""The helpers under real threads: the host build's C with thread-local identities, while the host reads the maps."""

import ctypes
import itertools
import shutil
import subprocess
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from accel_magic.gpu.codegen import device
from accel_magic.gpu.maps import map_access, map_layout
from accel_magic.gpu.program.helpers import MapType
from tests.unit.gpu.device_host import UNLIMITED, blocks_of, spec

pytestmark = pytest.mark.component

COUNTS, CHURN, FULL, RING, OWN = range(5)
THREADS = 4
SPECS = (
    spec(MapType.HASH, entries=128),
    spec(MapType.GPU_HASH, entries=8),
    spec(MapType.GPU_HASH, entries=100),
    spec(MapType.RINGBUF, key=0, value=0, entries=4096),
    spec(MapType.GPU_RINGBUF, entries=1 << 15),
)


class Threads:
    """Runs one kind of work in several threads at once."""

    def __init__(self, library, plan, blocks):
        self._library, self._plan, self._blocks = library, plan, blocks
        self.tally = np.ctypeslib.as_array((ctypes.c_uint64 * 256).in_dll(library, "done")).reshape(8, 2, 16)
        self.tally[:] = 0
        self.keys = (ctypes.c_uint32 * 8).in_dll(library, "churn_keys")
        for block in blocks.values():
            block[:] = 0

    def run(self, work, times, meanwhile=None):
        arguments = [ctypes.c_uint64(number) for number in (work, THREADS, times)]
        running = threading.Thread(target=self._library.run, args=arguments)
        running.start()
        while running.is_alive():
            if meanwhile:
                meanwhile()
            else:
                running.join()

    def raw(self, place):
        return self.region(self._plan.maps[place])

    def region(self, region):
        return self._blocks[region.memory][region.offset : region.offset + region.bytes]

    @property
    def losses(self):
        return self.region(self._plan.losses).view(np.uint64)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler is installed")
    plan = map_layout.plan_memory(SPECS, 2, limit=UNLIMITED)
    blocks = blocks_of(plan)
    placed = map_layout.placement(plan, *(block.ctypes.data for block in blocks.values()))
    rows = ",".join(
        f"{{{one.type},{one.key_size},{one.value_size},{one.max_entries},{base}ull,0}}"
        for one, base in zip(SPECS, placed.bases, strict=True)
    )
    library = tmp_path_factory.mktemp("threads") / "threads.so"
    command = [
        *(compiler, "-shared", "-fPIC", "-O2", "-pthread", "-fno-strict-aliasing", "-w", "-DSELF=_Thread_local"),
        *(f"-DMAPS={rows}", f"-DLOSSES={placed.losses}ull", f"-DPRINTK={placed.printk}ull"),
        *("-I", Path(device.__file__).parent, "-o", library, Path(__file__).parent / "device_threads.c"),
    ]
    subprocess.run(command, check=True)
    return ctypes.CDLL(library), plan, blocks


@pytest.fixture
def threads(built):
    return Threads(*built)


def test_counts_of_a_shared_hash_are_exact_and_each_key_is_created_once(threads):
    seen = []

    def look():
        seen.append(map_access.entries(SPECS[COUNTS], threads.raw(COUNTS), 2))

    threads.run(COUNTS, 500_000, meanwhile=look)
    frame = map_access.entries(SPECS[COUNTS], threads.raw(COUNTS), 2)
    assert frame["key"].tolist() == list(range(100))
    assert frame["value"].sum() == THREADS * 500_000
    assert threads.tally[:, 0, 0].sum() == 100
    assert threads.losses.sum() == 0
    assert all(one["key"].is_unique and one["value"].sum() <= THREADS * 500_000 for one in seen)


def alike(pairs):
    """Pairs of keys with the same hash bits, as stored in a slot."""
    keys, found = {}, []
    for key in itertools.count():
        other = keys.setdefault(map_access.hash_of(key.to_bytes(4, "little")) >> 2, key)
        found += [other, key] if other != key else []
        if len(found) == 2 * pairs:
            break
    return sorted(found)


@pytest.mark.parametrize(
    "keys_of", [lambda: list(range(8)), lambda: alike(4)], ids=["all different", "with equal hashes"]
)
def test_keys_created_and_deleted_concurrently_exist_at_most_once(threads, keys_of):
    keys = keys_of()
    threads.keys[:] = keys
    threads.run(CHURN, 500_000)
    frame = map_access.entries(SPECS[CHURN], threads.raw(CHURN), 2)
    created, deleted = threads.tally.sum(axis=0)
    assert created[:8].min() > 100, "each key was created often"
    assert frame["key"].tolist() == [keys[place] for place in np.flatnonzero(created - deleted)]
    assert set((created - deleted).tolist()) <= {0, 1}
    assert frame["value"].tolist() == frame["key"].tolist()
    assert threads.raw(CHURN)[:8].view(np.uint32).tolist() == [len(frame), deleted.sum()]
    assert threads.losses[CHURN] == 0, "eight keys always fit into eight entries"


def test_a_full_hash_holds_exactly_its_maximum_and_counts_rejected_entries(threads):
    threads.run(FULL, 1000)
    frame = map_access.entries(SPECS[FULL], threads.raw(FULL), 2)
    assert len(frame) == threads.tally[:, 0, 0].sum() == 100
    assert frame["key"].is_unique
    assert threads.losses[FULL] == threads.tally[:, 1, 0].sum() > 0
    assert threads.raw(FULL)[:8].view(np.uint32).tolist() == [100, 0]


def test_reading_a_ring_during_writes_gives_every_record_once_in_order_and_complete(threads):
    chunks = []

    def read():
        chunks.append(map_access.drain(SPECS[RING], threads.raw(RING), 2))

    threads.run(RING, 3_000, meanwhile=read)
    read()
    data = np.concatenate(chunks)
    frame = map_access.records(data)
    kept, discarded = threads.tally[:, 0, 0].sum(), threads.tally[:, 1, 0].sum()
    assert len(frame) == kept > 200
    assert kept + discarded + threads.losses[RING] == THREADS * 3_000
    assert discarded > 20
    for _, own in frame.groupby("thread"):
        numbers = own["raw"].map(lambda each: int.from_bytes(each[:8], "little"))
        assert numbers.is_monotonic_increasing
        assert numbers.is_unique
        sizes = np.where(numbers % 4 < 2, 8 + 8 * (numbers % 3), 8)
        assert own["raw"].map(len).tolist() == sizes.tolist()
        whole = [each == each[:8] * (len(each) // 8) for each in own["raw"]]
        assert all(whole)
    assert not threads.raw(RING)[map_layout.HEAD :].any()


def test_rings_per_thread_stay_exact_if_two_launches_use_the_same_thread_numbers(threads):
    frames = []

    def read():
        frames.append(map_access.ring_records(SPECS[OWN], threads.raw(OWN), 2))

    threads.run(OWN, 30_000, meanwhile=read)
    read()
    frame = pd.concat(frames)
    assert len(frame) == threads.tally[:, 0, 0].sum() > 200
    assert len(frame) + threads.losses[OWN] == THREADS * 30_000
    assert set(zip(frame["thread"], frame["launch"], strict=True)) == {(0, 0), (1, 1), (0, 2), (1, 3)}
    numbers = frame["value"] if "value" in frame else frame["raw"].map(lambda each: int.from_bytes(each, "little"))
    for _, own in numbers.groupby(frame["launch"].to_numpy()):
        assert own.is_monotonic_increasing
        assert own.is_unique

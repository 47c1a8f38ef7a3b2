"""Maps over time and by launch, on the simulated device, and their storage."""

import threading
import time

import numpy as np
import pandas as pd
import pytest

import accel_magic
from accel_magic.errors import MachineError, ProbeError, RecordingError
from accel_magic.gpu.adapters import nvrtc
from accel_magic.gpu.maps import map_history
from accel_magic.gpu.maps import map_history as history
from accel_magic.gpu.maps.map_content import MapHistory
from accel_magic.gpu.program.helpers import MapType
from accel_magic.gpu.program.object_model import MapSpec
from accel_magic.recording import gpu_store
from tests.support.errors import raises

pytestmark = pytest.mark.component

KERNELS = r"""
extern "C" __global__ void loop(volatile int *out, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < rounds; k++) out[i] = k;
}
extern "C" __global__ void wild(volatile int *out, int at) { out[threadIdx.x] = 1; out[at] = 1; }
"""
COUNTS = r"""
#include "accel_gpu.h"
struct count { u64 stores; u32 odd; };
struct key { u32 thread; u32 kernel; };
GPU_MAP(counts, BPF_MAP_TYPE_GPU_ARRAY, u32, struct count, 8);
GPU_MAP(hashed, BPF_MAP_TYPE_GPU_HASH, struct key, u64, 512);
GPU_MAP(each, BPF_MAP_TYPE_PER_THREAD_ARRAY, u32, u64, 2);
GPU_MAP(large, BPF_MAP_TYPE_GPU_ARRAY, u32, u64, 1048577);
u64 stores = 5;
const volatile u64 unit = 1;
SEC("gpu/store")
int store(struct gpu_ctx *ctx)
{
    u32 thread = gpu_thread_number(), place = thread % 4, one = 1;
    struct key key = { thread % 32, ctx->kernel };
    u64 zero = 0;
    struct count *count = bpf_map_lookup_elem(&counts, &place);
    if (count) {
        __sync_fetch_and_add(&count->stores, unit);
        __sync_fetch_and_add(&count->odd, thread % 2);
    }
    bpf_map_update_elem(&hashed, &key, &zero, 1);
    u64 *value = bpf_map_lookup_elem(&hashed, &key);
    if (value)
        __sync_fetch_and_add(value, 1);
    u64 *mine = bpf_map_lookup_elem(&each, &one);
    if (mine)
        *mine += 1;
    __sync_fetch_and_add(&stores, 1);
    return 0;
}
char LICENSE[] SEC("license") = "GPL";
"""
SMALL = {"counts", "hashed", "each", ".data"}


@pytest.fixture(scope="module")
def kernels():
    ptx = nvrtc.compile(KERNELS)
    return {name: nvrtc.CpuKernel(ptx, name) for name in ("loop", "wild")}


@pytest.fixture
def loop(kernels):
    return lambda threads, rounds: kernels["loop"][1, threads](np.zeros(threads, np.int32), rounds)


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "mine.bpf.c"
    path.write_text(COUNTS)
    return str(path)


def values(frame):
    return [tuple(int(value) for value in row) for row in frame.drop(columns="time_ns").itertuples(index=False)]


def test_by_launch_each_entry_that_a_launch_changed_has_a_row_with_the_difference(loop, program):
    work = [(4, 1), (6, 3), (4, 0), (1, 2)]
    with accel_magic.gputrace(program, device="cpu", threads=8, by_launch=True) as trace:
        for threads, rounds in work:
            loop(threads, rounds)

    result = trace.result
    assert result.history.keys() == SMALL
    expected = {"counts": [], "hashed": [], "each": [], ".data": []}
    for launch, (threads, rounds) in enumerate(work):
        if not rounds:
            continue
        mine = {place: [thread for thread in range(threads) if thread % 4 == place] for place in range(4)}
        expected["counts"] += [
            (launch, place, rounds * len(each), rounds * len(each) * (place % 2))
            for place, each in mine.items()
            if each
        ]
        expected["hashed"] += [(launch, thread, 0, rounds) for thread in range(threads)]
        expected["each"] += [(launch, 1, thread, rounds) for thread in range(threads)]
        expected[".data"].append((launch, threads * rounds))
    assert {name: values(frame) for name, frame in result.history.items()} == expected
    times = result.history[".data"]["time_ns"]
    assert times.is_monotonic_increasing
    ends = result.launches["time_ns"] + result.launches["host_ns"]
    assert (times.to_numpy() >= ends[result.history[".data"]["launch"]].to_numpy()).all()
    assert result.maps[".data"]["stores"].tolist() == [5 + 4 + 18 + 2]


def test_changes_of_a_failed_launch_are_separate_from_those_of_the_next(loop, kernels, program):
    with accel_magic.gputrace(program, device="cpu", threads=64, by_launch=True) as trace:
        loop(1, 1)
        with raises("gpu.fault.out-of-bounds"):
            kernels["wild"][1, 2](np.zeros(2, np.int32), 1 << 20)
        loop(3, 1)

    # A program runs before its store: in the second launch, two threads reached two stores each.
    assert values(trace.result.history[".data"]) == [(0, 1), (-1, 4), (1, 3)]


def test_changes_of_a_failed_launch_at_the_end_are_read(kernels, program):
    trace = accel_magic.gputrace(program, device="cpu", threads=64, by_launch=True)
    with raises("gpu.fault.out-of-bounds"), trace:
        kernels["wild"][1, 2](np.zeros(2, np.int32), 1 << 20)

    assert values(trace.result.history[".data"]) == [(-1, 4)]


def test_by_time_maps_are_read_during_a_launch_and_at_the_end(loop, program):
    with accel_magic.gputrace(program, device="cpu", threads=64, every=0.02) as trace:
        loop(64, 250)

    result = trace.result
    assert result.history.keys() == SMALL
    stores = result.history[".data"]
    assert stores.columns.tolist() == ["time_ns", "stores"]
    assert stores["stores"].is_monotonic_increasing
    assert stores["stores"].iloc[-1] == 5 + 64 * 250
    assert stores["stores"].between(6, 5 + 64 * 250 - 1).sum() >= 3, "read before and after the launch only"
    assert (stores["time_ns"].diff().dropna() > 0).all()
    assert stores["time_ns"].iloc[-1] >= result.recording.duration_ns
    counts = result.history["counts"]
    last = counts[counts["time_ns"] == counts["time_ns"].iloc[-1]]
    assert values(last) == [(place, 16 * 250, 16 * 250 * (place % 2)) for place in range(4)]
    hashed = result.history["hashed"]
    assert hashed.columns.tolist() == ["time_ns", "thread", "kernel", "value"]
    assert (hashed.groupby("thread")["value"].last() == 500).all()


def test_a_map_that_is_too_large_is_named_in_a_note_and_constants_are_not_read(loop, program):
    with accel_magic.gputrace(program, device="cpu", threads=8, by_launch=True) as trace:
        loop(1, 1)

    notes = [note for note in trace.result.recording.notes if "read over time" in note]
    assert notes == ["mine.bpf.c: map large was not read over time: its 8,388,616 bytes are over 8,388,608"]


def test_reading_stops_at_the_size_limit_with_a_note(loop, program, monkeypatch):
    monkeypatch.setattr(history, "LIMIT", 400)
    with accel_magic.gputrace(program, device="cpu", threads=8, by_launch=True) as trace:
        for _ in range(50):
            loop(1, 1)

    result = trace.result
    rows = result.history[".data"]
    assert 0 < len(rows) < 50
    assert rows["launch"].tolist() == list(range(len(rows)))
    (note,) = [note for note in result.recording.notes if "no longer read over time" in note]
    assert note == (f"maps were no longer read over time after {len(rows)} readings: they take more than 400 bytes")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"every": 0.001}, "gpu.bad-interval"),
        ({"every": float("nan")}, "gpu.bad-interval"),
        ({"every": 1.0, "by_launch": True}, "gpu.every-beside-launch"),
    ],
)
def test_invalid_options_are_rejected(options, code):
    with raises(code, ProbeError):
        accel_magic.gputrace("kernelcount", device="cpu", **options)


def test_without_an_option_there_is_no_history(loop, program):
    with accel_magic.gputrace(program, device="cpu", threads=8) as trace:
        loop(1, 1)
    assert trace.result.history == {}


def test_history_is_saved_and_read_back(loop, program, tmp_path):
    for name, options in (("launch", {"by_launch": True}), ("time", {"every": 0.01})):
        path = tmp_path / f"{name}.parquet"
        with accel_magic.gputrace(program, device="cpu", threads=8, save=path, **options) as trace:
            loop(4, 20)
            time.sleep(0.03)
        read = accel_magic.open(path)
        assert read.history.keys() == SMALL
        for each, frame in trace.result.history.items():
            pd.testing.assert_frame_equal(read.history[each], frame)


ARRAY = MapSpec("m", MapType.GPU_ARRAY, 4, 8, 3)


def kept(rows, changed=(2, 1), first=(7, 0, 0), cells=(8, 5, 9)):
    return MapHistory(
        "mine.bpf.c",
        ARRAY,
        np.array(first, np.uint64).view(np.uint8),
        np.array([10, 20]),
        np.array([0, 1]),
        np.array(changed),
        np.array(rows),
        np.array(cells, np.uint64).view(np.uint8).reshape(-1, 8),
    )


def test_differences_are_relative_to_the_previous_reading_and_may_be_negative():
    frame = map_history.frame(kept([0, 2, 0], cells=(8, 5, 3)), 1)
    assert frame.to_dict("list") == {
        "launch": [0, 0, 1],
        "time_ns": [10, 10, 20],
        "key": [0, 2, 0],
        "value": [1, 5, -5],
    }


def test_a_key_in_another_keys_slot_of_a_hash_starts_at_zero_and_deleted_keys_are_left_out():
    one = MapSpec("m", MapType.GPU_HASH, 8, 8, 1)
    full, gone = 2, 3

    def slot(state, key, value):
        return np.array([state, key, value], np.uint64).view(np.uint8)

    cells = [slot(full, 11, 100), slot(full, 12, 5), slot(full, 13, 7), slot(gone, 12, 5), slot(full, 13, 10)]
    first = np.zeros(64 + 2 * 24, np.uint8)
    kept = MapHistory(
        "mine.bpf.c",
        one,
        first,
        np.arange(4),
        np.arange(4),
        np.array([1, 1, 2, 1]),
        np.array([0, 0, 1, 0, 1]),
        np.stack(cells),
    )

    frame = map_history.frame(kept, 1)

    # The second key takes the first one's slot, and is deleted when the third is inserted.
    assert values(frame) == [(0, 11, 100), (1, 12, 5), (2, 13, 7), (3, 13, 3)]


@pytest.mark.parametrize(
    "broken",
    [
        lambda good: good[:-8],
        lambda good: good + b"12345678",
        lambda good: good[:40],
        lambda good: good[:48] + (3).to_bytes(8, "little") + good[56:],
        lambda good: good[:48] + (-1).to_bytes(8, "little", signed=True) + good[56:],
    ],
)
def test_a_history_that_does_not_fit_its_map_is_rejected(broken):
    good = map_history.packed(kept([0, 2, 0]))
    again = map_history.unpacked("mine.bpf.c", ARRAY, 2, good, by_launch=True, size=24)
    pd.testing.assert_frame_equal(map_history.frame(again, 1), map_history.frame(kept([0, 2, 0]), 1))
    with pytest.raises(ValueError, match=r"."):
        map_history.unpacked("mine.bpf.c", ARRAY, 2, broken(good), by_launch=True, size=24)


def test_a_damaged_file_with_a_history_is_a_typed_error(loop, program, tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    with accel_magic.gputrace(program, device="cpu", threads=8, save=path, by_launch=True):
        loop(1, 1)
    monkeypatch.setitem(gpu_store._history_description.__globals__, "map_history", None)
    with raises("recording.damaged", RecordingError):
        gpu_store.load(path)


def test_a_device_that_does_not_answer_ends_the_readings_with_a_note(loop, program, monkeypatch):
    from accel_magic.devices.device import SimulatedMemory

    begun, there = threading.Event(), SimulatedMemory.read

    def read(self, address, size):
        if begun.is_set() and threading.current_thread().name == "accel_magic gpu maps":
            raise MachineError("the device fell off its bus", code="cuda.driver-error")
        return there(self, address, size)

    monkeypatch.setattr(SimulatedMemory, "read", read)
    with accel_magic.gputrace(program, device="cpu", threads=8, every=0.01) as trace:
        begun.set()
        time.sleep(0.1)
        loop(1, 1)
    assert any("the device fell off its bus" in note for note in trace.result.recording.notes)
    assert trace.result.maps[".data"]["stores"].tolist() == [6]


def test_a_failing_device_ends_the_readings_but_raises_no_error_in_the_cell(loop, program, monkeypatch):
    from accel_magic.devices.device import SimulatedMemory

    def finish(self, stream):
        raise MachineError("the device fell off its bus", code="cuda.driver-error")

    with accel_magic.gputrace(program, device="cpu", threads=8, by_launch=True) as trace:
        loop(1, 1)
        monkeypatch.setattr(SimulatedMemory, "finish", finish)
        loop(1, 1)
        loop(1, 1)

    assert values(trace.result.history[".data"]) == [(0, 1)]
    (note,) = [note for note in trace.result.recording.notes if "no longer read over time" in note]
    assert note.startswith("maps were no longer read over time after 1 readings: the device fell off its bus")


def test_a_reading_that_fails_halfway_is_dropped_for_all_maps(loop, program, monkeypatch, tmp_path):
    from accel_magic.gpu.maps.shared_memory import SharedMaps

    there, failing = SharedMaps.read, []

    def read(self, number):
        if failing and self.source.object.maps[number].name == ".data":
            raise MachineError("the device fell off its bus", code="cuda.driver-error")
        return there(self, number)

    monkeypatch.setattr(SharedMaps, "read", read)
    path = tmp_path / "t.parquet"
    with accel_magic.gputrace(program, device="cpu", threads=8, by_launch=True, save=path) as trace:
        loop(1, 1)
        failing.append(True)
        loop(1, 1)
        failing.clear()

    assert {name: len(frame) for name, frame in trace.result.history.items()} == dict.fromkeys(SMALL, 1)
    assert accel_magic.open(path).history.keys() == SMALL

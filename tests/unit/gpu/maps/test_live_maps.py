"""Maps while kernels run, on the simulated device: rings that are drained, and the host's view of the others."""

import threading
import time

import numpy as np
import pytest

import accel_magic
from accel_magic.devices import device
from accel_magic.devices.sim import warps
from accel_magic.errors import MachineError, TraceStateError
from accel_magic.gpu.adapters import nvrtc
from accel_magic.gpu.maps import live_maps, map_access, map_layout
from accel_magic.gpu.maps.shared_memory import SharedMaps
from accel_magic.gpu.program.helpers import MapType
from tests.support.errors import raises
from tests.unit.gpu.device_host import HostDevice, spec

pytestmark = pytest.mark.component

KERNELS = r"""
extern "C" __global__ void loop(volatile int *out, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < rounds; k++) out[i] = k;
}
"""
RECORDS = r"""
#include "accel_gpu.h"
struct event { u64 number; u64 check; };
struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 4096);
    __type(value, struct event);
} events SEC(".maps");
struct {
    __uint(type, BPF_MAP_TYPE_GPU_RINGBUF);
    __uint(key_size, 4);
    __type(value, struct event);
    __uint(max_entries, 3);
} own SEC(".maps");
u64 written;
SEC("gpu/store")
int store(struct gpu_ctx *ctx)
{
    u64 number = __sync_fetch_and_add(&written, 1);
    struct event event = { number, ~number };
    bpf_ringbuf_output(&events, &event, sizeof(event), 0);
    bpf_perf_event_output(ctx, &own, 0, &event, sizeof(event));
    return 0;
}
char LICENSE[] SEC("license") = "GPL";
"""
PRINTS = r"""
#include "accel_gpu.h"
struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 4096);
    __type(value, u64);
} printed SEC(".maps");
u64 written;
SEC("gpu/store")
int store(struct gpu_ctx *ctx)
{
    u64 number = __sync_fetch_and_add(&written, 1);
    if (number == ~0ull)
        bpf_ringbuf_output(&printed, &number, sizeof(number), 0);
    bpf_printk("store %lu of %d", number, (u32)gpu_thread_number());
    return 0;
}
char LICENSE[] SEC("license") = "GPL";
"""
ENTRIES = r"""
#include "accel_gpu.h"
struct pair { u64 first; u64 second; };
GPU_MAP(hashed, BPF_MAP_TYPE_GPU_HASH, u64, struct pair, 4096);
GPU_MAP(counts, BPF_MAP_TYPE_GPU_ARRAY, u32, u64, 4);
GPU_MAP(each, BPF_MAP_TYPE_PER_THREAD_ARRAY, u32, u64, 1);
u64 next;
SEC("gpu/store")
int store(struct gpu_ctx *ctx)
{
    u32 zero = 0;
    u64 key = __sync_fetch_and_add(&next, 1);
    u64 old = key - 40;
    struct pair pair = { key, key };
    bpf_map_update_elem(&hashed, &key, &pair, 1);
    if (key >= 40)
        bpf_map_delete_elem(&hashed, &old);
    u64 *count = bpf_map_lookup_elem(&counts, &zero);
    if (count)
        __sync_fetch_and_add(count, 1);
    u64 *mine = bpf_map_lookup_elem(&each, &zero);
    if (mine)
        *mine += 1;
    return 0;
}
char LICENSE[] SEC("license") = "GPL";
"""


@pytest.fixture(scope="module")
def loop():
    """Return `loop(threads, rounds)`, which launches a kernel in which each thread stores `rounds` times."""
    kernel = nvrtc.CpuKernel(nvrtc.compile(KERNELS), "loop")
    return lambda threads, rounds: kernel[1, threads](np.zeros(threads, np.int32), rounds)


@pytest.fixture
def program(tmp_path):
    def write(text):
        path = tmp_path / "mine.bpf.c"
        path.write_text(text)
        return str(path)

    return write


def launches(loop):
    """Make 640 stores at a time, with time to drain the rings before the next."""
    for _ in range(20):
        for _ in range(5):
            loop(64, 2)
        time.sleep(0.06)
    return 20 * 640


def one_launch(loop):
    loop(64, 400)
    return 64 * 400


def check_records(result, name, written, thread_order):
    """Check that every record was delivered complete and once, or is counted as lost."""
    frame = result.maps[name]
    (lost,) = (content.lost for content in result.recording.maps if content.spec.name == name)
    assert len(frame) + lost == written
    assert (frame["number"] ^ frame["check"] == 2**64 - 1).all()
    assert frame["number"].is_unique
    assert frame["number"].max() < written
    assert frame.groupby("thread")["number"].is_monotonic_increasing.all()
    assert frame["thread"].is_monotonic_increasing == thread_order
    return len(frame)


@pytest.mark.parametrize("work", [launches, one_launch])
def test_rings_are_drained_while_kernels_run_and_every_record_is_counted(loop, program, work):
    with accel_magic.gputrace(program(RECORDS), device="cpu", threads=64) as trace:
        written = work(loop)

    assert trace.result.maps[".bss"]["written"].tolist() == [written]
    # 4096 bytes hold 102 records of 40 bytes, and 64 rings of 3 hold 192.
    assert check_records(trace.result, "events", written, thread_order=False) > 2 * 102
    assert check_records(trace.result, "own", written, thread_order=True) > 2 * 192


def test_other_threads_run_during_a_long_launch(loop, monkeypatch):
    turns, there = [], time.sleep

    def sleep(seconds):
        turns.append(seconds)
        there(seconds)

    monkeypatch.setattr(time, "sleep", sleep)
    loop(64, 20000)

    assert turns.count(warps.GIVE_WAY_S) >= 5


def test_printed_lines_are_collected_while_kernels_run(loop, program):
    with accel_magic.gputrace(program(PRINTS), device="cpu") as trace:
        for _ in range(4):
            loop(64, 40)
            time.sleep(0.06)

    result = trace.result
    assert result.maps["printed"].empty  # the program's own ring of that name
    written = 4 * 64 * 40
    numbers = [int(line.split()[1]) for line in result.printed]
    noted = [note for note in result.recording.notes if "printed lines were lost" in note]
    lost = int(noted[0].split()[0].replace(",", "")) if noted else 0
    assert len(numbers) + lost == written
    assert len(set(numbers)) == len(numbers)
    assert len(numbers) > map_layout.PRINT_BYTES // 80


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
def test_maps_are_read_from_another_thread_during_one_launch_and_every_entry_is_complete(loop, program):
    with accel_magic.gputrace(program(ENTRIES), device="cpu", threads=64) as trace:
        kernel = threading.Thread(target=loop, args=(64, 150))
        kernel.start()
        seen = []
        while kernel.is_alive():
            seen.append(trace.maps_now())
        kernel.join()

    written = 64 * 150
    counts = [int(now["counts"]["value"][0]) for now in seen]
    partly = [count for count in counts if 0 < count < written]
    assert len(set(partly)) > 3, "maps were read before and after the launch only"
    assert counts == sorted(counts)
    hashed = [now["hashed"] for now in seen]
    assert any(len(each) for each in hashed)
    for each in hashed:
        assert (each["first"] == each["key"]).all()
        assert (each["second"] == each["key"]).all()
        assert each["key"].is_unique
    assert trace.result.maps["counts"]["value"][0] == written
    assert trace.result.maps["each"]["value"].tolist() == [150] * 64


@pytest.mark.parametrize("without", [1, 2])
def test_an_entry_that_is_in_only_one_of_two_copies_is_not_shown_until_the_end(loop, program, monkeypatch, without):
    there, copies = SharedMaps.read, []

    def read(self, number):
        raw = there(self, number)
        if self.source.object.maps[number].name == "hashed":
            copies.append(raw)
            if len(copies) == without:
                states = map_access.rows_of(self.source.object.maps[number], raw)[:, :4].view(np.uint32)[:, 0]
                states[np.flatnonzero(states)[:3]] ^= 3  # FULL and BUSY
        return raw

    with accel_magic.gputrace(program(ENTRIES), device="cpu", threads=64) as trace:
        loop(10, 1)
        monkeypatch.setattr(SharedMaps, "read", read)
        assert len(trace.maps_now()["hashed"]) == 7
        monkeypatch.undo()

    assert len(trace.result.maps["hashed"]) == 10


def test_maps_now_returns_all_records_so_far_and_removes_none(loop, program):
    with accel_magic.gputrace(program(RECORDS), device="cpu", threads=64) as trace:
        loop(64, 1)
        first = trace.maps_now()["events"]
        loop(32, 1)
        second = trace.maps_now()["events"]
        again = trace.maps_now()["events"]

    assert sorted(first["number"]) == list(range(64))
    assert sorted(second["number"]) == list(range(96))
    assert again.equals(second)
    assert trace.result.maps["events"].equals(second)


def test_maps_now_outside_of_the_block_is_an_error(loop, program):
    trace = accel_magic.gputrace(program(RECORDS), device="cpu")
    with raises("gpu.maps-not-yet", TraceStateError):
        trace.maps_now()
    with trace:
        assert trace.maps_now().keys() == {"events", "own", ".bss"}
    with raises("gpu.maps-gone", TraceStateError):
        trace.maps_now()


def test_the_thread_that_drains_rings_ends_with_the_block_even_after_an_error(loop, program):
    def emptying():
        return [thread for thread in threading.enumerate() if thread.name == "accel_magic gpu maps"]

    with accel_magic.gputrace(program(RECORDS), device="cpu", threads=64):
        assert len(emptying()) == 1
    assert emptying() == []
    trace = accel_magic.gputrace(program(RECORDS), device="cpu", threads=64)
    with pytest.raises(ZeroDivisionError), trace:
        loop(64, 1)
        raise ZeroDivisionError
    assert emptying() == []
    assert len(trace.result.maps["events"]) == 64


def test_a_device_that_fails_is_reported_and_the_cell_continues(loop, program, monkeypatch):
    begun, there = threading.Event(), device.SimulatedMemory.view

    def view(self, address, size):
        if begun.is_set() and threading.current_thread().name == "accel_magic gpu maps":
            raise MachineError("the device fell off its bus", code="cuda.driver-error")
        return there(self, address, size)

    monkeypatch.setattr(device.SimulatedMemory, "view", view)
    with accel_magic.gputrace(program(RECORDS), device="cpu", threads=64) as trace:
        begun.set()
        time.sleep(3 * live_maps.EVERY_S)
        loop(64, 1)

    assert len(trace.result.maps["events"]) == 64
    assert any("the device fell off its bus" in note for note in trace.result.recording.notes)


def test_records_read_before_the_device_fails_are_kept(loop, program, monkeypatch):
    def gone():
        raise MachineError("the device fell off its bus", code="cuda.driver-error")

    with accel_magic.gputrace(program(RECORDS), device="cpu", threads=64) as trace:
        loop(64, 1)
        assert len(trace.maps_now()["events"]) == 64
        for ring in trace.attached.live._rings[0]:
            monkeypatch.setattr(ring, "live", gone)

    assert len(trace.result.maps["events"]) == 64
    assert trace.result.maps[".bss"]["written"].tolist() == [64]
    assert any("the device fell off its bus" in note for note in trace.result.recording.notes)


@pytest.fixture(scope="module")
def built():
    return HostDevice(
        spec(MapType.RINGBUF, key=0, value=0, entries=1024), spec(MapType.GPU_RINGBUF, entries=4), threads=3
    )


@pytest.fixture
def host(built):
    for block in built.blocks.values():
        block[:] = 0
    return built


def ring(host, place, limit=1 << 20):
    return live_maps.DrainedRing("mine.bpf.c", host.specs[place], lambda: host.raw(place), 3, limit)


def numbers(data):
    return [int.from_bytes(each, "little") for each in map_access.records(data)["raw"]]


def test_draining_a_ring_returns_its_fill_level_and_counts_the_records(host):
    one, own = ring(host, 0), ring(host, 1)
    assert (one.drain(), one.records, len(one.data())) == (0.0, 0, 0)
    for number in range(8):
        host.call(130, 0, number.to_bytes(8, "little"), 8, 0)
    for number in range(3):
        host.be(1, dims=(3, 1, 1))
        host.call(25, 0, 1, 0, number.to_bytes(8, "little"), 8)

    assert (one.drain(), one.records) == (8 * 32 / 1024, 8)
    assert (own.drain(), own.records) == (3 / 4, 3)
    assert (one.drain(), own.drain()) == (0.0, 0.0)
    assert numbers(one.data()) == list(range(8))
    assert numbers(own.data()) == list(range(3))


def test_records_that_a_program_discards_are_not_counted(host):
    one = ring(host, 0)
    for end in (132, 133, 132):
        host.call(end, host.call(131, 0, 8, 0), 0)
    one.drain()
    assert one.records == 2


def test_a_ring_at_its_limit_is_not_drained_until_the_end(host):
    one = ring(host, 0, limit=200)
    for number in range(100):
        host.call(130, 0, number.to_bytes(8, "little"), 8, 0)
        one.drain()
    # 200 bytes are reached with the seventh record of 32; 32 more fit into the ring.
    assert (one.stopped, one.records) == (True, 7)
    one.drain(last=True)
    assert numbers(one.data()) == list(range(7 + 32))
    assert host.losses[0] == 100 - 39


def test_a_note_names_the_ring_whose_records_reached_the_limit(loop, program, monkeypatch):
    monkeypatch.setattr(live_maps, "KEPT_LIMIT", 4000)
    with accel_magic.gputrace(program(RECORDS), device="cpu", threads=64) as trace:
        for _ in range(10):
            loop(64, 1)
            time.sleep(0.06)

    result = trace.result
    assert "mine.bpf.c: no more records of events were kept after 4,000 bytes" in result.recording.notes
    assert check_records(result, "events", 640, thread_order=False) < 640


@pytest.mark.parametrize(
    ("fullest", "passed_s", "pause"),
    [
        (0.0, 0.004, 0.008),
        (0.0, 0.2, live_maps.EVERY_S),
        (0.25, 0.02, 0.02),
        (1.0, 0.02, 0.005),
        (0.01, 0.004, 0.008),
        (1.0, 0.001, live_maps.SOONEST_S),
    ],
)
def test_rings_are_drained_more_often_the_faster_they_fill(fullest, passed_s, pause):
    assert live_maps._pause(fullest, passed_s) == pytest.approx(pause)

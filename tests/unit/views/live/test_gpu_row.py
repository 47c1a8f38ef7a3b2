"""Live samples of a running GPU trace, and the row that shows them."""

import re
import threading
import time

import numpy as np
import pytest

import accel_magic
from accel_magic.errors import MachineError
from accel_magic.gpu.adapters import nvrtc
from accel_magic.gpu.gpu_samples import Feed, GpuSample
from accel_magic.views.live.gpu_row import GpuRow, render

pytestmark = pytest.mark.component

KERNEL = r"""
extern "C" __global__ void fill(int *out) { out[blockIdx.x * blockDim.x + threadIdx.x] = 1; }
"""
PROGRAM = r"""
#include "accel_gpu.h"
struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1024);
    __type(value, u64);
} small SEC(".maps");
struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 65536);
    __type(value, u64);
} large SEC(".maps");
u64 lost;
SEC("gpu/store")
int store(struct gpu_ctx *ctx)
{
    u64 number = gpu_thread_number();
    bpf_ringbuf_output(&small, &number, sizeof(number), 0);
    bpf_ringbuf_output(&large, &number, sizeof(number), 0);
    if (number == 5)
        bpf_printk("five");
    __sync_fetch_and_add(&lost, 1);
    return 0;
}
char LICENSE[] SEC("license") = "GPL";
"""


@pytest.fixture(scope="module")
def fill():
    kernel = nvrtc.CpuKernel(nvrtc.compile(KERNEL), "fill")
    return lambda blocks, threads: kernel[blocks, threads](np.zeros(blocks * threads, np.int32))


def last_sample(trace, run):
    """The first sample taken after `run`."""
    samples, wanted = [], []

    def show(taken):
        if wanted:
            samples.extend(taken)

    trace.prepare()
    trace.attach(show)
    trace.go()
    try:
        run()
        trace.maps_now()  # drains the rings
        wanted.append(True)
        until = time.monotonic() + 60
        while not samples and time.monotonic() < until:
            time.sleep(0.01)
    finally:
        trace.stop()
    return samples[0]


def test_a_sample_has_records_by_ring_and_losses_by_map(fill, tmp_path):
    path = tmp_path / "mine.bpf.c"
    path.write_text(PROGRAM)

    sample = last_sample(accel_magic.gputrace(str(path), device="cpu"), lambda: fill(1, 64))

    # A record is 24 bytes plus its data: 32 of them fit into 1024 bytes.
    assert sample.records == (("small", 32), ("large", 64), ("printed", 1))
    assert sample.lost_by == (("small", 32), ("mine.bpf.c", 64))
    assert (sample.lost, sample.launches, sample.kernels, sample.instrumented) == (96, 1, 1, 1)
    assert sample.counted == ()
    assert sample.time_ns > 0


def test_a_sample_has_the_counts_of_tools(fill):
    sample = last_sample(
        accel_magic.gputrace("kernelcount", "memtrace", "threadhist", "funclat", device="cpu"), lambda: fill(3, 40)
    )

    assert sample.counted == (("warps", 6), ("requests", 6), ("calls", 0))
    assert (sample.records, sample.lost_by, sample.lost) == ((), (), 0)


def test_a_lost_device_ends_only_the_row(monkeypatch):
    asked, shown_, raised = [], [], []
    monkeypatch.setattr(threading, "excepthook", raised.append)

    def gone():
        asked.append(True)
        raise MachineError("the device fell off its bus", code="cuda.driver-error")

    feed = Feed(gone, shown_.append)
    feed.start()
    feed._thread.join(10)
    feed.stop()
    assert (len(asked), shown_, raised) == (1, [], [])


def text(html):
    return re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", re.sub("<style>.*?</style>", "", html, flags=re.DOTALL))).strip()


def shown(*samples):
    row, drawn = GpuRow(("simulated device",)), []
    row.draw = drawn.append
    for sample in samples:
        row.update(sample)
    return [text(html) for html in drawn]


def sample(time_s, **more):
    return GpuSample(
        **{"time_ns": int(time_s * 1e9), "launches": 0, "kernels": 0, "instrumented": 0, "lost": 0, **more}
    )


def test_the_row_shows_records_of_rings_with_their_rates_over_the_last_five_samples():
    rows = shown(*(sample(tenth / 10, records=(("exits", 1000 * tenth * tenth),)) for tenth in range(1, 21)))

    assert "10 k/s" in re.search(r"1 k exits (\S+ \S+)", rows[0])[0]
    # 400 k after 2 s, 225 k after 1.5 s: five samples back.
    assert "400 k exits 350 k/s" in rows[-1]


def test_the_row_names_the_maps_with_the_most_losses_first():
    calm, alarmed = shown(
        sample(1), sample(2, lost=1234, lost_by=(("a", 4), ("exits", 1200), ("b", 10), ("c", 5), ("d", 15)))
    )

    assert "0 lost" in calm
    assert "1,234 lost exits 1.2 k, d 15, b 10, c 5 and 1 more" in alarmed


def test_the_row_shows_counts_of_tools_and_names_only_a_few_rings():
    (row,) = shown(sample(1, counted=(("warps", 12), ("threads", 384)), records=tuple((f"r{n}", n) for n in range(7))))

    assert "12 warps 384 threads" in row
    assert "3 r3" in row
    assert "r4" not in row
    assert "and 3 more rings" in row


def test_names_of_maps_are_escaped():
    name = "<img src=x>"
    html = render(sample(1, lost=1, lost_by=((name, 1),), records=((name, 1),), counted=((name, 1),)), (), {}, ())
    assert "<img" not in html
    assert html.count("&lt;img src=x&gt;") == 3


def test_the_banner_stays_in_every_drawing():
    assert ["simulated device" in row for row in shown(sample(1), sample(2))] == [True, True]

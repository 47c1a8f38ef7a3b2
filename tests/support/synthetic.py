"""Synthetic records of a trace, made without the code under test: what a kernel would have put into the rings."""

from __future__ import annotations

import numpy as np

from accel_magic.kernel.attachment import PayloadItem, PointLayout, RecordLayout
from accel_magic.probes.plan import ProbePoint
from accel_magic.recording import kernel_counts
from accel_magic.recording.recording import CounterSamples, Recording
from tests.support.plans import plan_of

START_NS = 5_000_000_000
"""CLOCK_MONOTONIC at the start."""
HEAD = [
    ("length", "<u4"),
    ("page", "<u4"),
    ("time", "<u8"),
    ("pid", "<u4"),
    ("tid", "<u4"),
    ("comm", "S16"),
    ("point", "<u2"),
    ("cpu", "<u2"),
    ("reserved", "<u4"),
]
"""`struct am_record` in bpf/kernel/common.h, after the ring's header."""
CALLS = np.dtype([*HEAD, ("duration", "<i8")])
READS = np.dtype([*HEAD, ("size", "<u4"), ("pad", "<u4"), ("name", "S16")])
POINTS = (
    ProbePoint(0, "latency:uprobe:libc:mal*", "uprobe", "/lib/libc.so.6", "malloc", latency=True),
    ProbePoint(1, "latency:uprobe:libc:mal*", "uprobe", "/lib/libc.so.6", "mallopt", latency=True),
    ProbePoint(2, "tracepoint:syscalls:sys_enter_read", "tracepoint", "syscalls", "sys_enter_read"),
)
_DURATION = (PayloadItem("duration_ns", "s64", 0),)
LAYOUT = RecordLayout(
    cpus=1,
    points=4,
    latencies=2,
    record_sizes=(48, 64),
    point_layouts=(
        PointLayout(0, _DURATION),
        PointLayout(0, _DURATION),
        PointLayout(1, (PayloadItem("size", "u32", 0), PayloadItem("name", "char[16]", 8))),
    ),
)
NAMES = np.array([b"one", b"two", b"three four"], "S16")


def records(number, seed=1, *, first_ns=0, step_ns=1000, reads=True):
    """Two rings of records in order of time, as bytes: calls of two functions, and system calls."""
    random = np.random.default_rng(seed)
    times = START_NS + first_ns + np.cumsum(random.integers(1, 2 * step_ns, number)).astype(np.uint64)
    read = random.random(number) < 0.4 if reads else np.zeros(number, np.bool_)
    rings = []
    for dtype, chosen in ((CALLS, ~read), (READS, read)):
        made = np.zeros(int(chosen.sum()), dtype)
        made["length"] = dtype.itemsize - 8
        made["time"] = times[chosen]
        made["pid"], made["tid"] = 70, random.integers(70, 73, len(made))
        made["cpu"] = random.integers(0, 2, len(made))
        made["comm"] = np.array([b"python3", b"worker"])[random.integers(0, 2, len(made))]
        if dtype is CALLS:
            made["point"] = random.integers(0, 2, len(made))
            made["duration"] = random.gamma(2, 500, len(made)).astype(np.int64)
        else:
            made["point"] = 2
            made["size"] = random.integers(0, 1 << 16, len(made))
            made["name"] = NAMES[random.integers(0, len(NAMES), len(made))]
        rings.append(made)
    return rings


def as_bytes(rings):
    """The rings as they leave the reader."""
    return [ring.view(np.uint8).ravel() for ring in rings]


def recording(load_events, event_count=0, *, plan=None, duration_ns=10**9, hits=None):
    """A recording of the plan with these events."""
    plan = plan_of(POINTS, mode="events") if plan is None else plan
    zero = kernel_counts.zero(plan)
    hits = zero.hits if hits is None else np.array(hits, np.uint64)
    return Recording(
        plan=plan,
        machine={"kernel": "6.12", "host": "here"},
        started="2026-11-25T20:00:00+00:00",
        start_ns=START_NS,
        duration_ns=duration_ns,
        hits=hits,
        lost=zero.lost,
        unpaired=zero.unpaired,
        totals=zero.totals,
        missed=0,
        histograms=zero.histograms,
        samples=CounterSamples(np.array([0, duration_ns], np.int64), np.stack([zero.hits, hits])),
        event_count=event_count,
        limit_reached=False,
        load_events=load_events,
    )

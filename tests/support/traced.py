"""A small recording for tests of file formats: every value is written here, none is computed by the package."""

from __future__ import annotations

import numpy as np
import pytest

from accel_magic.probes.plan import Capture, Filter, ProbePoint, Scope, Skipped, TracepointField, UsdtArgument
from accel_magic.recording.recording import CounterSamples, EventColumn, Events, Histograms, Recording
from tests.support.plans import plan_of

POINTS = (
    ProbePoint(
        0,
        "tracepoint:syscalls:sys_enter_*",
        "tracepoint",
        "syscalls",
        "sys_enter_read",
        event_id=700,
        fields=(TracepointField("fd", "u32", 16, 4), TracepointField("name", "char[8]", 24, 8)),
        record_end=32,
        scope=Scope("self"),
    ),
    ProbePoint(1, "latency:uprobe:libc:mal*", "uprobe", "/lib/libc.so.6", "malloc", latency=True, offset=0x9E6E0),
    ProbePoint(
        2,
        "usdt:libc:libc:setjmp",
        "usdt",
        "/lib/libc.so.6",
        "libc:setjmp",
        usdt_arguments=(UsdtArgument("memory", -4, "rbp", -8), UsdtArgument("constant", 8, value=2**40)),
        scope=Scope("pid", 77),
        captures=(Capture("size", "arg0", "u64", 8, at_return=True),),
        total="size",
        filter=Filter("pid == 77", "AM_PID == 77", "1", ("AM_ARG(0)",), uses_comm=True),
        aliases=("_setjmp",),
    ),
)
PLAN = plan_of(
    POINTS,
    mode="events",
    filter="pid == 77",
    max_events=1000,
    duration_s=2.5,
    buffer_mib=8,
    skipped=(Skipped("mallopt.cold", "compiler clone"),),
    notes=("a note",),
)


def _events():
    return Events(
        {
            "time_ns": EventColumn(np.array([5, 1_000, 1_234_567, 2_000_000_001], np.int64)),
            "point": EventColumn(np.array([0, 1, 2, 1], np.uint16)),
            "pid": EventColumn(np.array([77, 77, 77, 90], np.int32)),
            "tid": EventColumn(np.array([77, 78, 77, 90], np.int32)),
            "cpu": EventColumn(np.array([0, 1, 0, 1], np.int16)),
            "comm": EventColumn(np.array([1, 0, 1, -1], np.int32), categories=("worker", 'pyt"hon', "unused")),
            "duration_ns": EventColumn(np.array([0, 1_500, 0, 2], np.int64), np.array([False, True, False, True])),
            "size": EventColumn(np.array([0, 2**64 - 1, 0, 64], np.uint64), np.array([False, True, False, True])),
            # A tracepoint field of this name, as in workqueue and timer events.
            "function": EventColumn(np.array([3, 4, 5, 6], np.uint64)),
        }
    )


@pytest.fixture
def traced():
    """A recording with three different points and four events."""
    counts = np.zeros((1, 640), np.uint64)
    counts[0, 2], counts[0, 120], counts[0, 639] = 1, 2**63, 1
    return Recording(
        plan=PLAN,
        machine={"kernel": "6.18.0", "device": "Intel NPU 8086:7d1d (intel_vpu)"},
        started="2026-11-21T10:00:00.123456+01:00",
        start_ns=987_654_321_000_000_001,
        duration_ns=2_500_000_000,
        hits=np.array([1, 2**64 - 1, 1], np.uint64),
        lost=np.array([0, 3, 0], np.uint64),
        unpaired=np.array([0, 1, 0], np.uint64),
        totals=np.array([0, 1 << 63, 0], np.uint64),
        missed=4,
        histograms=Histograms(counts, np.array([2**63 + 5], np.uint64), np.array([1_500], np.uint64)),
        samples=CounterSamples(
            np.array([0, 50_000_000, 101_000_000, 2_500_000_000], np.int64),
            np.array([[0, 0, 0], [1, 10, 0], [1, 10, 1], [1, 2**64 - 1, 1]], np.uint64),
        ),
        event_count=4,
        limit_reached=True,
        load_events=_events,
        outcome="interrupted",
    )

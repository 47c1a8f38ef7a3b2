"""Fixtures shared by the unit tests: recordings with known values, built without a kernel."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest

from accel_magic.kernel import buckets
from accel_magic.probes.plan import ProbePoint, Scope
from accel_magic.recording.recording import CounterSamples, EventColumn, Events, Histograms, Recording
from tests.support import compilers
from tests.support.plans import plan_of

MACHINE = {
    "kernel": "6.18.0-test",
    "cpu": "Test CPU",
    "host": "testhost",
    "device": "none",
    "python": "3.11.0",
    "accel_magic": "0.0.0",
}


@pytest.fixture(scope="session", autouse=True)
def kept_outputs_of_compilers(tmp_path_factory):
    """Compile each program once per run, in whichever process of pytest-xdist."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "compiled"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        compilers.keep(folder, patch)
        yield


def point(id_, spec, *, latency=False, scope="all", **fields):
    """One ProbePoint from the text of its probe: 'tracepoint:syscalls:sys_enter_read', 'latency:uprobe:/lib/x:f'."""
    kind, _, rest = re.sub("^latency:", "", spec).partition(":")
    target, _, function = rest.rpartition(":")
    return ProbePoint(
        id=id_,
        probe=fields.pop("probe", spec),
        kind=kind,
        target=target,
        function=fields.pop("function", function),
        latency=latency or spec.startswith("latency:"),
        scope=Scope(scope),
        **fields,
    )


def recording(
    points=("tracepoint:syscalls:sys_enter_read",),
    events=(),
    *,
    hits=None,
    lost=None,
    unpaired=None,
    durations=None,
    samples=None,
    columns=None,
    plan=None,
    duration_ns=1_000_000_000,
    **fields,
):
    """Build a Recording whose every number is given or follows from what is given.

    Args:
        points: Probe texts or ProbePoints; their ids are their positions.
        events: Tuples (time_ns, point) or (time_ns, point, duration_ns); pid 100, tid 100 + point, cpu = point, comm
            "work" throughout.
        hits: Exact counts per point; as many as there are events, plus the lost ones, unless given.
        lost: Per point, zeros unless given.
        unpaired: Per point, zeros unless given.
        durations: {point id: durations in ns} for the in-kernel histograms; those of the events unless given.
        samples: (times_ns, hits as rows); start and end only unless given.
        columns: More event columns, by name.
        plan: Further keywords of Plan.
        duration_ns: Length of the trace.
        fields: Further keywords of Recording.

    """
    points = tuple(item if isinstance(item, ProbePoint) else point(id_, item) for id_, item in enumerate(points))
    made = plan_of(points=points, **(plan or {}))
    rows = sorted(((*event, None)[:3] for event in events), key=lambda row: row[0])
    ids = np.array([row[1] for row in rows], np.uint16)
    zeros = np.zeros(len(points), np.uint64)
    lost = zeros if lost is None else np.array(lost, np.uint64)
    hits = np.bincount(ids, minlength=len(points)).astype(np.uint64) + lost if hits is None else np.array(hits, "u8")
    data = {
        "time_ns": EventColumn(np.array([row[0] for row in rows], np.int64)),
        "point": EventColumn(ids),
        "pid": EventColumn(np.full(len(rows), 100, np.int32)),
        "tid": EventColumn(ids.astype(np.int32) + 100),
        "cpu": EventColumn(ids.astype(np.int16)),
        "comm": EventColumn(np.zeros(len(rows), np.int8), categories=("work",)),
    }
    if made.latency_points:
        data["duration_ns"] = EventColumn(
            np.array([row[2] or 0 for row in rows], np.int64),
            valid=np.array([row[2] is not None for row in rows], np.bool_),
        )
    if durations is None:
        durations = {p.id: [r[2] for r in rows if r[1] == p.id and r[2] is not None] for p in made.latency_points}
    if samples is None:
        samples = ([0, duration_ns], [zeros, hits])
    return Recording(
        plan=made,
        machine=fields.pop("machine", MACHINE),
        started=fields.pop("started", "2026-11-21T10:00:00+00:00"),
        start_ns=fields.pop("start_ns", 5_000_000_000),
        duration_ns=duration_ns,
        hits=hits,
        lost=lost,
        unpaired=zeros if unpaired is None else np.array(unpaired, np.uint64),
        totals=zeros,
        missed=fields.pop("missed", 0),
        histograms=histograms([durations.get(p.id, []) for p in made.latency_points]),
        samples=CounterSamples(np.array(samples[0], np.int64), np.array(samples[1], np.uint64)),
        event_count=fields.pop("event_count", len(rows)),
        limit_reached=fields.pop("limit_reached", False),
        load_events=fields.pop("load_events", lambda: Events({**data, **(columns or {})})),
        **fields,
    )


def histograms(durations):
    """In-kernel histograms of the given durations, ns: one list for each latency point."""
    counts = np.zeros((len(durations), buckets.COUNT), np.uint64)
    for row, values in enumerate(durations):
        np.add.at(counts[row], buckets.index_of(np.array(values, np.int64)), 1)
    return Histograms(
        counts=counts,
        total_ns=np.array([sum(values) for values in durations], np.uint64),
        max_ns=np.array([max(values, default=0) for values in durations], np.uint64),
    )


@pytest.fixture
def make_point():
    """Return the builder of ProbePoints: `make_point(0, "tracepoint:syscalls:sys_enter_read")`."""
    return point


@pytest.fixture
def make_recording():
    """Return the builder of Recordings: `make_recording(["tracepoint:a:b"], [(10, 0), (20, 0)])`."""
    return recording


@pytest.fixture
def rich_recording():
    """A second of three probes: 40 reads, 10 timed mallocs of 1..10 us (2 events lost), one ioctl never hit."""
    events = [(i * 25_000_000, 0) for i in range(40)]
    events += [(i * 50_000_000 + 7, 1, (i + 1) * 1000) for i in range(8)]
    return recording(
        ["tracepoint:syscalls:sys_enter_read", "latency:uprobe:/usr/lib/libc.so.6:malloc", "kprobe:ivpu:ivpu_ioctl"],
        events,
        lost=[0, 2, 0],
        durations={1: [(i + 1) * 1000 for i in range(10)]},
    )

"""Handmade flame recordings: every sample, wait, call and stack is written in the test."""

from __future__ import annotations

import numpy as np
import pytest

from accel_magic.kernel import buckets
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.kernel.stacks.stack_table import KERNEL, PYTHON, USER, table
from accel_magic.probes.plan import Plan, ProbePoint, Scope
from accel_magic.recording.flame_data import FlameFacts
from accel_magic.recording.recording import CounterSamples, EventColumn, Events, Histograms, Recording

OWN = 100
"""Process id of the notebook."""
FUTEX = 202
"""Number of a system call on x86-64."""
CLOCK = ProbePoint(0, "profile:hz:100", "profile", "cpu-clock", "100 Hz", scope=Scope("self", OWN), rate_hz=100)
WAITS = ProbePoint(1, "offcpu", "offcpu", "sched", "wait", latency=True, scope=Scope("self", OWN))


class Maker:
    """Collects events; `make` builds the recording."""

    def __init__(self):
        self.rows = []
        self.stacks = {}

    def _key(self, kind, frames):
        if not frames:
            return 0
        if isinstance(frames, int):
            return frames  # a key that the table does not know
        return self.stacks.setdefault((kind, tuple(frames)), 2 * len(self.stacks) + 1)

    def _add(self, point, time_ns, stacks, **more):
        python_, native, kernel = (stacks.get(name, ()) for name in ("python", "native", "kernel"))
        native, kernel = (
            frames if isinstance(frames, int) else [Frame(name, kind, module) for name in frames]
            for frames, kind, module in ((native, FrameKind.NATIVE, "/lib/libx.so"), (kernel, FrameKind.KERNEL, ""))
        )
        keys = {
            "python_stack": self._key(PYTHON, python_),
            "user_stack": self._key(USER, native),
            "kernel_stack": self._key(KERNEL, kernel),
        }
        self.rows.append({"point": point, "time_ns": time_ns, "pid": OWN, "comm": "python", **keys, **more})
        return self

    def sample(self, time_ns, tid=OWN, *, pid=OWN, comm="python", **stacks):
        """Add a sample of the clock."""
        return self._add(0, time_ns, stacks, tid=tid, pid=pid, comm=comm)

    def wait(self, time_ns, duration_ns, tid=OWN, *, state=1, syscall=FUTEX, comm="python", **stacks):
        """Add a wait."""
        values = {"duration_ns": duration_ns, "state": state, "syscall": syscall, "arg0": 0, "arg1": 0, "comm": comm}
        return self._add(1, time_ns, stacks, tid=tid, **values)

    def call(self, point, time_ns, duration_ns, tid=OWN, **stacks):
        """Add a measured call."""
        return self._add(point, time_ns, stacks, tid=tid, duration_ns=duration_ns)

    def make(self, *points, facts=FlameFacts(rate=100), duration_ns=1_000_000_000, **fields):  # noqa: B008 - immutable
        """Build the recording of the events, with these points in addition to the clock and the waits."""
        plan = Plan(points=(CLOCK, WAITS, *points), stacks=("kernel", "user", "python"))
        rows = sorted(self.rows, key=lambda row: row["time_ns"])
        names = sorted({row["comm"] for row in rows} | {"python"})
        plain = {"time_ns": "i8", "point": "u2", "pid": "i4", "tid": "i4"}
        columns = {name: EventColumn(np.array([row[name] for row in rows], kind)) for name, kind in plain.items()}
        columns["cpu"] = EventColumn(np.zeros(len(rows), np.int16))
        columns["comm"] = EventColumn(
            np.array([names.index(row["comm"]) for row in rows], np.int32), None, tuple(names)
        )
        for name, kind in {"duration_ns": "i8", "state": "u4", "syscall": "i4", "arg0": "u8", "arg1": "u8"}.items():
            valid = np.array([name in row for row in rows], np.bool_)
            columns[name] = EventColumn(np.array([row.get(name, 0) for row in rows], kind), valid)
        for name in ("kernel_stack", "user_stack", "python_stack"):
            columns[name] = EventColumn(np.array([row[name] for row in rows], "u8"))
        hits = np.bincount([row["point"] for row in rows], minlength=len(plan.points)).astype(np.uint64)
        zeros = np.zeros(len(plan.points), np.uint64)
        histograms = self._histograms(plan)
        return Recording(
            plan=plan,
            machine={"kernel": "6.18.0-test", "cpu": "Test CPU", "device": "none"},
            started="2026-11-21T10:00:00+00:00",
            start_ns=5_000_000_000,
            duration_ns=duration_ns,
            hits=np.array(fields.pop("hits", hits), np.uint64),
            lost=np.array(fields.pop("lost", zeros), np.uint64),
            unpaired=zeros,
            totals=zeros,
            missed=fields.pop("missed", 0),
            histograms=histograms,
            samples=CounterSamples(np.array([0, duration_ns], np.int64), np.array([zeros, hits], np.uint64)),
            event_count=len(rows),
            limit_reached=False,
            load_events=lambda: Events(columns),
            stacks=self._table(),
            flame=facts,
            **fields,
        )

    def _table(self):
        kinds = [kind for kind, _ in self.stacks]
        return table(
            np.array(list(self.stacks.values()), np.uint64), np.array(kinds, np.uint8), [f for _, f in self.stacks]
        )

    def _histograms(self, plan):
        durations = [
            [row["duration_ns"] for row in self.rows if row["point"] == point.id] for point in plan.latency_points
        ]
        counts = np.zeros((len(durations), buckets.COUNT), np.uint64)
        for at, values in enumerate(durations):
            np.add.at(counts[at], buckets.index_of(np.array(values, np.int64)), 1)
        totals = np.array([sum(values) for values in durations], np.uint64)
        return Histograms(counts, totals, np.array([max(values, default=0) for values in durations], np.uint64))


@pytest.fixture
def maker():
    """A fresh collector of events."""
    return Maker()


@pytest.fixture
def stacks_of():
    """{text of a stack: weight} of a profile; frames are `kind:name` from the root, joined by ` > `."""

    def texts(profile, state=None):
        found = {}
        samples = profile.samples
        for stack, weight, what in zip(samples.stack, samples.weight, samples.state, strict=True):
            if state is None or what == state:
                path = " > ".join(f"{frame.kind.name.lower()}:{frame.name}" for frame in profile.path(int(stack)))
                found[path] = found.get(path, 0) + int(weight)
        return found

    return texts

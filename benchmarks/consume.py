"""From ring buffer memory to data in Python: both sides start with a ring that is already filled with events."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from accel_magic.analysis.frames import events_frame
from accel_magic.api.trace_options import Options
from accel_magic.kernel.attach.kernel_engine import KernelEngine
from accel_magic.kernel.mapped_memory import map_file, map_value
from accel_magic.kernel.records.rings import RecordRing
from accel_magic.recording.record_decoder import decode
from benchmarks import peers, workloads
from benchmarks.arithmetic import Measured
from benchmarks.peers import TRACEPOINT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.probes.plan import Plan


def consuming(*, quick: bool) -> Iterator[Measured]:
    """Ring memory to DataFrame, compared with BCC's callbacks."""
    calls, rounds = (200_000, 3) if quick else (1_000_000, 5)
    ours, theirs = [], []
    _ours(10_000)  # warm up, so that imports on first use are not measured
    for _ in range(rounds):
        ours.append(_ours(calls))
        bcc = peers.bcc("filled", "getppid", calls)
        theirs.append(bcc.consume_ns / bcc.seen)
    yield Measured(
        "consume",
        "ring memory to DataFrame, per event",
        "ns",
        tuple(ours),
        "BCC's Python ring-buffer callback",
        tuple(theirs),
        "speedup",
        15,
        "ours ends in a DataFrame, the peer in a list of tuples",
    )


def _ours(calls: int) -> float:
    """Fill a ring without a reader, then do the reader process's and the result's work here; returns ns per event."""
    plan = Options(mode="events", scope="all").plan((TRACEPOINT,))
    with KernelEngine().attach(plan) as attachment:
        control = map_value(attachment.control_fd, attachment.layout.control, writable=True)
        control["recording"] = 1
        control["enabled"] = 1
        workloads.run("getppid", calls)
        control["enabled"] = 0
        attachment.detach()
        # Mapped before the clock starts, like the peer's ring.
        ring = RecordRing(attachment.ring_fds[0], attachment.ring_sizes[0], attachment.layout.record(0))
        file = os.memfd_create("records")
        start = time.perf_counter_ns()
        ring.drain(file)
        events = decode(attachment.layout, [map_file(file)], 0)
        frame = events_frame(_recording(plan, events))
        taken = time.perf_counter_ns() - start
        os.close(file)
    peers.require(len(frame) >= calls, f"{len(frame)} events of {calls} were in the ring")
    return taken / len(frame)


def _recording(plan: Plan, events: Any) -> Any:
    """The attributes that `events_frame` uses."""
    return SimpleNamespace(plan=plan, events=events)

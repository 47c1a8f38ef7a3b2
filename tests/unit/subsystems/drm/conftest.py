"""A simulated history of the DRM scheduler, event by event: what happened is known, so analyses can be checked."""

from __future__ import annotations

import numpy as np
import pytest

from accel_magic.probes.plan import ProbePoint
from accel_magic.recording.recording import EventColumn
from accel_magic.results.trace_result import TraceResult

NEW = ("drm_sched_job_queue", "drm_sched_job_run", "drm_sched_job_done", "drm_sched_job_unschedulable")
OLD = ("drm_sched_job", "drm_run_job", "drm_sched_process_job", "drm_sched_job_wait_dep")
FENCES = ("dma_fence_wait_start", "dma_fence_wait_end", "dma_fence_signaled")
MEASURED = {"drm_sched_job_timedout": "gpu_sched", "drm_ioctl": "drm", "lab_submit_ioctl": "lab"}
LIBRARY = ("clFinish", "clEnqueueNDRangeKernel")
WORKER = 900
TEXTS = ("comm", "name", "dev", "driver", "timeline")
UNSIGNED = ("fence_context", "fence_seqno", "client_id", "fence", "entity", "id", "ctx", "seqno", "context")
KINDS = dict.fromkeys(UNSIGNED, np.uint64) | {"job_count": np.uint32, "hw_job_count": np.int32, "ioctl": np.uint32}


class Story:
    """Events of the preset `drm` on a kernel with the new or the old tracepoints, in any order. Times are ns."""

    def __init__(self, make_recording, *, old):
        self.make_recording, self.old = make_recording, old
        self.events = []
        self.numbers = {}

    def hit(self, function, at, *, tid=1, pid=None, cpu=0, comm="app", lasts=None, **fields):
        """One hit; the thread's process is the thread's number rounded down to tens."""
        pid = tid // 10 * 10 if pid is None else pid
        row = {"time_ns": at, "function": function, "tid": tid, "pid": pid, "cpu": cpu, "comm": comm}
        self.events.append(row | {"duration_ns": lasts} | fields)

    def job(
        self,
        context,
        seqno,
        times,
        *,
        ring="gfx",
        client=7,
        tid=1,
        depth=0,
        on_ring=0,
        address=None,
        on=(),
        held_at=None,
    ):
        """One job, at the times (queued, started, done), None for a step that is missing.

        `on` are the fences (context, number) that it depends on; `held_at` is when the scheduler found the first of
        them not signaled. On the old kernel, its fence has an address and its ring numbers its jobs.
        """
        queued, started, done = times
        names, blocked = (OLD, OLD[3]) if self.old else (NEW, NEW[3])
        number = self.numbers[ring] = self.numbers.get(ring, 0) + 1
        counted = {"name": ring, "job_count": depth, "hw_job_count": on_ring}
        address = 0xFFFF_8880_0000_0000 + context * 4096 + seqno * 64 if address is None else address
        own = {"fence_context": context, "fence_seqno": seqno}
        if self.old:
            own = {"fence": address}
            counted |= {"entity": 0xFFFF_8881_0000_0000 + client, "id": number}
        else:
            counted |= {"dev": "0000:03:00.0", "client_id": client}
            for fence in on:
                self.hit("drm_sched_job_add_dep", queued, tid=tid, **own, ctx=fence[0], seqno=fence[1])
        if queued is not None:
            self.hit(names[0], queued, tid=tid, **own, **counted)
        if held_at is not None:
            waits = {"ctx": on[0][0], "seqno": on[0][1]}
            which = {"name": ring, "id": number, "fence": 1} if self.old else own
            self.hit(blocked, held_at, tid=WORKER, comm="kworker", **which, **waits)
        if started is not None:
            self.hit(names[1], started, tid=WORKER, comm="kworker", **own, **counted)
        if done is not None:
            self.hit(names[2], done, tid=0, cpu=1, comm="swapper/1", **own)
            self.signal(done + 1, context, seqno, ring=ring)

    def signal(self, at, context, seqno, *, ring="gfx", cpu=1):
        fence = {"driver": "drm_sched", "timeline": ring, "context": context, "seqno": seqno}
        self.hit("dma_fence_signaled", at, tid=0, cpu=cpu, comm="swapper/1", **fence)

    def wait(self, start, end, context, seqno, *, tid=1, ring="gfx"):
        fence = {"driver": "drm_sched", "timeline": ring, "context": context, "seqno": seqno}
        self.hit("dma_fence_wait_start", start, tid=tid, **fence)
        if end is not None:
            self.hit("dma_fence_wait_end", end, tid=tid, **fence)

    def timeout(self, at, lasts=50):
        self.hit("drm_sched_job_timedout", at, tid=WORKER, comm="kworker", lasts=lasts)

    def points(self):
        scheduler = OLD if self.old else (*NEW, "drm_sched_job_add_dep")
        traced = [("drm:jobs", "tracepoint", "gpu_scheduler", name, False) for name in scheduler]
        traced += [("drm:fences", "tracepoint", "dma_fence", name, False) for name in FENCES]
        traced += [("drm:ioctls", "kprobe", module, name, True) for name, module in MEASURED.items()]
        traced += [("opencl", "uprobe", "libOpenCL.so.1", name, True) for name in LIBRARY]
        return [
            ProbePoint(number, probe, kind, target, function, latency)
            for number, (probe, kind, target, function, latency) in enumerate(traced)
        ]

    def trace(self, *, without=(), duration_ns=1_000_000, **keywords):
        """The result; hits of the functions `without` are counted but not recorded."""
        points = self.points()
        ids = {point.function: point.id for point in points}
        lost = [sum(row["function"] == name for row in self.events) if name in without else 0 for name in ids]
        rows = sorted((row for row in self.events if row["function"] not in without), key=lambda row: row["time_ns"])
        columns = {
            "pid": EventColumn(np.array([row["pid"] for row in rows], np.int32)),
            "tid": EventColumn(np.array([row["tid"] for row in rows], np.int32)),
            "cpu": EventColumn(np.array([row["cpu"] for row in rows], np.int16)),
        }
        for name in {name for row in rows for name in row} & {*KINDS, *TEXTS}:
            values = [row.get(name) for row in rows]
            valid = np.array([value is not None for value in values])
            if name in TEXTS:
                texts = sorted({value for value in values if value is not None})
                codes = [-1 if value is None else texts.index(value) for value in values]
                columns[name] = EventColumn(np.array(codes, np.int32), categories=tuple(texts))
            else:
                columns[name] = EventColumn(np.array([value or 0 for value in values], KINDS[name]), valid)
        events = [(row["time_ns"], ids[row["function"]], row["duration_ns"]) for row in rows]
        recording = self.make_recording(points, events, lost=lost, columns=columns, duration_ns=duration_ns, **keywords)
        return TraceResult(recording)


@pytest.fixture(params=["new", "old"])
def story(request, make_recording):
    """An empty history, on a kernel with the new tracepoints and on one with the old ones."""
    return Story(make_recording, old=request.param == "old")


@pytest.fixture
def new_story(make_recording):
    return Story(make_recording, old=False)


@pytest.fixture
def old_story(make_recording):
    return Story(make_recording, old=True)

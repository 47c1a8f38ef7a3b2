"""Traces with known contents, and machines with the driver's functions in the lab's kernels.

The traces are a simulated history of the driver, calls added one by one, and a recorded run of an NPU.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from accel_magic.analysis.driver_trace import DriverTrace
from accel_magic.demangle import plain_name
from accel_magic.errors import ProbeError
from accel_magic.probes import libraries
from tests.support.paths import ROOT

LISTED = Path(__file__).with_name("driver_functions.txt")
"""Functions of the driver, as listed by the lab's kernels."""
DRM = ("drm_gem_close_ioctl", "drm_gem_handle_delete")
FENCES = (
    "dma_fence_init", "dma_fence_signaled", "dma_fence_wait_start", "dma_fence_wait_end", "dma_fence_destroy",
)  # fmt: skip
KERNEL_THREAD = 900
KINDS = {
    "retval": "Int64", "size": "UInt64", "flags": "UInt32", "handle": "UInt32", "vpu_addr": "UInt64", "bo": "UInt64",
    "timeout_ns": "Int64", "job_status": "UInt32", "buffer_count": "UInt32", "engine": "UInt32", "priority": "UInt32",
    "cmdq_id": "UInt32", "job_id": "UInt32", "db": "UInt32", "driver": "category", "context": "UInt32",
    "seqno": "UInt32", "event": "category", "ctx_id": "UInt32", "engine_id": "UInt32", "reason": "category",
    "file": "UInt64", "request_id": "UInt32",
}  # fmt: skip


class Story:
    """Events of the preset, added in any order; `trace()` sorts them by time.

    Times are ns. A buffer and a job each take fixed steps from the given start.
    """

    def __init__(self, kernel="7.2"):
        self.kernel = kernel
        self.events = []
        self.traced = set()

    def hit(self, function, at, *, tid=1, pid=None, lasts=None, comm="load", **columns):
        """One hit; the thread's process is the thread's number rounded down to tens."""
        pid = tid // 10 * 10 if pid is None else pid
        row = {"time_ns": at, "function": function, "pid": pid, "tid": tid, "cpu": 0, "comm": comm}
        self.events.append(row | {"duration_ns": np.nan if lasts is None else float(lasts)} | columns)

    def buffer(self, at, bo, *, tid=1, handle=1, size=8192, asked=None, flags=2, retval=0, **file):
        """A program creates a buffer, in 50 ns."""
        address = 0x1000_0000 + bo
        self.hit(
            "ivpu_bo_create_ioctl", at, tid=tid, lasts=50, retval=retval, size=size if asked is None else asked,
            flags=flags, handle=handle, vpu_addr=address, **file,
        )  # fmt: skip
        self.object(at + 5, bo, tid=tid, size=size)
        self.hit("ivpu_gem_bo_open", at + 30, tid=tid, bo=bo, **file)

    def object(self, at, bo, *, tid=1, size=8192):
        """The driver creates an object, in 10 ns. Kernel addresses are negative as signed numbers."""
        retval = bo - (1 << 64) if bo >= 1 << 63 else bo
        self.hit("ivpu_gem_create_object", at, tid=tid, lasts=10, size=size, retval=retval)

    def bind(self, at, bo, *, tid=1, pages=2, lasts=10):
        self.hit("ivpu_bo_bind", at, tid=tid, lasts=lasts, bo=bo, retval=0)
        for number in range(pages):
            self.hit("ivpu_mmu_context_map_page", at + 1 + number, tid=tid, vpu_addr=number << 12)

    def close(self, at, handle, bo=None, *, tid=1, **file):
        """A program closes a handle; with `bo`, this frees its object."""
        self.hit("drm_gem_close_ioctl", at, tid=tid, lasts=20, retval=0, handle=handle, **file)
        if bo is not None:
            self.free(at + 5, bo, tid=tid)

    def free(self, at, bo, *, tid=1):
        self.hit("ivpu_gem_bo_free", at, tid=tid, lasts=10, retval=0, bo=bo)

    def submit(
        self, at, context, *, tid=1, buffers=(), job_id=None, ctx_id=None, retval=0, cmdq_id=3, priority=2, **file
    ):
        """A program submits a job, in 100 ns: fence after 10, binds after 20, doorbell after 70."""
        new = self.kernel != "6.12"
        where = {"cmdq_id": cmdq_id} if new else {"engine": 0, "priority": priority}
        self.hit(
            "ivpu_cmdq_submit_ioctl" if new else "ivpu_submit_ioctl", at, tid=tid, lasts=100, retval=retval,
            buffer_count=len(buffers), **where, **file,
        )  # fmt: skip
        if retval == -77:
            return
        self.fence("dma_fence_init", at + 10, context, tid=tid)
        for number, bo in enumerate(buffers):
            self.bind(at + 20 + 12 * number, bo, tid=tid)
        if retval:
            return
        self.hit("ivpu_hw_ip_db_set", at + 70, tid=tid, db=1)
        if new and job_id is not None:
            self.point("submit", at + 80, job_id, ctx_id, tid=tid)

    def done(self, at, context, *, job_id=None, ctx_id=None, status=0, tid=KERNEL_THREAD):
        """The firmware reports that a job is done: its reply, and 4 ns later the fence's signal."""
        self.answer(at - 4, job_id, status, tid=tid)
        self.fence("dma_fence_signaled", at, context, tid=tid)
        if self.kernel != "6.12" and job_id is not None:
            self.point("done", at + 2, job_id, ctx_id, tid=tid)

    def answer(self, at, job_id, status=0, *, tid=KERNEL_THREAD):
        self.hit("ivpu_job_done_callback", at, tid=tid, comm="irq/33", job_id=job_id, job_status=status, engine=0)
        if self.kernel == "6.12":
            self.hit("ivpu_job_signal_and_destroy.isra.0", at + 2, tid=tid, job_id=job_id, job_status=status)

    def fence(self, function, at, context, *, tid=1, driver="intel_vpu"):
        self.hit(function, at, tid=tid, driver=driver, context=context, seqno=1)

    def point(self, event, at, job_id, ctx_id, *, tid=1):
        self.hit("job", at, tid=tid, event=event, job_id=job_id, ctx_id=ctx_id, engine_id=0)

    def wait(self, at, until, *, handle=1, context=None, tid=1, status=0, retval=0, **file):
        """A program waits; with `context`, for a fence that is not signaled yet."""
        captured = file if retval else {"job_status": status, **file}
        self.hit(
            "ivpu_bo_wait_ioctl", at, tid=tid, lasts=until - at, handle=handle, timeout_ns=0, retval=retval, **captured
        )
        if context is not None:
            self.fence("dma_fence_wait_start", at + 5, context, tid=tid)
            self.fence("dma_fence_wait_end", until - 5, context, tid=tid, driver="detached-driver")

    def trace(self, *, without=(), columns=True, timed=True, duration_ns=None, **options):
        """The trace, without some functions, or without any captured columns."""
        rows = sorted(
            (row for row in self.events if plain(row["function"]) not in without), key=lambda row: row["time_ns"]
        )
        kinds = {"time_ns": "int64", "function": "category", "pid": "int32", "tid": "int32", "cpu": "int16"}
        kinds["comm"] = "category"
        if rows and columns:
            kinds["duration_ns"] = "float64"
            kinds |= {name: kind for name, kind in KINDS.items() if any(name in row for row in rows)}
        frame = pd.DataFrame(
            {
                name: pd.Series([row.get(name, None if kind == "category" else pd.NA) for row in rows], dtype=kind)
                for name, kind in kinds.items()
            }
        )
        names = pd.Series([plain(row["function"]) for row in rows], dtype="str")
        counts = names.value_counts().astype("int64")
        idle = {name for name in self.traced if name not in counts.index and name not in without}
        counts = pd.concat([counts, pd.Series(0, index=sorted(idle), dtype="int64")])
        end = max((row["time_ns"] for row in rows), default=0) + 1000
        duration = (end if duration_ns is None else duration_ns) if timed else 0
        return DriverTrace(frame, counts.rename_axis("function"), duration, timed=timed, **options)


def plain(function):
    return function.partition(".")[0]


@pytest.fixture
def story():
    """Start a story on a kernel version."""
    return Story


@pytest.fixture(scope="session")
def story_type():
    """The same for property-based tests."""
    return Story


STEP_NS = 10


class Calls:
    """Calls in order of time, each 10 ns after the previous one unless a time is given."""

    def __init__(self):
        self.rows = []

    def call(self, function, at=None, *, tid=11, pid=None, cpu=0, lasts=None, comm="load", **captured):
        """Add one call; the process is the thread's number rounded down to tens."""
        at = (self.rows[-1]["time_ns"] + STEP_NS if self.rows else STEP_NS) if at is None else at
        row = {"time_ns": at, "function": function, "pid": tid // 10 * 10 if pid is None else pid, "tid": tid}
        row |= {"cpu": cpu, "comm": comm, "duration_ns": np.nan if lasts is None else float(lasts)}
        self.rows.append(row | captured)

    def calls(self, functions, at=None, **where):
        """Add several calls, "a b c"; `at` is the time of the first."""
        for number, function in enumerate(functions.split()):
            self.call(function, at if number == 0 else None, **where)

    def interrupt(self, at=None, functions="", *, tid, cpu=0):
        """The device interrupts a thread, and the handler makes these calls."""
        self.call("ivpu_hw_irq_handler", at, tid=tid, cpu=cpu)
        self.calls(f"ivpu_ipc_irq_handler ivpu_hw_ip_ipc_rx_count_get {functions}", tid=tid, cpu=cpu)

    def trace(self, *, timed=True, duration_ns=None, traced=(), **options):
        """The trace; `traced` are functions that were traced without a hit."""
        rows = sorted(self.rows, key=lambda row: row["time_ns"])
        frame = pd.DataFrame(rows)
        for name in ("function", "comm"):
            frame[name] = frame[name].astype("category")
        captured = frame.columns.difference(["time_ns", "function", "pid", "tid", "cpu", "comm", "duration_ns"])
        frame[captured] = frame[captured].astype("Int64")
        if not timed:
            frame["time_ns"] = 0
        names = frame["function"].astype(str).map(plain_name)
        counts = names.value_counts().reindex([*names.unique(), *traced], fill_value=0).rename_axis("function")
        length = int(frame["time_ns"].max()) + 1000 if duration_ns is None else duration_ns
        return DriverTrace(frame, counts, length if timed else 0, timed=timed, **options)


@pytest.fixture
def recorder():
    """An empty list of calls."""
    return Calls()


@pytest.fixture(scope="session")
def recorded():
    """The recorded run: `trace`, and known facts about it."""
    facts = json.loads(Path(__file__).with_name("recorded_run.json").read_text())
    codes = [code for cycle, repeats in facts["runs"] for _ in range(repeats) for code in cycle]
    size = len(codes)
    events = pd.DataFrame(
        {
            "time_ns": np.zeros(size, np.int64),
            "probe": pd.Categorical(["kprobe:intel_vpu:*"] * size),
            "function": pd.Categorical.from_codes(codes, facts["names"]),
            "pid": np.zeros(size, np.int32),
            "tid": np.zeros(size, np.int32),
            "cpu": np.zeros(size, np.int16),
            "comm": pd.Categorical([""] * size),
        }
    )
    counts = pd.Series([plain_name(facts["names"][code]) for code in codes], dtype="str").value_counts()
    trace = DriverTrace(events, counts.rename_axis("function"), 0, timed=False)
    return SimpleNamespace(trace=trace, facts=facts, calls=[facts["names"][code] for code in codes])


@pytest.fixture(scope="session")
def original():
    """Folder with the published recording; skips if it is missing."""
    folder = ROOT.parent / "shared/data"
    if not (folder / "trace_res.txt").exists():
        pytest.skip("the published recording is missing")
    return folder


@pytest.fixture(scope="session")
def driver_functions():
    """`driver_functions["7.2"]` is {function: whether a probe can be attached}."""
    kernels = {}
    for line in LISTED.read_text().splitlines()[1:]:
        name, *places = line.split()
        for place in places:
            kernels.setdefault(place.removesuffix("-"), {})[name] = not place.endswith("-")
    return kernels


@pytest.fixture(params=["6.12", "6.18", "7.2"])
def kernel(request):
    return request.param


@pytest.fixture
def functions(driver_functions, kernel):
    """{function: whether a probe can be attached} of each kernel in turn."""
    return driver_functions[kernel]


@pytest.fixture
def machine(kernel_root, functions, monkeypatch):
    """Build a folder used as `/` of a machine with that kernel: `machine(built_in=("drm",))`.

    It has the functions and neither tracepoints nor Level Zero.
    """

    def no_library(name, _pid):
        raise ProbeError(f"there is no {name}", why="nobody knows it", code="probe.no-library")

    def build(built_in=()):
        monkeypatch.setattr(libraries, "resolve", no_library)
        lines = [f"{name} [intel_vpu]" for name, traceable in functions.items() if traceable]
        lines += [name if "drm" in built_in else f"{name} [drm]" for name in DRM]
        modules = "intel_vpu 274432 0 - Live 0x0\n" + ("" if "drm" in built_in else "drm 737280 1 - Live 0x0\n")
        root = kernel_root(kallsyms="", modules=modules, traceable="\n".join(lines) + "\n", built_in=built_in)
        (root / "sys/kernel/tracing/events/sched").mkdir(parents=True, exist_ok=True)
        return root

    return build


@pytest.fixture(scope="session")
def recorded_run():
    """Folder of data about a recorded run on a real NPU; skips if it is not available."""
    folder = ROOT.parent / "shared/data"
    if not folder.is_dir():
        pytest.skip("the recorded run is not at hand")
    return folder

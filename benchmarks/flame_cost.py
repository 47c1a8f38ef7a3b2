"""Cost of samples and waits, compared with bpftrace: for a busy thread, and for two threads that switch constantly.

Python stacks are only taken in this process, so the busy thread runs here. It is measured with its own CPU clock, which
is little affected by other processes and includes interrupts.
"""

from __future__ import annotations

import re
import subprocess
import time
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import accel_magic
from accel_magic.kernel.stacks.stack_choice import AUTO
from benchmarks import peers, program_time, workloads
from benchmarks.arithmetic import Measured
from benchmarks.kernel import new_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.results.trace_result import TraceResult

RATE, FAST = 99, 4999
ALONE = "the same with nothing attached"
SAMPLE = f"profile:hz:{RATE} {{ @[kstack, ustack] = count(); }}"
NOTEBOOK = """%%flame --rate {rate} -o f
import time
from accel_magic.recording.reader import reader_client

def others_ns():
    reader_ns = time.clock_gettime_ns(~reader_client.shared().pid << 3 | 2)
    return time.process_time_ns() - time.thread_time_ns() + reader_ns

others, start, own = others_ns(), time.monotonic_ns(), time.thread_time_ns()
while time.monotonic_ns() - start < {seconds} * 1e9:
    sum(range(1000))
spent = (others_ns() - others) / (time.monotonic_ns() - start) * 100
own = time.thread_time_ns() - own
"""
REPORTED = "reported = f.facts.tracer_ns / f.recording.duration_ns * 100"
SAMPLED = """
samples = f.profile.samples
sampled = samples.weight[samples.state == 0].sum()
assert own > 0.2 * f.recording.duration_ns, f"the cell computed for {own / 1e9:.2f} s only"
assert sampled > 0.5 * own, f"{sampled / 1e9:.2f} s of {own / 1e9:.2f} s were sampled"
"""
SWITCHES = (
    "tracepoint:sched:sched_switch { "
    "if (@began[args->next_pid]) { @us[kstack] = hist((nsecs - @began[args->next_pid]) / 1000); "
    "delete(@began[args->next_pid]); } @began[args->prev_pid] = nsecs; }"
)


def sampling(*, quick: bool) -> Iterator[Measured]:
    """A busy thread sampled with all stacks."""
    loops, rounds = (4_000, 3) if quick else (20_000, 11)
    _compute(loops)
    alone, ours, theirs, costs = [], [], [], []
    for _ in range(rounds):
        alone.append(_compute(loops))
        with accel_magic.trace(f"profile:hz:{RATE}", stacks=AUTO) as sampled:
            ours.append(_compute(loops))
        _check_samples(sampled.result, RATE, ours[-1])
        with _bpftrace(SAMPLE):
            theirs.append(_compute(loops))
        with program_time.measured(), accel_magic.trace(f"profile:hz:{FAST}", stacks=AUTO) as sampled:
            computed = _compute(loops)
            costs.append(program_time.mean_ns("am_plain"))
        _check_samples(sampled.result, FAST, computed)
    what = f"CPU time of a busy thread sampled at {RATE} Hz with all stacks"
    yield Measured("sample", what, "ns", tuple(ours), ALONE, tuple(alone), "ratio", 1.02)
    yield Measured("sample-bpftrace", "the same under bpftrace", "ns", tuple(theirs), ALONE, tuple(alone), "ratio")
    what = "duration of the program for a sample with all stacks, from the kernel's statistics"
    note = f"1 % of a busy CPU at {RATE} Hz is {1e7 / RATE:,.0f} ns"
    yield Measured("sample-ns", what, "ns", tuple(costs), note=note)


def in_notebook(*, quick: bool) -> Iterator[Measured]:
    """CPU time used in a notebook by anything but the cell, while a cell is sampled."""
    seconds, rounds = (1, 2) if quick else (5, 7)
    for rate, bar in ((RATE, 2.0), (499, None)):
        spent, reported = [], []
        with new_kernel() as kernel:
            kernel.run("%load_ext accel_magic")
            for _ in range(rounds):
                spent.append(kernel.run(NOTEBOOK.format(rate=rate, seconds=seconds), "spent").values["spent"])
                reported.append(kernel.run(REPORTED, "reported").values["reported"])
                kernel.run(SAMPLED)
        what = f"CPU time of the notebook's other threads and the reader while `%%flame` samples at {rate} Hz"
        yield Measured(f"notebook-{rate}", f"{what}, with the live row", "% of a CPU", tuple(spent), bar=bar)
        yield Measured(f"notebook-told-{rate}", "own cost shown in the headline", "% of a CPU", tuple(reported))


def waiting(*, quick: bool) -> Iterator[Measured]:
    """Threads that only switch, with every wait measured."""
    trips, rounds = (20_000, 3) if quick else (100_000, 7)
    times: dict[str, list[float]] = {"alone": [], "count": [], "events": [], "stacks": [], "bpftrace": []}
    costs: dict[str, list[float]] = {"count": [], "events": [], "stacks": []}
    for _ in range(rounds):
        times["alone"].append(_switch(trips))
        for name, options in (("count", {"mode": "count"}), ("events", {}), ("stacks", {"stacks": AUTO})):
            with accel_magic.trace("offcpu", **options) as waited:
                times[name].append(_switch(trips))
            _check_waits(waited.result, trips)
            with program_time.measured(), accel_magic.trace("offcpu", **options):
                _switch(trips // 10)
                costs[name].append(program_time.mean_ns("am_switch"))
        with _bpftrace(SWITCHES):
            times["bpftrace"].append(_switch(trips))
    alone = tuple(times["alone"])
    for name, how in (
        ("count", "waits measured"),
        ("events", "waits recorded"),
        ("stacks", "waits recorded with all stacks"),
    ):
        yield Measured(f"wait-{name}", f"two switches, {how}", "ns", tuple(times[name]), ALONE, alone, "ratio")
        what = f"duration of the program for a switch, {how}, from the kernel's statistics"
        yield Measured(f"wait-{name}-ns", what, "ns", tuple(costs[name]))
    what = "two switches, bpftrace's histograms by kernel stack"
    yield Measured("wait-bpftrace", what, "ns", tuple(times["bpftrace"]), ALONE, alone, "ratio")


def _check_samples(result: TraceResult, rate: int, ns: float) -> None:
    """Check that this much CPU time was sampled, most of it with a stack of this module."""
    stacks = result.stacks
    own = sum(row.hits for row in stacks.itertuples() if any(frame.module == __file__ for frame in row.frames))
    least = 0.5 * rate * ns / 1e9
    peers.require(own >= least, f"{own} samples of {ns / 1e9:.2f} s have a stack: fewer than {least:.0f}")


def _check_waits(result: TraceResult, trips: int) -> None:
    """Check that both threads' waits were counted, and recorded or lost if asked, with stacks if asked."""
    plan = result.recording.plan
    peers.require(result.hits >= trips, f"{result.hits} waits in {trips} trips")
    if plan.records_events:
        seen = result.recorded + result.lost
        peers.require(seen == result.hits, f"{seen} of {result.hits} waits were recorded or lost")
        peers.require(result.recorded > 0, "no wait was recorded")
    if plan.stacks:
        seen = peers.with_stack(result)
        peers.require(seen > 0.9 * result.recorded, f"{seen} of {result.recorded} waits have a stack")


def _compute(loops: int) -> float:
    """Compute in this thread; returns the CPU time used, in ns."""
    start = time.thread_time_ns()
    for _ in range(loops):
        sum(range(1000))
    return time.thread_time_ns() - start


@lru_cache(maxsize=1)
def _program() -> Path:
    binary = workloads.folder() / "switches"
    source = Path(__file__).with_name("switches.c")
    subprocess.run(["cc", "-O2", "-pthread", "-o", str(binary), str(source)], check=True)
    return binary


def _switch(trips: int) -> float:
    done = subprocess.run([str(_program()), str(trips)], capture_output=True, text=True, check=True)
    return float(done.stdout)


@contextmanager
def _bpftrace(program: str) -> Iterator[None]:
    """Run bpftrace around the block; its first interval shows that everything is attached."""
    peers.bpftrace_version()
    ready = program + ' interval:ms:50 { printf("attached\\n"); }'
    with subprocess.Popen(["bpftrace", "-e", ready], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tool:
        assert tool.stdout is not None
        if not any(line.strip() == "attached" for line in tool.stdout):
            raise peers.PeerError(f"bpftrace failed: {tool.stderr.read() if tool.stderr else ''}")
        try:
            yield
        finally:
            tool.terminate()
            output, _ = tool.communicate()
            peers.require(re.search(r"^@\w*\[", output, re.MULTILINE), f"bpftrace saw nothing: {output[-500:]}")

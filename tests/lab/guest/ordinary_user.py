"""Traces of a user without privilege on the real driver, while another user gives the NPU work. Prints JSON."""

import json
import os
from collections import Counter
from pathlib import Path

import accel_magic
from accel_magic.errors import AccelMagicError
from accel_magic.lab import npu

JOBS = 12
KERNEL_THREADS = ("irq/", "kworker/", "swapper/", "ksoftirqd/")


def refused(*probes, **options):
    try:
        with accel_magic.trace(*probes, **options):
            pass
    except AccelMagicError as error:
        return error.code
    return ""


def traced(*probes):
    """Trace a load; return the result, and the functions whose hits are not the ioctls that the load counted."""
    with accel_magic.trace(*probes) as t:
        load = npu.load(jobs=JOBS)
    hits = t.result.counts.hits.groupby("function").sum()
    made = load.ioctls.assign(calls=load.ioctls.ok + load.ioctls.failed).groupby("function").calls.sum()
    wrong = [
        [name, int(calls), int(hits[name])] for name, calls in made.items() if name in hits and hits[name] != calls
    ]
    return t.result, {"wrong": wrong, "compared": int(made[made.index.isin(hits.index)].sum())}


def who(events):
    """Events by who made them: this process, nobody, a kernel thread; any other by its name."""
    makers = Counter()
    for pid, comm in zip(events.pid, events.comm.astype(str), strict=True):
        kernel = "kernel" if comm.startswith(KERNEL_THREADS) else f"{pid} {comm}"
        makers["own" if pid == os.getpid() else "nobody" if not (pid or comm) else kernel] += 1
    return makers


def main():
    status = Path("/proc/self/status").read_text().splitlines()
    told = {"rights": [line.split()[1] for line in status if line.startswith(("CapPrm", "CapEff", "CapAmb"))]}
    told["refused"] = [
        refused("kprobe:vfs_read"),
        refused("intel_vpu:ivpu_open", args="x=arg0:u64"),
        refused("intel_vpu:ivpu_open", filter="arg0 > 1"),
        refused("intel_vpu:ivpu_open", scope="all"),
    ]
    result, preset = traced("npu")
    jobs = result.npu.jobs
    addresses = {*map(int, result.events["bo"].dropna()), *map(int, result.events["file"].dropna())}
    told["preset"] = preset | {
        "headline": str(result).splitlines()[0],
        "who": who(result.events),
        "jobs": [len(jobs), int((jobs.status == "ok").sum()), int(jobs.done_ns.notna().sum())],
        "buffers": int((result.npu.buffers.owner == "user").sum()),
        "addresses": sorted(map(hex, addresses)),
    }
    result, functions = traced("intel_vpu:ivpu_*")
    interrupts = result.counts.hits.groupby("function").sum()["ivpu_hw_irq_handler"]
    told["functions"] = functions | {
        "who": who(result.events),
        "interrupts": int(interrupts),
        "notes": [note for note in result.recording.notes if "kernel threads" in note],
    }
    print(json.dumps(told))


main()

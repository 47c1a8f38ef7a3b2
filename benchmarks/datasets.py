"""Traces that are written to a folder while they run, and queries over a dataset that is larger than memory."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel_magic.api.tracing import trace
from benchmarks import peers, workloads
from benchmarks.arithmetic import Measured, cost_per_call
from benchmarks.peers import TRACEPOINT

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
COUNT = "select function, count(*) as n from events group by function"


def streaming(*, quick: bool) -> Iterator[Measured]:
    """Cost of writing a dataset to the traced thread; memory while it is written for long."""
    calls, rounds = (200_000, 3) if quick else (2_000_000, 7)
    times: dict[str, list[float]] = {"untraced": [], "memory": [], "folder": []}
    lost = []
    for turn in range(rounds):
        times["untraced"].append(workloads.run("getppid", calls).ns_per_call)
        memory = peers.ours(TRACEPOINT, "getppid", calls, mode="events", losses=True)
        times["memory"].append(memory[0].ns_per_call)
        folder = workloads.folder() / f"cost-{turn}"
        run, result = peers.ours(TRACEPOINT, "getppid", calls, mode="events", losses=True, save=folder)
        stored = result.scan().count_rows()
        peers.require(stored == result.recorded, f"{stored} events of {result.recorded} are in the folder")
        times["folder"].append(run.ns_per_call)
        lost.append(100 * result.lost / calls)
        shutil.rmtree(folder)
    yield Measured(
        "stream-cost",
        "cost per event to the traced thread, streaming to a dataset",
        "ns",
        cost_per_call(times["folder"], times["untraced"]),
        "recording in memory",
        cost_per_call(times["memory"], times["untraced"]),
        "ratio",
        1.05,
        lost=tuple(lost),
    )
    yield from _long(*((100_000, 4) if quick else (1_000_000, 60)))


def _long(rate: int, seconds: int) -> Iterator[Measured]:
    program = workloads.folder() / "pace"
    subprocess.run(["cc", "-O2", "-o", program, Path(__file__).with_name("pace.c")], check=True)
    folder = workloads.folder() / "long"
    block = trace(TRACEPOINT, save=folder)
    with block:
        attached = block.attached
        pids = ("self", attached.reader_pid, attached.parts.writer.pid)
        over, memory = threading.Event(), []
        watching = threading.Thread(target=_watch, args=(pids, over, memory))
        watching.start()
        began = time.monotonic()
        done = subprocess.run([program, str(rate), str(seconds)], capture_output=True, text=True, check=True)
        took = time.monotonic() - began
        over.set()
        watching.join()
    result = block.result
    if result.hits != int(done.stdout) or result.recorded + result.lost != result.hits:
        raise peers.PeerError(f"{result.recorded} recorded, {result.lost} lost, {result.hits} hits of {done.stdout}")
    later = memory[len(memory) // 2 :]
    size = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
    note = (
        f"{result.hits:,} events at {result.hits / took / 1e6:.2f} M/s; {size / result.recorded:.1f} bytes each on disk"
    )
    shutil.rmtree(folder)
    yield Measured(
        "stream-memory",
        f"largest minus smallest memory of notebook, reader and writer, second half of {seconds} s",
        "MiB",
        (max(later) - min(later),),
        bar=64,
        note=f"{note}; at most {max(memory):.0f} MiB",
    )
    yield Measured("stream-loss", f"events lost in {seconds} s", "%", (100 * result.lost / result.hits,), bar=0.0)


def _watch(pids: tuple[Any, ...], over: threading.Event, memory: list[float]) -> None:
    """Sample the memory of processes in MiB: their own, what they share, and files in memory that the reader fills."""
    while not over.wait(0.25):
        total = 0
        for pid in pids:
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) << 10
        for file in Path(f"/proc/{pids[1]}/fd").iterdir():
            try:
                if "memfd:records" in str(file.readlink()):
                    total += file.stat().st_size
            except FileNotFoundError:  # handed over in the meantime
                continue
        memory.append(total / (1 << 20))


def querying(*, quick: bool) -> Iterator[Measured]:
    """Count by function over a dataset of 200 M events, in a process of its own, against DuckDB on the same files."""
    events, rounds = (2_000_000, 3) if quick else (200_000_000, 3)
    folder = workloads.folder() / "large"
    _child("make", folder, events)
    ours, theirs, peaks = [], [], []
    for _ in range(rounds):
        own, peer = _child("sql", folder), _child("duckdb", folder)
        if own["rows"] != peer["rows"] or sum(own["rows"].values()) != events:
            raise peers.PeerError(f"different counts: {own} and {peer}")
        ours.append(own["seconds"])
        theirs.append(peer["seconds"])
        peaks.append(own["mib"])
    summary = _child("summary", folder)
    peers.require(summary["rows"].get("recorded") == events, f"a summary of other events: {summary}")
    peers.require(summary["rows"]["steps"], "no event was in the rates")
    size = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
    shutil.rmtree(folder)
    what = f"count by function over {events / 1e6:g} M events"
    note = f"{size / 1e9:.2f} GB of files"
    yield Measured("dataset-sql", what, "s", tuple(ours), "DuckDB's own query", tuple(theirs), "ratio", 2.0, note)
    yield Measured("dataset-sql-memory", f"{what}: peak memory", "MiB", tuple(peaks), bar=1024)
    yield Measured(
        "dataset-summary-memory",
        "summary, figure of the rate, rates of all events: peak memory",
        "MiB",
        (summary["mib"],),
        bar=1024,
        note=f"{summary['seconds']:.1f} s",
    )


def _child(*words: object) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.dataset_child", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    found: dict[str, Any] = json.loads(done.stdout)
    return found

"""Attaching on the workers of a Dask cluster on this machine: on eight at once, compared with one.

All workers share this machine's CPUs, which eight machines would not. So the slowdown is compared with that of
processes which trace themselves without a cluster, one alone or eight at once.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from accel_magic import trace
from benchmarks.arithmetic import Measured
from benchmarks.peers import require

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distributed import Client

WORKERS = 8
PROBE = "latency:uprobe:libc:a64l"
SCRIPT = """
import sys
import accel_magic
from benchmarks.cluster import CALLS, call
with accel_magic.trace(sys.argv[1]) as t:
    print("traced", flush=True)
    sys.stdin.readline()
    call()
assert t.result.hits == CALLS, t.result.hits
"""
CALLS = 100


def call() -> None:
    """Call the traced function `CALLS` times."""
    for _ in range(CALLS):
        ctypes.CDLL(None).a64l(b"abc")


def attaching(*, quick: bool) -> Iterator[Measured]:
    """Time from the start of a trace until everything is attached and counts; skipped without Dask."""
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        print(f"skipping cluster: {error}", file=sys.stderr)
        return
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None, "silence_logs": 50}
    with LocalCluster(n_workers=WORKERS, **options) as cluster, Client(cluster) as client:
        client.wait_for_workers(WORKERS)
        _on_workers(client, WORKERS)  # their first calls import the package
        rounds = [
            (_on_workers(client, WORKERS), _on_workers(client, 1), _in_processes(WORKERS), _in_processes(1))
            for _ in range(1 if quick else 3)
        ]
    many, one, many_processes, one_process = map(tuple, zip(*rounds, strict=True))
    contended = tuple(each * all_ / alone for each, all_, alone in zip(one, many_processes, one_process, strict=True))
    what = f"attach on {WORKERS} workers of this machine"
    slowdown = f"1 worker, slowed down as {WORKERS} processes at once are"
    yield Measured("cluster-attach", what, "s", many, slowdown, contended, "ratio", 1.5)
    yield Measured("cluster-workers", f"{what}, with their contention for CPUs", "s", many, "1 worker", one, "ratio")
    what = f"{WORKERS} processes at once trace themselves"
    yield Measured("cluster-processes", what, "s", many_processes, "1 process", one_process, "ratio")


def _on_workers(client: Client, count: int) -> float:
    traced = trace(PROBE, on=client, nodes=f"[0-{count - 1}]", require_all=True)
    begin = time.perf_counter()
    with traced:
        took = time.perf_counter() - begin
        client.run(call)
    nodes = traced.result.nodes
    require(nodes["problem"].tolist() == [""] * count, f"not all of {count} workers were traced: {nodes['problem']}")
    require(traced.result.hits == CALLS * count, f"{traced.result.hits} hits of {count} workers' {CALLS} calls each")
    return took


def _in_processes(count: int) -> float:
    begin = time.perf_counter()
    started = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, PROBE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).resolve().parents[1],
        )
        for _ in range(count)
    ]
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "traced\n"
        took = time.perf_counter() - begin
        for process in started:
            process.communicate()
            require(process.returncode == 0, f"a process that traces itself failed: {process.returncode}")
    finally:
        for process in started:
            process.kill()
            process.wait()
    return took

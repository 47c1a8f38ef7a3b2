"""Cost of a traced call: counted hits, recorded hits, and events lost at full speed."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from benchmarks import peers, workloads
from benchmarks.arithmetic import Measured, cost_per_call, cost_per_delivered, lost_percent
from benchmarks.peers import TRACEPOINT

if TYPE_CHECKING:
    from collections.abc import Iterator

BPFTRACE = "bpftrace @[probe] = count()"
BCC = "bare BCC per-CPU counter"
EMPTY = "an empty program on raw tracepoint sys_enter"


def counting(*, quick: bool) -> Iterator[Measured]:
    """Hits of a system call tracepoint, counted but not recorded."""
    calls, rounds = (200_000, 3) if quick else (1_000_000, 9)
    times: dict[str, list[float]] = {"untraced": [], "empty": [], "ours": [], "bpftrace": [], "bcc": []}
    for _ in range(rounds):
        times["untraced"].append(workloads.run("getppid", calls).ns_per_call)
        times["empty"].append(peers.empty_program("getppid", calls).ns_per_call)
        times["ours"].append(peers.ours(TRACEPOINT, "getppid", calls, mode="count")[0].ns_per_call)
        times["bpftrace"].append(peers.bpftrace_count(TRACEPOINT, "getppid", calls).run.ns_per_call)
        times["bcc"].append(peers.bcc("count", "getppid", calls).run.ns_per_call)
    cost = {tool: cost_per_call(times[tool], times["untraced"]) for tool in times if tool != "untraced"}
    what = "cost per hit, counting, system call tracepoint"
    yield Measured("count-bpftrace", what, "ns", cost["ours"], BPFTRACE, cost["bpftrace"], "ratio", 1 / 5)
    yield Measured("count-bcc", what, "ns", cost["ours"], BCC, cost["bcc"], "ratio", 1.5)
    yield Measured(
        "count-floor", "the same, relative to an empty program", "ns", cost["ours"], EMPTY, cost["empty"], "ratio", 1.2
    )
    yield Measured(
        "floor-bpftrace",
        "an empty program compared with bpftrace",
        "ns",
        cost["empty"],
        BPFTRACE,
        cost["bpftrace"],
        "ratio",
    )


def functions(*, quick: bool) -> Iterator[Measured]:
    """Hits of a user-space function: counted, and measured from entry to return."""
    calls, rounds, chunk = (5_000, 3, 500) if quick else (50_000, 5, 1_000)
    probe = peers.uprobe()
    times: dict[str, list[float]] = {"untraced": [], "count": [], "latency": [], "bpftrace": [], "bcc": []}
    for _ in range(rounds):
        times["untraced"].append(workloads.run("function", calls, chunk).ns_per_call)
        times["count"].append(peers.ours(probe, "function", calls, chunk, mode="count")[0].ns_per_call)
        latency = peers.ours(f"latency:{probe}", "function", calls, chunk, mode="count")
        times["latency"].append(latency[0].ns_per_call)
        times["bpftrace"].append(peers.bpftrace_count(probe, "function", calls, chunk).run.ns_per_call)
        times["bcc"].append(peers.bcc("uprobe", "function", calls, chunk).run.ns_per_call)
    cost = {tool: cost_per_call(times[tool], times["untraced"]) for tool in times if tool != "untraced"}
    what = "cost per hit, counting, uprobe"
    yield Measured("uprobe-bpftrace", what, "ns", cost["count"], BPFTRACE, cost["bpftrace"], "ratio")
    yield Measured("uprobe-bcc", what, "ns", cost["count"], BCC, cost["bcc"], "ratio")
    what = "cost per call, latency of a uprobe (entry and return, in-kernel histogram)"
    yield Measured(
        "uprobe-latency", what, "ns", cost["latency"], "bpftrace counting entries only", cost["bpftrace"], "ratio"
    )


def recording(*, quick: bool) -> Iterator[Measured]:
    """Hits recorded with time, process, thread, CPU and name: cost to the traced thread, and end to end.

    Costs are per delivered event, reported together with each tool's losses.
    """
    calls, printed, rounds = (200_000, 50_000, 3) if quick else (1_000_000, 200_000, 7)
    times: dict[str, list[float]] = {"untraced": [], "ours": [], "printf": []}
    ends: dict[str, list[float]] = {"ours": [], "bcc": []}
    delivered: dict[str, list[int]] = {"ours": [], "printf": [], "bcc": []}
    for _ in range(rounds):
        untraced = workloads.run("getppid", calls).ns_per_call
        times["untraced"].append(untraced)
        run, result = peers.ours(TRACEPOINT, "getppid", calls, mode="events", losses=True)
        events = len(result.events)  # creates the DataFrame
        peers.require(events == result.recorded, f"{events} rows of {result.recorded} recorded events")
        ends["ours"].append((time.monotonic_ns() - run.start_ns) / events - untraced)
        times["ours"].append(run.ns_per_call)
        delivered["ours"].append(events)
        printf = peers.bpftrace_printf("getppid", printed)
        times["printf"].append(printf.run.ns_per_call)
        delivered["printf"].append(printf.seen)
        bcc = peers.bcc("events", "getppid", calls)
        ends["bcc"].append((bcc.end_ns - bcc.run.start_ns) / bcc.seen - untraced if bcc.seen else math.nan)
        delivered["bcc"].append(bcc.seen)
    lost = lost_percent(calls, delivered["ours"])
    yield Measured(
        "record-bpftrace",
        "cost per delivered event to the traced thread",
        "ns",
        cost_per_delivered(times["ours"], times["untraced"], calls, delivered["ours"]),
        "bpftrace printf to a file",
        cost_per_delivered(times["printf"], times["untraced"], printed, delivered["printf"]),
        "ratio",
        1 / 20,
        lost=lost,
        peer_lost=lost_percent(printed, delivered["printf"]),
    )
    yield Measured(
        "record-bcc",
        "cost per delivered event, end to end: first call to data in Python",
        "ns",
        tuple(ends["ours"]),
        "BCC's Python ring-buffer callback",
        tuple(ends["bcc"]),
        "ratio",
        1 / 3,
        "ours ends in a DataFrame, the peer in a list of tuples",
        lost=lost,
        peer_lost=lost_percent(calls, delivered["bcc"]),
    )


def loss(*, quick: bool) -> Iterator[Measured]:
    """Events lost while one thread makes system calls at full speed, with default settings."""
    calls, rounds = (500_000, 1) if quick else (2_000_000, 3)
    ours, theirs = [], []
    for turn in range(rounds):
        result = peers.ours(TRACEPOINT, "getppid", calls, mode="events", losses=True)[1]
        ours.append(result.lost / calls * 100)
        if turn == 0:  # takes ten seconds, with the same result each time
            theirs.append((calls - peers.bpftrace_printf("getppid", calls).seen) / calls * 100)
    yield Measured(
        "loss",
        f"loss at full speed, {calls / 1e6:g} M system calls by one thread, default buffer",
        "%",
        tuple(ours),
        "bpftrace printf to a file",
        tuple(theirs) * rounds,
        "value",
        0.0,
        "the peer ran once",
    )

"""Tracing through the broker, compared with root: waiting times, cost per hit, and a broker at rest."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.arithmetic import Measured, cost_per_call
from tests.support import users
from tests.support.brokers import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator

PROBES = "tracepoint:syscalls:sys_enter_getppid", "uprobe:libc:malloc"
SCRIPT = """
import json, os, sys, time
import accel_magic
calls, rounds, mode, traced = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
def loop():
    begin = time.perf_counter()
    for _ in range(calls): os.getppid()
    return (time.perf_counter() - begin) / calls * 1e9
told = {"starts": [], "untraced": [], "traced": []}
for _ in range(rounds):
    told["untraced"].append(loop())
    begin = time.perf_counter()
    with accel_magic.trace(*traced, mode=mode, buffer=256, max_events=10 * calls + 10) as t:
        told["starts"].append((time.perf_counter() - begin) * 1e3)
        told["traced"].append(loop())
    assert t.result.hits >= calls
    assert mode == "count" or t.result.recorded == t.result.hits
    assert t.result.lost == 0, t.result.lost
    assert ("through the broker" in str(t.result)) == (os.getuid() != 0)
print(json.dumps(told))
"""


def tracing(*, quick: bool) -> Iterator[Measured]:
    """Processes of root and of a user, in turns."""
    broker = Broker()
    try:
        yield from _starts(broker, quick=quick)
        yield from _hits(broker, quick=quick)
        yield from _at_rest(broker, quick=quick)
    finally:
        broker.stop()


def _starts(broker: Broker, *, quick: bool) -> Iterator[Measured]:
    processes, rounds = (2, 3) if quick else (9, 6)
    seen = [_both(broker, 10, rounds, "events", *PROBES) for _ in range(processes)]
    first = [[reported["starts"][0] for reported in pair] for pair in seen]
    again = [[statistics.median(reported["starts"][1:]) for reported in pair] for pair in seen]
    for key, name, pairs in (("first", "first trace of a process", first), ("repeated", "repeated trace", again)):
        ours, theirs = tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)
        what = f"{name} through the broker, until the user's first line"
        # The bar is 1.3 times, and 30 ms: as a ratio, it depends on the peer.
        bar = 1.3 + 30 / statistics.median(theirs)
        yield Measured(f"broker-{key}", what, "ms", ours, "root", theirs, "ratio", bar, note="1.3 times and 30 ms")


def _hits(broker: Broker, *, quick: bool) -> Iterator[Measured]:
    processes, calls, rounds = (1, 100_000, 2) if quick else (15, 500_000, 3)
    for mode, name in (("count", "hit, counted"), ("events", "event")):
        seen = [_both(broker, calls, rounds, mode, PROBES[0]) for _ in range(processes)]
        costs = []
        for side in (0, 1):
            traced = [value for pair in seen for value in pair[side]["traced"]]
            untraced = [value for pair in seen for value in pair[side]["untraced"]]
            costs.append(cost_per_call(traced, untraced))
        yield Measured(
            f"broker-{mode}", f"cost per {name}, through the broker", "ns", costs[0], "root", costs[1], "ratio", 1.1
        )


def _at_rest(broker: Broker, *, quick: bool) -> Iterator[Measured]:
    """Memory of the service that waits, and how often it wakes up."""
    seconds = 2 if quick else 20
    pid = broker.process.pid
    before = _switches(pid)
    time.sleep(seconds)
    woken = (_switches(pid) - before) / seconds
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    memory = next(int(line.split()[1]) for line in lines if line.startswith("Rss:")) / 1024
    yield Measured("broker-memory", "memory of a broker at rest", "MiB", (memory,), bar=40)
    yield Measured("broker-wakes", "wake-ups of a broker at rest", "per s", (woken,), bar=0)


def _switches(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)


def _both(broker: Broker, *arguments: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a user's process and root's, one after the other, measured."""
    words = [sys.executable, "-c", SCRIPT, *map(str, arguments)]
    setting = f"ACCEL_MAGIC_BROKER={broker.socket}"
    user = users.command(users.FIRST, "env", setting, f"HOME=/tmp/accel_magic-{users.FIRST}", *words)
    root = subprocess.run(words, env={**os.environ, "ACCEL_MAGIC_BROKER": ""}, stdout=subprocess.PIPE, check=True)
    through = subprocess.run(user, stdout=subprocess.PIPE, check=True, cwd="/")
    return json.loads(through.stdout), json.loads(root.stdout)

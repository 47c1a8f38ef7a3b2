"""Cost of ITT tasks: recorded, compared with a uprobe's entry and return, and with no collector at all."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from typing import TYPE_CHECKING

from accel_magic.itt import collector
from benchmarks import peers, workloads
from benchmarks.arithmetic import Measured, cost_per_call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.results.trace_result import TraceResult

PROBE = "itt:bench:*"
LAYERS = ("openvino:layers",)
INFERENCES = """
import statistics, sys, time
import numpy as np
import openvino as ov
from openvino import opset13 as op
import accel_magic
kind, layers = sys.argv[1], int(sys.argv[2])
if sys.argv[3] == "present":
    accel_magic.collect_tasks()
    import os
    assert "INTEL_LIBITTNOTIFY64" in os.environ
random = np.random.default_rng(0)
shape = [1, 1024] if kind == "products" else [1, 64, 28, 28]
value = given = op.parameter(shape, np.float32)
for _ in range(layers):
    if kind == "products":
        value = op.matmul(value, op.constant(random.random((1024, 1024), np.float32)), False, False)
    else:
        weights = op.constant(random.random((64, 64, 3, 3), np.float32))
        value = op.convolution(value, weights, [1, 1], [1, 1], [1, 1], [1, 1])
    value = op.relu(value)
model = ov.Model([op.result(value)], [given], "network")
request = ov.Core().compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 1}).create_infer_request()
data = {0: random.random(shape, np.float32)}
def infer(count):
    taken = []
    for _ in range(count):
        start = time.perf_counter()
        request.infer(data)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)
for line in sys.stdin:
    count, probes = int(line.split()[0]), line.split()[1:]
    if probes:
        with accel_magic.trace(*probes) as t:
            taken = infer(count)
        assert t.result.lost == 0, t.result.lost
        assert t.result.hits >= count, t.result.hits
    else:
        taken = infer(count)
    print(taken, flush=True)
"""
FIRST = """
import time
import accel_magic
accel_magic.collect_tasks()
import openvino
begin = time.perf_counter()
with accel_magic.trace("openvino") as t:
    print(time.perf_counter() - begin)
points = t.result.recording.plan.points
assert {"itt", "tracepoint", "uprobe"} <= {point.kind for point in points}, points
"""


def tasks(*, quick: bool) -> Iterator[Measured]:
    """One thread that begins and ends tasks, and inferences of a small and a larger network."""
    yield from _loop(quick=quick)
    for name, kind, layers, inferences, bars in (
        ("5 matrix products", "products", 5, 50, (1.01, 1.05)),
        ("50 convolutions", "convolutions", 50, 5, (1.01, 1.01)),
    ):
        yield from _inferences(name, kind, layers, inferences, bars, quick=quick)
    first = [_first() for _ in range(2 if quick else 5)]
    what = "first trace of a process with the preset openvino, until the user's first line"
    yield Measured("itt-first", what, "s", tuple(first), bar=0.8)


def _first() -> float:
    process = _python(FIRST)
    taken = process.communicate()[0]
    peers.require(process.returncode == 0, "the preset was not traced with all its kinds of probes")
    return float(taken)


def _loop(*, quick: bool) -> Iterator[Measured]:
    calls, pairs, chunk, rounds = (200_000, 5_000, 500, 3) if quick else (1_000_000, 50_000, 1_000, 7)
    times: dict[str, list[float]] = {
        "untraced": [],
        "off": [],
        "recorded": [],
        "counted": [],
        "stacks": [],
        "plain": [],
        "uprobe": [],
        "uprobe stacks": [],
    }
    collector.install()
    present = os.environ[collector.VARIABLE]
    for _ in range(rounds):
        del os.environ[collector.VARIABLE]
        times["untraced"].append(workloads.run("task", calls).ns_per_call)
        os.environ[collector.VARIABLE] = present
        times["off"].append(workloads.run("task", calls).ns_per_call)
        # A ring in which all of them fit, because a loop of nothing but tasks is faster than any reader.
        recorded = peers.ours(PROBE, "task", calls, max_events=10 * calls, buffer=1024)
        times["recorded"].append(recorded[0].ns_per_call)
        times["counted"].append(peers.ours(PROBE, "task", calls, mode="count")[0].ns_per_call)
        stacked = peers.ours(PROBE, "task", pairs, max_events=10 * pairs, stacks="user")
        times["stacks"].append(_with_stacks(*stacked))
        times["plain"].append(workloads.run("function", pairs, chunk).ns_per_call)
        pair = peers.ours(f"latency:{peers.uprobe()}", "function", pairs, chunk)
        times["uprobe"].append(pair[0].ns_per_call)
        stacked = peers.ours(f"latency:{peers.uprobe()}", "function", pairs, chunk, stacks="user")
        times["uprobe stacks"].append(_with_stacks(*stacked))
    cost = {name: cost_per_call(times[name], times["untraced"]) for name in ("off", "recorded", "counted", "stacks")}
    pair_cost = cost_per_call(times["uprobe"], times["plain"])
    what = "cost per ITT task (begin and end)"
    yield Measured("itt-recorded", f"{what}, recorded", "ns", cost["recorded"], bar=120)
    yield Measured(
        "itt-uprobe", f"{what}, recorded", "ns", cost["recorded"], "latency of a uprobe", pair_cost, "ratio", 1 / 20
    )
    yield Measured("itt-counted", f"{what}, counted", "ns", cost["counted"])
    stacked = cost_per_call(times["uprobe stacks"], times["plain"])
    yield Measured(
        "itt-stacks",
        f"{what}, with native stacks",
        "ns",
        cost["stacks"],
        "latency of a uprobe with them",
        stacked,
        "ratio",
    )
    yield Measured("itt-off", f"{what}, in a child process while nothing is traced", "ns", cost["off"])


def _with_stacks(run: workloads.Run, result: TraceResult) -> float:
    """Time of a call of which a stack was taken. Raises PeerError if not every event has one that names the caller."""
    stacks = result.stacks
    named = int(stacks.loc[stacks["text"].str.split(";").map(lambda names: "main" in names), "hits"].sum())
    if named != run.calls:
        raise peers.PeerError(f"{named} of {run.calls} events have a stack with the calling function")
    return run.ns_per_call


def _inferences(
    name: str, kind: str, layers: int, inferences: int, bars: tuple[float, float], *, quick: bool
) -> Iterator[Measured]:
    """Take turns within a process, and among processes that run at the same time: their speed varies with the hour."""
    alone: list[float] = []
    present: list[float] = []
    idle: list[float] = []
    traced: list[float] = []
    for _ in range(1 if quick else 3):
        without, within = (_python(INFERENCES, kind, str(layers), which) for which in ("alone", "present"))
        with without, within:
            for process in (without, within):
                _ask(process, inferences)  # warms it up
            turns = [(alone, without, ()), (present, within, ()), (traced, within, LAYERS), (idle, within, ())]
            for _ in range(5 if quick else 100):
                for values, process, probes in turns:
                    values.append(_ask(process, inferences, *probes))
                turns.reverse()
    about = f"OpenVINO inference of {name} ({statistics.median(alone):.2f} ms)"
    yield _paired(f"itt-present-{layers}", f"{about}, collector loaded, nothing traced", present, alone, bars[0])
    yield _paired(f"itt-layers-{layers}", f"{about}, under %%ktrace openvino:layers", traced, idle, bars[1])


def _paired(key: str, what: str, ours: list[float], theirs: list[float], bar: float) -> Measured:
    return Measured(key, what, "ms", tuple(ours), "the same without", tuple(theirs), "ratio", bar)


def _python(code: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {key: value for key, value in os.environ.items() if key != collector.VARIABLE}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _ask(process: subprocess.Popen[str], inferences: int, *probes: str) -> float:
    """Median time of an inference in a process, in ms."""
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the process was started without pipes")
    process.stdin.write(" ".join((str(inferences), *probes)) + "\n")
    process.stdin.flush()
    return float(process.stdout.readline()) * 1e3

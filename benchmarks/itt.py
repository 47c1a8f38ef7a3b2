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

PROBE = "itt:bench:*"
PERCEPTRON = """
import statistics, sys, time
import numpy as np
import openvino as ov
from openvino import opset13 as op
import accel_magic
WIDTH, LAYERS, INFERENCES, PROBES = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
if PROBES:
    accel_magic.collect_tasks()
random = np.random.default_rng(0)
value = given = op.parameter([1, WIDTH], np.float32)
for _ in range(LAYERS):
    weights = op.constant(random.random((WIDTH, WIDTH), np.float32))
    value = op.relu(op.matmul(value, weights, False, False))
model = ov.Model([op.result(value)], [given], "perceptron")
request = ov.Core().compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 1}).create_infer_request()
data = {0: random.random((1, WIDTH), np.float32)}
def infer(count):
    taken = []
    for _ in range(count):
        start = time.perf_counter()
        request.infer(data)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)
infer(INFERENCES // 4)
if PROBES and PROBES != ["-"]:
    with accel_magic.trace(*PROBES) as t:
        taken = infer(INFERENCES)
    assert t.result.lost == 0, t.result.lost
    assert t.result.hits >= INFERENCES, t.result.hits
else:
    taken = infer(INFERENCES)
print(taken)
"""


def tasks(*, quick: bool) -> Iterator[Measured]:
    """One thread that begins and ends tasks, and inferences of a small and a larger network."""
    yield from _loop(quick=quick)
    for name, width, layers, inferences, bars in (
        ("a 0.3 ms network", 512, 4, 2_000, (1.01, 1.05)),
        ("a 5 ms network", 2048, 6, 200, (1.01, 1.01)),
    ):
        yield from _inferences(name, width, layers, inferences // (10 if quick else 1), bars, quick=quick)


def _loop(*, quick: bool) -> Iterator[Measured]:
    calls, pairs, chunk, rounds = (200_000, 5_000, 500, 3) if quick else (2_000_000, 50_000, 1_000, 7)
    times: dict[str, list[float]] = {
        "untraced": [],
        "off": [],
        "recorded": [],
        "counted": [],
        "plain": [],
        "uprobe": [],
    }
    collector.install()
    present = os.environ[collector.VARIABLE]
    for _ in range(rounds):
        del os.environ[collector.VARIABLE]
        times["untraced"].append(workloads.run("task", calls).ns_per_call)
        os.environ[collector.VARIABLE] = present
        times["off"].append(workloads.run("task", calls).ns_per_call)
        times["recorded"].append(peers.ours(PROBE, "task", calls, max_events=10 * calls)[0].ns_per_call)
        times["counted"].append(peers.ours(PROBE, "task", calls, mode="count")[0].ns_per_call)
        times["plain"].append(workloads.run("function", pairs, chunk).ns_per_call)
        pair = peers.ours(f"latency:{peers.uprobe()}", "function", pairs, chunk)
        times["uprobe"].append(pair[0].ns_per_call)
    cost = {name: cost_per_call(times[name], times["untraced"]) for name in ("off", "recorded", "counted")}
    pair_cost = cost_per_call(times["uprobe"], times["plain"])
    what = "cost per ITT task (begin and end)"
    yield Measured("itt-recorded", f"{what}, recorded", "ns", cost["recorded"], bar=120)
    yield Measured(
        "itt-uprobe", f"{what}, recorded", "ns", cost["recorded"], "latency of a uprobe", pair_cost, "ratio", 1 / 20
    )
    yield Measured("itt-counted", f"{what}, counted", "ns", cost["counted"])
    yield Measured("itt-off", f"{what}, in a child process while nothing is traced", "ns", cost["off"])


def _inferences(
    name: str, width: int, layers: int, inferences: int, bars: tuple[float, float], *, quick: bool
) -> Iterator[Measured]:
    arguments = [str(width), str(layers), str(inferences)]
    kinds = {"alone": [], "present": ["-"], "layers": ["openvino:layers"]}
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    for turn in range(3 if quick else 9):
        for kind in kinds if turn % 2 else reversed(kinds):
            command = [sys.executable, "-c", PERCEPTRON, *arguments, *kinds[kind]]
            environment = {key: value for key, value in os.environ.items() if key != collector.VARIABLE}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            times[kind].append(float(done.stdout) * 1e3)
    alone = tuple(times["alone"])
    about = f"OpenVINO inference of {name} ({statistics.median(alone):.2f} ms)"
    for kind, what, bar in (
        ("present", "collector loaded, nothing traced", bars[0]),
        ("layers", "under %%ktrace openvino:layers", bars[1]),
    ):
        ours = tuple(times[kind])
        yield Measured(f"itt-{kind}-{width}", f"{about}, {what}", "ms", ours, "no collector", alone, "ratio", bar)

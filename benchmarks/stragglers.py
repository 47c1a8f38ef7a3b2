"""The table of stragglers of many simulated ranks, made in a process of its own.

`python -m benchmarks.stragglers RANKS STEPS` prints its times and peak of memory: one rank sleeps 5 ms in each step,
and all wait for each other in an allreduce.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from accel_magic.subsystems.steps import collectives, lateness, marks, steps, torch
from accel_magic.subsystems.steps.lateness import Clocks
from benchmarks.arithmetic import Measured
from benchmarks.peers import require

if TYPE_CHECKING:
    from collections.abc import Iterator

RANKS, STEPS, LATE = 64, 10_000, 3
MOST_S, MOST_MIB = 5.0, 1024.0
_WORK_NS, _SLEEP_NS, _TRANSFER_NS, _NOISE_NS = 10_000_000, 5_000_000, 300_000, 200_000
_FUNCTIONS = (
    "accel_magic:step",
    torch.MADE,
    torch.ENQUEUED,
    torch.WAIT,
    torch.FINISHED,
    torch.GROUP_MADE,
    torch.GROUP_NAMED,
)
_MARK, _MADE, _ENQUEUED, _WAIT, _FINISHED, _GROUP_MADE, _GROUP_NAMED = range(len(_FUNCTIONS))
_PARTS = (marks.PROBE, torch.COLLECTIVES, torch.WAITS, torch.GROUPS)
_PART_OF = np.array([0, 1, 1, 2, 1, 3, 3], np.int8)


def finding(*, quick: bool) -> Iterator[Measured]:
    """Time and peak of memory of the tables by step and by collective, from the ranks' events on."""
    rounds, number = (1, STEPS // 20) if quick else (5, STEPS)
    seconds, sizes = [], []
    for _ in range(rounds):
        command = [sys.executable, "-m", "benchmarks.stragglers", str(RANKS), str(number)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=Path(__file__).resolve().parents[1])
        reported = json.loads(done.stdout)
        require(reported["late"] == [LATE, LATE], f"found other stragglers: {reported['late']}")
        # The last step has no end.
        require(
            reported["matched"] == [number - 1, number],
            f"matched {reported['matched']} steps and collectives of {number}",
        )
        seconds.append(reported["by_step_s"] + reported["by_collective_s"])
        sizes.append(reported["peak_kib"] / 1024)
    what = f"stragglers of {RANKS} simulated ranks x {number:,} steps with a collective each, by step and by collective"
    yield Measured("stragglers", what, "s", tuple(seconds), bar=MOST_S)
    yield Measured("stragglers-memory", f"{what}: peak of the whole process", "MiB", tuple(sizes), bar=MOST_MIB)


def events(ranks: int, number: int) -> pd.DataFrame:
    """Simulate the events of all ranks, as `ClusterResult.events` has them."""
    random = np.random.default_rng(1)
    own = _WORK_NS + random.integers(0, _NOISE_NS, (number, ranks))
    own[:, LATE] += _SLEEP_NS
    end = np.cumsum(own.max(axis=1) + _TRANSFER_NS)
    start = np.concatenate([[0], end[:-1]])[:, None] + np.zeros((1, ranks), np.int64)
    called = start + own
    rank = np.broadcast_to(np.arange(ranks), (number, ranks))
    step = np.broadcast_to(np.arange(number)[:, None], (number, ranks))
    finished = np.broadcast_to(end[:, None], (number, ranks)) - 1000
    blocks = [
        (_MARK, start),
        (_MADE, called),
        (_ENQUEUED, called + 10),
        (_WAIT, called + 20),
        (_FINISHED, finished),
    ]
    once = np.arange(ranks)
    kind = np.concatenate(
        [*(np.full(ranks, one, np.int8) for one in (_GROUP_MADE, _GROUP_NAMED))]
        + [np.full(number * ranks, one, np.int8) for one, _ in blocks]
    )
    time_ns = np.concatenate(
        [np.zeros(ranks, np.int64), np.ones(ranks, np.int64), *(times.ravel() for _, times in blocks)]
    )
    time_ns[2 * ranks :] += 2
    ranks_of = np.concatenate([once, once, *(rank.ravel() for _ in blocks)])
    steps_of = np.concatenate([once * 0, once * 0, *(step.ravel() for _ in blocks)])
    order = np.argsort(time_ns, kind="stable")
    kind, time_ns, ranks_of, steps_of = kind[order], time_ns[order], ranks_of[order], steps_of[order]
    has = lambda *kinds: np.isin(kind, kinds)  # noqa: E731
    nodes = [f"rank {one}" for one in range(ranks)]
    integers = lambda values, there, type_: pd.arrays.IntegerArray(values.astype(type_), ~there)  # noqa: E731
    return pd.DataFrame(
        {
            "time_ns": time_ns,
            "probe": pd.Categorical.from_codes(_PART_OF[kind], categories=list(_PARTS)),
            "function": pd.Categorical.from_codes(kind, categories=list(_FUNCTIONS)),
            "pid": (1000 + ranks_of).astype(np.int32),
            "tid": (1000 + ranks_of).astype(np.int32),
            "node": pd.Categorical.from_codes(ranks_of, categories=nodes),
            "host": pd.Categorical.from_codes(
                ranks_of // 8, categories=[f"host{one}" for one in range(-(-ranks // 8))]
            ),
            "rank": integers(ranks_of, has(*range(7)), np.int32),
            marks.STEP: integers(steps_of, has(_MARK), np.int64),
            torch.WORK: integers(0x5000 + 64 * (steps_of % 3), has(_MADE, _ENQUEUED, _WAIT, _FINISHED), np.uint64),
            torch.OPERATION: integers(np.ones(len(kind)), has(_MADE), np.uint8),
            torch.NUMBER: integers(steps_of, has(_MADE), np.uint64),
            torch.GROUP: integers(np.full(len(kind), 0x9000), has(_ENQUEUED, _GROUP_MADE), np.uint64),
            torch.GROUP_NAME: pd.Categorical.from_codes(np.where(has(_GROUP_NAMED), 0, -1), categories=["0"]),
        }
    )


def main(ranks: int, number: int) -> None:
    found = events(ranks, number)
    start = time.perf_counter()
    calls = collectives.collectives_of(found)
    table = lateness.by_step(steps.with_waiting(steps.steps_of(found), calls), calls).table
    by_step_s = time.perf_counter() - start
    start = time.perf_counter()
    names = found["node"].cat.categories
    late = lateness.by_collective(calls, Clocks(dict.fromkeys(names, 1000), {name: name for name in names})).table
    by_collective_s = time.perf_counter() - start
    reported = {
        "by_step_s": by_step_s,
        "by_collective_s": by_collective_s,
        "peak_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "late": [table["rank"].tolist()[0], late["rank"].tolist()[0]],
        "p50_ms": [table["p50_late_ns"].tolist()[0] / 1e6, late["p50_late_ns"].tolist()[0] / 1e6],
        "matched": [table["matched"].tolist()[0], late["matched"].tolist()[0]],
    }
    print(json.dumps(reported))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

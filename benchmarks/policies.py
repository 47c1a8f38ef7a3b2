"""Trying policies of a GPU's driver: hooks in compiled code, beside the kernel's test runs called from Python."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from accel_magic.kernel import bpf_syscalls
from accel_magic.policies import generators
from accel_magic.policies.model_engine import ModelMemory
from accel_magic.policies.policy import load
from benchmarks.arithmetic import Measured
from benchmarks.peers import require

if TYPE_CHECKING:
    from collections.abc import Iterator

POLICIES = ("lru", "lfu", "2q")
MOST_S_PER_ACCESS = 1 / 5e6
LEAST_SPEEDUP = 50.0
BLOCKS, CHUNKS = 4096, 2048
_RETURN_0 = bytes([0xB7, 0, 0, 0, 0, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0])


def trying(*, quick: bool) -> Iterator[Measured]:
    """Time of an access in the model, with the policy's hook; and of the kernel running the shortest program once."""
    rounds, accesses, runs = (2, 300_000, 20_000) if quick else (7, 5_000_000, 300_000)
    accessed = generators.generate("zipf", accesses=accesses, blocks=BLOCKS).compact().accesses
    for name in POLICIES:
        model = ModelMemory(load(name), chunks=CHUNKS, blocks=BLOCKS)
        model.run(accessed.page[: accesses // 10])
        ours, theirs = [], []
        for _ in range(rounds):
            start = time.perf_counter()
            reported = model.run(accessed.page)
            ours.append((time.perf_counter() - start) / accesses)
            require(
                (reported["evicted"] >= 0).any(), f"{name} has evicted nothing of {BLOCKS} blocks for {CHUNKS} chunks"
            )
            theirs.append(_test_run(runs))
        peer = "BPF_PROG_TEST_RUN of an empty program from Python, once"
        what = f"an access in the model of a GPU's memory with the policy {name}, which hears of each"
        yield Measured(f"policy-{name}", what, "s", tuple(ours), peer, tuple(theirs), "speedup", LEAST_SPEEDUP)
        yield Measured(f"policy-{name}-time", what, "s", tuple(ours), bar=MOST_S_PER_ACCESS)


def _test_run(runs: int) -> float:
    program = bpf_syscalls.prog_load(bpf_syscalls.PROG_RAW_TRACEPOINT, _RETURN_0)
    try:
        start = time.perf_counter()
        for _ in range(runs):
            bpf_syscalls.prog_test_run(program)
        return (time.perf_counter() - start) / runs
    finally:
        os.close(program)

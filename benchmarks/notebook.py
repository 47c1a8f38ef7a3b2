"""Waiting times in a notebook: the first cell, later cells, the result, and a workload under the live display."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.arithmetic import Measured
from benchmarks.kernel import new_kernel
from benchmarks.peers import require

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.kernel import Kernel

PROBES = "tracepoint:syscalls:sys_enter_ioctl uprobe:libc:malloc"
FIRST = f"%%ktrace {PROBES} -o t\nimport time; first = time.time()\nheld = bytearray(1 << 20)\nlast = time.time()\n"
TRACED = "assert t.hits > 0 and len(t.counts) == 2, t; del t"
EVENTS = """%%ktrace tracepoint:syscalls:sys_enter_getppid -o t
import os, time
first = time.time()
for _ in range({calls}): os.getppid()
last = time.time()
"""
FRAME = "asked = time.time(); len(t.events); taken = time.time() - asked"
BUSY = """%%ktrace tracepoint:syscalls:sys_enter_getppid --{live}
import os, time
first = time.perf_counter()
total = 0
for number in range({steps}):
    total += number * number % 7
taken = time.perf_counter() - first;
"""


def cells(*, quick: bool) -> Iterator[Measured]:
    """Time before the user's first line, and from the last line to the result; each round in a new kernel."""
    rounds, repeats, calls = (2, 2, 200_000) if quick else (5, 4, 1_000_000)
    loaded, before, repeated, after, after_first, frame = [], [], [], [], [], []
    for _ in range(rounds):
        with new_kernel() as kernel:
            load = kernel.run("%load_ext accel_magic")
            first = kernel.run(FIRST, "first", "last")
            kernel.run(TRACED)
            loaded.append(first.values["first"] - load.sent)
            before.append(first.values["first"] - first.sent)
            for _ in range(repeats):
                again = kernel.run(FIRST, "first", "last")
                kernel.run(TRACED)
                repeated.append((again.values["first"] - again.sent) * 1e3)
            after.append(_end_to_result(kernel, calls))
            frame.append(kernel.run(FRAME, "taken").values["taken"])
        with new_kernel() as kernel:
            kernel.run("%load_ext accel_magic")
            after_first.append(_end_to_result(kernel, calls))
    what = "first cell in a new kernel, request to the user's first line"
    yield Measured("first-cell", what, "s", tuple(before), bar=1.2, note="right after %load_ext")
    yield Measured("first-cell-load", f"{what}, with %load_ext", "s", tuple(loaded))
    yield Measured("repeated-cell", "repeated cell, request to the user's first line", "ms", tuple(repeated), bar=80)
    size = f"{calls / 1e6:g} M events"
    what = f"end of the cell to result, {size}"
    yield Measured("result", what, "s", tuple(after), bar=0.5)
    yield Measured("result-first", f"{what}, first cell of a kernel (sends BokehJS)", "s", tuple(after_first), bar=0.5)
    yield Measured("frame", f"first access to `.events` of that result, {size}", "s", tuple(frame))


def _end_to_result(kernel: Kernel, calls: int) -> float:
    reply = kernel.run(EVENTS.format(calls=calls), "last")
    kernel.run(f"assert {calls} <= t.hits == t.recorded + t.lost, (t.hits, t.recorded, t.lost)")
    return float(reply.result - reply.values["last"])


def live(*, quick: bool) -> Iterator[Measured]:
    """A Python loop that never releases the GIL by itself, with and without the live display."""
    steps, rounds = (2_000_000, 3) if quick else (15_000_000, 9)
    ours, theirs = [], []
    with new_kernel() as kernel:
        kernel.run("%load_ext accel_magic")
        kernel.run(BUSY.format(live="live", steps=1000))
        for turn in range(rounds):
            order = ("live", "no-live") if turn % 2 else ("no-live", "live")
            replies = {mode: kernel.run(BUSY.format(live=mode, steps=steps), "taken") for mode in order}
            shown = {mode: reply.updates for mode, reply in replies.items()}
            require(shown["live"] and not shown["no-live"], f"updates of the live display: {shown}")
            ours.append(replies["live"].values["taken"])
            theirs.append(replies["no-live"].values["taken"])
    yield Measured(
        "live",
        "a CPU-bound Python loop under the live display",
        "s",
        tuple(ours),
        "--no-live",
        tuple(theirs),
        "ratio",
        1.03,
    )

"""Cost of patched functions, compared with the kernel's uprobes and with untraced calls in the same run."""

from __future__ import annotations

import ctypes
import json
import statistics
import subprocess
import sys
import threading
import time
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import accel_magic
from benchmarks import peers, workloads
from benchmarks.arithmetic import Measured

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.results.trace_result import TraceResult

FUNCTIONS: Final = ("begins_with_lea", "begins_with_mov")
WAYS: Final = {
    "counted": ("uprobe", "count", 5),
    "measured": ("latency:uprobe", "count", 40),
    "measured and recorded": ("latency:uprobe", "events", 50),
}
"""What is done at a hit: the probe, the mode, and the bar in ns."""
_OF_UPROBE: Final = 1 / 150
_CHUNK: Final = 300
HITS: Final = """
import json, sys
from benchmarks import patching
print(json.dumps(patching.measure_hits(sys.argv[1])))
"""
_RATE: Final = 10e6
_ROOT: Final = Path(__file__).parents[1]
_PRESENT: Final = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
if sys.argv[2] == "present":
    import accel_magic
    with accel_magic.trace(f"uprobe:{sys.argv[1]}:begins_with_lea", uprobes="patched", mode="count") as t:
        library.begins_with_lea(1, 2)
    assert t.result.hits == 1, t.result.hits
library.least.restype = ctypes.c_long
library.least.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_long]
place = ctypes.cast(library.begins_with_lea, ctypes.c_void_p)
for line in sys.stdin:
    print(library.least(place, 20000, 300) / 1000, flush=True)
"""


def path() -> Path:
    """Where the functions are compiled to."""
    return workloads.folder() / "libpatched_calls.so"


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL:
    """The functions, compiled and loaded."""
    source = Path(__file__).with_name("patched_calls.c")
    subprocess.run(["cc", "-O2", "-fcf-protection=none", "-fPIC", "-shared", "-o", path(), source], check=True)
    found = ctypes.CDLL(str(path()))
    found.least.restype = found.at_rate.restype = ctypes.c_long
    found.least.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_long]
    found.at_rate.argtypes = [ctypes.c_void_p, ctypes.c_double, ctypes.c_double]
    return found


def _place(function: str) -> ctypes.c_void_p:
    return ctypes.cast(getattr(library(), function), ctypes.c_void_p)


def _least(function: str, chunks: int) -> float:
    """The least time of a call, ns."""
    found: int = library().least(_place(function), chunks, _CHUNK)
    return found / 1000


def _traced(function: str, probe: str, mode: str, way: str, chunks: int) -> float:
    """The least time of a call that is traced, ns. Raises PeerError if it was not, or not every call."""
    spec = f"{probe}:{path()}:{function}"
    with accel_magic.trace(spec, mode=mode, uprobes=way, max_events=100_000_000) as t:
        found = _least(function, chunks)
    result: TraceResult = t.result
    peers.require(result.hits == chunks * _CHUNK, f"{result.hits} of {chunks * _CHUNK} calls were counted")
    expected = "patched" if way == "patched" else "breakpoint"
    peers.require(result.probes["way"].tolist() == [expected], f"the function was not {expected}")
    if mode == "events":
        peers.require(result.recorded + result.lost == result.hits, "some calls are neither recorded nor lost")
    return found


def patched(*, quick: bool) -> Iterator[Measured]:
    """Hits of two functions, allocations of Python, attaching, losses, and a process in which nothing is traced."""
    rounds = 2 if quick else 5
    for function in FUNCTIONS:
        yield from _hits(function, rounds)
    yield from _allocations(rounds, 100_000 if quick else 1_000_000)
    yield from _attaching(rounds)
    yield from _losses(1 if quick else 10)
    yield from _present(rounds)


def _hits(function: str, rounds: int) -> Iterator[Measured]:
    """Each round in a process of its own: where its stack and memory are makes a difference of 15 ns."""
    command = [sys.executable, "-c", HITS, function]
    told = [
        json.loads(subprocess.run(command, cwd=_ROOT, check=True, capture_output=True, text=True).stdout)
        for _ in range(rounds)
    ]
    for at, (what, (_, _, bar)) in enumerate(WAYS.items()):
        ours, theirs = (tuple(one[way][at] for one in told) for way in ("patched", "kernel"))
        key, text = f"patched-{what.split()[-1]}-{function[12:]}", f"cost of a call that is {what}, {function}"
        yield Measured(key, text, "ns", ours, bar=bar)
        yield Measured(f"{key}-uprobe", text, "ns", ours, "uprobe", theirs, "ratio", _OF_UPROBE)


def measure_hits(function: str) -> dict[str, list[float]]:
    """Cost of a call in this process, ns, in the order of `WAYS`, patched and by the kernel."""
    plain = _least(function, 2000)
    return {
        way: [_traced(function, probe, mode, way, chunks) - plain for probe, mode, _ in WAYS.values()]
        for way, chunks in (("patched", 300), ("kernel", 20))
    }


class _Thing:
    """An object of a Python program."""

    def __init__(self, at: int) -> None:
        self.text = "x" * (600 + at % 50)


def _make(count: int) -> float:
    start = time.perf_counter()
    for at in range(count):
        _Thing(at)
    return time.perf_counter() - start


def _allocations(rounds: int, count: int) -> Iterator[Measured]:
    untraced, patched_s, kernel_s = [], [], []
    for _ in range(rounds):
        untraced.append(min(_make(count) for _ in range(3)) * 1e9 / count)
        for times, way, objects in ((patched_s, "patched", count), (kernel_s, "kernel", count // 50)):
            least = []
            for _ in range(3):
                with accel_magic.trace("latency:uprobe:libc:malloc", uprobes=way, max_events=100_000_000) as t:
                    least.append(_make(objects) * 1e9 / objects)
                peers.require(t.result.hits >= objects, f"{t.result.hits} of {objects} allocations were counted")
            times.append(min(least))
    what = "a Python loop that makes objects, under latency:uprobe:libc:malloc, recorded"
    yield Measured("patched-malloc", what, "ns", tuple(patched_s), "untraced", tuple(untraced), "ratio", 1.5)
    yield Measured("patched-malloc-uprobe", what, "ns", tuple(patched_s), "uprobes", tuple(kernel_s), "ratio")


def _attaching(rounds: int) -> Iterator[Measured]:
    attach, detach, count = [], [], 0
    for at in range(rounds + 1):
        trace = accel_magic.trace("latency:uprobe:libstdc++.so.6:_ZNSt*", mode="count", uprobes="patched")
        start = time.perf_counter()
        trace.__enter__()
        entered = time.perf_counter()
        trace.__exit__(None, None, None)
        if at:  # the first one reads the library's symbols
            attach.append(entered - start)
            detach.append(time.perf_counter() - entered)
        count = int((trace.result.probes["way"] == "patched").sum())
    peers.require(count >= 1000, f"only {count} functions were patched")
    per_1000 = 1000 / count
    what = f"{count:,} functions of libstdc++, per 1,000"
    yield Measured("patched-attach", f"attaching to {what}", "s", tuple(one * per_1000 for one in attach), bar=0.3)
    yield Measured("patched-detach", f"detaching from {what}", "s", tuple(one * per_1000 for one in detach), bar=0.05)


def _losses(seconds: float) -> Iterator[Measured]:
    """Events faster than they can be read, while another thread of the notebook works."""
    alone, _ = _beside_calls(seconds)
    spec = f"latency:uprobe:{path()}:{FUNCTIONS[0]}"
    for key, about, options, bar in (
        ("patched-other-work", "recorded until the default limit", {}, 1.1),
        ("patched-other-work-all", "all recorded or counted as lost", {"mode": "events"}, None),
    ):
        with accel_magic.trace(spec, uprobes="patched", **options) as t:
            traced, calls = _beside_calls(seconds)
        result: TraceResult = t.result
        peers.require(result.hits == calls, f"{result.hits} of {calls} calls were counted")
        if options:
            recorded = result.recorded + result.lost
            peers.require(recorded == calls, f"{recorded} of {calls} events were recorded or lost")
        peers.require(calls > 0.5 * _RATE * seconds, f"only {calls / seconds / 1e6:.1f} M calls/s")
        what = f"another thread's work beside {calls / seconds / 1e6:.1f} M measured calls/s, {about}"
        lost = (100 * result.lost / calls,)
        yield Measured(key, what, "x", (alone / traced,), note="untraced / traced", bar=bar, lost=lost)


def _beside_calls(seconds: float) -> tuple[float, int]:
    """Turns of a loop in this thread while another one makes calls, and the number of these."""
    calls: list[int] = []
    place = _place(FUNCTIONS[0])
    thread = threading.Thread(target=lambda: calls.append(library().at_rate(place, _RATE, seconds)), daemon=True)
    thread.start()
    stop, turns = time.perf_counter() + seconds, 0
    while time.perf_counter() < stop:
        sum(range(200))
        turns += 1
    thread.join()
    return turns, calls[0]


def _present(rounds: int) -> Iterator[Measured]:
    """A process that has traced before, and one that has not."""
    library()
    times: dict[str, list[float]] = {"alone": [], "present": []}
    with _python("alone") as alone, _python("present") as present:
        for _ in range(2 * rounds):
            for how, process in (("alone", alone), ("present", present)):
                if process.stdin is None or process.stdout is None:
                    raise RuntimeError("the process was started without pipes")
                process.stdin.write("\n")
                process.stdin.flush()
                times[how].append(float(process.stdout.readline()))
        for process in (alone, present):
            if process.stdin is not None:
                process.stdin.close()
            peers.require(process.wait() == 0, "a process that is measured has failed")
    least = {how: statistics.quantiles(values, n=4)[0] for how, values in times.items()}
    what = f"a call of a function that was patched before, nothing traced ({least['alone']:.2f} ns)"
    yield Measured(
        "patched-off", what, "ns", tuple(times["present"]), "never patched", tuple(times["alone"]), "ratio", 1.02
    )


def _python(how: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _PRESENT, str(path()), how]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

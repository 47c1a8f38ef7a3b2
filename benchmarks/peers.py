"""Run the loop under each tool: ours, bpftrace, BCC. Each call attaches, runs the loop once and detaches."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel_magic.api.tracing import trace
from accel_magic.kernel import bpf_syscalls
from accel_magic.kernel.bcc import compiler
from accel_magic.kernel.bcc.bcc_location import find_bcc
from benchmarks import program_time, workloads

if TYPE_CHECKING:
    from accel_magic.results.trace_result import TraceResult
    from benchmarks.workloads import Run, What

_SCRIPT = Path(__file__).with_name("bcc_peer.py")
_RETURN_0 = bytes([0xB7, 0, 0, 0, 0, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0])
TRACEPOINT = "tracepoint:syscalls:sys_enter_getppid"
_EMPTY, _TRIED = "bench_empty", 1000


class PeerError(Exception):
    """A tool did not do its work, so its measurement would be meaningless."""


def require(done: object, failure: str) -> None:
    """Check that what a row measures has happened. Raises PeerError."""
    if not done:
        raise PeerError(failure)


@dataclass(frozen=True)
class Traced:
    """One run under a tool: the loop's measurement, the number of hits (or events) seen, when the last one arrived."""

    run: Run
    seen: int
    end_ns: int = 0
    consume_ns: int = 0


def uprobe() -> str:
    """Probe of the traced function, for us and for bpftrace."""
    return f"uprobe:{workloads.program()}:traced_function"


def ours(
    probe: str, what: What, calls: int, chunk: int = workloads.CHUNK, *, losses: bool = False, **options: Any
) -> tuple[Run, TraceResult]:
    """Trace the loop with `accel_magic.trace`; `losses` may be what the row reports, and are errors otherwise."""
    with trace(probe, **options) as block:
        run = workloads.run(what, calls, chunk)
    check(block.result, calls, losses=losses)
    return run, block.result


def check(result: TraceResult, calls: int, *, losses: bool = False) -> None:
    """Check that a trace counted, timed and recorded each call, with the stacks that it was asked for.

    Raises:
        PeerError: It did not.

    """
    plan = result.recording.plan
    require(result.hits == calls, f"accel_magic counted {result.hits} hits of {calls}")
    require(losses or result.lost == 0, f"accel_magic lost {result.lost} events of {calls}")
    if plan.latency_points:
        timed = int(result.recording.histograms.counts.sum())
        require(timed == calls, f"accel_magic timed {timed} calls of {calls}")
    if plan.records_events:
        seen = result.recorded + result.lost
        require(seen == calls, f"accel_magic recorded or lost {seen} events of {calls}")
    if plan.stacks:
        seen = with_stack(result)
        require(seen == result.recorded, f"{seen} events of {result.recorded} have a stack")


def with_stack(result: TraceResult) -> int:
    """Number of events with a stack that has frames."""
    stacks = result.stacks
    there = stacks.loc[stacks["frames"].map(len) > 0, "stack"]
    return int(result.events["stack"].isin(there).sum())


def empty_program(what: What, calls: int) -> Run:
    """Run the loop under an empty program on the raw tracepoint of all system calls.

    This is the minimum cost of any tool on this tracepoint: calling a program and returning.
    """
    program = bpf_syscalls.prog_load(bpf_syscalls.PROG_RAW_TRACEPOINT, _RETURN_0, name=_EMPTY)
    link = bpf_syscalls.link_raw_tracepoint(program, "sys_enter")
    try:
        with program_time.measured():
            workloads.run(what, _TRIED)
            ran = program_time.runs(_EMPTY)
        require(ran >= _TRIED, f"the empty program ran {ran} times in {_TRIED} system calls")
        return workloads.run(what, calls)
    finally:
        os.close(link)
        os.close(program)


def bpftrace_version() -> str:
    """Version of the installed bpftrace. Raises PeerError if it is not installed."""
    if shutil.which("bpftrace") is None:
        raise PeerError("bpftrace is not installed: apt install bpftrace")
    return subprocess.run(["bpftrace", "--version"], capture_output=True, text=True, check=True).stdout.strip()


def bpftrace_count(probe: str, what: What, calls: int, chunk: int = workloads.CHUNK) -> Traced:
    """Run the loop under `PROBE { @[probe] = count(); }`."""
    output = _bpftrace(f"{probe} {{ @[probe] = count(); }}", what, calls, chunk)
    seen = int((re.search(r"\]: (\d+)", output) or _missing("bpftrace counted nothing"))[1])
    require(seen >= calls, f"bpftrace counted {seen} hits of {calls}")
    return Traced(workloads.read(calls, chunk), seen)


def bpftrace_printf(what: What, calls: int, chunk: int = workloads.CHUNK) -> Traced:
    """Print one line per hit to a file, with the same columns as our events; `seen` is the number of lines."""
    program = f'{TRACEPOINT} {{ printf("%llu %d %d %d %s\\n", nsecs, pid, tid, cpu, comm); }}'
    output = _bpftrace(program, what, calls, chunk)
    return Traced(workloads.read(calls, chunk), len(re.findall(r"^\d+ \d+ \d+ \d+ loop$", output, re.MULTILINE)))


def _bpftrace(program: str, what: What, calls: int, chunk: int) -> str:
    output = workloads.folder() / "bpftrace"
    # With -c, bpftrace starts the loop when everything is attached, and ends with it.
    loop = " ".join(workloads.command(what, calls, chunk))
    done = subprocess.run(
        ["bpftrace", "-o", str(output), "-c", loop, "-e", program], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise PeerError(f"bpftrace failed: {done.stderr.strip()}")
    return output.read_text(encoding="utf-8", errors="replace")


def bcc(mode: str, what: What, calls: int, chunk: int = workloads.CHUNK) -> Traced:
    """Run the loop under a mode of `bcc_peer.py`."""
    words = [str(find_bcc().interpreter), "-s", str(_SCRIPT), mode]
    if mode == "uprobe":
        words += [str(workloads.program()), "traced_function"]
    headers = str(Path(compiler.__file__).with_name("headers"))
    with subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "BCC_KERNEL_SOURCE": headers},
    ) as peer:
        assert peer.stdin is not None
        assert peer.stdout is not None
        if peer.stdout.readline().strip() != "ready":
            raise PeerError("BCC's Python did not attach")
        run = workloads.run(what, calls, chunk)
        peer.stdin.write(f"{calls}\n")
        peer.stdin.flush()
        answer = json.loads(peer.stdout.readline() or "{}")
    seen = answer.get("hits", answer.get("events", 0))
    require(mode == "events" or seen >= calls, f"BCC counted {seen} hits of {calls}")
    return Traced(run, seen, answer.get("end_ns", 0), answer.get("consume_ns", 0))


def _missing(message: str) -> Any:
    raise PeerError(message)

"""The peer that uses BCC as in its documentation. Runs with the system's Python: `bcc_peer.py MODE [LIBRARY SYMBOL]`.

Modes: `count`: a per-CPU counter on a tracepoint; `uprobe`: the same on a function; `events`: a ring buffer whose
callback appends a tuple to a list while the loop runs; `filled`: the same, but consumed after the loop has ended.

It prints `ready` when attached, reads a line with the number of calls after the loop has ended, and prints JSON: `hits`
or `events` received, and for ring buffers the CLOCK_MONOTONIC ns at which the last event arrived (`end_ns`) and the
duration of consuming (`consume_ns`).
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from typing import Any

RING_PAGES = 16384  # 64 MiB, the default of %%ktrace
IDLE_MS = 10
GIVE_UP_S = 0.5

COUNT_BODY = """
BPF_PERCPU_ARRAY(hits, u64, 1);
static inline int hit(void) { int zero = 0; u64 *n = hits.lookup(&zero); if (n) (*n)++; return 0; }
"""
COUNT = COUNT_BODY + "TRACEPOINT_PROBE(syscalls, sys_enter_getppid) { return hit(); }\n"
UPROBE = COUNT_BODY + "int on_call(void *ctx) { return hit(); }\n"
EVENTS = """
struct event { u64 time; u32 pid; u32 tid; u32 cpu; char comm[16]; };
BPF_RINGBUF_OUTPUT(events, %d);
TRACEPOINT_PROBE(syscalls, sys_enter_getppid) {
    struct event e = {};
    u64 id = bpf_get_current_pid_tgid();
    e.time = bpf_ktime_get_ns();
    e.pid = id >> 32;
    e.tid = id;
    e.cpu = bpf_get_smp_processor_id();
    bpf_get_current_comm(e.comm, sizeof(e.comm));
    events.ringbuf_output(&e, sizeof(e), 0);
    return 0;
}
"""


def wait() -> int:
    """Report that everything is attached and wait for the number of calls."""
    print("ready", flush=True)
    return int(sys.stdin.readline())


def counted(program: Any) -> dict[str, int]:
    """Count until the loop has ended."""
    wait()
    return {"hits": int(sum(program["hits"].values()[0]))}


def received(program: Any, *, filled: bool) -> dict[str, int]:
    """Receive events while the loop runs, or with `filled` all at once afterwards."""
    rows: list[tuple[int, int, int, int, bytes]] = []
    ring = program["events"]

    def callback(_context: Any, data: Any, _size: int) -> None:
        event = ring.event(data)
        rows.append((event.time, event.pid, event.tid, event.cpu, event.comm))

    ring.open_ring_buffer(callback)
    if filled:
        wait()
        start = time.monotonic_ns()
        program.ring_buffer_consume()
        end = time.monotonic_ns()
        return {"events": len(rows), "end_ns": end, "consume_ns": end - start}
    print("ready", flush=True)
    expected, last = -1, time.monotonic_ns()
    while expected < 0 or (len(rows) < expected and time.monotonic_ns() - last < GIVE_UP_S * 1e9):
        before = len(rows)
        program.ring_buffer_poll(IDLE_MS)
        if len(rows) > before:
            last = time.monotonic_ns()
        if expected < 0 and select.select([sys.stdin], [], [], 0)[0]:
            expected = int(sys.stdin.readline())
    return {"events": len(rows), "end_ns": last, "consume_ns": 0}


def main() -> None:
    """Attach, wait, report."""
    from bcc import BPF

    mode = sys.argv[1]
    # Discard the compiler's warnings on stderr; the report goes to stdout.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    if mode == "count":
        answer = counted(BPF(text=COUNT))
    elif mode == "uprobe":
        program = BPF(text=UPROBE)
        program.attach_uprobe(name=sys.argv[2], sym=sys.argv[3], fn_name="on_call")
        answer = counted(program)
    else:
        answer = received(BPF(text=EVENTS % RING_PAGES), filled=mode == "filled")
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

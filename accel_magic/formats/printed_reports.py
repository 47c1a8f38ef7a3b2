"""Text that profilers and tracers print for people: recognized to name it and what can be opened instead."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class PrintedReport:
    """A tool's output that has no events or stacks to read.

    Attributes:
        what: The tool's output, in words.
        why: What it lacks.
        fix: What to open or run instead.

    """

    what: str
    why: str
    fix: str


_PERF: Final = "convert the samples that perf recorded (perf script -i perf.data > perf.txt) and open perf.txt"
_SCHED: Final = "convert the events that perf recorded (perf script -i perf.data > perf.txt) and open perf.txt"
_PROFILE: Final = (
    "profile with stacks: %%flame over the cell that runs it, or `perf record -g -- COMMAND; perf script > perf.txt`, "
    "and open perf.txt"
)
_CALLS: Final = "trace the calls: accel-magic trace 'latency:tracepoint:syscalls:sys_enter_*' -- COMMAND"
_TOTALS: Final = "it has totals, without single events or stacks"

_RECORD: Final = rb" *(?:\d+ +)?(?:[\d:]+(?:\.\d+)? +)?"
_CALL: Final = _RECORD + rb"\w+\(.*\) += (?:-?\d+|0x[0-9a-f]+|\?).*\n"
_REPORTS: Final = (
    (rb"(?s)#.*?\n# Samples: \S+ +of events? '", PrintedReport("perf report", _TOTALS, _PERF)),
    (rb" Percent \|\tSource code & Disassembly of ", PrintedReport("perf annotate", _TOTALS, _PERF)),
    (rb'(?s)\s*\{\s*"linux-perf-json-version"', PrintedReport("perf data convert", "its JSON is not read", _PERF)),
    (rb"(?s).{0,200}?\n Performance counter stats for ", PrintedReport("perf stat", _TOTALS, _PROFILE)),
    (rb"\s*-+\s*\n\s*Task +\| +Runtime ms", PrintedReport("perf sched latency", _TOTALS, _SCHED)),
    (rb" +time +cpu +task name +wait time", PrintedReport("perf sched timehist", "its waits are not read", _SCHED)),
    (rb"\s*Summary of events:\n", PrintedReport("perf trace", _TOTALS, _CALLS)),
    (
        rb" +(?:\d+\.\d+|\?) \( *(?:\d+\.\d+ ms|)? *\): .*\)  ",
        PrintedReport("perf trace", "its text is not read", _CALLS),
    ),
    (rb"% time +seconds +usecs/call +calls ", PrintedReport("strace", _TOTALS, _CALLS)),
    (
        _CALL,
        PrintedReport("strace or ltrace", "its text is not read", _CALLS),
    ),
    (rb"# callgrind format\n", PrintedReport("callgrind", "it counts instructions, without stacks", _PROFILE)),
    (rb"desc:.*\ncmd:.*\ntime_unit:", PrintedReport("massif", "it measures memory, not time or events", _PROFILE)),
    (rb"Flat profile:\n\nEach sample counts as ", PrintedReport("gprof", _TOTALS, _PROFILE)),
)


def recognise(head: bytes) -> PrintedReport | None:
    """Recognize the beginning of a tool's report; None if it is none of these."""
    return next((report for pattern, report in _REPORTS if re.match(pattern, head)), None)

"""The `%%ktrace` line: its options, and how a line becomes values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accel_magic.errors import ProbeError
from accel_magic.kernel.stack_choice import AUTO, KINDS
from accel_magic.magics import line as lines
from accel_magic.magics.line import Common, Parser, positive

EPILOG = """\
probes
  MODULE:GLOB                      kernel functions of a module, e.g. intel_vpu:ivpu_*
  kprobe:[MODULE:]GLOB             kernel functions at entry (kretprobe: at return)
  tracepoint:CATEGORY:GLOB         tracepoints, with their fields as columns (short: t:)
  uprobe:LIB:GLOB                  functions of a library or program (uretprobe: at return)
  usdt:LIB:PROVIDER:NAME           static probes
  profile:hz:RATE                  samples of what runs, RATE times a second on each busy CPU
  offcpu[:us:SHORTEST]             waits of threads: how long, and for what
  latency:SPEC                     from entry to return of each matched function
  !SPEC                            leave out what matches

example
  %%ktrace tracepoint:syscalls:sys_enter_ioctl latency:uprobe:libc:malloc -o t
"""


def parser() -> Parser:
    """All options of `%%ktrace`. Options left out are None: defaults come from `%config KTrace`."""
    result = lines.new_parser(
        "ktrace",
        "PROBE [PROBE ...]",
        "Trace what the cell does, with live counters; returns a TraceResult.",
        EPILOG,
    )
    add = result.add_argument
    add("probes", nargs="*", metavar="PROBE", help="what to trace, see below")
    lines.add_result_options(result)
    add("--mode", choices=("auto", "count", "events"), help="auto: events up to --max-events, then only counts")
    add("--scope", metavar="self|all|PID", help="whose hits count: this notebook's processes, everybody's, or one's")
    add("--filter", metavar="EXPR", help="only hits for which this holds, e.g. 'arg0 > 4096 and pid == 12'")
    add("--args", metavar="COLUMNS", help="extra columns, e.g. 'size=arg1:u64,path=arg0:str'")
    add("--max-events", type=lines.count, metavar="N", help="record no more than N events; counting goes on")
    add("--duration", type=_seconds, metavar="S", help="stop tracing after S seconds (the cell runs on)")
    add("--buffer", type=_mebibytes, metavar="MIB", help="size of the ring buffers in MiB (64)")
    add("--stacks", nargs="?", metavar="KINDS", help="every event's stacks: kernel,user,python; alone: all there are")
    add("--program", metavar="FILE.bpf.c", help="trace with your own BCC program; its maps become DataFrames")
    lines.add_common_options(result, "show matched probes and the generated C; attach and run nothing")
    return result


def _seconds(text: str) -> float:
    return float(positive(text, float, "a positive number of seconds"))


def _mebibytes(text: str) -> float:
    return float(positive(text, float, "a positive number of MiB"))


def _with_kinds(words: list[str]) -> list[str]:
    """Join `--stacks` to its kinds, or to `auto`: without them the next word is a probe."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] == "--stacks":
            kinds = set(word.split(",")) <= set(KINDS)
            joined[-1:] = [f"--stacks={word}"] if kinds else [f"--stacks={AUTO}", word]
        else:
            joined.append(word)
    return [f"--stacks={AUTO}" if word == "--stacks" else word for word in joined]


OPTION_NAMES = lines.option_names(parser())


@dataclass(frozen=True)
class Line:
    """The parsed line. `given` are the trace options that were written, by the names of `accel_magic.api.Options`."""

    probes: tuple[str, ...]
    given: dict[str, Any]
    program: str | None
    common: Common


def parse(line: str) -> Line:
    """Parse the text after `%%ktrace`.

    Raises:
        ProbeError: An unknown option, a bad value, or options that do not go together.
        HelpRequested: `--help`.

    """
    values = parser().parse_intermixed_args(_with_kinds(lines.words_of("ktrace", line)))
    names = ("mode", "scope", "filter", "args", "max_events", "duration", "buffer", "stacks")
    given = lines.given_of(values, names)
    common = lines.common_of("ktrace", values, (values.probes, given, values.program))
    if common.replay is None and not values.probes and values.program is None:
        raise ProbeError("%%ktrace: no probe given", fix="e.g. %%ktrace tracepoint:syscalls:sys_enter_ioctl")
    return Line(probes=tuple(values.probes), given=given, program=values.program, common=common)

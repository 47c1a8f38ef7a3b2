"""The options of traces, defined once: for the lines of magics and for the command line. Needs no notebook."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from accel_magic.errors import ProbeError
from accel_magic.kernel.stacks.choice import AUTO, KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PROBES: Final = """\
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
"""
"""What can be traced, for the end of a help text."""
TRACE_OPTIONS: Final = ("mode", "scope", "filter", "args", "max_events", "duration", "buffer", "stacks")
"""The options of a trace besides its probes, by the names of `accel_magic.api.trace.Options`."""


def add_trace_options(
    parser: argparse.ArgumentParser, *, traced: str, own: str, names: Sequence[str] = TRACE_OPTIONS
) -> None:
    """Add the options of a trace; those left out on a line are None.

    Args:
        parser: To which they are added.
        traced: What is traced, for the help texts, e.g. `the cell`.
        own: Whose hits the scope `self` counts, e.g. `this notebook's processes`.
        names: Which of them.

    """
    table: dict[str, dict[str, Any]] = {
        "mode": {"choices": ("auto", "count", "events"), "help": "auto: events up to --max-events, then only counts"},
        "scope": {"metavar": "self|all|PID", "help": f"whose hits count: {own}, everybody's, or one process's"},
        "filter": {"metavar": "EXPR", "help": "only hits for which this holds, e.g. 'arg0 > 4096 and pid == 12'"},
        "args": {"metavar": "COLUMNS", "help": "extra columns, e.g. 'size=arg1:u64,path=arg0:str'"},
        "max_events": {"type": count, "metavar": "N", "help": "record no more than N events; counting goes on"},
        "duration": {"type": seconds, "metavar": "S", "help": f"stop tracing after S seconds ({traced} runs on)"},
        "buffer": {"type": mebibytes, "metavar": "MIB", "help": "size of the ring buffers in MiB (64)"},
        "stacks": {
            "nargs": "?",
            "metavar": "KINDS",
            "help": "every event's stacks: kernel,user,python; alone: all there are",
        },
    }
    for name in names:
        parser.add_argument(f"--{name.replace('_', '-')}", dest=name, **table[name])


def add_program_option(parser: argparse.ArgumentParser) -> None:
    """Add `--program`."""
    parser.add_argument(
        "--program", metavar="FILE.bpf.c", help="trace with your own BCC program; its maps become DataFrames"
    )


def add_common_options(parser: argparse.ArgumentParser, dry_run: str, traced: str = "the cell") -> None:
    """Add how a trace is shown, saved, tried and played back.

    Args:
        parser: To which they are added.
        dry_run: What `--dry-run` shows, for its help text.
        traced: What is traced, for the help texts.

    """
    add = parser.add_argument
    add("--live", action=argparse.BooleanOptionalAction, default=None, help=f"show counters while {traced} runs")
    add("--save", metavar="FILE.parquet", help="write the result to a file; accel_magic.open reads it")
    add("--dry-run", action="store_true", help=dry_run)
    add("--replay", metavar="FILE.parquet", help="play a recording back instead of tracing")
    add("--speed", type=_speed, metavar="N", help="with --replay: N times the recorded pace (1)")
    add("--run", action="store_true", help=f"with --replay: run {traced} too")


@dataclass(frozen=True)
class Common:
    """The common options of a parsed line; `output` is a magic's `-o`."""

    output: str | None
    live: bool | None
    save: str | None
    dry_run: bool
    replay: str | None
    speed: float
    run: bool


def common_of(command: str, values: argparse.Namespace, tracing: Sequence[object]) -> Common:
    """Check the common options against each other and against `tracing`, what was asked of a trace.

    Args:
        command: How the user's line begins, e.g. `%%ktrace`.
        values: The parsed line.
        tracing: Probes and options that only a trace can have; empty ones were not given.

    Raises:
        ProbeError: Options that do not go together, or a bad name.

    """
    output = getattr(values, "output", None)
    if output is not None and not output.isidentifier():
        raise ProbeError(
            f"-o {output} is not a variable name", fix="use letters, digits and _", code="option.output-name"
        )
    if values.replay is None and (values.speed is not None or values.run):
        raise ProbeError(
            "--speed and --run belong to --replay", fix="add --replay FILE.parquet", code="option.needs-replay"
        )
    if values.replay is not None and (any(tracing) or values.save or values.dry_run):
        name = "[-o NAME] " if hasattr(values, "output") else ""
        raise ProbeError(
            "--replay takes no probes and no tracing options",
            why="a recording already holds what was traced",
            fix=f"{command} --replay FILE.parquet [--speed N] [--run] {name}[--no-live]",
            code="option.replay-traces-nothing",
        )
    return Common(
        output=output,
        live=values.live,
        save=values.save,
        dry_run=values.dry_run,
        replay=values.replay,
        speed=1.0 if values.speed is None else values.speed,
        run=values.run,
    )


def given_of(values: argparse.Namespace, names: Sequence[str] = TRACE_OPTIONS) -> dict[str, Any]:
    """Give those of the named options that were written."""
    return {name: getattr(values, name) for name in names if getattr(values, name) is not None}


def with_kinds(words: Sequence[str]) -> list[str]:
    """Join `--stacks` to its kinds, or to `auto`: without them the next word is a probe."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] == "--stacks":
            kinds = set(word.split(",")) <= set(KINDS)
            joined[-1:] = [f"--stacks={word}"] if kinds else [f"--stacks={AUTO}", word]
        else:
            joined.append(word)
    return [f"--stacks={AUTO}" if word == "--stacks" else word for word in joined]


def positive(text: str, convert: Callable[[str], float], what: str) -> Any:
    """Read a number from 0 (exclusive) to 1e15. Raises argparse.ArgumentTypeError, which the parser words."""
    try:
        value = convert(text)
    except ValueError:
        value = 0
    if not 0 < value < 1e15:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return value


def count(text: str) -> int:
    """Read how many."""
    return int(positive(text, int, "a positive whole number"))


def seconds(text: str) -> float:
    """Read a length of time."""
    return float(positive(text, float, "a positive number of seconds"))


def mebibytes(text: str) -> float:
    """Read a size of memory."""
    return float(positive(text, float, "a positive number of MiB"))


def _speed(text: str) -> float:
    return float(positive(text, float, "a positive factor"))

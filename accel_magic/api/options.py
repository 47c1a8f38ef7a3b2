"""The options of traces, defined once for the magics and the command line. Needs no notebook."""

from __future__ import annotations

import argparse
import itertools
import keyword
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from accel_magic.errors import ProbeError
from accel_magic.kernel.stacks.choice import AUTO, KINDS
from accel_magic.probes.filters import quoted
from accel_magic.probes.grammar import OPERATORS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PROBES: Final = """\
probes
  MODULE:GLOB                      kernel functions of a module, e.g. intel_vpu:ivpu_*
  kprobe:[MODULE:]GLOB             kernel functions at entry (kretprobe: at return)
  tracepoint:CATEGORY:GLOB         tracepoints, with their fields as columns (short: t:)
  uprobe:LIB:GLOB                  functions of a library or program (uretprobe: at return)
  usdt:LIB:PROVIDER:NAME           static probes
  profile:hz:RATE                  samples of running code, RATE per second on each busy CPU
  offcpu[:us:SHORTEST]             waits of threads: how long, and why
  itt:DOMAIN:TASK                  tasks of libraries with Intel's ITT API, e.g. itt:ov::op::cpu::details:*
  npu, drm, xe, cuda, openvino ... presets of drivers and libraries; NAME:PART is a part of one
  latency:SPEC                     time from entry to return of each matched function
  !SPEC                            exclude what matches
"""
"""The kinds of probes, for the end of a help text."""
_TEXT: Final = re.compile(r"\b(comm) (==|!=) ([^\s\"']+)")
"""The only text that every probe has; a shell has removed the quotes."""
TRACE_OPTIONS: Final = ("mode", "scope", "filter", "args", "max_events", "duration", "buffer", "stacks")
"""The options of a trace besides its probes; fields of `accel_magic.api.trace.Options`."""
CLUSTER_OPTIONS: Final = ("on", "nodes", "require_all")
"""The options of a trace on the workers of a cluster: which cluster, which of its workers, and whether all must do."""


def add_trace_options(
    parser: argparse.ArgumentParser, *, traced: str, own: str, names: Sequence[str] = TRACE_OPTIONS
) -> None:
    """Add the options of a trace; an option that is not given is None.

    Args:
        parser: The parser to extend.
        traced: What is traced, for the help texts, e.g. `the cell`.
        own: Whose hits the scope `self` counts, e.g. `this notebook's processes`.
        names: The options to add.

    """
    table: dict[str, dict[str, Any]] = {
        "mode": {"choices": ("auto", "count", "events"), "help": "auto: events up to --max-events, then only counts"},
        "scope": {"metavar": "self|all|PID", "help": f"whose hits count: {own}, all processes, or one"},
        "filter": {"metavar": "EXPR", "help": "count only matching hits, e.g. 'arg0 > 4096 and pid == 12'"},
        "args": {"metavar": "COLUMNS", "help": "extra columns, e.g. 'size=arg1:u64,path=arg0:str'"},
        "max_events": {"type": count, "metavar": "N", "help": "record at most N events; counting continues"},
        "duration": {"type": seconds, "metavar": "S", "help": f"stop tracing after S seconds ({traced} continues)"},
        "buffer": {"type": mebibytes, "metavar": "MIB", "help": "size of the ring buffers in MiB (64)"},
        "stacks": {
            "nargs": "?",
            "metavar": "KINDS",
            "help": "record the stacks of each event: kernel,user,python (without KINDS: all available)",
        },
    }
    for name in names:
        parser.add_argument(f"--{name.replace('_', '-')}", dest=name, **table[name])


def add_program_option(parser: argparse.ArgumentParser) -> None:
    """Add `--program`."""
    parser.add_argument(
        "--program", metavar="FILE.bpf.c", help="trace with your own BCC program; its maps become DataFrames"
    )


def add_cluster_options(parser: argparse.ArgumentParser) -> None:
    """Add `--on`, `--nodes` and `--require-all`; an option that is not given is None."""
    add = parser.add_argument
    add(
        "--on",
        metavar="CLIENT",
        help="trace a cluster's workers: a variable with a Dask or ipyparallel client, or labs",
    )
    add("--nodes", metavar="GLOB", help="with --on: only workers whose name or host matches, e.g. 'gpu*' (*)")
    add(
        "--require-all",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="with --on: a worker that cannot be traced is an error",
    )


def add_common_options(parser: argparse.ArgumentParser, dry_run: str, traced: str = "the cell") -> None:
    """Add the options for showing, saving, dry runs and replay.

    Args:
        parser: The parser to extend.
        dry_run: What `--dry-run` shows, for its help text.
        traced: What is traced, for the help texts.

    """
    add = parser.add_argument
    add("--live", action=argparse.BooleanOptionalAction, default=None, help=f"show live counters while {traced} runs")
    add("--save", metavar="PATH", help="save the result, to FILE.parquet or as a folder; accel_magic.open reads it")
    add("--dry-run", action="store_true", help=dry_run)
    add("--replay", metavar="FILE.parquet", help="replay a recording instead of tracing")
    add("--speed", type=_speed, metavar="N", help="with --replay: N times the recorded speed (1)")
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


def check_output(name: str | None) -> None:
    """Require that the value of `-o`, if it was given, can be a variable. Raises ProbeError."""
    if name is not None and (not name.isidentifier() or keyword.iskeyword(name)):
        right = re.sub(r"\W", "_", name)
        raise ProbeError(
            f"-o {name} is not a variable name",
            why="it has letters, digits and _, does not begin with a digit, and is not a word of Python",
            fix=f"write -o {right if right.isidentifier() and right != name else f'_{right}'} instead of -o {name}",
            code="option.output-name",
        )


def _check_filter(given: str | None, probes: Sequence[str]) -> None:
    """Raise ProbeError if the words of a filter without quotes are among the probes."""
    at = next((at for at, word in enumerate(probes) if word in OPERATORS), None)
    if given is None or at is None:
        return
    words = list(itertools.takewhile(lambda word: ":" not in word, probes[at:]))
    whole = _TEXT.sub(r'\1 \2 "\3"', " ".join([given, *words]))
    raise ProbeError(
        f"the filter {given!r} is only the first word of one",
        why="a filter of several words needs quotes around it",
        fix=f"write --filter {quoted(whole)} instead of --filter {' '.join([given, *words])}",
        code="filter.invalid",
    )


def common_of(command: str, values: argparse.Namespace, tracing: Sequence[object]) -> Common:
    """Check the common options against each other and against the tracing options.

    Args:
        command: How the user's line begins, e.g. `%%ktrace`.
        values: The parsed line.
        tracing: Probes and options that are not allowed with `--replay`; empty ones were not given.

    Raises:
        ProbeError: Conflicting options, or a bad variable name.

    """
    output = getattr(values, "output", None)
    check_output(output)
    _check_filter(getattr(values, "filter", None), getattr(values, "probes", ()))
    if values.replay is None and (values.speed is not None or values.run):
        raise ProbeError("--speed and --run need --replay", fix="add --replay FILE.parquet", code="option.needs-replay")
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
    """Return the named options that were given."""
    return {name: getattr(values, name) for name in names if getattr(values, name) is not None}


def with_kinds(words: Sequence[str]) -> list[str]:
    """Join `--stacks` with its kinds, or with `auto` if the next word is not a list of kinds."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] == "--stacks":
            kinds = set(word.split(",")) <= set(KINDS)
            joined[-1:] = [f"--stacks={word}"] if kinds else [f"--stacks={AUTO}", word]
        else:
            joined.append(word)
    return [f"--stacks={AUTO}" if word == "--stacks" else word for word in joined]


def positive(text: str, convert: Callable[[str], float], what: str) -> Any:
    """Read a number above 0 and below 1e15. Raises argparse.ArgumentTypeError, which the parser reports."""
    try:
        value = convert(text)
    except ValueError:
        value = 0
    if not 0 < value < 1e15:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return value


def count(text: str) -> int:
    """Read a count."""
    return int(positive(text, int, "a positive whole number"))


def seconds(text: str) -> float:
    """Read a duration in seconds."""
    return float(positive(text, float, "a positive number of seconds"))


def mebibytes(text: str) -> float:
    """Read a memory size in MiB."""
    return float(positive(text, float, "a positive number of MiB"))


def _speed(text: str) -> float:
    return float(positive(text, float, "a positive factor"))

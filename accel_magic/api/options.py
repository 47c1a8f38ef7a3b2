"""The options that all magics and the command line share, and checks of whole lines. Needs no notebook."""

from __future__ import annotations

import itertools
import keyword
import re
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic.api.option_table import documented, given_of, option, positive
from accel_magic.errors import ProbeError
from accel_magic.kernel.stacks.stack_choice import AUTO, KINDS
from accel_magic.probes import presets
from accel_magic.probes.filters import quoted
from accel_magic.probes.grammar import OPERATORS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_PROBES: Final = """\
probes
  MODULE:GLOB                      kernel functions of a module, e.g. intel_vpu:ivpu_*
  kprobe:[MODULE:]GLOB             kernel functions at entry (kretprobe: at return)
  tracepoint:CATEGORY:GLOB         tracepoints, with their fields as columns (short: t:)
  uprobe:LIB:GLOB                  functions of a library or program (uretprobe: at return)
  usdt:LIB:PROVIDER:NAME           static probes
  profile:hz:RATE                  samples of running code, RATE per second on each busy CPU
  offcpu[:us:SHORTEST]             waits of threads: how long, and why
  itt:DOMAIN:TASK                  tasks of libraries with Intel's ITT API, e.g. itt:ov::op::cpu::details:*
  PRESET[:PART]                    functions of a driver or library, chosen for you, or a part of them:
{presets}
  latency:SPEC                     time from entry to return of each matched function
  !SPEC                            exclude what matches
"""
_PRESETS_COLUMN: Final = 35
DRY_RUN: Final = "show matched probes and the generated C"
"""What `--dry-run` does with a trace of probes."""
_TEXT: Final = re.compile(r"\b(comm) (==|!=) ([^\s\"']+)")
"""The only text that every probe has; a shell has removed the quotes."""


def probes_help() -> str:
    """Return the kinds of probes and the presets, for the end of a help text."""
    indent = " " * _PRESETS_COLUMN
    names = textwrap.fill(", ".join(presets.names()), 110, initial_indent=indent, subsequent_indent=indent)
    return _PROBES.format(presets=names)


def add_program_option(parser: argparse.ArgumentParser) -> None:
    """Add `--program`."""
    parser.add_argument(
        "--program", metavar="FILE.bpf.c", help="trace with your own BCC program; its maps become DataFrames"
    )


def _speed(text: str) -> float:
    return float(positive(text, float, "a positive factor"))


@documented
@dataclass(frozen=True)
class ClusterOptions:
    """Where a cell is traced, if not here."""

    on: str | None = option(
        None,
        "trace a cluster's workers: a variable with a Dask or ipyparallel client, or labs",
        "trace the workers of a cluster, through this variable or attribute: [cluster.md](cluster.md)",
        metavar="CLIENT",
        kinds=(str,),
        unset="this machine",
    )
    nodes: str | None = option(
        None,
        "with --on: only workers whose name or host matches, e.g. 'gpu*'",
        "with `--on`: only workers whose name or host matches",
        metavar="GLOB",
        kinds=(str,),
        unset="*",
    )
    require_all: bool | None = option(
        None,
        "with --on: a worker that cannot be traced is an error",
        "with `--on`: a worker that cannot be traced is an error, instead of being named in the result",
        kinds=(bool,),
    )


@documented
@dataclass(frozen=True)
class Common:
    """The options of all magics that trace a cell; on a command line without `output`."""

    output: str | None = option(
        None,
        "assign the result to this variable",
        "assign the result to this variable; `accel_magic.last` is always the newest result",
        flags="-o --output",
        metavar="NAME",
    )
    live: bool | None = option(
        None,
        "show live counters while {traced} runs",
        "counters while the cell runs",
        kinds=(bool,),
        unset="in a notebook",
    )
    save: str | None = option(
        None,
        "save the result, to FILE.parquet or as a folder; accel_magic.open reads it",
        "`FILE.parquet`: save the result; the path is checked before the cell runs. Any other path is a folder, to "
        "which events are written while the cell runs: [datasets.md](datasets.md)",
        metavar="PATH",
    )
    dry_run: bool = option(
        False,
        "{dry_run}; attach and run nothing",
        "show the matched probe points and the generated C; attach and run nothing",
        on_line={"action": "store_true"},
    )
    replay: str | None = option(
        None,
        "replay a recording instead of tracing",
        "play back a recording instead of tracing",
        metavar="FILE.parquet",
    )
    speed: float = option(
        1.0,
        "with --replay: N times the recorded speed",
        "with `--replay`: N times the recorded speed",
        metavar="N",
        convert=_speed,
    )
    run: bool = option(
        False, "with --replay: run {traced} too", "with `--replay`: also run the cell", on_line={"action": "store_true"}
    )


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
    _check_filter(getattr(values, "filter", None), getattr(values, "probes", None) or ())
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
    return Common(**given_of(values, Common))


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

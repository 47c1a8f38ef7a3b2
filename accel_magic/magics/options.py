"""The `%%ktrace` line: its options, and how a line becomes values."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import dataclass
from typing import Any, NoReturn

from accel_magic.errors import ProbeError

EPILOG = """\
probes
  MODULE:GLOB                      kernel functions of a module, e.g. intel_vpu:ivpu_*
  kprobe:[MODULE:]GLOB             kernel functions at entry (kretprobe: at return)
  tracepoint:CATEGORY:GLOB         tracepoints, with their fields as columns (short: t:)
  uprobe:LIB:GLOB                  functions of a library or program (uretprobe: at return)
  usdt:LIB:PROVIDER:NAME           static probes
  latency:SPEC                     from entry to return of each matched function
  !SPEC                            leave out what matches

example
  %%ktrace tracepoint:syscalls:sys_enter_ioctl latency:uprobe:libc:malloc -o t
"""


class HelpRequested(Exception):  # noqa: N818 - not an error
    """`--help` was given; the text is the argument."""


class _Parser(argparse.ArgumentParser):
    """Raises instead of leaving the interpreter."""

    def error(self, message: str) -> NoReturn:
        raise ProbeError(f"%%{self.prog}: {message}", fix=f"see %%{self.prog} --help")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:  # noqa: ARG002
        raise HelpRequested(message or "")

    def print_help(self, file: Any = None) -> None:  # noqa: ARG002
        raise HelpRequested(self.format_help())


def parser() -> argparse.ArgumentParser:
    """All options of `%%ktrace`. Options left out are None: defaults come from `%config KTrace`."""
    result = _Parser(
        prog="ktrace",
        usage="%%%%ktrace PROBE [PROBE ...] [options]",
        description="Trace what the cell does, with live counters; returns a TraceResult.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = result.add_argument
    add("probes", nargs="*", metavar="PROBE", help="what to trace, see below")
    add("-o", "--output", metavar="NAME", help="assign the result to this variable")
    add("--mode", choices=("auto", "count", "events"), help="auto: events up to --max-events, then only counts")
    add("--scope", metavar="self|all|PID", help="whose hits count: this notebook's processes, everybody's, or one's")
    add("--filter", metavar="EXPR", default="", help="only hits for which this holds, e.g. 'arg0 > 4096 and pid == 12'")
    add("--args", metavar="COLUMNS", default="", help="extra columns, e.g. 'size=arg1:u64,path=arg0:str'")
    add("--max-events", type=_count, metavar="N", help="record no more than N events; counting goes on")
    add("--duration", type=_seconds, metavar="S", help="stop tracing after S seconds (the cell runs on)")
    add("--buffer", type=_mebibytes, metavar="MIB", help="size of the ring buffers in MiB (64)")
    add("--live", action=argparse.BooleanOptionalAction, default=None, help="show counters while the cell runs")
    add("--save", metavar="FILE.parquet", help="write the result to a file; accel_magic.open reads it")
    add("--dry-run", action="store_true", help="show matched probes and the generated C; attach and run nothing")
    add("--program", metavar="FILE.bpf.c", help="trace with your own BCC program; its maps become DataFrames")
    add("--replay", metavar="FILE.parquet", help="play a recording back instead of tracing")
    add("--speed", type=_speed, metavar="N", help="with --replay: N times the recorded pace (1)")
    add("--run", action="store_true", help="with --replay: run the cell's code too")
    return result


def _number(text: str, convert: type[int | float], what: str) -> Any:
    try:
        value = convert(text)
    except ValueError:
        value = convert(0)
    if not 0 < value < 1e15:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return value


def _count(text: str) -> int:
    return int(_number(text, int, "a positive whole number"))


def _seconds(text: str) -> float:
    return float(_number(text, float, "a positive number of seconds"))


def _mebibytes(text: str) -> float:
    return float(_number(text, float, "a positive number of MiB"))


def _speed(text: str) -> float:
    return float(_number(text, float, "a positive factor"))


OPTION_NAMES = tuple(
    sorted(name for action in parser()._actions for name in action.option_strings if name.startswith("--"))  # noqa: SLF001
)


@dataclass(frozen=True)
class Line:
    """The parsed line. `given` are the trace options that were written, by the names of `accel_magic.api.Options`."""

    probes: tuple[str, ...]
    given: dict[str, Any]
    output: str | None
    live: bool | None
    save: str | None
    dry_run: bool
    program: str | None
    replay: str | None
    speed: float
    run: bool


def parse(line: str) -> Line:
    """Parse the text after `%%ktrace`.

    Raises:
        ProbeError: An unknown option, a bad value, or options that do not go together.
        HelpRequested: `--help`.

    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise ProbeError(f"%%ktrace: {error}", fix="close the quotes") from None
    values = parser().parse_intermixed_args(words)
    if values.output is not None and not values.output.isidentifier():
        raise ProbeError(f"-o {values.output} is not a variable name", fix="use letters, digits and _")
    if values.replay is None and (values.speed is not None or values.run):
        raise ProbeError("--speed and --run belong to --replay", fix="add --replay FILE.parquet")
    names = ("mode", "scope", "filter", "args", "max_events", "duration", "buffer")
    given = {name: getattr(values, name) for name in names if getattr(values, name) not in (None, "")}
    if values.replay is not None and (values.probes or given or values.program or values.save or values.dry_run):
        raise ProbeError(
            "--replay takes no probes and no tracing options",
            why="a recording already holds what was traced",
            fix="%%ktrace --replay FILE.parquet [--speed N] [--run] [-o NAME] [--no-live]",
        )
    if values.replay is None and not values.probes and values.program is None:
        raise ProbeError("%%ktrace: no probe given", fix="e.g. %%ktrace tracepoint:syscalls:sys_enter_ioctl")
    return Line(
        probes=tuple(values.probes),
        given=given,
        output=values.output,
        live=values.live,
        save=values.save,
        dry_run=values.dry_run,
        program=values.program,
        replay=values.replay,
        speed=1.0 if values.speed is None else values.speed,
        run=values.run,
    )

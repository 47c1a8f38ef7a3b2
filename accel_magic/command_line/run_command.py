"""`accel-magic run PROBE... --save DIR -- COMMAND`: trace each process of a job, around torchrun, srun or mpirun."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic import machine
from accel_magic.api import options
from accel_magic.api.option_table import add_options
from accel_magic.api.options import Common
from accel_magic.api.trace_options import Options
from accel_magic.command_line import trace_command
from accel_magic.command_line.exit_status import FAILED, print_error, say
from accel_magic.command_line.signals import HeldSignals
from accel_magic.errors import AccelMagicError, ProbeError

if TYPE_CHECKING:
    from accel_magic.command_line.exit_status import Commands

_NAME: Final = "accel-magic run"
_EXAMPLES: Final = """\
examples
  torchrun --nproc-per-node 4 --no-python accel-magic run latency:uprobe:libc:malloc --save DIR -- python3 train.py
  srun accel-magic run npu --save DIR -- python3 infer.py
  mpirun accel-magic run 'tracepoint:syscalls:sys_enter_*' --save DIR -- ./solver

accel_magic.open("DIR") gathers what all of them recorded.
"""
_START_FAILURES: Final = 126
"""Exit status if the command itself cannot be run, as shells have it."""


def add(commands: Commands) -> None:
    """Add the command's parser."""
    parser = commands.add_parser(
        "run",
        help="trace one process of a job on many machines",
        usage="%(prog)s [options] PROBE [PROBE ...] --save DIR -- COMMAND [ARGUMENT ...]",
        description="Traces COMMAND like `accel-magic trace`, and writes what it recorded into DIR, at a place that "
        "rank and host determine. If this machine cannot be traced, the command runs all the same, and the reason is "
        "written there. Exits with the command's status.",
        epilog=f"{options.probes_help()}\n{_EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("probes", nargs="*", metavar="PROBE", help="what to trace, see below")
    add_options(parser, Options, {"traced": "the command", "own": "the command and its children"})
    parser.add_argument("--save", metavar="DIR", help="folder that all processes of the job can write to")
    parser.add_argument("--run-name", metavar="NAME", help="name of this run in the folder (the launcher's)")
    parser.add_argument("--require-all", action="store_true", help="do not run the command if it cannot be traced")
    parser.set_defaults(handler=_run, takes_command=True, program=None, no_print=True)


def _run(values: argparse.Namespace) -> int:
    _check(values)
    with HeldSignals() as signals:  # before any thread starts, numpy's among them
        status = _recorded(values, signals)
    return _untraced(values) if status is None else status


def _recorded(values: argparse.Namespace, signals: HeldSignals) -> int | None:
    """Trace the command and write what was recorded; None if it cannot be traced, and has not been started."""
    from accel_magic.cluster import clock, folders, node
    from accel_magic.cluster.folders import PartDescription, Problem

    own = node.of_environment()
    part = folders.make(Path(values.save), own, values.run_name or own.job or "1")
    facts = tuple(machine.describe().items())
    first = clock.read()
    folders.write(part, PartDescription(own, "tracing", (first,), facts))
    common = Common(live=False, save=f"{part}/")
    try:
        status = trace_command.traced(values, common, signals)
    except AccelMagicError as error:
        if values.started:
            raise
        problem = Problem(error.what, error.why or "", error.fix or "", error.code)
        folders.write(part, PartDescription(own, "untraced", (), facts, problem))
        print_error(error)
        say(f"{own.name} on {own.host} {'does not run' if values.require_all else 'runs untraced'}")
        return None
    folders.write(part, PartDescription(own, "ended", (first, clock.read()), facts))
    return status


def _check(values: argparse.Namespace) -> None:
    for given, what, fix in (
        (values.probes, "no probe given", "a probe"),
        (values.command, "no command given", "-- COMMAND"),
        (values.save, "no folder given", "--save DIR"),
    ):
        if not given:
            raise ProbeError(
                what,
                fix=f"add {fix}: {_NAME} tracepoint:syscalls:sys_enter_openat --save DIR -- ls",
                code="command.none-given",
            )


def _untraced(values: argparse.Namespace) -> int:
    """Run the command without a trace, unless all must be traced."""
    if values.require_all:
        return FAILED
    try:
        os.execvp(values.command[0], values.command)  # noqa: S606 - the user's own command
    except OSError as failure:
        say(f"{values.command[0]}: {failure.strerror}")
        return _START_FAILURES

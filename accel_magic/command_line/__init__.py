"""The command line: `accel-magic COMMAND`, the same as `python -m accel_magic COMMAND`. Needs no notebook."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING

from accel_magic._version import __version__
from accel_magic.api.options import with_kinds
from accel_magic.command_line import separator
from accel_magic.command_line.exit_status import FAILED, INTERRUPTED, USAGE, CommandParser, Commands, print_error, say
from accel_magic.errors import AccelMagicError, ProbeError
from accel_magic.kernel import features
from accel_magic.probes import bpftrace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_WITH_COMMAND = ("trace", "run")
"""Commands that trace another one."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: The command-line arguments; by default those of this process.

    Returns:
        The exit status: the command's own, 2 after a mistake on the command line, 1 after any other error.

    Raises:
        SystemExit: After `--help`, `--version`, and arguments that argparse rejects.

    """
    parser, commands = parsers()
    before, command = _split(sys.argv[1:] if arguments is None else arguments)

    def run() -> int:
        if before[1:2] == ["-e"]:
            bpftrace.check(shlex.join(before[1:]), front_end=bpftrace.in_shell(command or ()))
        if command is None and before and before[0] in _WITH_COMMAND:
            separator.check(before[1:], commands.choices[before[0]])
        options = parser.parse_args(with_kinds(before))
        if command is not None and not getattr(options, "takes_command", False):
            parser.error("this command takes nothing after --")
        if not getattr(options, "works_everywhere", False):
            features.require_linux()
        options.command = command
        return int(options.handler(options))

    return guarded(run)


def parsers() -> tuple[CommandParser, Commands]:
    """Make the parser of the command line, and those of its commands."""
    parser = CommandParser(
        prog="accel-magic", description="Trace kernels, drivers, libraries and accelerators with eBPF."
    )
    parser.add_argument("--version", action="version", version=f"accel_magic {__version__}")
    commands: Commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for add in _commands():
        add(commands)
    return parser, commands


def guarded(run: Callable[[], int]) -> int:
    """Run a command and return its exit status; print an AccelMagicError without a traceback."""
    try:
        return run()
    except AccelMagicError as error:
        print_error(error)
        return USAGE if isinstance(error, ProbeError) else FAILED
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output, e.g. `head`, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def _commands() -> tuple[Callable[[Commands], None], ...]:
    """One function per command: it adds a parser whose default `handler` takes the options and returns the status.

    Those that also work on other systems than Linux have the default `works_everywhere`.
    """
    from accel_magic.command_line import (
        broker_command,
        doctor_command,
        lab_command,
        run_command,
        show_command,
        trace_command,
        workshop_command,
    )

    return (
        trace_command.add,
        run_command.add,
        show_command.add,
        doctor_command.add,
        lab_command.add,
        workshop_command.add,
        broker_command.add,
    )


def _split(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str] | None]:
    """Split the arguments at the first `--`; the user's command follows it."""
    if separator.SEPARATOR not in arguments:
        return arguments, None
    at = list(arguments).index(separator.SEPARATOR)
    return arguments[:at], arguments[at + 1 :]

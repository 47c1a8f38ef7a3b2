"""The command line: `accel-magic COMMAND`, the same as `python -m accel_magic COMMAND`. Needs no notebook."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any, TypeAlias

from accel_magic import terminal
from accel_magic._version import __version__
from accel_magic.errors import AccelMagicError, ProbeError
from accel_magic.options import with_kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"  # noqa: SLF001 - its only name
"""What a command's parser is added to."""
USAGE, FAILED, INTERRUPTED = 2, 1, 130
"""Exit statuses of a mistake on the command line, of any other error, and after Ctrl-C."""


class Parser(argparse.ArgumentParser):
    """Takes probes and options in any order, as the lines of the magics do."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "allow_abbrev": False})
        self._within = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # noqa: D102 - argparse's
        has_commands = any(isinstance(action, argparse._SubParsersAction) for action in self._actions)  # noqa: SLF001
        if self._within or has_commands:  # argparse cannot mix these
            return super().parse_known_args(args, namespace)
        self._within = True  # the next one calls this method
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._within = False


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: Words of the command line; those of this process by default.

    Returns:
        The exit status: the command's own, 2 after a mistake on the command line, 1 after any other error.

    Raises:
        SystemExit: After `--help`, `--version`, and arguments that argparse refuses.

    """
    parser = Parser(prog="accel-magic", description="Trace kernels, drivers, libraries and accelerators with eBPF.")
    parser.add_argument("--version", action="version", version=f"accel_magic {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for add in _commands():
        add(commands)
    before, command = _split(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(with_kinds(before))
    if command is not None and not getattr(options, "takes_command", False):
        parser.error("this command takes nothing after --")
    options.command = command
    return guarded(lambda: int(options.handler(options)))


def guarded(run: Callable[[], int]) -> int:
    """Run a command; print errors that are raised on purpose without a traceback, and return the exit status."""
    try:
        return run()
    except AccelMagicError as error:
        print_error(error)
        return USAGE if isinstance(error, ProbeError) else FAILED
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def print_error(error: AccelMagicError) -> None:
    """Print what is wrong, why, what fixes it, and the code."""
    say(f"{error}\n  code: {error.code}")


def say(text: str) -> None:
    """Print a line to standard error, which may be gone: a terminal that was closed."""
    with contextlib.suppress(OSError):
        print(terminal.block(text), file=sys.stderr, flush=True)


def _commands() -> tuple[Callable[[Commands], None], ...]:
    """One function per command, which adds its parser: its default `handler` takes the options, returns the status."""
    from accel_magic.command_line import doctor, show, trace
    from accel_magic.lab import cli

    return trace.add, show.add, doctor.add, cli.add


def _split(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str] | None]:
    """Part the arguments at the first `--`; what follows is a command of the user's."""
    if "--" not in arguments:
        return arguments, None
    at = list(arguments).index("--")
    return arguments[:at], arguments[at + 1 :]

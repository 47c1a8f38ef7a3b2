"""Command line: `python -m accel_magic COMMAND`, also installed as `accel-magic`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from accel_magic._version import __version__
from accel_magic.doctor import report

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status. Raises SystemExit for `--help`, `--version` and bad arguments."""
    parser = argparse.ArgumentParser(prog="accel-magic", description="Trace with eBPF from a Jupyter cell.")
    parser.add_argument("--version", action="version", version=f"accel_magic {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for add in COMMANDS:
        add(commands)
    before, command = _split(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(before)
    if command is not None and not getattr(options, "takes_command", False):
        parser.error("this command takes nothing after --")
    options.command = command
    return int(options.run(options))


def _split(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str] | None]:
    """Part the arguments at the first `--`; what follows is a command of the user's."""
    if "--" not in arguments:
        return arguments, None
    at = list(arguments).index("--")
    return arguments[:at], arguments[at + 1 :]


def _add_doctor(commands: argparse._SubParsersAction[Any]) -> None:
    doctor = commands.add_parser("doctor", help="what works on this machine, and what would mend the rest")
    doctor.add_argument("--json", action="store_true", help="print the checks as JSON")
    doctor.add_argument("--xe", action="store_true", help="check too what iaprof needs, for Intel's Xe GPUs")
    doctor.set_defaults(run=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    found = report(xe=options.xe)
    print(found.to_json() if options.json else found.text)
    return found.exit_status


def _add_lab(commands: argparse._SubParsersAction[Any]) -> None:
    from accel_magic.lab.cli import add

    add(commands)


COMMANDS: tuple[Callable[[argparse._SubParsersAction[Any]], None], ...] = (_add_doctor, _add_lab)
"""One function per command: it adds its parser, whose default `run` takes the options and returns the exit status."""


if __name__ == "__main__":
    sys.exit(main())

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
    options = parser.parse_args(arguments)
    return int(options.run(options))


def _add_doctor(commands: argparse._SubParsersAction[Any]) -> None:
    doctor = commands.add_parser("doctor", help="what works on this machine, and what would mend the rest")
    doctor.add_argument("--json", action="store_true", help="print the checks as JSON")
    doctor.set_defaults(run=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    found = report()
    print(found.to_json() if options.json else found.text)
    return found.exit_status


COMMANDS: tuple[Callable[[argparse._SubParsersAction[Any]], None], ...] = (_add_doctor,)
"""One function per command: it adds its parser, whose default `run` takes the options and returns the exit status."""


if __name__ == "__main__":
    sys.exit(main())

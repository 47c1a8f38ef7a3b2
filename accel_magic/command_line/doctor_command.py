"""`accel-magic doctor`: what works on this machine, and how to fix the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from accel_magic import subsystems

if TYPE_CHECKING:
    import argparse

    from accel_magic.command_line.exit_status import Commands


def add(commands: Commands) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("doctor", help="check what works on this machine, and how to fix the rest")
    parser.add_argument("--all", action="store_true", help="also print the checks with nothing to fix")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    for name, companion in subsystems.companions().items():
        text = f"also check what {name} needs, which records {companion.samples}"
        parser.add_argument(f"--{companion.attribute}", action="store_true", help=text)
    parser.set_defaults(handler=_run, works_everywhere=True)


def _run(options: argparse.Namespace) -> int:
    from accel_magic.api.doctor import report

    companions = {one.attribute: getattr(options, one.attribute) for one in subsystems.companions().values()}
    found = replace(report(**companions), complete=options.all)
    print(found.to_json() if options.json else found.text)
    return found.exit_status

"""`accel-magic show FILE`: show a recording, a profile or another tool's output as text or as an HTML page."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from accel_magic.command_line.basics import Commands


def add(commands: Commands) -> None:
    """Add the command's parser."""
    parser = commands.add_parser(
        "show",
        help="show a recording, a profile, or another tool's output",
        description="Shows any file that accel_magic.open reads: recordings and profiles saved by accel_magic, output "
        "of bpftrace, ftrace, trace-cmd and perf script, profiles from iaprof, speedscope and Chrome, folded stacks.",
    )
    parser.add_argument("file", metavar="FILE", help="the file")
    parser.add_argument("--html", metavar="PAGE.html", help="write an interactive page that needs no network instead")
    parser.set_defaults(handler=_run)


def _run(options: argparse.Namespace) -> int:
    from accel_magic.api.open import open_result

    result = open_result(options.file)
    print(result if options.html is None else result.to_html(options.html), flush=True)
    return 0

"""`accel-magic show FILE`: show a recording, a profile or another tool's output as text or as an HTML page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic.errors import ResultError

if TYPE_CHECKING:
    import argparse

    from accel_magic.command_line.exit_status import Commands


def add(commands: Commands) -> None:
    """Add the command's parser."""
    parser = commands.add_parser(
        "show",
        help="show a recording, a profile, or another tool's output",
        description="Shows any file that accel_magic.open reads: recordings and profiles saved by accel_magic, output "
        "of bpftrace, ftrace, trace-cmd, perf script and other profilers, folded stacks, page traces.",
    )
    parser.add_argument("file", metavar="FILE", help="the file")
    parser.add_argument("--html", metavar="PAGE.html", help="write an interactive page that needs no network instead")
    parser.set_defaults(handler=_run, works_everywhere=True)


def _run(options: argparse.Namespace) -> int:
    from accel_magic.api.open import open_result
    from accel_magic.policies.page_trace import PageTrace

    result = open_result(options.file)
    if options.html is None:
        print(result, flush=True)
    elif isinstance(result, PageTrace):
        raise ResultError(
            f"{options.file} cannot be shown as a page",
            why="it is a page trace",
            fix="omit --html, or open it in Python and use frame()",
            code="pages.no-html",
        )
    else:
        print(result.to_html(options.html), flush=True)
    return 0

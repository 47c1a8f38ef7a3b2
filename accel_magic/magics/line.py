"""What the lines of all magics that trace a cell share: a parser that raises, common options, checks of them."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from accel_magic.errors import ProbeError

if TYPE_CHECKING:
    from collections.abc import Sequence


class HelpRequested(Exception):  # noqa: N818 - not an error
    """`--help` was given; the text is the argument."""


class Parser(argparse.ArgumentParser):
    """Raises instead of leaving the interpreter."""

    def error(self, message: str) -> NoReturn:  # noqa: D102 - argparse's
        raise ProbeError(f"%%{self.prog}: {message}", fix=f"see %%{self.prog} --help")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:  # noqa: ARG002, D102
        raise HelpRequested(message or "")

    def print_help(self, file: Any = None) -> None:  # noqa: ARG002, D102
        raise HelpRequested(self.format_help())


def new_parser(magic: str, wants: str, description: str, epilog: str) -> Parser:
    """Make the parser of `%%MAGIC WANTS [options]`; options left out of a line are None."""
    return Parser(
        prog=magic,
        usage=f"%%%%{magic} {wants} [options]",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_result_options(parser: Parser) -> None:
    """Add what becomes of the result, to be listed first."""
    parser.add_argument("-o", "--output", metavar="NAME", help="assign the result to this variable")


def add_common_options(parser: Parser, dry_run: str) -> None:
    """Add how a cell is shown, saved, tried and played back. `dry_run` says what is shown instead of tracing."""
    add = parser.add_argument
    add("--live", action=argparse.BooleanOptionalAction, default=None, help="show counters while the cell runs")
    add("--save", metavar="FILE.parquet", help="write the result to a file; accel_magic.open reads it")
    add("--dry-run", action="store_true", help=dry_run)
    add("--replay", metavar="FILE.parquet", help="play a recording back instead of tracing")
    add("--speed", type=_speed, metavar="N", help="with --replay: N times the recorded pace (1)")
    add("--run", action="store_true", help="with --replay: run the cell's code too")


@dataclass(frozen=True)
class Common:
    """The common options of a parsed line."""

    output: str | None
    live: bool | None
    save: str | None
    dry_run: bool
    replay: str | None
    speed: float
    run: bool


def words_of(magic: str, line: str) -> list[str]:
    """Split a line as a shell does. Raises ProbeError where quotes are left open."""
    try:
        return shlex.split(line)
    except ValueError as error:
        raise ProbeError(f"%%{magic}: {error}", fix="close the quotes") from None


def given_of(values: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """Give those of the named options that were written."""
    return {name: getattr(values, name) for name in names if getattr(values, name) is not None}


def common_of(magic: str, values: argparse.Namespace, tracing: Sequence[object]) -> Common:
    """Check the common options against each other and against `tracing`, what was asked of a trace.

    Raises:
        ProbeError: Options that do not go together, or a bad name.

    """
    if values.output is not None and not values.output.isidentifier():
        raise ProbeError(f"-o {values.output} is not a variable name", fix="use letters, digits and _")
    if values.replay is None and (values.speed is not None or values.run):
        raise ProbeError("--speed and --run belong to --replay", fix="add --replay FILE.parquet")
    if values.replay is not None and (any(tracing) or values.save or values.dry_run):
        raise ProbeError(
            "--replay takes no probes and no tracing options",
            why="a recording already holds what was traced",
            fix=f"%%{magic} --replay FILE.parquet [--speed N] [--run] [-o NAME] [--no-live]",
        )
    return Common(
        output=values.output,
        live=values.live,
        save=values.save,
        dry_run=values.dry_run,
        replay=values.replay,
        speed=1.0 if values.speed is None else values.speed,
        run=values.run,
    )


def option_names(parser: Parser) -> tuple[str, ...]:
    """All long options, for completion."""
    names = (name for action in parser._actions for name in action.option_strings)  # noqa: SLF001
    return tuple(sorted(name for name in names if name.startswith("--")))


def positive(text: str, convert: type[int | float], what: str) -> Any:
    """Read a number from 0 (exclusive) to 1e15. Raises argparse.ArgumentTypeError, which the parser words."""
    try:
        value = convert(text)
    except ValueError:
        value = convert(0)
    if not 0 < value < 1e15:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return value


def count(text: str) -> int:
    """Read how many."""
    return int(positive(text, int, "a positive whole number"))


def _speed(text: str) -> float:
    return float(positive(text, float, "a positive factor"))

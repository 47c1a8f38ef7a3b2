"""Parsing the lines of all magics that trace a cell: a parser that raises, and splitting into words."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING, Any, NoReturn

from accel_magic.api.option_fixes import fix_of
from accel_magic.errors import ProbeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class HelpRequested(Exception):  # noqa: N818 - not an error
    """`--help` was given; the text is the argument."""


class MagicParser(argparse.ArgumentParser):
    """Raises instead of leaving the interpreter."""

    def error(self, message: str) -> NoReturn:  # noqa: D102 - argparse's
        fix = fix_of(message, self) or f"see %{self.prog} --help"
        raise ProbeError(f"%%{self.prog}: {message}", fix=fix, code="option.unknown")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:  # noqa: ARG002, D102
        raise HelpRequested(message or "")

    def print_help(self, file: Any = None) -> None:  # noqa: ARG002, D102
        raise HelpRequested(self.format_help())


def new_parser(magic: str, wants: str, description: str, epilog: str) -> MagicParser:
    """Make the parser of `%%MAGIC WANTS [options]`; an option that is not given is None."""
    return MagicParser(
        prog=magic,
        usage=f"%%%%{magic} {wants} [options]",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def words_of(magic: str, line: str) -> list[str]:
    """Split a line as a shell does. Raises ProbeError for an unclosed quote."""
    try:
        return shlex.split(line)
    except ValueError as error:
        raise ProbeError(f"%%{magic}: {error}", fix="close the quotes", code="option.open-quote") from None


def tables_of(texts: Iterable[str], names: Mapping[str, Any]) -> dict[str, Any]:
    """Read `--fill MAP=VARIABLE`: the variables' values, by map. Raises ProbeError if there is no such variable."""
    found = {}
    for text in texts:
        table, _, variable = text.partition("=")
        if not table or variable not in names:
            raise ProbeError(
                f"{text!r:.60} does not fill a map",
                why=f"{variable or 'the variable'} is not defined",
                fix="write --fill MAP=VARIABLE",
                code="program.bad-setting",
            )
        found[table] = names[variable]
    return found


def option_names(parser: MagicParser) -> tuple[str, ...]:
    """All long options, for completion."""
    names = (name for action in parser._actions for name in action.option_strings)  # noqa: SLF001
    return tuple(sorted(name for name in names if name.startswith("--")))

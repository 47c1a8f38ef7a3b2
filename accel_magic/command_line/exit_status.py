"""Shared by all commands: exit statuses, and messages to standard error."""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from accel_magic import terminal
from accel_magic.api.option_fixes import fix_of
from accel_magic.errors import ProbeError

if TYPE_CHECKING:
    from accel_magic.errors import AccelMagicError

Commands: TypeAlias = "argparse._SubParsersAction[CommandParser]"  # noqa: SLF001 - its only name
"""The object to which a command adds its parser."""


USAGE, FAILED, INTERRUPTED = 2, 1, 130
"""Exit statuses of a mistake on the command line, of any other error, and after Ctrl-C."""


def print_error(error: AccelMagicError) -> None:
    """Print what is wrong, why, what fixes it, and the code."""
    say(f"{error}\n  code: {error.code}")


def say(text: str) -> None:
    """Print a line to standard error; do nothing if its terminal was closed."""
    with contextlib.suppress(OSError):
        print(terminal.block(text), file=sys.stderr, flush=True)


class CommandParser(argparse.ArgumentParser):
    """Accepts probes and options in any order, as the magics do."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "allow_abbrev": False})
        self._within = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # noqa: D102 - argparse's
        has_commands = any(isinstance(action, argparse._SubParsersAction) for action in self._actions)  # noqa: SLF001
        if self._within or has_commands:  # argparse cannot mix these
            return super().parse_known_args(args, namespace)
        self._within = True  # the next call comes back to this method
        try:
            values, unknown = self.parse_known_intermixed_args(args, namespace)
        finally:
            self._within = False
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return values, unknown

    def error(self, message: str) -> NoReturn:
        """Print the usage and what to write instead, and exit."""
        self.print_usage(sys.stderr)
        fix = fix_of(message, self) or f"see {self.prog} --help"
        print_error(ProbeError(f"{self.prog}: {message}", fix=fix, code="option.unknown"))
        raise SystemExit(USAGE)

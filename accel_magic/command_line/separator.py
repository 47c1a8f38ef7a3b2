"""A command without `--` before it: what the user meant, before argparse takes its words for probes and options."""

from __future__ import annotations

import os
import shlex
import shutil
from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProbeError
from accel_magic.probes import presets
from accel_magic.probes.grammar import KINDS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

SEPARATOR: Final = "--"


def check(words: Sequence[str], parser: argparse.ArgumentParser) -> None:
    """Raise ProbeError if the words after a command's name contain a command to trace.

    Args:
        words: Probes and options, without the part after a `--`.
        parser: The parser of the command.

    """
    actions = parser._actions  # noqa: SLF001 - argparse has no other list
    with_value = {name for action in actions if action.nargs is None for name in action.option_strings}
    probes = 0
    for at, word in enumerate(words):
        if word.startswith("-") or (at and words[at - 1] in with_value):
            probes += word == "--program"
        elif _is_probe(word):
            probes += 1
        elif probes and _is_program(word):
            raise ProbeError(
                f"{word!r} is not a probe",
                why=f"a command follows after {SEPARATOR}",
                fix=shlex.join([*parser.prog.split(), *words[:at], SEPARATOR, *words[at:]]),
                code="command.no-separator",
            )


def _is_probe(word: str) -> bool:
    return ":" in word or word in KINDS or presets.is_preset(word)


def _is_program(word: str) -> bool:
    return os.access(word, os.X_OK) if "/" in word else shutil.which(word) is not None

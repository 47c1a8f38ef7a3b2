"""What to write instead of an option or value that a parser of options rejects."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from accel_magic.probes.globs import near

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

_UNRECOGNIZED: Final = re.compile(r"unrecognized arguments: (\S+)")
_REQUIRED: Final = re.compile(r"arguments are required: (\S+)")
_CHOICE: Final = re.compile(r"argument ([^:]+): invalid choice: '?([^\s']*)'?")
_VALUE: Final = re.compile(r"argument ([^:]+): (?:'([^']*)' is not|expected)")
_NUMBER: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)[ _]?([A-Za-z]+)")
_THOUSANDS: Final = {"k": 10**3, "K": 10**3, "m": 10**6, "M": 10**6, "G": 10**9}
_OTHER_TOOLS: Final = {
    "-o": "--save",
    "--output": "--save",
    "-p": "--scope",
    "--pid": "--scope",
    "-f": "--filter",
    "--where": "--filter",
    "-F": "--rate",
    "--hz": "--rate",
    "--freq": "--rate",
    "--frequency": "--rate",
    "--limit": "--max-events",
    "-n": "--max-events",
    "-d": "--duration",
    "--timeout": "--duration",
    "--time": "--duration",
    "-g": "--stacks",
    "-k": "--stacks",
    "--count": "--mode",
    "-c": "--mode",
}
"""Options of other tools, and ours."""
_OTHER_VALUES: Final = {"gpu": "auto", "nvidia": "cuda", "no": "off", "none": "off", "perf": "bpf", "ebpf": "bpf"}
"""Values that users expect, and ours."""
_EXAMPLES: Final = {
    "CLIENT": "client",
    "COLUMNS": "'size=arg0:u64'",
    "DIR": "run",
    "EXPR": "'pid > 1'",
    "FILE.bpf.c": "mine.bpf.c",
    "FILE.parquet": "run.parquet",
    "GLOB": "'*'",
    "HZ": "99",
    "MEM": "50%",
    "MIB": "64",
    "MIN_US": "100",
    "MS": "10",
    "N": "1000",
    "NAME": "t",
    "PATH": "run.parquet",
    "POLICY": "lfu",
    "PROBE": "uprobe:libc:malloc",
    "S": "10",
    "US": "100",
    "self|all|PID": "all",
}
"""A value of each option, by its name in the help."""
_MODE: Final = {"--mode": "--mode count"}


def fix_of(message: str, parser: argparse.ArgumentParser) -> str:
    """Return the fix of an error that argparse reports; '' if there is none."""
    options = {name: action for action in parser._actions for name in action.option_strings}  # noqa: SLF001
    if found := _UNRECOGNIZED.search(message):
        return _of_name(found[1].partition("=")[0], options)
    if found := _REQUIRED.search(message):
        example = _EXAMPLES.get(found[1], "")
        return f"add {example}" if example else ""
    if found := _CHOICE.search(message):
        return _of_choice(found[1], found[2], options, parser)
    if found := _VALUE.search(message):
        return _of_value(found[1], found[2], options)
    return ""


def _of_name(word: str, options: Mapping[str, argparse.Action]) -> str:
    """Fix of an unknown option, or of a word where none may be."""
    if not word.startswith("-"):
        return f"remove {word}"
    other = _OTHER_TOOLS.get(word, "")
    name = other if other in options else _similar(word, options)
    if not name:
        return ""
    example = _MODE.get(name, name) if other == name else name
    return f"write {example} instead of {word}"


def _similar(word: str, options: Mapping[str, argparse.Action]) -> str:
    """The long option that a word is the beginning of or resembles; '' if there is none."""
    if not word.startswith("--"):
        return ""
    longer = (name for name in options if name.startswith(word))
    return next(longer, "") or next(iter(near(word, options, 1)), "")


def _of_choice(name: str, value: str, options: Mapping[str, argparse.Action], parser: argparse.ArgumentParser) -> str:
    """Fix of a value that is not among those that an option or command has."""
    option = name.rsplit("/", maxsplit=1)[-1]
    known = options.get(option) or next((action for action in parser._actions if action.metavar == name), None)  # noqa: SLF001
    if known is None or not known.choices:
        return ""
    values = list(map(str, known.choices))
    other = _OTHER_VALUES.get(value, "")
    best = other if other in values else next(iter(near(value, values, 1)), values[0])
    before = f"{option} " if option in options else ""
    others = f" (one of {', '.join(values)})" if before else ""
    return f"write {before}{best} instead of {before}{value}{others}"


def _of_value(name: str, value: str | None, options: Mapping[str, argparse.Action]) -> str:
    """Fix of a value that is not a number, or is missing."""
    option = next((each for each in name.split("/") if each.startswith("--")), name)
    if option not in options:
        return ""
    action = options[option]
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    example = str(next(iter(action.choices))) if action.choices else _EXAMPLES.get(metavar, "")
    if value is None:
        shown = name.split("/", maxsplit=1)[0]  # `-o` is what documents show
        return f"write {shown} {example} instead of {shown}" if example else ""
    number = _NUMBER.fullmatch(value)
    if number:
        factor = _THOUSANDS.get(number[2], 1) if metavar == "N" else 1
        example = f"{float(number[1]) * factor:.15g}"
    return f"write {option} {example} instead of {option} {value}"

"""bpftrace code where a `%%ktrace` line is expected: an error that shows the line that does the same.

`code.py` reads the language, `places.py` translates probes, `values.py` expressions, `advice.py` whole scripts. Nothing
here looks at the machine, and nothing is traced.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from accel_magic.errors import ProbeError
from accel_magic.probes.bpftrace.places import is_kind, only_bpftrace

_COMMAND: Final = re.compile(r"(?:sudo\s+)?(?:\S*/)?bpftrace(?:\s|$)|-[elpc][\s'\"]|#!.*\bbpftrace")
_SCRIPT: Final = re.compile(r"['\"]?[^\s'\"-][^\s'\"]*\.bt(?:['\"\s]|$)")
_COMMENTS: Final = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/|#[^\n]*)*", re.DOTALL)
_OURS: Final = re.compile(r"[\w-]+:[\w*?]+")
_BEFORE_OPTIONS: Final = r"(?:(?!\s--?[A-Za-z])[^{])*"
_OPENS: Final = re.compile(_BEFORE_OPTIONS + r"\{")
"""A block begins before any option of `%%ktrace`."""
_TESTS: Final = re.compile(rf"\S+\s+/(?=\S){_BEFORE_OPTIONS}/\s*$")
"""A filter as bpftrace has it."""
_AFTER_CODE: Final = re.compile(r"\}\s*['\"]?\s+--?[A-Za-z][^{}]*$")
_WITH_VALUE: Final = ("-e", "-l", "-p", "-c", "-f", "-o", "-B", "-I", "--include")


def check(text: str, cell: str = "") -> None:
    """Raise if a probe line, or the cell below an empty one, is bpftrace code.

    Args:
        text: What stands behind `%%ktrace`, or one probe.
        cell: The lines below it.

    Raises:
        ProbeError: It is; the fix is the line that does the same.

    """
    whole = f"{text}\n{cell}" if cell and (not text.strip() or _is_open(text)) else text
    if is_code(whole):
        raise refusal(whole)


def is_code(text: str) -> bool:
    """Whether a text is bpftrace code or a bpftrace command, and not a line of `%%ktrace`."""
    start = text.strip()
    if _COMMAND.match(start) or _SCRIPT.match(start):
        return True
    plain = _COMMENTS.sub("", start.lstrip("'\""), count=1)
    first = re.match(r"[^\s,{]+", plain)
    if first is None or not (is_kind(first[0]) or _OURS.fullmatch(first[0])):
        return False
    return bool(only_bpftrace(first[0]) or _OPENS.match(plain) or _TESTS.match(plain))


def refusal(text: str) -> ProbeError:
    """Error for a text that `is_code`: it shows the line that does the same, and what has no equivalent."""
    from accel_magic.probes.bpftrace.advice import advise  # of no use before there is code

    what = "bpftrace code is not a %%ktrace line"
    try:
        command = _command(text)
    except OSError as error:
        return ProbeError(
            what,
            why=f"cannot read {error.filename}: {error.strerror}",
            fix="give the script's path, or write probes on the line: docs/probe-language.md",
            code="probe.bpftrace-code",
        )
    advice = advise(command.code, pid=command.pid, program=command.program, lists=command.lists)
    lines = [advice.line or "nothing of it can be traced here; what a script prints of itself, print in Python"]
    lines += [f"  for {theirs}: {ours}" for theirs, ours in advice.instead]
    lines += [f"  note: {note}" for note in advice.notes]
    lines += [f"  no equivalent: {part}" for part in advice.lacking]
    return ProbeError(
        what,
        why="%%ktrace takes probes and options; the cell below is Python, and the result holds columns and counts",
        fix="\n       ".join(lines),
        code="probe.bpftrace-code",
    )


@dataclass(frozen=True)
class _Command:
    """A bpftrace command: its code, and the options that decide what is traced."""

    code: str
    pid: str = ""
    program: str = ""
    lists: bool = False


def _command(text: str) -> _Command:
    """Take a command or bare code apart. Raises OSError if a script cannot be read."""
    start = text.strip()
    if start.startswith("#!") or not (_COMMAND.match(start) or _SCRIPT.match(start)):
        return _Command(_AFTER_CODE.sub("}", start.strip("'\"")))
    try:
        words = shlex.split(start)
    except ValueError:  # quotes are left open
        return _Command(start.partition("-e")[2].strip().strip("'\""))
    code = ""
    values = {"-p": "", "-c": ""}
    rest = iter(words)
    for word in rest:
        if word in _WITH_VALUE:
            values[word] = next(rest, "")
        elif word.startswith("-e"):
            code = word[2:]
        elif word.endswith(".bt"):
            code = Path(word).expanduser().read_text(errors="replace")
    code = values.get("-e") or values.get("-l") or code
    return _Command(code, values["-p"], values["-c"], lists="-l" in values)


def _is_open(text: str) -> bool:
    """Whether quotes or braces are left open: then the cell goes on with the code."""
    try:
        shlex.split(text)
    except ValueError:
        return True
    return text.count("{") > text.count("}")

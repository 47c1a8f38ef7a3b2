"""Detect bpftrace code given as a `%%ktrace` line, and raise an error that shows the equivalent line.

`script_parser.py` parses the language, `probe_names.py` translates probes, `expressions.py` filters and columns, and
`advice.py` whole scripts.
Nothing here inspects the machine or traces anything.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProbeError
from accel_magic.probes.bpftrace.probe_names import is_kind, only_bpftrace

if TYPE_CHECKING:
    from collections.abc import Sequence

_COMMAND: Final = re.compile(
    r"(?:sudo\s+)?(?:\S*/)?bpftrace(?:\s|$)|-[el][\s'\"]|-[pc]\s[^{]*(?:\s-e\b|\{|\.bt\b)|#!.*\bbpftrace"
)
_SCRIPT: Final = re.compile(r"['\"]?[^\s'\"-][^\s'\"]*\.bt(?:['\"\s]|$)")
_COMMENTS: Final = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/|#[^\n]*)*", re.DOTALL)
_OURS: Final = re.compile(r"[\w-]+:[\w*?]+")
_BEFORE_OPTIONS: Final = r"(?:(?!\s--?[A-Za-z])[^{])*"
_OPENS: Final = re.compile(_BEFORE_OPTIONS + r"\{")
"""A block that begins before any option of `%%ktrace`."""
_TESTS: Final = re.compile(rf"\S+\s+/(?=\S){_BEFORE_OPTIONS}/\s*$")
"""A filter in bpftrace syntax."""
_AFTER_CODE: Final = re.compile(r"\}\s*['\"]?\s+--?[A-Za-z][^{}]*$")
_WITH_VALUE: Final = ("-e", "-l", "-p", "-c", "-f", "-o", "-B", "-I", "--include")


@dataclass(frozen=True)
class FrontEnd:
    """Where a line of probes is written, and how the equivalent of bpftrace code is shown there."""

    name: str
    what: str
    why: str
    command: tuple[str, ...] | None = None

    def line(self, line: str, program: str) -> str:
        """The equivalent line, made from that of a cell."""
        if self.command is None or not line:
            return line
        words = line.replace("%%ktrace", self.name).replace("%ktrace", self.name).removesuffix(" -o t")
        command = shlex.join(self.command) or program
        if line.startswith("%ktrace"):  # lists probes
            return words
        after = f" -- {command}" if command else ""
        return f"{words.replace(' --scope all', '') if command else words} --save t.parquet{after}"

    def note(self, note: str) -> str:
        """A note about a line of a cell, as it holds here; '' if it does not."""
        if self.command is None:
            return note
        if note.startswith(("without --scope all", "run the program")):
            return ""
        return note.replace("%%ktrace", self.name)


CELL: Final = FrontEnd(
    "%%ktrace",
    "bpftrace code is not a %%ktrace line",
    "%%ktrace takes probes and options; the cell below is Python, and the result has columns and counts",
)


def in_shell(command: Sequence[str]) -> FrontEnd:
    """The command line, with the words of the command to trace."""
    return FrontEnd(
        "accel-magic trace",
        "bpftrace code is not a line of accel-magic trace",
        'it takes probes and options; the result is t = accel_magic.open("t.parquet"), with columns and counts',
        tuple(command),
    )


def check(text: str, cell: str = "", front_end: FrontEnd = CELL) -> None:
    """Raise if a probe line, or the cell below an empty one, is bpftrace code.

    Args:
        text: The text after `%%ktrace`, or one probe.
        cell: The lines below it.
        front_end: Where the line was written.

    Raises:
        ProbeError: It is; the fix is the equivalent line.

    """
    whole = f"{text}\n{cell}" if cell and (not text.strip() or _is_open(text)) else text
    if is_code(whole):
        raise refusal(whole, front_end)


def is_code(text: str) -> bool:
    """Whether a text is bpftrace code or a bpftrace command, not a `%%ktrace` line."""
    start = text.strip()
    if _COMMAND.match(start) or _SCRIPT.match(start):
        return True
    plain = _COMMENTS.sub("", start.lstrip("'\""), count=1)
    first = re.match(r"[^\s,{]+", plain)
    if first is None or not (is_kind(first[0]) or _OURS.fullmatch(first[0])):
        return False
    return bool(only_bpftrace(first[0]) or _OPENS.match(plain) or _TESTS.match(plain))


def refusal(text: str, front_end: FrontEnd = CELL) -> ProbeError:
    """Make the error for bpftrace code. It shows the equivalent line, and the parts that have no equivalent."""
    from accel_magic.probes.bpftrace.advice import advise  # only needed for code

    try:
        command = _command(text)
    except OSError as error:
        return ProbeError(
            front_end.what,
            why=f"cannot read {error.filename}: {error.strerror}",
            fix="give the script's path, or write probes on the line: docs/probe-language.md",
            code="probe.bpftrace-code",
        )
    advice = advise(command.code, pid=command.pid, program=command.program, lists=command.lists)
    line = front_end.line(advice.line, command.program)
    lines = [line or "none of its probes can be traced here; print static text from Python"]
    lines += [f"  for {theirs}: {ours}" for theirs, ours in advice.instead]
    lines += [f"  note: {note}" for note in map(front_end.note, advice.notes) if note]
    lines += [f"  no equivalent: {part}" for part in advice.lacking]
    return ProbeError(
        front_end.what,
        why=front_end.why,
        fix="\n       ".join(lines),
        code="probe.bpftrace-code",
    )


@dataclass(frozen=True)
class _Command:
    """A bpftrace command: its code, and the options that affect what is traced."""

    code: str
    pid: str = ""
    program: str = ""
    lists: bool = False


def _command(text: str) -> _Command:
    """Parse a command or bare code. Raises OSError if a script cannot be read."""
    start = text.strip()
    if start.startswith("#!") or not (_COMMAND.match(start) or _SCRIPT.match(start)):
        return _Command(_AFTER_CODE.sub("}", start.strip("'\"")))
    try:
        words = shlex.split(start)
    except ValueError:  # unbalanced quotes
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
    """Whether quotes or braces are unbalanced, so that the code continues in the cell."""
    try:
        shlex.split(text)
    except ValueError:
        return True
    return text.count("{") > text.count("}")

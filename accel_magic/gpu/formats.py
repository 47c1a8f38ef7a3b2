"""Formats of `bpf_trace_printk`, as the kernel has them: which can be printed, and how."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from accel_magic.errors import ProgramError

MOST_TEXT: Final = 128
"""Bytes of a format or text that arrive; the rest is cut off."""
MOST_ARGUMENTS: Final = 3
"""Arguments of `bpf_trace_printk`."""
# As the kernel has them for bpf_trace_printk.
_CONVERSION = re.compile(r"%(?P<flags>[-+ 0]*)(?P<width>\d*)(?P<length>ll?)?(?P<kind>.?)", re.DOTALL)
_SIGNED = frozenset("di")
_UNSIGNED = frozenset("uxX")
_OTHERS = frozenset("cp%")


@dataclass(frozen=True)
class _Conversion:
    """How one argument becomes text: its bits as a number of that sign, through Python's `%`."""

    python: str
    bits: int
    signed: bool

    def value(self, argument: int) -> int:
        masked = argument & ((1 << self.bits) - 1)
        return masked - (1 << self.bits) if self.signed and masked >> (self.bits - 1) else masked


@dataclass(frozen=True)
class Format:
    """A format: Python's, and what each of its conversions takes."""

    python: str
    conversions: tuple[_Conversion, ...]

    def text(self, arguments: tuple[int, ...]) -> str:
        """Print numbers, of 64 bits without a sign."""
        # More conversions than arguments: the kernel refuses such a format; here the rest reads as zero.
        given = (*arguments, *(0,) * len(self.conversions))
        return self.python % tuple(one.value(each) for one, each in zip(self.conversions, given, strict=False))


def check_format(text: str) -> int:
    """Check that a format of `bpf_trace_printk` can be printed; how many numbers it takes.

    Raises:
        ProgramError: It has a conversion that is not known, strings among them, or more than three arguments.

    """
    arguments = 0
    for match in _CONVERSION.finditer(text):
        kind = match["kind"]
        arguments += kind != "%"
        if not kind or kind not in _SIGNED | _UNSIGNED | _OTHERS:
            raise ProgramError(
                f"bpf_printk cannot print {match[0]!r} in {text!r}",
                why="the text would lie in the device's memory when it is printed" if kind == "s" else "",
                fix="print numbers: %d %u %x %c %p, with l or ll for 64 bits",
                code="gpu.bad-format",
            )
    if arguments > MOST_ARGUMENTS:
        raise ProgramError(
            f"bpf_printk has {arguments} arguments in {text!r}",
            why=f"it takes at most {MOST_ARGUMENTS}",
            fix="print twice, or write a record into a ring buffer",
            code="gpu.bad-format",
        )
    return arguments


@cache
def compiled(text: str) -> Format:
    """Translate a format; what `check_format` refuses prints as the address it is."""
    parts, conversions, end = [], [], 0
    for match in _CONVERSION.finditer(text):
        parts.append(text[end : match.start()].replace("%", "%%"))
        end = match.end()
        if match["kind"] == "%":
            parts.append("%%")
            continue
        conversion = _conversion(match)
        parts.append(conversion.python)
        conversions.append(conversion)
    return Format("".join([*parts, text[end:].replace("%", "%%")]), tuple(conversions))


def _conversion(match: re.Match[str]) -> _Conversion:
    kind, flags = match["kind"], match["flags"]
    if kind == "c":
        return _Conversion(f"%{flags}{match['width']}c", 8, signed=False)
    if not kind or kind not in _SIGNED | _UNSIGNED:
        return _Conversion("0x%x", 64, signed=False)
    if kind in _UNSIGNED:  # C has no sign to show there
        flags = flags.replace("+", "").replace(" ", "")
    python = f"%{flags}{match['width']}{kind if kind in 'xX' else 'd'}"
    return _Conversion(python, 64 if match["length"] else 32, signed=kind in _SIGNED)

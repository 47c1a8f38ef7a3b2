"""Formats of `bpf_trace_printk`, compatible with the kernel's: checking and printing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.errors import ProgramError
from accel_magic.gpu.maps.map_layout import PRINT_BYTES
from accel_magic.gpu.maps.rings import drain_shared, records

if TYPE_CHECKING:
    from numpy.typing import NDArray


MOST_TEXT: Final = 128
"""Maximum bytes of a format or text; the rest is cut off."""
MOST_ARGUMENTS: Final = 3
"""Maximum number of arguments of `bpf_trace_printk`."""
# The kernel's conversions of bpf_trace_printk.
_CONVERSION = re.compile(r"%(?P<flags>[-+ 0]*)(?P<width>\d*)(?P<length>ll?)?(?P<kind>.?)", re.DOTALL)
_SIGNED = frozenset("di")
_UNSIGNED = frozenset("uxX")
_OTHERS = frozenset("cp%")


@dataclass(frozen=True)
class _Conversion:
    """Converts one argument to text: takes its lowest bits as a signed or unsigned number, for Python's `%`."""

    python: str
    bits: int
    signed: bool

    def value(self, argument: int) -> int:
        masked = argument & ((1 << self.bits) - 1)
        return masked - (1 << self.bits) if self.signed and masked >> (self.bits - 1) else masked


@dataclass(frozen=True)
class PrintFormat:
    """A format in Python's syntax, and its conversions."""

    python: str
    conversions: tuple[_Conversion, ...]

    def text(self, arguments: tuple[int, ...]) -> str:
        """Print unsigned 64-bit numbers."""
        # The kernel rejects formats with more conversions than arguments; here missing arguments are zero.
        given = (*arguments, *(0,) * len(self.conversions))
        return self.python % tuple(one.value(each) for one, each in zip(self.conversions, given, strict=False))


def check_format(text: str) -> int:
    """Check that a format of `bpf_trace_printk` can be printed; returns its number of arguments.

    Raises:
        ProgramError: It has an unsupported conversion, such as %s, or more than three arguments.

    """
    arguments = 0
    for match in _CONVERSION.finditer(text):
        kind = match["kind"]
        arguments += kind != "%"
        if not kind or kind not in _SIGNED | _UNSIGNED | _OTHERS:
            raise ProgramError(
                f"bpf_printk cannot print {match[0]!r} in {text!r}",
                why="lines are printed by the host, which cannot read strings in the device's memory"
                if kind == "s"
                else "",
                fix="print numbers: %d %u %x %c %p, with l or ll for 64 bits",
                code="gpu.bad-format",
            )
    if arguments > MOST_ARGUMENTS:
        raise ProgramError(
            f"bpf_printk has {arguments} arguments in {text!r}",
            why=f"it takes at most {MOST_ARGUMENTS}",
            fix="call it twice, or write a record into a ring buffer",
            code="gpu.bad-format",
        )
    return arguments


@cache
def compiled(text: str) -> PrintFormat:
    """Translate a format; conversions that `check_format` rejects print the argument in hexadecimal."""
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
    return PrintFormat("".join([*parts, text[end:].replace("%", "%%")]), tuple(conversions))


def _conversion(match: re.Match[str]) -> _Conversion:
    kind, flags = match["kind"], match["flags"]
    if kind == "c":
        return _Conversion(f"%{flags}{match['width']}c", 8, signed=False)
    if not kind or kind not in _SIGNED | _UNSIGNED:
        return _Conversion("0x%x", 64, signed=False)
    if kind in _UNSIGNED:  # in C, sign flags have no effect on unsigned numbers
        flags = flags.replace("+", "").replace(" ", "")
    python = f"%{flags}{match['width']}{kind if kind in 'xX' else 'd'}"
    return _Conversion(python, 64 if match["length"] else 32, signed=kind in _SIGNED)


_ARGUMENTS = 24  # bytes of arguments, before the flag for formats, the length and the text
_TEXT = 32


def printed(raw: NDArray[np.uint8]) -> list[str]:
    """Read the lines printed since the last call; like `print_records`, but only the text."""
    return list(print_records(raw)["text"])


def print_records(raw: NDArray[np.uint8]) -> pd.DataFrame:
    """Read what programs have printed since the last call.

    Args:
        raw: (bytes,) uint8, the live print ring. Its read position is advanced.

    Returns:
        One row per call, in order: `thread`, `launch`, `text` without the newline at its end.

    """
    return print_frame(drain_shared(raw, PRINT_BYTES))


def print_frame(data: NDArray[np.uint8]) -> pd.DataFrame:
    """Decode records read from the print ring, (bytes,) uint8; a frame like that of `print_records`."""
    frame = records(data)
    texts = [_text(data) for data in frame["raw"]]
    return pd.DataFrame(
        {
            "thread": frame["thread"].astype(np.uint64),
            "launch": frame["launch"].astype(np.uint64),
            "text": pd.Series(texts, frame.index, dtype=object),
        }
    )


def _text(data: bytes) -> str:
    arguments = tuple(int(each) for each in np.frombuffer(data, "<u8", 3))
    is_format, length = (int(each) for each in np.frombuffer(data, "<u4", 2, _ARGUMENTS))
    text = data[_TEXT : _TEXT + length].split(b"\0")[0].decode("utf-8", "replace")
    return (compiled(text).text(arguments) if is_format else text).removesuffix("\n")

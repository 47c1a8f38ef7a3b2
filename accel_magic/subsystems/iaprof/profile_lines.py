"""Parse lines of an iaprof profile. This module implements the rules of the format."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from accel_magic.subsystems.iaprof.profile import METRICS, MOST, MOST_ADDRESS, MOST_NS, MOST_PID, REASONS

if TYPE_CHECKING:
    from numpy.typing import NDArray


OLDER: Final = frozenset(
    {b"interval_start", b"interval_end", b"proc_name", b"ustack", b"kstack", b"gpu_file", b"gpu_symbol", b"insn_text"}
)
"""Tags used only by iaprof 0.5 and older, which had a different format."""
_TIME: Final = re.compile(rb"(\d{1,10})\.(\d{1,9})|(\d{1,10})")
_HEX: Final = re.compile(rb"0[xX][0-9a-fA-F]+")
_SHOWN: Final = 40


class Damage(Exception):  # noqa: N818 - it never leaves this package
    """A damaged line.

    Args:
        reason: Kind of damage, with fixed wording for each kind.
        detail: Details of this line.

    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


class TextLine(NamedTuple):
    """A `string` line."""

    id: int
    text: str
    exact: bool
    """Whether all of its bytes are UTF-8."""


class Interval(NamedTuple):
    """An `interval` line."""

    number: int
    end_ns: int


class KernelLine(NamedTuple):
    """A `kernel` line; texts are given by id."""

    address: int
    comm: int
    pid: int
    cpu_stack: int
    file: int
    symbol: int


class Metric(NamedTuple):
    """A `metric` line; `name` is an index into `METRICS`."""

    name: int
    value: int


def text(fields: list[bytes]) -> TextLine:
    r"""Read a `string` line. Bytes that are not UTF-8 (the kernel cuts names at 15 bytes) become `\xNN`."""
    _count(fields, 3)
    id_ = number(fields[1])
    if id_ == 0:
        raise Damage("string id 0 is defined", "0 means no text")
    try:
        return TextLine(id_, fields[2].decode(), exact=True)
    except UnicodeDecodeError:
        return TextLine(id_, fields[2].decode(errors="backslashreplace"), exact=False)


def interval(fields: list[bytes]) -> Interval:
    """Read an `interval` line."""
    _count(fields, 3)
    found = _TIME.fullmatch(fields[2])
    if not found:
        raise _not_a_number(fields[2], "seconds")
    seconds, fraction = (found[1], found[2]) if found[1] is not None else (found[3], b"")
    end_ns = int(seconds) * 1_000_000_000 + int(fraction.ljust(9, b"0"))
    if end_ns > MOST_NS:
        raise Damage("number too large", f"{_short(fields[2])} s is more than 136 years")
    return Interval(number(fields[1]), end_ns)


def kernel(fields: list[bytes]) -> KernelLine:
    """Read a `kernel` line."""
    _count(fields, 7)
    comm, pid, *others = map(number, fields[2:])
    if pid > MOST_PID:
        raise Damage("number too large", f"{pid} is not a process id")
    return KernelLine(address(fields[1]), comm, pid, *others)


def metric(fields: list[bytes]) -> Metric:
    """Read a `metric` line."""
    _count(fields, 3)
    name = fields[1].decode(errors="backslashreplace")
    if name not in METRICS:
        raise Damage("unknown metric", f"{_short(fields[1])}; expected {' or '.join(METRICS)}")
    return Metric(METRICS.index(name), number(fields[2]))


def stall(fields: list[bytes]) -> tuple[int, int, list[int]]:
    """Read an `eustall` line: offset, id of the instruction's text, and ten counts."""
    _count(fields, 3 + len(REASONS))
    return address(fields[1]), number(fields[2]), [number(count) for count in fields[3:]]


def number(field: bytes) -> int:
    """Read a non-negative integer."""
    if field.isdigit():
        value = int(field) if len(field) <= 20 else MOST + 1
        if value > MOST:
            raise Damage("number too large", f"{_short(field)} is over 2^63 - 1")
        return value
    if field[:1] == b"-" and field[1:].isdigit():
        raise Damage("negative number", _short(field))
    raise _not_a_number(field, "an integer")


def address(field: bytes) -> int:
    """Read a hexadecimal number with the prefix `0x`."""
    if not _HEX.fullmatch(field):
        raise _not_a_number(field, "a number such as 0x40")
    value = int(field, 16)
    if value > MOST_ADDRESS:
        raise Damage("number too large", f"{_short(field)} has more than 64 bits")
    return value


def _count(fields: list[bytes], requested: int) -> None:
    if len(fields) != requested:
        tag = fields[0].decode()
        raise Damage("wrong number of fields", f"`{tag}` needs {requested} fields but has {len(fields)}")


def _not_a_number(field: bytes, requested: str) -> Damage:
    return Damage("not a number", f"{_short(field)} instead of {requested}")


def _short(field: bytes) -> str:
    shown = field[:_SHOWN].decode(errors="backslashreplace")
    return repr(shown + ("..." if len(field) > _SHOWN else ""))


TAG: Final = b"eustall\t"
_TAB, _NEWLINE = ord("\t"), ord("\n")
_FIELDS: Final = 3 + len(REASONS)
_MOST_DIGITS: Final = 18
"""Any number with this many digits fits into an int64."""
_MOST_HEX: Final = 18
"""`0x` and 64 bits."""
_NO_DIGIT: Final = 255


def _digits(base: int) -> NDArray[np.uint8]:
    table = np.full(256, _NO_DIGIT, np.uint8)
    for value, digit in enumerate("0123456789abcdef"[:base]):
        table[ord(digit)] = table[ord(digit.upper())] = value
    return table


_DECIMAL, _HEXADECIMAL = _digits(10), _digits(16)


class Lines(NamedTuple):
    """Positions of n lines in a block of text: `starts` and `ends` (n,) int64; a line ends at its newline."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


class LineValues(NamedTuple):
    """Values of n lines.

    Attributes:
        read: (n,) bool, whether the line could be read; the values of the others are 0.
        offset: (n,) uint64.
        text_id: (n,) int64.
        counts: (n, 10) int64.

    """

    read: NDArray[np.bool_]
    offset: NDArray[np.uint64]
    text_id: NDArray[np.int64]
    counts: NDArray[np.int64]


def lines(block: NDArray[np.uint8]) -> Lines:
    """Find the lines of a block, which ends with a newline."""
    ends = np.flatnonzero(block == _NEWLINE).astype(np.int64)
    return Lines(np.concatenate([[0], ends[:-1] + 1]).astype(np.int64), ends)


def tagged(block: NDArray[np.uint8], found: Lines) -> NDArray[np.bool_]:
    """(n,) bool, whether each line is an `eustall` line."""
    chosen = (found.ends - found.starts) > len(TAG)
    for place, letter in enumerate(TAG):
        rows = np.flatnonzero(chosen)
        chosen[rows] = block[found.starts[rows] + place] == letter
    return chosen


def read(block: NDArray[np.uint8], found: Lines) -> LineValues:
    """Read lines that start with `TAG`."""
    separators = np.flatnonzero((block == _TAB) | (block == _NEWLINE)).astype(np.int64)
    first = np.searchsorted(separators, found.starts)
    usual = np.searchsorted(separators, found.ends) - first == _FIELDS - 1
    fields = separators[first[usual, None] + np.arange(_FIELDS)]
    begins, ends = fields[:, :-1] + 1, fields[:, 1:]
    offset, right_offset = _hexadecimal(block, begins[:, 0], ends[:, 0])
    numbers, right_numbers = _decimal(block, begins[:, 1:], ends[:, 1:])
    right = right_offset & right_numbers.all(axis=1)
    count = len(found.starts)
    rows = np.flatnonzero(usual)[right]
    result = LineValues(
        np.zeros(count, np.bool_),
        np.zeros(count, np.uint64),
        np.zeros(count, np.int64),
        np.zeros((count, len(REASONS)), np.int64),
    )
    result.read[rows] = True
    result.offset[rows] = offset[right]
    result.text_id[rows] = numbers[right, 0]
    result.counts[rows] = numbers[right, 1:]
    return result


def _decimal(
    block: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Read fields of any shape; returns their values and whether each is a number; other values are undefined."""
    lengths = ends - begins
    right = (lengths > 0) & (lengths <= _MOST_DIGITS)
    values = np.zeros(begins.shape, np.int64)
    for place in range(int(lengths[right].max(initial=0))):
        there = right & (lengths > place)
        digits = _DECIMAL[block[begins[there] + place]]
        right[there] = digits != _NO_DIGIT
        values[there] = values[there] * 10 + digits
    return values, right


def _hexadecimal(
    block: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    lengths = ends - begins
    right = (lengths > 2) & (lengths <= _MOST_HEX)
    right[right] = (block[begins[right]] == ord("0")) & ((block[begins[right] + 1] | 0x20) == ord("x"))
    values = np.zeros(begins.shape, np.uint64)
    for place in range(2, int(lengths[right].max(initial=0))):
        there = right & (lengths > place)
        digits = _HEXADECIMAL[block[begins[there] + place]]
        right[there] = digits != _NO_DIGIT
        values[there] = (values[there] << np.uint64(4)) | digits
    return values, right

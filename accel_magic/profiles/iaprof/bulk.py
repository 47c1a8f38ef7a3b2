"""Many `eustall` lines at once, as columns.

A line that is not exactly of the usual form (thirteen fields, numbers of at most 18 digits) is left to
`lines.stall`, which alone says what is right and what is wrong with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from accel_magic.profiles.iaprof.model import REASONS

if TYPE_CHECKING:
    from numpy.typing import NDArray

TAG: Final = b"eustall\t"
_TAB, _NEWLINE = ord("\t"), ord("\n")
_FIELDS: Final = 3 + len(REASONS)
_MOST_DIGITS: Final = 18
"""So that no sum of digits leaves an int64."""
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
    """Where n lines lie in a block of text: `starts` and `ends` (n,) int64; a line ends at its newline."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


class Rows(NamedTuple):
    """Values of n lines, and which of them were read.

    Attributes:
        read: (n,) bool; the values of the others are 0.
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
    """(n,) bool: which lines are `eustall` lines."""
    chosen = (found.ends - found.starts) > len(TAG)
    for place, letter in enumerate(TAG):
        rows = np.flatnonzero(chosen)
        chosen[rows] = block[found.starts[rows] + place] == letter
    return chosen


def read(block: NDArray[np.uint8], found: Lines) -> Rows:
    """Read lines that begin with `TAG`."""
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
    result = Rows(
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
    """Read fields of any shape; values of those that are no numbers mean nothing."""
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

"""One line of an iaprof profile: what it says, or what is wrong with it. The format's rules stand here."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from accel_magic.profiles.iaprof.model import METRICS, REASONS

MOST: Final = 2**63 - 1
"""Largest count: iaprof counts to 2^64, which no column here and no tool that we write for holds."""
OLDER: Final = frozenset(
    {b"interval_start", b"interval_end", b"proc_name", b"ustack", b"kstack", b"gpu_file", b"gpu_symbol", b"insn_text"}
)
"""Tags that only iaprof 0.5 and before wrote, whose format is another."""
MOST_PID: Final = 2**32 - 1
MOST_ADDRESS: Final = 2**64 - 1
MOST_NS: Final = 2**32 * 1_000_000_000
"""Latest time, 136 years after the start: sums and differences of times stay exact."""
_TIME: Final = re.compile(rb"(\d{1,10})\.(\d{1,9})|(\d{1,10})")
_HEX: Final = re.compile(rb"0[xX][0-9a-fA-F]+")
_SHOWN: Final = 40


class Damage(Exception):  # noqa: N818 - it never leaves this package
    """A line that cannot be used.

    Args:
        reason: Kind of damage, the same words for all of its kind.
        detail: What this line has.

    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


class Text(NamedTuple):
    """A `string` line."""

    id: int
    text: str
    exact: bool
    """Whether all of its bytes were UTF-8."""


class Interval(NamedTuple):
    """An `interval` line."""

    number: int
    end_ns: int


class KernelLine(NamedTuple):
    """A `kernel` line; texts by their ids."""

    address: int
    comm: int
    pid: int
    cpu_stack: int
    file: int
    symbol: int


class Metric(NamedTuple):
    """A `metric` line; `name` is a place in `METRICS`."""

    name: int
    value: int


def text(fields: list[bytes]) -> Text:
    r"""Read a `string` line. Bytes that are not UTF-8 (the kernel cuts names at 15 bytes) become `\xNN`."""
    _count(fields, 3)
    id_ = number(fields[1])
    if id_ == 0:
        raise Damage("string id 0 is defined", "0 says that there is no text")
    try:
        return Text(id_, fields[2].decode(), exact=True)
    except UnicodeDecodeError:
        return Text(id_, fields[2].decode(errors="backslashreplace"), exact=False)


def interval(fields: list[bytes]) -> Interval:
    """Read an `interval` line."""
    _count(fields, 3)
    found = _TIME.fullmatch(fields[2])
    if not found:
        raise _not_a_number(fields[2], "seconds")
    seconds, fraction = (found[1], found[2]) if found[1] is not None else (found[3], b"")
    end_ns = int(seconds) * 1_000_000_000 + int(fraction.ljust(9, b"0"))
    if end_ns > MOST_NS:
        raise Damage("number too large", f"{_short(fields[2])} s are over 136 years")
    return Interval(number(fields[1]), end_ns)


def kernel(fields: list[bytes]) -> KernelLine:
    """Read a `kernel` line."""
    _count(fields, 7)
    comm, pid, *others = map(number, fields[2:])
    if pid > MOST_PID:
        raise Damage("number too large", f"{pid} is no process id")
    return KernelLine(address(fields[1]), comm, pid, *others)


def metric(fields: list[bytes]) -> Metric:
    """Read a `metric` line."""
    _count(fields, 3)
    name = fields[1].decode(errors="backslashreplace")
    if name not in METRICS:
        raise Damage("unknown metric", f"{_short(fields[1])}; known are {' and '.join(METRICS)}")
    return Metric(METRICS.index(name), number(fields[2]))


def stall(fields: list[bytes]) -> tuple[int, int, list[int]]:
    """Read an `eustall` line: offset, id of the instruction's text, ten counts."""
    _count(fields, 3 + len(REASONS))
    return address(fields[1]), number(fields[2]), [number(count) for count in fields[3:]]


def number(field: bytes) -> int:
    """Read a whole number that is not negative."""
    if field.isdigit():
        value = int(field) if len(field) <= 20 else MOST + 1
        if value > MOST:
            raise Damage("number too large", f"{_short(field)} is over 2^63 - 1")
        return value
    if field[:1] == b"-" and field[1:].isdigit():
        raise Damage("negative number", _short(field))
    raise _not_a_number(field, "a whole number")


def address(field: bytes) -> int:
    """Read a hexadecimal number with its `0x`."""
    if not _HEX.fullmatch(field):
        raise _not_a_number(field, "a number such as 0x40")
    value = int(field, 16)
    if value > MOST_ADDRESS:
        raise Damage("number too large", f"{_short(field)} has over 64 bits")
    return value


def _count(fields: list[bytes], wanted: int) -> None:
    if len(fields) != wanted:
        tag = fields[0].decode()
        raise Damage("wrong number of fields", f"`{tag}` has {wanted} fields, here are {len(fields)}")


def _not_a_number(field: bytes, wanted: str) -> Damage:
    return Damage("not a number", f"{_short(field)} where {wanted} should be")


def _short(field: bytes) -> str:
    shown = field[:_SHOWN].decode(errors="backslashreplace")
    return repr(shown + ("..." if len(field) > _SHOWN else ""))

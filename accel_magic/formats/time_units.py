"""Units of the times and durations in bpftrace's output: named by the file, named by the user, or guessed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from accel_magic.errors import ProbeError

if TYPE_CHECKING:
    from collections.abc import Iterable

Given: TypeAlias = str | Mapping[str, str] | None
"""Argument of `accel_magic.open(units=...)`."""

NANOSECONDS: Final = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
"""Units in ns."""

_SPELLINGS: Final = {
    "ns": ("ns", "nsec", "nsecs", "nano", "nanos", "nanosecond", "nanoseconds"),
    "us": ("us", "µs", "μs", "usec", "usecs", "micro", "micros", "microsecond", "microseconds"),
    "ms": ("ms", "msec", "msecs", "milli", "millis", "millisecond", "milliseconds"),
    "s": ("s", "sec", "secs", "second", "seconds"),
}
WORDS: Final[Mapping[str, str]] = {word: unit for unit, words in _SPELLINGS.items() for word in words}
"""Every spelling of a unit."""

ANY: Final = "|".join(sorted(WORDS, key=len, reverse=True))
"""Regular expression for a unit's spelling, longest first."""

_ALONE: Final = "|".join(
    sorted((word for word, unit in WORDS.items() if unit != "s" and "sec" in word), key=len, reverse=True)
)
"""Spellings that are column headers for times by themselves."""
_CLOCK: Final = "time|timestamp|tstamp|ts|elapsed|uptime|when|clock"
HEADER: Final = (
    rf"(?i)^\W*(?:(?:{_CLOCK})(?:[ \t]*[(\[][ \t]*(?P<in_brackets>{ANY})[ \t]*[)\]]|_(?P<joined>{ANY}))"
    rf"|(?P<alone>{_ALONE}))[ \t,;|]+[A-Za-z_][^:]*$"
)
"""A header line whose first column is a time with its unit: `TIME(ms)  FUNCTION`."""

TITLE: Final = (
    rf"(?i)(?:[(\[](?:[^()\[\]]*[\s,])?(?P<in_brackets>{ANY})[)\]]|^in (?P<plain>{ANY})|\bin (?P<last>{ANY}))\W*$"
)
"""A line above a histogram that names the unit of its values: `Latency (microseconds):`."""

TIME: Final = "time"
"""Key for the times at the start of lines, in a mapping of units."""

_HOW: Final = "units='ms', or units={'time': 'ms', '@latency': 'us'}; units are ns, us, ms and s"


@dataclass(frozen=True)
class Units:
    """The user's units: `general` applies if the file names none, `named` overrides the file."""

    general: str = ""
    named: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether any is named."""
        return bool(self.general or self.named)


def parse(given: Given) -> Units:
    """Read the argument `units`.

    Raises:
        ProbeError: A unit is unknown, or it is given for something without a unit.

    """
    if given is None:
        return Units()
    if isinstance(given, str):
        return Units(general=_unit(given))
    if not isinstance(given, Mapping):
        raise _bad(f"units={given!r} is neither a unit nor a mapping")
    for name in given:
        if name != TIME and not (isinstance(name, str) and name.startswith("@")):
            raise _bad(f"units: {name!r} is neither 'time' nor a map's name")
    return Units(named={name: _unit(unit) for name, unit in given.items()})


def nanoseconds(word: str) -> int:
    """Convert a unit in any spelling to ns; 1 for a word that is not a unit."""
    return NANOSECONDS.get(WORDS.get(word.lower(), ""), 1)


def of_header(line: str) -> str:
    """Unit of the times below this header line; '' if it is not a header."""
    return _found(re.match(HEADER, line))


def of_title(line: str) -> str:
    """Unit of the values in the histogram below this line; '' if it names none."""
    return "" if line.startswith("@") else _found(re.search(TITLE, line))


def of_headers(lines: Iterable[str]) -> tuple[str, ...]:
    """Distinct time units named by header lines."""
    return tuple(dict.fromkeys(filter(None, map(of_header, lines))))


def _found(match: re.Match[str] | None) -> str:
    word = next(filter(None, match.groups()), "") if match else ""
    return WORDS.get(word.lower(), "")


def _unit(text: object) -> str:
    unit = WORDS.get(text.strip()) if isinstance(text, str) else None
    if unit is None:
        raise _bad(f"units: unknown unit {text!r}")
    return unit


def _bad(what: str) -> ProbeError:
    return ProbeError(what, fix=f"write {_HOW}", code="import.bad-units")

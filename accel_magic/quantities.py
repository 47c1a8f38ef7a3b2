"""Numbers for people to read: three significant digits and a unit."""

from __future__ import annotations

import math
import re

DURATIONS = ((1.0, "ns"), (1e3, "us"), (1e6, "ms"), (1e9, "s"))
COUNTS = ((1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"))
BYTES = ((1.0, "B"), (1024.0, "KiB"), (1024.0**2, "MiB"), (1024.0**3, "GiB"), (1024.0**4, "TiB"))
NOTHING = "-"
_NOUN = re.compile(r"(?P<before>(?:[\w-]+ )*?)(?P<noun>[a-z]+s(?: (?:and|or) [a-z]+s)?)\b")
_VERB = re.compile(r"\b(?:are|were|have|do)\b")
_ONE = {"are": "is", "were": "was", "have": "has", "do": "does"}
_ENDINGS = (("ies", "y"), ("ches", "ch"), ("s", ""))


def duration_text(ns: float) -> str:
    """Format a duration in ns: `12.3 us`; `-` for NaN; from 100 s on `2 min 5 s` or `3 h 7 min`."""
    if math.isfinite(ns) and ns >= 99.95e9:
        seconds = round(ns / 1e9)
        hours, minutes = seconds // 3600, seconds // 60 % 60
        return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds % 60} s"
    return _scaled(ns, DURATIONS)


def count_text(count: float) -> str:
    """Format a count: `4.5 M`; without a unit below 1000; `-` for NaN."""
    return _scaled(count, COUNTS)


def rate_text(per_second: float) -> str:
    """Format hits per second: `4.5 M/s`; `-` for NaN."""
    text = count_text(per_second)
    return text if text == NOTHING else f"{text}/s"


def bytes_text(size: float) -> str:
    """Format a size in bytes: `64 MiB`; `-` for NaN."""
    return _scaled(size, BYTES)


def exact_text(count: int) -> str:
    """Format an exact count with thousands separators: `12,345,678`."""
    return f"{count:,}"


def counted_text(count: int, one: str, several: str = "") -> str:
    """Format an exact count of something: `1 launch`, `2,000 launches`; without `several`, `one` with an s."""
    return f"{exact_text(count)} {one if count == 1 else several or one + 's'}"


def sentence_text(count: int, several: str) -> str:
    """Begin a sentence with an exact count of something: `2 hits were missed`, `1 hit was missed`.

    Args:
        count: How many.
        several: What follows if there are several; its first noun, with an s or "samples and waits", and its first
            "are", "were", "have" or "do" become singular if there is one.

    """
    if count != 1:
        return f"{exact_text(count)} {several}"
    noun = _NOUN.match(several)
    if noun is None:
        return f"1 {several}"
    words = re.split(r" (?:and|or) ", noun["noun"])
    one = " or ".join(_singular(word) for word in words)
    return f"1 {noun['before']}{one}{_VERB.sub(lambda verb: _ONE[verb[0]], several[noun.end() :], count=1)}"


def _singular(noun: str) -> str:
    return next(noun.removesuffix(ending) + one for ending, one in _ENDINGS if noun.endswith(ending))


def ratio_text(ratio: float) -> str:
    """Format a ratio to the baseline: `1.25x`; `-` for NaN."""
    if math.isnan(ratio):
        return NOTHING
    return "inf" if math.isinf(ratio) else f"{_three_digits(ratio)}x"


def share_text(share: float) -> str:
    """Format a share of a whole, 0 to 1: `12.3 %`; `-` for NaN."""
    return NOTHING if math.isnan(share) else f"{_three_digits(100 * share)} %"


def weight_text(weight: float, unit: str) -> str:
    """Format a profile's weight in its unit: `1.25 s`, `64 MiB`, `332 samples`; `-` for NaN."""
    if unit == "ns":
        return duration_text(weight)
    if unit == "bytes":
        return bytes_text(weight)
    text = count_text(weight)
    return text if text == NOTHING else f"{text} {unit.removesuffix('s') if weight == 1 else unit}"


def shortened(name: str, width: int) -> str:
    """Cut `name` to `width` characters in its middle, where function names differ least."""
    if len(name) <= width:
        return name
    tail = (width - 1) // 2
    return f"{name[: width - 1 - tail]}…{name[-tail:]}"


def _scaled(value: float, units: tuple[tuple[float, str], ...]) -> str:
    """Format `value` in the largest unit in which it rounds to at least 1."""
    if not math.isfinite(value):
        return NOTHING
    factor, unit = units[0]
    for next_factor, next_unit in units[1:]:
        # 999.5 of one unit would read "1000": use the next unit.
        if abs(value) / factor < next_factor / factor - 0.5:
            break
        factor, unit = next_factor, next_unit
    return f"{_three_digits(value / factor)} {unit}".rstrip()


def _three_digits(value: float) -> str:
    """Format with three significant digits, without an exponent or trailing zeros."""
    if value == 0 or not math.isfinite(value):
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value)) + 1e-12))
    text = f"{value:.{min(digits, 6)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text

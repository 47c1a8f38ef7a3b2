"""Round numbers for the ticks of an axis."""

from __future__ import annotations

import math


def linear_ticks(highest: float) -> list[float]:
    """Ticks from 0 to `highest`, at most six, with steps of 1, 2 or 5 times a power of ten."""
    if highest <= 0:
        return [0.0]
    power = 10.0 ** math.floor(math.log10(highest / 5))
    step = next(power * factor for factor in (1, 2, 5, 10) if highest / (power * factor) <= 5)
    # Rounded to the step's last digit, because 3 * 0.1 is 0.30000000000000004.
    digits = max(0, 1 - math.floor(math.log10(step)))
    return [round(step * count, digits) for count in range(int(highest / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten between `low` and `high`, with multiples of them if the range is short."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    span = math.log10(high / low)
    factors = (
        (1,) if span > 3 else (1, 3) if span > 1.5 else (1, 2, 5) if span > 0.6 else (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)
    )
    return [tick for decade in decades for factor in factors if low <= (tick := float(factor * 10**decade)) <= high]

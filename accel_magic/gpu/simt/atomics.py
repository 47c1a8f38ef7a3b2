"""Read-modify-write of many lanes on few addresses: lanes in order, each gets what it would have seen.

Every function takes the memory as an array of units, the lanes' places in it (int64, repeats allowed) and their values,
changes the memory, and returns the values that were there before, one per lane.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.gpu.simt.types import Array


@dataclass(frozen=True)
class Groups:
    """Lanes sorted by the place they touch, in lane order within one place.

    Attributes:
        order: Lanes by place; shape (lanes,).
        starts: Where in `order` each place's lanes begin; shape (places,).
        ends: Where they end.
        places: The places; shape (places,).

    """

    order: Array
    starts: Array
    ends: Array
    places: Array

    @classmethod
    def of(cls, places: Array) -> Groups:
        """Sort lanes by place."""
        order = np.argsort(places, kind="stable")
        ordered = places[order]
        first = np.ones(len(order), bool)
        first[1:] = ordered[1:] != ordered[:-1]
        starts = np.flatnonzero(first)
        return cls(order, starts, np.append(starts[1:], len(order)), ordered[starts])

    @property
    def most(self) -> int:
        """Lanes at the place that most of them touch."""
        return int((self.ends - self.starts).max())


def fold(memory: Array, places: Array, values: Array, function: Any) -> None:
    """Apply a two-operand ufunc for every lane when nobody asks for the values before."""
    function.at(memory, places, values)


def fetch_fold(memory: Array, places: Array, values: Array, function: Any) -> Array:
    """Apply a two-operand ufunc for every lane, one after the other at each place."""
    groups = Groups.of(places)
    if groups.most * 4 <= len(groups.starts):
        return fetch_rounds(memory, places, values, function, groups)
    before = np.empty_like(values)
    for start, end, place in zip(groups.starts, groups.ends, groups.places, strict=True):
        lanes = groups.order[start:end]
        steps = function.accumulate(np.concatenate([memory[place : place + 1], values[lanes]]), dtype=memory.dtype)
        before[lanes] = steps[:-1]
        memory[place] = steps[-1]
    return before


def fetch_rounds(
    memory: Array, places: Array, values: Array, function: Callable[[Array, Array], Array], groups: Groups | None = None
) -> Array:
    """Apply any function of (old, value): in each round one lane of every place."""
    groups = groups or Groups.of(places)
    before = np.empty_like(values)
    for round_ in range(groups.most):
        at = groups.starts + round_
        lanes = groups.order[at[at < groups.ends]]
        old = memory[places[lanes]]
        before[lanes] = old
        memory[places[lanes]] = function(old, values[lanes])
    return before


def exchange(memory: Array, places: Array, values: Array) -> Array:
    """Store every lane's value; each gets its predecessor's."""
    groups = Groups.of(places)
    before = np.empty_like(values)
    ordered = values[groups.order]
    shifted = np.concatenate([ordered[:1], ordered[:-1]])
    shifted[groups.starts] = memory[groups.places]
    before[groups.order] = shifted
    memory[groups.places] = ordered[groups.ends - 1]
    return before


def compare_and_swap(memory: Array, places: Array, expected: Array, wanted: Array) -> Array:
    """Store a lane's wanted value where memory holds the expected one.

    A round finds, at every place, the next lane that changes it: there are as many rounds as the place that changes
    most has changes, not as it has lanes.
    """
    groups = Groups.of(places)
    compare, new = expected[groups.order], wanted[groups.order]
    count = len(groups.order)
    position = np.arange(count)
    home = np.repeat(np.arange(len(groups.starts)), groups.ends - groups.starts)
    current = memory[groups.places]
    seen = current[home]
    done = groups.starts.copy()
    while True:
        now = current[home]
        hits = np.where((compare == now) & (new != now) & (position >= done[home]), position, count)
        first = np.minimum.reduceat(hits, groups.starts)
        some = first < count
        if not some.any():
            break
        current[some] = new[first[some]]
        done[some] = first[some] + 1
        seen = np.where((position >= done[home]), current[home], seen)
    memory[groups.places] = current
    before = np.empty_like(seen)
    before[groups.order] = seen
    return before


def increase(old: Array, limit: Array) -> Array:
    """`atom.inc`: one more, or zero from the limit on."""
    return np.where(old >= limit, old.dtype.type(0), old + old.dtype.type(1))


def decrease(old: Array, limit: Array) -> Array:
    """`atom.dec`: one less, or the limit from zero or from beyond the limit."""
    return np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1))

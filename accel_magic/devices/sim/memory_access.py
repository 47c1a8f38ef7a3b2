"""Loads, stores and atomics for many lanes: addresses to memory, with bounds and alignment checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic.devices.sim.device_memory import GLOBAL, LOCAL, PARAMETER, SHARED, WINDOW
from accel_magic.devices.sim.faults import FaultSite, Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from accel_magic.devices.sim.device_memory import MemoryRegion
    from accel_magic.devices.sim.lane_state import ExecutionState
    from accel_magic.devices.sim.types import Array


_SHIFT: Final = {1: 0, 2: 1, 4: 2, 8: 3, 16: 4}
_WINDOWS: Final = {SHARED >> WINDOW: "shared", LOCAL >> WINDOW: "local", PARAMETER >> WINDOW: "param"}
_BASES: Final = {"shared": SHARED, "local": LOCAL, "param": PARAMETER}
_FIX = "Check the index computed here against the size of the array."


@dataclass(frozen=True)
class LaneAccess:
    """One instruction's memory access.

    Attributes:
        space: 'global', 'shared', 'local', 'const', 'param', or '' for generic addresses.
        unit: Bytes per element.
        count: Elements per lane.
        write: Whether it may change memory.
        site: The instruction.

    """

    space: str
    unit: int
    count: int
    write: bool
    site: FaultSite

    @property
    def size(self) -> int:
        """Bytes per lane."""
        return self.unit * self.count


@dataclass(frozen=True)
class AccessPart:
    """Lanes that access the same region.

    Attributes:
        units: The region as elements.
        places: Index in `units` of each lane's first element; int64.
        lanes: Which of the executing lanes these are; None for all of them.

    """

    units: Array
    places: Array
    lanes: Array | None


@dataclass(frozen=True)
class _Reach:
    """Lanes and the addresses that they access.

    Attributes:
        addresses: uint64, within the space.
        lanes: Which of the executing lanes these are; None for all of them.

    """

    state: ExecutionState
    access: LaneAccess
    addresses: Array
    lanes: Array | None

    def who(self) -> Array:
        """Numbers of the lanes in the batch."""
        lanes = self.state.lanes()
        return lanes if self.lanes is None else lanes[self.lanes]

    def part(self, region: MemoryRegion, places: Array) -> AccessPart:
        """Return the part of a region at these byte offsets."""
        unit = self.access.unit
        return AccessPart(region.units[unit], places >> _SHIFT[unit], self.lanes)


def parts(state: ExecutionState, access: LaneAccess, addresses: Array) -> Iterator[AccessPart]:
    """Resolve addresses (uint64, one per executing lane) to memory, after checking them all.

    Raises:
        Violation: The first lane whose access is out of bounds or misaligned.

    """
    if (addresses & np.uint64(access.size - 1)).any():
        _misaligned(state, access, addresses)
    if access.space:
        yield _PLACES[access.space](_Reach(state, access, addresses, None))
        return
    windows = addresses >> np.uint64(WINDOW)
    if windows.min() == windows.max():
        yield _generic(_Reach(state, access, addresses, None), int(windows[0]))
        return
    found = [(int(window), np.flatnonzero(windows == window)) for window in np.unique(windows)]
    yield from [_generic(_Reach(state, access, addresses[lanes], lanes), window) for window, lanes in found]


def _misaligned(state: ExecutionState, access: LaneAccess, addresses: Array) -> None:
    first = int(np.argmax(addresses & np.uint64(access.size - 1) != 0))
    raise Violation(
        f"misaligned access of {access.size} bytes",
        site=access.site,
        lane=int(state.lanes()[first]),
        address=int(addresses[first]),
        why=f"the address must be a multiple of {access.size}",
        fix="Align the pointer, or use a smaller type.",
        code="gpu.fault.misaligned",
    )


def _generic(reach: _Reach, window: int) -> AccessPart:
    space = _WINDOWS.get(window)
    if space is None:
        return _global(reach)
    return _PLACES[space](_Reach(reach.state, reach.access, reach.addresses - np.uint64(_BASES[space]), reach.lanes))


def _global(reach: _Reach) -> AccessPart:
    heap, access = reach.state.heap, reach.access
    bad = heap.check(reach.addresses, access.size, write=access.write)
    if bad is not None:
        why = heap.explain(int(reach.addresses[bad]), access.size, write=access.write)
        _refuse(reach, "global", bad, why)
    return reach.part(heap.region, (reach.addresses - np.uint64(GLOBAL)).view(np.int64))


def _shared(reach: _Reach) -> AccessPart:
    state, size = reach.state, reach.state.shape.shared
    _inside(reach, "shared", size, f"a block has {size} bytes of shared memory here")
    return reach.part(state.shared, reach.addresses.view(np.int64) + state.slot[reach.who()] * state.shared_stride)


def _local(reach: _Reach) -> AccessPart:
    state, size = reach.state, reach.state.shape.local
    _inside(reach, "local", size, f"a thread has {size} bytes of local memory here")
    return reach.part(state.local, reach.addresses.view(np.int64) + reach.who() * state.local_stride)


def _param(reach: _Reach) -> AccessPart:
    write, size = reach.access.write, reach.state.parameter_bytes
    why = "kernel parameters may only be read" if write else f"the kernel has {size} bytes of parameters"
    _inside(reach, "param", 0 if write else size, why)
    return reach.part(reach.state.parameters, reach.addresses.view(np.int64))


_PLACES: Final[dict[str, Callable[[_Reach], AccessPart]]] = {
    "global": _global,
    "const": _global,
    "shared": _shared,
    "local": _local,
    "param": _param,
}


def _inside(reach: _Reach, space: str, size: int, why: str) -> None:
    """Check offsets into a window of `size` bytes."""
    most = size - reach.access.size
    if most >= 0 and int(reach.addresses.max()) <= most:
        return
    bad = reach.addresses > np.uint64(most) if most >= 0 else np.ones(len(reach.addresses), np.bool_)
    _refuse(reach, space, int(np.argmax(bad)), why)


def _refuse(reach: _Reach, space: str, place: int, why: str) -> None:
    kind = "write" if reach.access.write else "read"
    raise Violation(
        f"{kind} of {reach.access.size} bytes out of bounds ({space} memory)",
        site=reach.access.site,
        lane=int(reach.who()[place]),
        address=int(reach.addresses[place]),
        why=why,
        fix=_FIX,
        code="gpu.fault.out-of-bounds",
    )


def load(state: ExecutionState, access: LaneAccess, addresses: Array) -> list[Array]:
    """Load; return one array of raw units (unsigned) for each element of the vector."""
    found = list(parts(state, access, addresses))
    if found[0].lanes is None:
        units, places = found[0].units, found[0].places
        return [units[places] if not at else units[places + at] for at in range(access.count)]
    results = [np.empty(len(addresses), found[0].units.dtype) for _ in range(access.count)]
    for part in found:
        for at, result in enumerate(results):
            result[part.lanes] = part.units[part.places + at]
    return results


def store(state: ExecutionState, access: LaneAccess, addresses: Array, values: list[Array]) -> None:
    """Store; if several lanes write the same place, one wins."""
    for part in list(parts(state, access, addresses)):
        for at, value in enumerate(values):
            chosen = value if part.lanes is None or not np.ndim(value) else value[part.lanes]
            part.units[part.places + at] = chosen


@dataclass(frozen=True)
class Groups:
    """Lanes sorted by the place they access, in lane order within one place.

    Attributes:
        order: Lanes by place; shape (lanes,).
        starts: Index in `order` where each place's lanes begin; shape (places,).
        ends: Index where they end; shape (places,).
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
        """Number of lanes at the most accessed place."""
        return int((self.ends - self.starts).max())


def fold(memory: Array, places: Array, values: Array, function: Any) -> None:
    """Apply a two-operand ufunc for every lane; the previous values are not needed."""
    function.at(memory, places, values)


def fetch_fold(memory: Array, places: Array, values: Array, function: Any) -> Array:
    """Apply a two-operand ufunc for every lane, in lane order at each place; return the previous values."""
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
    """Apply any function of (old, value), to one lane of every place in each round; return the previous values."""
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
    """Store every lane's value; each lane gets the value that was there before."""
    groups = Groups.of(places)
    before = np.empty_like(values)
    ordered = values[groups.order]
    shifted = np.concatenate([ordered[:1], ordered[:-1]])
    shifted[groups.starts] = memory[groups.places]
    before[groups.order] = shifted
    memory[groups.places] = ordered[groups.ends - 1]
    return before


def compare_and_swap(memory: Array, places: Array, expected: Array, requested: Array) -> Array:
    """Store each lane's wanted value if memory holds its expected value; return the previous values.

    Each round finds, at every place, the next lane that changes it. The number of rounds is the largest number of
    changes at one place, not of lanes.
    """
    groups = Groups.of(places)
    compare, new = expected[groups.order], requested[groups.order]
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
    """`atom.inc`: increment, wrapping to zero at the limit."""
    return np.where(old >= limit, old.dtype.type(0), old + old.dtype.type(1))


def decrease(old: Array, limit: Array) -> Array:
    """`atom.dec`: decrement, wrapping to the limit at zero or above the limit."""
    return np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1))

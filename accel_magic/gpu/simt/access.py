"""Loads, stores and atomics of many lanes: address to memory, with bounds and alignment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.gpu.simt.faults import Site, Violation
from accel_magic.gpu.simt.memory import GLOBAL, LOCAL, PARAMETER, SHARED, WINDOW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from accel_magic.gpu.simt.memory import Region
    from accel_magic.gpu.simt.state import State
    from accel_magic.gpu.simt.types import Array

_SHIFT: Final = {1: 0, 2: 1, 4: 2, 8: 3}
_WINDOWS: Final = {SHARED >> WINDOW: "shared", LOCAL >> WINDOW: "local", PARAMETER >> WINDOW: "param"}
_BASES: Final = {"shared": SHARED, "local": LOCAL, "param": PARAMETER}
_FIX = "Check the index that is computed here against the size of the array."


@dataclass(frozen=True)
class Access:
    """One instruction's way to memory.

    Attributes:
        space: 'global', 'shared', 'local', 'const', 'param', or '' for generic addresses.
        unit: Bytes of one element.
        count: Elements of one lane.
        write: Whether it may change memory.
        site: The instruction.

    """

    space: str
    unit: int
    count: int
    write: bool
    site: Site

    @property
    def size(self) -> int:
        """Bytes of one lane."""
        return self.unit * self.count


@dataclass(frozen=True)
class Part:
    """Lanes that reach the same region.

    Attributes:
        units: The region as elements.
        places: Where in `units` each lane's first element is; int64.
        lanes: Which of the executing lanes these are: None for all of them.

    """

    units: Array
    places: Array
    lanes: Array | None


@dataclass(frozen=True)
class _Reach:
    """Lanes and the addresses that they reach for.

    Attributes:
        addresses: uint64, within the space.
        lanes: Which of the executing lanes these are; None for all of them.

    """

    state: State
    access: Access
    addresses: Array
    lanes: Array | None

    def who(self) -> Array:
        """Numbers of the lanes in the batch."""
        lanes = self.state.lanes()
        return lanes if self.lanes is None else lanes[self.lanes]

    def part(self, region: Region, places: Array) -> Part:
        """Give what lies at byte places of a region."""
        unit = self.access.unit
        return Part(region.units[unit], places >> _SHIFT[unit], self.lanes)


def parts(state: State, access: Access, addresses: Array) -> Iterator[Part]:
    """Find what addresses (uint64, one per executing lane) mean, after checking them all.

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


def _misaligned(state: State, access: Access, addresses: Array) -> None:
    first = int(np.argmax(addresses & np.uint64(access.size - 1) != 0))
    raise Violation(
        f"misaligned access of {access.size} bytes",
        site=access.site,
        lane=int(state.lanes()[first]),
        address=int(addresses[first]),
        why=f"the address must be a multiple of {access.size}",
        fix="Align the pointer, or use a narrower type.",
        code="gpu.fault.misaligned",
    )


def _generic(reach: _Reach, window: int) -> Part:
    space = _WINDOWS.get(window)
    if space is None:
        return _global(reach)
    return _PLACES[space](_Reach(reach.state, reach.access, reach.addresses - np.uint64(_BASES[space]), reach.lanes))


def _global(reach: _Reach) -> Part:
    heap, access = reach.state.heap, reach.access
    bad = heap.check(reach.addresses, access.size, write=access.write)
    if bad is not None:
        why = heap.explain(int(reach.addresses[bad]), access.size, write=access.write)
        _refuse(reach, "global", bad, why)
    return reach.part(heap.region, (reach.addresses - np.uint64(GLOBAL)).view(np.int64))


def _shared(reach: _Reach) -> Part:
    state, size = reach.state, reach.state.shape.shared
    _inside(reach, "shared", size, f"a block has {size} bytes of shared memory here")
    return reach.part(state.shared, reach.addresses.view(np.int64) + state.slot[reach.who()] * state.shared_stride)


def _local(reach: _Reach) -> Part:
    state, size = reach.state, reach.state.shape.local
    _inside(reach, "local", size, f"a thread has {size} bytes of local memory here")
    return reach.part(state.local, reach.addresses.view(np.int64) + reach.who() * state.local_stride)


def _param(reach: _Reach) -> Part:
    write, size = reach.access.write, reach.state.parameter_bytes
    why = "kernel parameters may only be read" if write else f"the kernel has {size} bytes of parameters"
    _inside(reach, "param", 0 if write else size, why)
    return reach.part(reach.state.parameters, reach.addresses.view(np.int64))


_PLACES: Final[dict[str, Callable[[_Reach], Part]]] = {
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


def load(state: State, access: Access, addresses: Array) -> list[Array]:
    """Read; one array of raw units (unsigned) for each element of the vector."""
    found = list(parts(state, access, addresses))
    if found[0].lanes is None:
        units, places = found[0].units, found[0].places
        return [units[places] if not at else units[places + at] for at in range(access.count)]
    results = [np.empty(len(addresses), found[0].units.dtype) for _ in range(access.count)]
    for part in found:
        for at, result in enumerate(results):
            result[part.lanes] = part.units[part.places + at]
    return results


def store(state: State, access: Access, addresses: Array, values: list[Array]) -> None:
    """Write; of lanes that write the same place one wins."""
    for part in list(parts(state, access, addresses)):
        for at, value in enumerate(values):
            chosen = value if part.lanes is None or not np.ndim(value) else value[part.lanes]
            part.units[part.places + at] = chosen

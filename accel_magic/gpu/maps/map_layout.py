"""Layout of maps in a device's memory: sizes, initial content and positions.

The device's side of these layouts is C: hash.h, ring.h and helpers.c in `codegen/device/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProgramError
from accel_magic.gpu.program.helpers import ARRAYS, HASHES, PER_THREAD, MapType

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from accel_magic.devices.device import MemoryKind
    from accel_magic.gpu.program.object_model import MapSpec


Content = bytes
"""Initial content of a map; an alias, because `bytes` is the name of a size in the classes below."""

ALIGNMENT: Final = 256
"""Alignment of every map in bytes, as of allocations on a device."""
HEAD: Final = 64
"""Bytes before the slots of a hash (u32 entries, u32 deletions) and the data of a ring (u64 reserved, u64 consumed)."""
SLOT_HEAD: Final = 8
"""Bytes before a hash slot's key: u32 state and upper bits of the hash."""
RECORD_HEAD: Final = 24
"""Bytes before a record's data: u32 length and bits, u32, u64 thread, u64 launch."""
OWN_HEAD: Final = 24
"""Bytes before the records of one thread's ring: u64 head, u64 tail, u32, u32."""
OWN_RECORD_HEAD: Final = 8
"""Bytes before a record's data in one thread's ring: u32 size and READY bit, u32 launch."""
PRINT_BYTES: Final = 1 << 18
"""Bytes of the ring for printed lines."""
_RING_LEAST = 64
_MOST_ENTRIES = 1 << 31
_MOST_RING_BYTES = 1 << 30
_IN_HOST_MEMORY = frozenset(
    {
        MapType.RINGBUF,
        MapType.GPU_RINGBUF,
        MapType.SHARED_ARRAY,
        MapType.PER_THREAD_ARRAY_HOST,
        MapType.GPU_ARRAY_HOST,
    }
)


@dataclass(frozen=True)
class MapLayout:
    """The memory that one map needs.

    Attributes:
        bytes: Its size.
        alignment: Alignment of its first byte.
        memory: The kind of memory.
        initial: The initial content of its first bytes; all others are zero.

    """

    bytes: int
    alignment: int
    memory: MemoryKind
    initial: Content = b""


@dataclass(frozen=True)
class Region:
    """A part of a block: of the block of one kind of memory, or of a map's own block (`block_of`)."""

    memory: str
    offset: int
    bytes: int
    initial: Content = b""


@dataclass(frozen=True)
class MemoryPlan:
    """Positions of all memory shared by programs and host, within two blocks that are initially zero.

    Attributes:
        maps: A region for each map, in their order.
        losses: A u64 for each map and one for the print ring.
        launch: A u64: the number of the launch, where the host writes it.
        printk: The print ring.
        threads: Capacity of per-thread maps, in threads.
        device_bytes: Size of the block in device memory.
        host_bytes: Size of the block in host memory.

    """

    maps: tuple[Region, ...]
    losses: Region
    launch: Region
    printk: Region
    threads: int
    device_bytes: int
    host_bytes: int


def round_up(size: int, step: int) -> int:
    """Round up to a multiple."""
    return -(-size // step) * step


def power_of_two(least: int) -> int:
    """Return the smallest power of two that is at least `least`."""
    return 1 << max(least - 1, 0).bit_length()


def slots(spec: MapSpec) -> int:
    """Count a hash map's slots."""
    return 2 * power_of_two(spec.max_entries)


def slot_bytes(spec: MapSpec) -> int:
    """Size of one slot of a hash map."""
    return SLOT_HEAD + round_up(spec.key_size, 8) + round_up(spec.value_size, 8)


def ring_size(requested: int) -> int:
    """Size of a ring for all threads: a power of two, like the kernel's rings."""
    return power_of_two(max(requested, _RING_LEAST))


def ring_bytes(requested: int) -> int:
    """Bytes of a ring for all threads, with an overflow area of the same size for records that cross its end."""
    return HEAD + 2 * ring_size(requested)


def own_record_bytes(spec: MapSpec) -> int:
    """Bytes of one record of a thread's own ring."""
    return OWN_RECORD_HEAD + round_up(spec.value_size, 8)


def own_ring_bytes(spec: MapSpec) -> int:
    """Bytes of one thread's ring."""
    return OWN_HEAD + spec.max_entries * own_record_bytes(spec)


_BYTES: Final[Mapping[int, Callable[[MapSpec, int], int]]] = {
    **dict.fromkeys(HASHES, lambda spec, _: HEAD + slots(spec) * slot_bytes(spec)),
    **dict.fromkeys(ARRAYS, lambda spec, _: spec.max_entries * spec.stride),
    **dict.fromkeys(PER_THREAD, lambda spec, threads: spec.max_entries * threads * spec.value_size),
    MapType.RINGBUF: lambda spec, _: ring_bytes(spec.max_entries),
    MapType.GPU_RINGBUF: lambda spec, threads: threads * own_ring_bytes(spec),
}


def layout_of(spec: MapSpec, threads: int) -> MapLayout:
    """Lay out one map.

    Args:
        spec: Its declaration.
        threads: Capacity of per-thread maps, in threads.

    Raises:
        ProgramError: GPU programs cannot use a map with this declaration.

    """
    _check(spec)
    memory: MemoryKind = "host" if spec.type in _IN_HOST_MEMORY else "device"
    return MapLayout(_BYTES[spec.type](spec, threads), ALIGNMENT, memory, spec.initial or b"")


def block_of(name: str) -> str:
    """Return the name of a map's own block; differs from all kinds of memory."""
    return f"map {name}"


def plan_memory(
    maps: Sequence[MapSpec], threads: int, *, limit: int, apart: Collection[str] = frozenset()
) -> MemoryPlan:
    """Assign every map its position.

    Args:
        maps: In the order of their handles.
        threads: Capacity of per-thread maps, in threads.
        limit: Maximum total size in bytes, of both kinds of memory.
        apart: Names of maps with their own blocks: the kernel's.

    Raises:
        ProgramError: A declaration cannot be used, or the maps need more than the limit; names the largest map.

    """
    layouts = [layout_of(spec, threads) for spec in maps]
    shared = [
        MapLayout(8 * (len(maps) + 1), ALIGNMENT, "device"),
        MapLayout(8, ALIGNMENT, "device"),
        MapLayout(ring_bytes(PRINT_BYTES), ALIGNMENT, "host"),
    ]
    ends: dict[MemoryKind, int] = {"device": 0, "host": 0}
    regions = []
    names = [spec.name for spec in maps]
    for name, layout in zip([*names, "", "", ""], (*layouts, *shared), strict=True):
        if name in apart:
            regions.append(Region(block_of(name), 0, layout.bytes))
            continue
        offset = round_up(ends[layout.memory], layout.alignment)
        regions.append(Region(layout.memory, offset, layout.bytes, layout.initial))
        ends[layout.memory] = offset + layout.bytes
    if sum(ends.values()) > limit:
        raise _too_large(maps, layouts, threads, sum(ends.values()), limit)
    *placed, losses, launch, printk = regions
    return MemoryPlan(tuple(placed), losses, launch, printk, threads, ends["device"], ends["host"])


def placement(
    plan: MemoryPlan, base_device: int, base_host: int, pid_tgid: int = 0, apart: Mapping[str, int] | None = None
) -> Placement:
    """Turn a plan into addresses.

    Args:
        plan: The plan.
        base_device: Address of the block in device memory.
        base_host: The device's address of the block in host memory.
        pid_tgid: The result of `bpf_get_current_pid_tgid`.
        apart: Addresses of maps with their own blocks, by the names of the blocks.

    """
    bases = {"device": base_device, "host": base_host, **(apart or {})}
    addresses = [bases[region.memory] + region.offset for region in (*plan.maps, plan.losses, plan.launch, plan.printk)]
    *maps, losses, launch, printk = addresses
    return Placement(tuple(maps), plan.threads, losses, printk, pid_tgid, launch)


def _check(spec: MapSpec) -> None:
    for wrong, why, fix in _complaints(spec):
        if wrong:
            raise ProgramError(
                f"map {spec.name} cannot be used by GPU programs", why=why, fix=fix, code="gpu.map.unusable"
            )


def _complaints(spec: MapSpec) -> Iterable[tuple[bool, str, str]]:
    known = ", ".join(f"{each.name} ({each.value})" for each in MapType)
    yield spec.type not in _BYTES, f"its type is {spec.type}", f"use one of {known}"
    yield (
        not 0 < spec.max_entries <= _MOST_ENTRIES,
        f"max_entries is {spec.max_entries}",
        "declare its number of entries: __uint(max_entries, N)",
    )
    indexed = spec.type in ARRAYS | PER_THREAD
    yield (
        indexed and spec.key_size != 4,
        f"its keys have {spec.key_size} bytes, but indexes have four",
        "declare __type(key, __u32)",
    )
    yield (
        spec.type in HASHES and spec.key_size < 1,
        "its keys have no bytes",
        "declare the type of its keys: __type(key, ...)",
    )
    yield (
        spec.type != MapType.RINGBUF and spec.value_size < 1,
        "its values have no bytes",
        "declare the type of its values: __type(value, ...)",
    )
    yield (
        spec.type == MapType.RINGBUF and spec.max_entries > _MOST_RING_BYTES,
        f"its ring has {spec.max_entries} bytes",
        f"declare at most {_MOST_RING_BYTES} bytes: __uint(max_entries, N)",
    )
    yield (
        len(spec.initial or b"") > spec.value_size,
        f"its initial content has {len(spec.initial or b'')} bytes, its value {spec.value_size}",
        "compile the program again; the object is damaged",
    )


def _too_large(
    maps: Sequence[MapSpec], layouts: Sequence[MapLayout], threads: int, total: int, limit: int
) -> ProgramError:
    spec, largest = max(zip(maps, layouts, strict=True), key=lambda pair: pair[1].bytes, default=(None, None))
    if spec is None or largest is None:
        return ProgramError(
            f"the maps need {total:,} bytes, and the limit is {limit:,}",
            fix="raise the limit",
            code="gpu.map.too-large",
        )
    per_thread = spec.type in PER_THREAD or spec.type == MapType.GPU_RINGBUF
    return ProgramError(
        f"map {spec.name} needs {largest.bytes:,} bytes, all maps {total:,}, and the limit is {limit:,}",
        why=f"it has values for {threads:,} threads" if per_thread else f"it has {spec.max_entries:,} entries",
        fix="lower its max_entries" + (", or trace fewer threads: --threads N" if per_thread else ""),
        code="gpu.map.too-large",
    )


@dataclass(frozen=True)
class Placement:
    """Device addresses of all memory that programs share with the host.

    Attributes:
        bases: Address of each map, in the order of the object's maps; its layout is a `Layout`.
        threads: Capacity of per-thread maps, in threads of a grid; other threads get null, which is counted.
        losses: Address of a u64 for each map and one for the print ring: calls that failed because it was full, exact.
        printk: Address of the print ring.
        pid_tgid: The result of `bpf_get_current_pid_tgid`: process id in the upper half, thread id in the lower.
        launch: Address of a u64 where the host writes each launch's number, for devices that do not count them.

    """

    bases: tuple[int, ...]
    threads: int
    losses: int
    printk: int
    pid_tgid: int = 0
    launch: int = 0

    def moved(self, placed: Callable[[int], int]) -> Placement:
        """Return the placement with another address for each: `placed(address)`."""
        return Placement(
            tuple(map(placed, self.bases)),
            self.threads,
            placed(self.losses),
            placed(self.printk),
            self.pid_tgid,
            placed(self.launch),
        )

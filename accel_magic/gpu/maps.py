"""How maps lie in a device's memory: their sizes, what they hold at the start, and where each one goes.

The device's side of every layout is C, in `device/`: hash.h, ring.h and helpers.c.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from accel_magic.errors import ProgramError
from accel_magic.gpu.helpers import ARRAYS, HASHES, PER_THREAD, MapType
from accel_magic.gpu.placement import Placement

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from accel_magic.gpu.model import MapSpec

MemoryKind = Literal["device", "host"]
"""Where a map lies: in the device's own memory, or in the host's, which the device reaches and the host reads live."""

Content = bytes
"""What a map holds at the start; `bytes` are sizes here."""

ALIGNMENT: Final = 256
"""Of every map, in bytes: what allocations on a device have at least."""
HEAD: Final = 64
"""Bytes before the slots of a hash (u32 entries, u32 deletions) and the data of a ring (u64 reserved, u64 consumed)."""
SLOT_HEAD: Final = 8
"""Bytes before a hash slot's key: u32 state and upper bits of the hash."""
RECORD_HEAD: Final = 24
"""Bytes before a record's data: u32 length and bits, u32, u64 thread, u64 launch."""
OWN_HEAD: Final = 24
"""Bytes before the records of one thread's ring: u64 head, u64 tail, u32, u32."""
OWN_RECORD_HEAD: Final = 8
"""Bytes before a record's data there: u32 size and READY bit, u32 launch."""
PRINT_BYTES: Final = 1 << 18
"""Size of the ring of what programs print."""
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
class Layout:
    """What one map needs.

    Attributes:
        bytes: Its size.
        alignment: Of its first byte.
        memory: Where it lies.
        initial: What its first bytes hold at the start; all others are zero.

    """

    bytes: int
    alignment: int
    memory: MemoryKind
    initial: Content = b""


@dataclass(frozen=True)
class Region:
    """A part of a block: of one kind of memory, or of a map that lies apart (`block_of`)."""

    memory: str
    offset: int
    bytes: int
    initial: Content = b""


@dataclass(frozen=True)
class Plan:
    """Where everything that programs share with the host lies within two blocks, both zero at first.

    Attributes:
        maps: A region for each map, in their order.
        losses: u64 for each map and one for the print ring.
        printk: The print ring.
        threads: Threads that per-thread maps have room for.
        device_bytes: Size of the block in device memory.
        host_bytes: Size of the block in host memory.

    """

    maps: tuple[Region, ...]
    losses: Region
    printk: Region
    threads: int
    device_bytes: int
    host_bytes: int


def round_up(size: int, step: int) -> int:
    """Round up to a multiple."""
    return -(-size // step) * step


def power_of_two(least: int) -> int:
    """Find the smallest power of two that is not below `least`."""
    return 1 << max(least - 1, 0).bit_length()


def slots(spec: MapSpec) -> int:
    """Count a hash map's slots."""
    return 2 * power_of_two(spec.max_entries)


def slot_bytes(spec: MapSpec) -> int:
    """Size of one slot of a hash map."""
    return SLOT_HEAD + round_up(spec.key_size, 8) + round_up(spec.value_size, 8)


def ring_size(wanted: int) -> int:
    """Size of a ring for all threads: the kernel's rings are powers of two as well."""
    return power_of_two(max(wanted, _RING_LEAST))


def ring_bytes(wanted: int) -> int:
    """Bytes of a ring for all threads; a record that crosses its end goes on behind it, in as much room again."""
    return HEAD + 2 * ring_size(wanted)


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


def layout_of(spec: MapSpec, threads: int) -> Layout:
    """Lay out one map.

    Args:
        spec: Its declaration.
        threads: Threads that per-thread maps have room for.

    Raises:
        ProgramError: Its declaration is no map that GPU programs can use.

    """
    _check(spec)
    memory: MemoryKind = "host" if spec.type in _IN_HOST_MEMORY else "device"
    return Layout(_BYTES[spec.type](spec, threads), ALIGNMENT, memory, spec.initial or b"")


def block_of(name: str) -> str:
    """Name the block of a map that lies apart; no kind of memory is called so."""
    return f"map {name}"


def plan_memory(maps: Sequence[MapSpec], threads: int, *, limit: int, apart: Collection[str] = frozenset()) -> Plan:
    """Give every map its place.

    Args:
        maps: In the order of their handles.
        threads: Threads that per-thread maps get room for.
        limit: Bytes of both kinds of memory that all of it may take.
        apart: Names of maps that lie in blocks of their own: the kernel's.

    Raises:
        ProgramError: A declaration cannot be used, or all maps need more than the limit; names the largest one.

    """
    layouts = [layout_of(spec, threads) for spec in maps]
    shared = [
        Layout(8 * (len(maps) + 1), ALIGNMENT, "device"),
        Layout(ring_bytes(PRINT_BYTES), ALIGNMENT, "host"),
    ]
    ends: dict[MemoryKind, int] = {"device": 0, "host": 0}
    regions = []
    names = [spec.name for spec in maps]
    for name, layout in zip([*names, "", ""], (*layouts, *shared), strict=True):
        if name in apart:
            regions.append(Region(block_of(name), 0, layout.bytes))
            continue
        offset = round_up(ends[layout.memory], layout.alignment)
        regions.append(Region(layout.memory, offset, layout.bytes, layout.initial))
        ends[layout.memory] = offset + layout.bytes
    if sum(ends.values()) > limit:
        raise _too_large(maps, layouts, threads, sum(ends.values()), limit)
    *placed, losses, printk = regions
    return Plan(tuple(placed), losses, printk, threads, ends["device"], ends["host"])


def placement(
    plan: Plan, base_device: int, base_host: int, pid_tgid: int = 0, apart: Mapping[str, int] | None = None
) -> Placement:
    """Turn a plan into addresses.

    Args:
        plan: The plan.
        base_device: Address of the block in device memory.
        base_host: Address at which the device sees the block in host memory.
        pid_tgid: What `bpf_get_current_pid_tgid` answers.
        apart: Addresses of the maps that lie apart, by the names of their blocks.

    """
    bases = {"device": base_device, "host": base_host, **(apart or {})}
    addresses = [bases[region.memory] + region.offset for region in (*plan.maps, plan.losses, plan.printk)]
    *maps, losses, printk = addresses
    return Placement(tuple(maps), plan.threads, losses, printk, pid_tgid)


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
        "declare how many entries it has: __uint(max_entries, N)",
    )
    indexed = spec.type in ARRAYS | PER_THREAD
    yield (
        indexed and spec.key_size != 4,
        f"a key has {spec.key_size} bytes and indexes have four",
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
        f"a ring of {spec.max_entries} bytes",
        f"use at most {_MOST_RING_BYTES}",
    )
    yield (
        len(spec.initial or b"") > spec.value_size,
        f"its content has {len(spec.initial or b'')} bytes and its value {spec.value_size}",
        "compile the program again: the object is damaged",
    )


def _too_large(
    maps: Sequence[MapSpec], layouts: Sequence[Layout], threads: int, total: int, limit: int
) -> ProgramError:
    spec, largest = max(zip(maps, layouts, strict=True), key=lambda pair: pair[1].bytes, default=(None, None))
    if spec is None or largest is None:
        return ProgramError(
            f"{total:,} bytes for maps are more than the limit of {limit:,}",
            fix="raise the limit",
            code="gpu.map.too-large",
        )
    per_thread = spec.type in PER_THREAD or spec.type == MapType.GPU_RINGBUF
    return ProgramError(
        f"map {spec.name} needs {largest.bytes:,} bytes; the maps together {total:,}, and the limit is {limit:,}",
        why=f"it has room for {threads:,} threads" if per_thread else f"it has {spec.max_entries:,} entries",
        fix="lower its max_entries" + (", or trace fewer threads: --threads N" if per_thread else ""),
        code="gpu.map.too-large",
    )

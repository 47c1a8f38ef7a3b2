"""Reading and writing of maps in memory by the host: frames of their entries, exact losses, initial values.

All functions take the bytes of one map; it may be live, with a kernel writing it at the same time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from accel_magic.errors import ProgramError
from accel_magic.gpu.maps import host_maps
from accel_magic.gpu.maps.host_maps import guessed
from accel_magic.gpu.maps.map_layout import HEAD, SLOT_HEAD, round_up, slot_bytes, slots
from accel_magic.gpu.maps.printing import print_records, printed
from accel_magic.gpu.maps.rings import drain, records, ring_records
from accel_magic.gpu.program.helpers import ARRAYS, HASHES, PER_THREAD, RINGS, MapType
from accel_magic.kernel.records.c_layout import columns
from accel_magic.kernel.records.map_frames import map_frame

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from accel_magic.gpu.program.object_model import MapSpec

__all__ = [
    "drain",
    "entries",
    "fill",
    "frame",
    "losses",
    "print_records",
    "printed",
    "records",
    "ring_records",
    "steady",
    "update",
]

_STATE: Final = 3
_FULL: Final = 2
_ATTEMPTS = 4
_MASK = 0xFFFFFFFF


def entries(spec: MapSpec, raw: NDArray[np.uint8], threads: int, *, untouched: bool = True) -> pd.DataFrame:
    """Decode a map that is not a ring.

    Args:
        spec: Its declaration.
        raw: (bytes,) uint8, the map.
        threads: Capacity of per-thread maps, in threads.
        untouched: Whether to include rows of arrays and per-thread maps that are all zero.

    Returns:
        One row per entry, in order of the keys: the key's columns (`key` for arrays), for per-thread maps `thread`
        (number in the grid, row-major), then the value's columns, prefixed with `value_` if a key's column has that
        name. For global data, one row with a column per variable.

    Raises:
        ProgramError: It is a ring, or GPU programs cannot use this type of map.

    """
    if spec.type in HASHES:
        return entries_at(spec, np.empty(0, np.int64), _snapshot(spec, raw), threads)
    if spec.type not in ARRAYS | PER_THREAD:
        raise ProgramError(
            f"map {spec.name} has no entries",
            why=f"it is of type {spec.type}",
            fix="read its records" if spec.type in RINGS else "use a map type that GPU programs support",
            code="gpu.map.no-entries",
        )
    table = rows_of(spec, raw[: spec.max_entries * _lanes(spec, threads) * spec.stride])
    if untouched or spec.name.startswith("."):
        return entries_at(spec, np.arange(len(table)), table, threads)
    rows = np.flatnonzero(_nonzero(table))
    return entries_at(spec, rows, table[rows], threads)


def entries_at(spec: MapSpec, rows: NDArray[np.int64], cells: NDArray[np.uint8], threads: int) -> pd.DataFrame:
    """Decode some rows of a map: a frame like that of `entries`.

    Args:
        spec: Its declaration; not a ring.
        rows: (rows,) int64, their positions in `rows_of`; ignored for a hash.
        cells: (rows, bytes) uint8; for a hash, full slots.
        threads: Capacity of per-thread maps, in threads.

    """
    value = spec.value if spec.value is not None else guessed(spec.value_size, "value")
    if spec.type in HASHES:
        key = spec.key if spec.key is not None else guessed(spec.key_size, "key")
        value_at = value_offset(spec)
        keys, values = cells[:, SLOT_HEAD : SLOT_HEAD + spec.key_size], cells[:, value_at : value_at + spec.value_size]
        return map_frame(key, value, keys, values[:, None])
    if spec.name.startswith("."):
        return pd.DataFrame(dict(columns(cells, value)))
    lanes = _lanes(spec, threads)
    found: dict[str, Any] = {_key_name(spec): (rows // lanes).astype(np.uint32)}
    if spec.type in PER_THREAD:
        found["thread"] = rows % lanes
    named = value.renamed(f"value_{field.name}" if field.name in found else field.name for field in value.fields)
    return pd.DataFrame(found | dict(columns(cells, named)))


def rows_of(spec: MapSpec, raw: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """View a map other than a ring as a table, (rows, bytes) uint8: a row per slot of a hash, else per value."""
    if spec.type in HASHES:
        return raw[HEAD : HEAD + slots(spec) * slot_bytes(spec)].reshape(slots(spec), -1)
    return raw.reshape(-1, spec.stride)[:, : spec.value_size]


def cell_bytes(spec: MapSpec) -> int:
    """Return the bytes of a row of `rows_of`."""
    return slot_bytes(spec) if spec.type in HASHES else spec.value_size


def key_count(spec: MapSpec) -> int:
    """Return the number of key columns in a frame of entries."""
    if spec.type in HASHES:
        return len(spec.key.fields) if spec.key is not None else 1
    return 0 if spec.name.startswith(".") else 1 + (spec.type in PER_THREAD)


def full(cells: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return whether each slot of a hash, (slots, bytes) uint8, holds an entry."""
    return np.asarray((_states(cells) & _STATE) == _FULL)


def value_offset(spec: MapSpec) -> int:
    """Bytes of a hash's slot before the value."""
    return SLOT_HEAD + round_up(spec.key_size, 8)


def frame(spec: MapSpec, raw: NDArray[np.uint8], threads: int) -> pd.DataFrame:
    """Decode any map of a recording: entries, or the records of a ring.

    Args:
        spec: Its declaration.
        raw: (bytes,) uint8, the map; for a ring, the result of `drain`.
        threads: Capacity of per-thread maps, in threads.

    Returns:
        A frame like that of `entries`, for per-thread maps without the rows of threads that wrote nothing. For a ring,
        like that of `records`; for per-thread rings sorted by thread.

    """
    if spec.used_by == "cpu" and spec.type not in ARRAYS:
        return host_maps.frame(spec, raw)
    if spec.type not in RINGS:
        return entries(spec, raw, threads, untouched=spec.type not in PER_THREAD)
    found = records(raw, spec.value)
    if spec.type == MapType.GPU_RINGBUF:
        # The results of several calls of `drain` are each sorted by thread.
        found = found.sort_values("thread", kind="stable", ignore_index=True)
    return found


def steady(spec: MapSpec, first: NDArray[np.uint8], second: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Remove slots of a hash that changed their key while it was copied from a running device.

    Args:
        spec: Its declaration.
        first: (bytes,) uint8, a copy.
        second: (bytes,) uint8, a later copy.

    Returns:
        The second copy without the slots that were not full, or had another key, in the first: a slot's key and value
        are complete when its state is, but a copy may have read the state last.

    """
    result = second.copy()
    key_end = SLOT_HEAD + spec.key_size
    changed = (rows_of(spec, first)[:, :key_end] != rows_of(spec, result)[:, :key_end]).any(axis=1)
    _states(rows_of(spec, result))[changed] = 0
    return result


def losses(raw: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return how many calls failed because a map was full: (maps + 1,) uint64, the print ring last; exact."""
    return raw.view("<u8").copy()


def update(spec: MapSpec, raw: NDArray[np.uint8], key: bytes | int, value: bytes | int) -> None:
    """Write one entry while no kernel runs.

    Args:
        spec: The map's declaration; not a ring.
        raw: (bytes,) uint8, the map; modified.
        key: An index, or the bytes of a hash's key; an int is converted to the key's size, little-endian.
        value: Likewise. In a per-thread map it is written for every thread.

    Raises:
        ProgramError: Key or value do not fit, the hash is full, or it is a ring.

    """
    key_bytes = _bytes_of(spec, "key", key, spec.key_size)
    value_bytes = np.frombuffer(_bytes_of(spec, "value", value, spec.value_size), np.uint8)
    if spec.type in HASHES:
        _hash_update(spec, raw, key_bytes, value_bytes)
        return
    index = int.from_bytes(key_bytes, "little")
    if spec.type not in ARRAYS | PER_THREAD:
        raise ProgramError(
            f"map {spec.name} has no entries", fix="write to an array or a hash", code="gpu.map.no-entries"
        )
    if index >= spec.max_entries:
        raise ProgramError(
            f"map {spec.name} has no entry {index}",
            why=f"it has {spec.max_entries} entries",
            fix="raise its max_entries, or use a smaller key",
            code="gpu.map.no-entry",
        )
    table = raw[: len(raw) // (spec.max_entries * spec.stride) * spec.max_entries * spec.stride]
    table.reshape(spec.max_entries, -1, spec.stride)[index, :, : spec.value_size] = value_bytes


def fill(spec: MapSpec, raw: NDArray[np.uint8], values: Mapping[bytes, bytes]) -> None:
    """Write entries while no kernel runs, as `update` does for each.

    Args:
        spec: The map's declaration; not a ring.
        raw: (bytes,) uint8, the map; modified.
        values: Values by key, of the map's sizes; indexes of arrays are within the map.

    """
    if spec.type in HASHES:
        for key, value in values.items():
            _hash_update(spec, raw, key, np.frombuffer(value, np.uint8))
    elif values:
        indexes = np.frombuffer(b"".join(values), "<u4")
        cells = np.frombuffer(b"".join(values.values()), np.uint8).reshape(len(values), 1, spec.value_size)
        table = raw[: len(raw) // (spec.max_entries * spec.stride) * spec.max_entries * spec.stride]
        table.reshape(spec.max_entries, -1, spec.stride)[indexes, :, : spec.value_size] = cells


def hash_of(key: bytes) -> int:
    """Hash a key as the device does (device/hash.h): 32 bits."""
    result = len(key)
    for at in range(0, len(key), 4):
        result = ((result ^ int.from_bytes(key[at : at + 4], "little")) * 0x9E3779B1) & _MASK
        result ^= result >> 15
    result = (result * 0x85EBCA6B) & _MASK
    return result ^ result >> 13


def _lanes(spec: MapSpec, threads: int) -> int:
    return threads if spec.type in PER_THREAD else 1


def _key_name(spec: MapSpec) -> str:
    return spec.key.fields[0].name if spec.key is not None and len(spec.key.fields) == 1 else "key"


def _nonzero(table: NDArray[np.uint8]) -> NDArray[np.bool_]:
    size = table.shape[1]
    width = next(width for width in (8, 4, 2, 1) if size % width == 0)
    return np.asarray(table.view(f"<u{width}").any(axis=1))


def _states(table: NDArray[np.uint8]) -> NDArray[np.uint32]:
    states: NDArray[np.uint32] = table[:, :4].view("<u4")[:, 0]
    return states


def _snapshot(spec: MapSpec, raw: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Copy a hash's full slots, (entries, bytes) uint8; slots that change meanwhile are copied again.

    A slot whose state changed during every copy is left out: its keys are being inserted and deleted.
    """
    table = rows_of(spec, raw)
    states = _states(table)
    cells = np.empty((0, table.shape[1]), np.uint8)
    pending = np.arange(len(table))
    for _ in range(_ATTEMPTS):
        pending = pending[full(table[pending, :4])]
        before = states[pending]
        copied = table[pending]
        same = (states[pending] == before) & ((before & _STATE) == _FULL)
        cells = np.concatenate([cells, copied[same]])
        pending = pending[~same]
        if not len(pending):
            break
    return cells


def _bytes_of(spec: MapSpec, what: str, given: bytes | int, size: int) -> bytes:
    try:
        made = given if isinstance(given, bytes) else given.to_bytes(size, "little", signed=given < 0)
    except OverflowError:
        made = b""
    if len(made) != size or not size:
        raise ProgramError(
            f"{given!r} is not a {what} of map {spec.name}",
            why=f"its {what}s have {size} bytes",
            fix=f"pass {size} bytes, or a number that fits in them",
            code="gpu.map.bad-key-or-value",
        )
    return made


def _slot(
    table: NDArray[np.uint8], states: NDArray[np.uint32], number: int, key: NDArray[np.uint8]
) -> tuple[int, bool]:
    """Find a key's slot, and whether it is there; otherwise the slot for it, which is unused if the map is not full."""
    free = -1
    for step in range(len(table)):
        at = (number + step) % len(table)
        state = int(states[at]) & _STATE
        if state == _FULL and np.array_equal(table[at, SLOT_HEAD : SLOT_HEAD + len(key)], key):
            return at, True
        if state in (0, _STATE) and free < 0:
            free = at
        if not state:
            break
    return free, False


def _hash_update(spec: MapSpec, raw: NDArray[np.uint8], key: bytes, value: NDArray[np.uint8]) -> None:
    table = rows_of(spec, raw)
    states = _states(table)
    number, value_at = hash_of(key), value_offset(spec)
    stored = np.frombuffer(key, np.uint8)
    slot, there = _slot(table, states, number, stored)
    if not there:
        count = raw[:4].view("<u4")
        if int(count[0]) >= spec.max_entries:
            raise ProgramError(
                f"map {spec.name} is full",
                why=f"it has {spec.max_entries} entries",
                fix="raise its max_entries",
                code="gpu.map.full",
            )
        count += np.uint32(1)
        table[slot, SLOT_HEAD:value_at] = 0
        table[slot, SLOT_HEAD : SLOT_HEAD + spec.key_size] = stored
        states[slot] = (number & ~_STATE & _MASK) | _FULL
    table[slot, value_at : value_at + spec.value_size] = value

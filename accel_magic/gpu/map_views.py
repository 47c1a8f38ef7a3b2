"""Maps as they lie in memory, read and written by the host: frames of their entries, exact losses, values at the start.

Everything here takes the bytes of one map, also live ones that a kernel is writing at that moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from accel_magic.errors import ProgramError
from accel_magic.gpu.helpers import ARRAYS, HASHES, PER_THREAD, RINGS
from accel_magic.gpu.maps import HEAD, SLOT_HEAD, round_up, slot_bytes, slots
from accel_magic.gpu.printing import print_records, printed
from accel_magic.gpu.rings import drain, records, ring_records
from accel_magic.traces.c_layout import CLayout, Field, columns, raw_layout
from accel_magic.traces.maps_frames import map_frame

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.gpu.model import MapSpec

__all__ = ["drain", "entries", "frame", "losses", "print_records", "printed", "records", "ring_records", "update"]

_STATE: Final = 3
_FULL: Final = 2
_ATTEMPTS = 4
_NUMBERS = frozenset({1, 2, 4, 8})
_MASK = 0xFFFFFFFF


def entries(spec: MapSpec, raw: NDArray[np.uint8], threads: int, *, untouched: bool = True) -> pd.DataFrame:
    """Read a map that is no ring.

    Args:
        spec: Its declaration.
        raw: (bytes,) uint8: the map.
        threads: Threads that per-thread maps have room for.
        untouched: Whether rows of arrays and per-thread maps that hold nothing but zeros are wanted.

    Returns:
        One row per entry, in order of the keys: the key's columns (`key` for arrays), of per-thread maps `thread`
        (number in the grid, row-major), then the value's columns, with `value_` in front where a key's has that name.
        Of global data one row with a column per variable.

    Raises:
        ProgramError: It is a ring, or no map of GPU programs.

    """
    value = spec.value if spec.value is not None else _guess(spec.value_size, "value")
    if spec.type in HASHES:
        key = spec.key if spec.key is not None else _guess(spec.key_size, "key")
        keys, values = _snapshot(spec, raw)
        return map_frame(key, value, keys, values[:, None])
    if spec.type not in ARRAYS | PER_THREAD:
        raise ProgramError(
            f"map {spec.name} has no entries",
            why=f"it is of type {spec.type}",
            fix="read its records" if spec.type in RINGS else "use a map type that GPU programs know",
        )
    lanes = threads if spec.type in PER_THREAD else 1
    table = raw[: spec.max_entries * lanes * spec.value_size].reshape(-1, spec.value_size)
    if spec.name.startswith("."):
        return pd.DataFrame(dict(columns(table, value)))
    rows = np.arange(len(table)) if untouched else np.flatnonzero(_nonzero(table))
    found: dict[str, Any] = {_key_name(spec): (rows // lanes).astype(np.uint32)}
    if spec.type in PER_THREAD:
        found["thread"] = rows % lanes
    cells = table if untouched else table[rows]
    named = value.renamed(f"value_{field.name}" if field.name in found else field.name for field in value.fields)
    return pd.DataFrame(found | dict(columns(cells, named)))


def frame(spec: MapSpec, raw: NDArray[np.uint8], threads: int) -> pd.DataFrame:
    """Read any map at the end of a trace: entries, or what is left in a ring.

    Args:
        spec: Its declaration.
        raw: (bytes,) uint8: the map; not changed.
        threads: Threads that per-thread maps had room for.

    Returns:
        As `entries`, per-thread maps without the rows of threads that wrote nothing; of a ring as `ring_records`.

    """
    if spec.type in RINGS:
        return ring_records(spec, raw.copy(), threads)
    return entries(spec, raw, threads, untouched=spec.type not in PER_THREAD)


def losses(raw: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Read how many calls failed for lack of room: (maps + 1,) uint64, those of the print ring last; exact."""
    return raw.view("<u8").copy()


def update(spec: MapSpec, raw: NDArray[np.uint8], key: bytes | int, value: bytes | int) -> None:
    """Write one entry, before kernels run or between them.

    Args:
        spec: The map's declaration; no ring.
        raw: (bytes,) uint8: the map; changed.
        key: An index, or the bytes of a hash's key; a number becomes as many bytes, little-endian.
        value: Likewise. Of a per-thread map every thread gets it.

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
        raise ProgramError(f"map {spec.name} has no entries to write", fix="write into an array or a hash")
    if index >= spec.max_entries:
        raise ProgramError(
            f"map {spec.name} has no entry {index}",
            why=f"it has {spec.max_entries}",
            fix="raise its max_entries, or use a smaller key",
        )
    table = raw[: len(raw) // (spec.max_entries * spec.value_size) * spec.max_entries * spec.value_size]
    table.reshape(spec.max_entries, -1, spec.value_size)[index] = value_bytes


def hash_of(key: bytes) -> int:
    """Hash a key as the device does (device/hash.h): 32 bits."""
    result = len(key)
    for at in range(0, len(key), 4):
        result = ((result ^ int.from_bytes(key[at : at + 4], "little")) * 0x9E3779B1) & _MASK
        result ^= result >> 15
    result = (result * 0x85EBCA6B) & _MASK
    return result ^ result >> 13


def _guess(size: int, name: str) -> CLayout:
    """Columns of what has no declared type: a number where its size is one's."""
    if size in _NUMBERS:
        return CLayout((Field(name, "integer", f"u{size}", 0, size),), size)
    return raw_layout(size, name)


def _key_name(spec: MapSpec) -> str:
    return spec.key.fields[0].name if spec.key is not None and len(spec.key.fields) == 1 else "key"


def _nonzero(table: NDArray[np.uint8]) -> NDArray[np.bool_]:
    size = table.shape[1]
    width = next(width for width in (8, 4, 2, 1) if size % width == 0)
    return np.asarray(table.view(f"<u{width}").any(axis=1))


def _table(spec: MapSpec, raw: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The slots of a hash, (slots, bytes)."""
    return raw[HEAD : HEAD + slots(spec) * slot_bytes(spec)].reshape(slots(spec), -1)


def _states(table: NDArray[np.uint8]) -> NDArray[np.uint32]:
    states: NDArray[np.uint32] = table[:, :4].view("<u4")[:, 0]
    return states


def _snapshot(spec: MapSpec, raw: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Copy the keys and values of a hash's full slots; those of a slot that changes meanwhile are copied again.

    A slot that was never the same before and after a copy belongs to keys that come and go, and is left out.
    """
    table = _table(spec, raw)
    states = _states(table)
    cells = np.empty((0, table.shape[1]), np.uint8)
    pending = np.arange(len(table))
    for _ in range(_ATTEMPTS):
        before = states[pending]
        full = (before & _STATE) == _FULL
        pending, before = pending[full], before[full]
        copied = table[pending]
        same = states[pending] == before
        cells = np.concatenate([cells, copied[same]])
        pending = pending[~same]
        if not len(pending):
            break
    value_at = SLOT_HEAD + round_up(spec.key_size, 8)
    return cells[:, SLOT_HEAD : SLOT_HEAD + spec.key_size], cells[:, value_at : value_at + spec.value_size]


def _bytes_of(spec: MapSpec, what: str, given: bytes | int, size: int) -> bytes:
    try:
        made = given if isinstance(given, bytes) else given.to_bytes(size, "little", signed=given < 0)
    except OverflowError:
        made = b""
    if len(made) != size or not size:
        raise ProgramError(
            f"{given!r} is no {what} of map {spec.name}",
            why=f"its {what}s have {size} bytes",
            fix=f"give {size} bytes, or a number that fits them",
        )
    return made


def _hash_update(spec: MapSpec, raw: NDArray[np.uint8], key: bytes, value: NDArray[np.uint8]) -> None:
    table = _table(spec, raw)
    states = _states(table)
    number = hash_of(key)
    order = (number + np.arange(len(table))) % len(table)
    stored = np.frombuffer(key, np.uint8)
    same = (table[:, SLOT_HEAD : SLOT_HEAD + spec.key_size] == stored).all(axis=1) & ((states & _STATE) == _FULL)
    value_at = SLOT_HEAD + round_up(spec.key_size, 8)
    if same.any():
        slot = int(same.argmax())
    else:
        count = raw[:4].view("<u4")
        if int(count[0]) >= spec.max_entries:
            raise ProgramError(
                f"map {spec.name} is full", why=f"it has {spec.max_entries} entries", fix="raise its max_entries"
            )
        free = order[np.isin(states[order] & _STATE, (0, _STATE))]
        slot = int(free[0])
        count += np.uint32(1)
        table[slot, SLOT_HEAD:value_at] = 0
        table[slot, SLOT_HEAD : SLOT_HEAD + spec.key_size] = stored
        states[slot] = (number & ~_STATE & _MASK) | _FULL
    table[slot, value_at : value_at + spec.value_size] = value

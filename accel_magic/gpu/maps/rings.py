"""Rings that programs on a device write and the host drains, also while kernels run; decoding of their records.

`drain` returns one format for both kinds of ring: consecutive records as in the kernel's ring buffer (u32 length with a
bit for discarded ones, u32), each with u64 thread and u64 launch before its data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.gpu.maps.map_layout import (
    HEAD,
    OWN_HEAD,
    OWN_RECORD_HEAD,
    RECORD_HEAD,
    own_record_bytes,
    own_ring_bytes,
    ring_size,
)
from accel_magic.gpu.program.helpers import MapType
from accel_magic.kernel.records.c_layout import CField, CLayout, columns, raw_layout
from accel_magic.kernel.records.map_frames import RAW
from accel_magic.kernel.records.rings import discarded, record_starts, sizes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from accel_magic.gpu.program.object_model import MapSpec

_PREFIX: Final = (CField("thread", "integer", "u8", 8, 8), CField("launch", "integer", "u8", 16, 8))
_LENGTH_HEAD = 8
_PREFIX_BYTES = RECORD_HEAD - _LENGTH_HEAD
_READY = np.uint32(1 << 31)


def drain(spec: MapSpec, raw: NDArray[np.uint8], threads: int) -> NDArray[np.uint8]:
    """Read all complete records and free their space.

    Args:
        spec: The ring's declaration.
        raw: (bytes,) uint8, the live ring. Its read position is advanced.
        threads: Capacity of rings of type 1527, in threads.

    Returns:
        Complete records; results of several calls can be concatenated. Records of a ring for all threads are in the
        order of their reservation, those of per-thread rings by thread and then in order.

    """
    if spec.type == MapType.GPU_RINGBUF:
        return _drain_own(spec, raw, threads)
    return drain_shared(raw, spec.max_entries)


def filled(spec: MapSpec, raw: NDArray[np.uint8], threads: int) -> float:
    """Return the fill level of a live ring, 0..1; for per-thread rings that of the fullest. Arguments as in `drain`."""
    if spec.type != MapType.GPU_RINGBUF:
        reserved, consumed = (int(position) for position in raw[:16].view("<u8"))
        return (reserved - consumed) / ring_size(spec.max_entries)
    ends = raw[: threads * own_ring_bytes(spec)].reshape(threads, -1)[:, :16].view("<u8")
    return int((ends[:, 1] - ends[:, 0]).max()) / spec.max_entries


def count(data: NDArray[np.uint8]) -> int:
    """Count the records in a result of `drain`, without those that programs discarded."""
    starts, _ = record_starts(data)
    return len(starts) - int(discarded(data.view("<u4")[::2][starts // 8]).sum())


def drain_shared(raw: NDArray[np.uint8], requested: int) -> NDArray[np.uint8]:
    """Read all complete records of a ring for all threads, declared with `wanted` bytes; like `drain`."""
    size = ring_size(requested)
    reserved_consumed = raw[:16].view("<u8")
    data = raw[HEAD:]
    chunks = []
    # First up to the ring's end, after which everything is zero, then from its beginning.
    for _ in range(2):
        reserved, consumed = (int(position) for position in reserved_consumed)
        start = consumed % size
        chunk = _complete(data[start : start + reserved - consumed])
        # The order matters: a header must be zero before the device sees the space as free.
        data[start : start + len(chunk)] = 0
        reserved_consumed[1] = consumed + len(chunk)
        chunks.append(chunk)
    return np.concatenate(chunks)


def _complete(region: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Copy the complete records at the start of a region that is being written, up to the first zero header."""
    seen = region.copy()
    starts, _ = record_starts(seen)
    heads = seen.view("<u4")[::2][starts // 8]
    count = len(starts) if heads.all() else int((heads == 0).argmax())
    if not count:
        return np.empty(0, np.uint8)
    # The header is written after the data, so the data are read after the header.
    return region[: int(starts[count - 1]) + _record_bytes(heads[count - 1 : count])[0]].copy()


def _record_bytes(heads: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Return the sizes of complete records from their headers."""
    return _LENGTH_HEAD + (sizes(heads).astype(np.int64) + 7) // 8 * 8


def _drain_own(spec: MapSpec, raw: NDArray[np.uint8], threads: int) -> NDArray[np.uint8]:
    rings = raw[: threads * own_ring_bytes(spec)].reshape(threads, -1)
    heads, tails = (rings[:, at : at + 8].view("<u8")[:, 0] for at in (0, 8))
    active = np.flatnonzero(tails != heads)
    begun = heads[active]
    waiting = (tails[active] - begun).astype(np.int64)
    number = np.repeat(np.arange(len(active)), waiting)
    turn = np.arange(len(number)) - np.repeat(np.cumsum(waiting) - waiting, waiting)
    place = (begun[number].astype(np.int64) + turn) % spec.max_entries
    records = rings[:, OWN_HEAD:].reshape(threads, spec.max_entries, own_record_bytes(spec))
    states = records[:, :, :4].view("<u4")[:, :, 0]
    state = states[active[number], place]
    # For each thread, the records up to the first that is not ready.
    unready = np.flatnonzero(~(state & _READY).astype(bool))
    first = np.full(len(active), spec.max_entries)
    np.minimum.at(first, number[unready], turn[unready])
    taken = turn < first[number]
    number, place, state = number[taken], place[taken], state[taken] & ~_READY
    thread = active[number]
    # The state is written after the data, so the data are read after the state.
    chunk = _as_shared(records[thread, place], thread, state)
    # The order matters: a record's state must be zero before the device may write it again.
    states[thread, place] = 0
    heads[active] = begun + np.bincount(number, minlength=len(active)).astype(np.uint64)
    return chunk


def _as_shared(cells: NDArray[np.uint8], thread: NDArray[np.int64], size: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """Convert records of per-thread rings to the format of a ring for all threads."""
    heads = size + np.uint32(_PREFIX_BYTES)
    ends = np.cumsum(_record_bytes(heads))
    words = np.zeros(int(ends[-1]) // 8 if len(ends) else 0, np.uint64)
    starts = (ends - _record_bytes(heads)) // 8
    words[starts], words[starts + 1] = heads, thread
    words[starts + 2] = cells[:, 4:OWN_RECORD_HEAD].view("<u4")[:, 0]
    for length in np.unique(size):
        rows = np.flatnonzero(size == length)
        data = np.zeros((len(rows), -(-int(length) // 8) * 8), np.uint8)
        data[:, :length] = cells[rows, OWN_RECORD_HEAD : OWN_RECORD_HEAD + int(length)]
        words[starts[rows, None] + RECORD_HEAD // 8 + np.arange(data.shape[1] // 8)] = data.view("<u8")
    return words.view(np.uint8)


def records(data: NDArray[np.uint8], layout: CLayout | None = None) -> pd.DataFrame:
    """Decode a result of `drain`.

    Args:
        data: (bytes,) uint8, complete records.
        layout: Columns of the records' data; None if unknown.

    Returns:
        One row per record, without those that programs discarded: `thread` (number in the grid), `launch` (number on
        the device), then the layout's columns for records of its size and `raw` (bytes) for others.

    """
    rows, parts = 0, {}
    for length, where, cells in _by_length(data):
        known = layout is not None and layout.size == length
        inner = layout if layout is not None and known else raw_layout(length, RAW)
        fields = tuple(
            CField(_apart(each.name), each.kind, each.type, each.offset + RECORD_HEAD, each.size, each.shift, each.bits)
            for each in inner.fields
        )
        part = pd.DataFrame(dict(columns(cells, CLayout((*_PREFIX, *fields), RECORD_HEAD + length))))
        parts[not known, length] = part.set_axis(where, axis="index")
        rows += len(where)
    if not rows:
        names = [_apart(each.name) for each in layout.fields] if layout is not None else [RAW]
        return pd.DataFrame({name: [] for name in ("thread", "launch", *names)})
    ordered = [parts[key] for key in sorted(parts)]
    return ordered[0] if len(ordered) == 1 else pd.concat(ordered).sort_index()


def _apart(name: str) -> str:
    return f"value_{name}" if name in {"thread", "launch"} else name


def _by_length(data: NDArray[np.uint8]) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.uint8]]]:
    """Group records by length: (bytes of data, positions among all records, (records, head and data) uint8)."""
    starts, _ = record_starts(data)
    heads = data.view("<u4")[::2][starts // 8]
    kept = ~discarded(heads)
    starts, lengths = starts[kept], sizes(heads[kept]).astype(np.int64) - _PREFIX_BYTES
    words = data.view("<u8")
    for length in np.unique(lengths):
        where = np.flatnonzero(lengths == length)
        count = RECORD_HEAD // 8 + -(-int(length) // 8)
        cells: NDArray[np.uint8] = words[starts[where, None] // 8 + np.arange(count)].view(np.uint8)
        yield int(length), where, cells


def ring_records(spec: MapSpec, raw: NDArray[np.uint8], threads: int, layout: CLayout | None = None) -> pd.DataFrame:
    """Read all complete records as a frame: `drain` and `records`; with the declared value's columns by default."""
    return records(drain(spec, raw, threads), layout if layout is not None else spec.value)

"""What maps held over time, from what changed at each reading: their entries, or what each launch added to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.gpu import map_views
from accel_magic.gpu.helpers import HASHES
from accel_magic.gpu.recording import MapHistory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from accel_magic.gpu.model import MapSpec

_COUNTED: Final = {"i": np.int64, "u": np.int64, "f": np.float64}


def frame(history: MapHistory, threads: int) -> pd.DataFrame:
    """Read a map's history.

    Args:
        history: What a trace kept of it.
        threads: Threads that per-thread maps had room for.

    Returns:
        By time: `time_ns` and the columns of `map_views.entries`; one row per reading and entry, entries that are all
        zero left out. By launch: `launch` besides; one row per launch and entry that it changed. Numbers are then
        differences, int64 or float64, and everything else is as it was afterwards; entries that a launch deleted are
        left out; `launch` is -1 for what happened outside of launches that ended well.

    """
    parts = [part for part in _parts(history, threads) if len(part)]
    if parts:
        return pd.concat(parts, ignore_index=True)
    empty = map_views.entries(history.spec, history.first, threads).head(0)
    return _placed(empty, 0, None if history.launch is None else 0)


def _parts(history: MapHistory, threads: int) -> Iterator[pd.DataFrame]:
    spec, raw, end = history.spec, history.first.copy(), 0
    table = map_views.rows_of(spec, raw)
    for number, changed in enumerate(history.changed):
        rows, cells = history.rows[end : end + changed], history.cells[end : end + changed]
        before = table[rows]
        table[rows] = cells
        end += changed
        moment = int(history.time_ns[number])
        if history.launch is None:
            yield _placed(map_views.entries(spec, raw, threads, untouched=False), moment, None)
        else:
            yield _placed(_added(spec, rows, before, cells, threads), moment, int(history.launch[number]))


def _placed(part: pd.DataFrame, time_ns: int, launch: int | None) -> pd.DataFrame:
    """Put the columns that say when in front."""
    when = {"time_ns": time_ns} if launch is None else {"launch": launch, "time_ns": time_ns}
    part = part.rename(columns={name: f"value_{name}" for name in when})
    for place, (name, number) in enumerate(when.items()):
        part.insert(place, name, np.full(len(part), number, np.int64))
    return part


def _added(
    spec: MapSpec, rows: NDArray[np.int64], before: NDArray[np.uint8], after: NDArray[np.uint8], threads: int
) -> pd.DataFrame:
    """Entries at these rows as they are afterwards, with differences for numbers."""
    if spec.type in HASHES:
        before, after = _same_keys(spec, before, after)
    old, new = (map_views.entries_at(spec, rows, cells, threads) for cells in (before, after))
    for name in new.columns[map_views.key_count(spec) :]:
        dtype = new[name].to_numpy().dtype
        if dtype.kind in _COUNTED:
            wide = _COUNTED[dtype.kind]
            new[name] = new[name].to_numpy().astype(wide) - old[name].to_numpy().astype(wide)
    return new


def _same_keys(
    spec: MapSpec, before: NDArray[np.uint8], after: NDArray[np.uint8]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Slots that are full afterwards, and what their keys had before: zeros where the slot was not theirs."""
    stays = map_views.full(after)
    before, after = before[stays], after[stays]
    value_at = map_views.value_offset(spec)
    theirs = map_views.full(before) & (before[:, :value_at] == after[:, :value_at]).all(axis=1)
    before[~theirs] = 0
    before[:, :value_at] = after[:, :value_at]
    return before, after


def packed(history: MapHistory) -> bytes:
    """Put its arrays one behind the other, to be read by `unpacked`."""
    launch = np.empty(0, np.int64) if history.launch is None else history.launch
    arrays = (history.time_ns, launch, history.changed, history.rows, history.first, history.cells)
    return b"".join(np.ascontiguousarray(each).tobytes() for each in arrays)


def unpacked(source: str, spec: MapSpec, readings: int, data: bytes, *, by_launch: bool, size: int) -> MapHistory:
    """Read what `packed` wrote.

    Args:
        source: The tool or file of the map.
        spec: Its declaration.
        readings: How many there are.
        data: What was written.
        by_launch: Whether there is a launch for each.
        size: Bytes of the map.

    Raises:
        ValueError: The numbers do not belong to this map.

    """
    heads = np.frombuffer(data, np.int64, readings * (3 if by_launch else 2))
    time_ns, *launch, changed = heads.reshape(-1, readings)
    total = int(changed.sum())
    rows = np.frombuffer(data, np.int64, total, heads.nbytes)
    rest = np.frombuffer(data, np.uint8, offset=heads.nbytes + rows.nbytes)
    first = rest[:size]
    table = map_views.rows_of(spec, first)
    cells = rest[size:].reshape(total, table.shape[1])
    if (changed < 0).any() or (total and not 0 <= int(rows.min()) <= int(rows.max()) < len(table)):
        raise ValueError(f"the history of map {spec.name} names rows that it has not")
    return MapHistory(source, spec, first, time_ns, launch[0] if by_launch else None, changed, rows, cells)

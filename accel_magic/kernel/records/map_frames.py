"""Decode a user program's maps and ring records to data frames, in bulk."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from accel_magic.kernel.records.c_layout import CLayout, columns, event_layout, raw_layout
from accel_magic.kernel.records.rings import discarded, record_starts, sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

RAW = "raw"
"""Column of records whose type is unknown."""
_HEADER = 8
_SUMMED = ("integer", "boolean", "float")


def map_frame(key: CLayout, value: CLayout, keys: NDArray[np.uint8], values: NDArray[np.uint8]) -> pd.DataFrame:
    """Decode a map: one row per element, sorted by key.

    Args:
        key: Layout of the keys.
        value: Layout of the values.
        keys: (rows, key size) uint8.
        values: (rows, CPUs, value size) uint8; more than one CPU only for per-CPU maps.

    Returns:
        The key's columns, then the value's. For a per-CPU map each number is the sum over the CPUs (64 bits, wrapping
        as in C), followed by `NAME_cpu0`, `NAME_cpu1`...; text and bytes have only per-CPU columns. Names that key and
        value share get the prefixes `key_` and `value_`.

    """
    shared = {field.name for field in key.fields} & {field.name for field in value.fields}
    key = key.renamed(f"key_{field.name}" if field.name in shared else field.name for field in key.fields)
    value = value.renamed(f"value_{field.name}" if field.name in shared else field.name for field in value.fields)
    found: dict[str, Any] = dict(columns(keys, key))
    cpus = values.shape[1]
    if cpus == 1:
        found |= columns(values[:, 0], value)
    else:
        found |= _per_cpu(value, values)
    frame = pd.DataFrame(found)
    names = [field.name for field in key.fields if field.kind != "text"]
    names += [field.name for field in key.fields if field.kind == "text"]
    if len(frame) > 1 and names:
        frame = frame.sort_values(names, key=_sortable, kind="stable", ignore_index=True)
    return frame


def _sortable(column: pd.Series[Any]) -> pd.Series[Any]:
    return column.astype(str) if isinstance(column.dtype, pd.CategoricalDtype) else column


def _per_cpu(value: CLayout, values: NDArray[np.uint8]) -> dict[str, Any]:
    by_cpu = [dict(columns(values[:, cpu], value)) for cpu in range(values.shape[1])]
    found: dict[str, Any] = {}
    for field in value.fields:
        cells = [each[field.name] for each in by_cpu]
        if field.kind in _SUMMED:
            wide = "f8" if field.kind == "float" else "i8" if field.type[0] == "i" else "u8"
            found[field.name] = np.sum([cell.to_numpy().astype(wide) for cell in cells], axis=0, dtype=wide)
        elif field.kind == "wide":
            found[field.name] = sum(cell.to_numpy() for cell in cells)
        found |= {f"{field.name}_cpu{cpu}": cell for cpu, cell in enumerate(cells)}
    return found


def histogram_frame(frame: pd.DataFrame, *, log2: bool) -> pd.DataFrame:
    """Buckets of a histogram map from its elements.

    Args:
        frame: From `map_frame`; the last column of the key is the bucket's number.
        log2: The numbers are from `bpf_log2` or `bpf_log2l`: bucket 1 is for 0 and 1, bucket n for 2^(n-1) to 2^n - 1.

    Returns:
        The other columns of the key, if any, then `slot`, with `log2` the bucket's inclusive `low` and `high`, and
        `count`; without leading and trailing empty buckets.

    """
    *sections, slot, count = frame.columns
    frame = frame.rename(columns={slot: "slot", count: "count"})
    used = np.flatnonzero(frame["count"])
    frame = frame.iloc[used[0] : used[-1] + 1] if len(used) and not sections else frame.iloc[used]
    frame = frame.reset_index(drop=True)
    if log2:
        slots = [min(int(number), 64) for number in frame["slot"]]
        edges = [((1 << number) >> 1 if number > 1 else 0, (1 << number) - 1) for number in slots]
        frame.insert(len(sections) + 1, "low", np.array([low for low, _ in edges], np.uint64))
        frame.insert(len(sections) + 2, "high", np.array([high for _, high in edges], np.uint64))
    return frame


def ring_frame(data: NDArray[np.uint8], members: Sequence[tuple[str, str]]) -> tuple[pd.DataFrame, Counter[int]]:
    """Decode a ring: one row per record, in the order in which the records were reserved.

    Args:
        data: (bytes,) uint8: whole records, each with the ring buffer's header.
        members: (name, C type) of the struct that the program passes; empty if unknown.

    Returns:
        The frame: the struct's columns for records of the struct's size, `raw` (bytes) for others; and the number of
        others by size.

    """
    names = [name for name, _ in members] or [RAW]
    return records_frame(data, lambda size: event_layout(members, size), names)


def records_frame(
    data: NDArray[np.uint8], layout_of: Callable[[int], CLayout | None], names: Sequence[str]
) -> tuple[pd.DataFrame, Counter[int]]:
    """Decode a ring's records, each size by its own layout.

    Args:
        data: As for `ring_frame`.
        layout_of: Returns the layout of records of a size, or None if unknown.
        names: Columns of a frame without records.

    Returns:
        As `ring_frame`.

    """
    starts, _ = record_starts(data)
    heads = data.view("<u4")[::2][starts // 8]
    kept = ~discarded(heads)
    starts, lengths = starts[kept], sizes(heads[kept]).astype(np.int64)
    parts: list[pd.DataFrame] = []
    unknown: Counter[int] = Counter()
    for size in np.unique(lengths):
        rows = np.flatnonzero(lengths == size)
        layout = layout_of(int(size))
        if layout is None:
            unknown[int(size)] = len(rows)
        cells = _cells(data, starts[rows], int(size))
        part = pd.DataFrame(dict(columns(cells, layout or raw_layout(int(size), RAW))))
        parts.append(part.set_axis(rows, axis="index"))
    if not parts:
        return pd.DataFrame({name: [] for name in names}), unknown
    if len(parts) == 1:
        return parts[0].reset_index(drop=True), unknown
    typed_first = sorted(parts, key=lambda part: RAW in part.columns)
    return pd.concat(typed_first).sort_index().reset_index(drop=True), unknown


def _cells(data: NDArray[np.uint8], starts: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
    """The records' data without their headers, (records, size) uint8."""
    stride = _HEADER + -(-size // 8) * 8
    first = int(starts[0])
    if int(starts[-1]) == first + stride * (len(starts) - 1):
        return data[first : first + stride * len(starts)].reshape(len(starts), stride)[:, _HEADER : _HEADER + size]
    words = starts[:, None] // 8 + np.arange(1, stride // 8)
    cells: NDArray[np.uint8] = data.view("<u8")[words].view(np.uint8)
    return cells[:, :size]

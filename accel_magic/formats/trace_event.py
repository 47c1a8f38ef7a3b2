"""Text of trace-event JSON, made column by column in Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

_THOUSANDTHS = pa.array([f".{number:03d}" for number in range(1000)])


def microseconds(times_ns: NDArray[Any]) -> pa.Array:
    """`1234.567` of 1234567 ns: text, because a float of microseconds loses nanoseconds."""
    whole, rest = np.divmod(np.abs(times_ns.astype(np.int64)), 1000)
    text = pc.binary_join_element_wise(plain(whole), _THOUSANDTHS.take(pa.array(rest)), "")
    if not (times_ns < 0).any():
        return text
    return pc.binary_join_element_wise(pc.if_else(pa.array(times_ns < 0), "-", ""), text, "")


def plain(values: NDArray[Any]) -> pa.Array:
    """Numbers as their text."""
    return pa.array(np.ascontiguousarray(values)).cast(pa.string())


def texts(values: list[str]) -> pa.Array:
    """Array of texts, for `take`."""
    return pa.array(values, pa.string())


def joined(*parts: pa.Array | str) -> pa.Array:
    """(rows,) texts of each row's parts in a row; a text counts for all rows."""
    return pc.binary_join_element_wise(*parts, "")


def to_bytes(lines: pa.Array) -> bytes:
    """All strings of the array in a row, as they lie in its buffer."""
    offsets = np.frombuffer(lines.buffers()[1], np.int32)
    first, last = offsets[lines.offset], offsets[lines.offset + len(lines)]
    return lines.buffers()[2].slice(first, last - first).to_pybytes()  # type: ignore[no-any-return]

"""Trace-event JSON text, built column by column with Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

_THOUSANDTHS = pa.array([f".{number:03d}" for number in range(1000)])


def microseconds(times_ns: NDArray[Any]) -> pa.Array:
    """Format ns as microseconds: 1234567 as `1234.567`. A float would lose nanoseconds."""
    whole, rest = np.divmod(np.abs(times_ns.astype(np.int64)), 1000)
    text = pc.binary_join_element_wise(plain(whole), _THOUSANDTHS.take(pa.array(rest)), "")
    if not (times_ns < 0).any():
        return text
    return pc.binary_join_element_wise(pc.if_else(pa.array(times_ns < 0), "-", ""), text, "")


def plain(values: NDArray[Any]) -> pa.Array:
    """Format integers."""
    return pa.array(np.ascontiguousarray(values)).cast(pa.string())


def texts(values: list[str]) -> pa.Array:
    """Convert to an Arrow string array, for `take`."""
    return pa.array(values, pa.string())


def joined(*parts: pa.Array | str) -> pa.Array:
    """Concatenate the parts of each row, (rows,); a plain string is used for all rows."""
    return pc.binary_join_element_wise(*parts, "")


def to_bytes(lines: pa.Array) -> bytes:
    """Concatenate all strings of the array, directly from its buffer."""
    offsets = np.frombuffer(lines.buffers()[1], np.int32)
    first, last = offsets[lines.offset], offsets[lines.offset + len(lines)]
    return lines.buffers()[2].slice(first, last - first).to_pybytes()  # type: ignore[no-any-return]

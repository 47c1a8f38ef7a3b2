"""The content that a user gives to a map before a trace: from tables and numbers to the bytes of its entries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from accel_magic.errors import ProbeError
from accel_magic.gpu.maps.host_maps import guessed
from accel_magic.gpu.maps.map_access import cell_bytes, entries_at, key_count
from accel_magic.gpu.program.helpers import ARRAYS, HASHES, PER_THREAD

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.gpu.program.object_model import MapSpec
    from accel_magic.kernel.records.c_layout import CField, CLayout

_FILLABLE: Final = HASHES | ARRAYS | PER_THREAD
_NUMBERS: Final = ("integer", "boolean", "float")
_SHAPE: Final = (
    "give an array or a list (entry i gets item i), a dict of keys and values, or a data frame with the map's columns"
)


def content_of(spec: MapSpec, given: object) -> dict[bytes, bytes]:
    """Encode what a map is filled with.

    Args:
        spec: The map's declaration.
        given: A sequence or one-dimensional array (entry i gets item i), a mapping of keys to values, or a data frame
            with the columns of `accel_magic.gpu.maps.map_access.frame`. In a per-thread map, all threads get the value.

    Returns:
        Values by key, as many bytes as the map's.

    Raises:
        ProbeError: The map cannot be filled, the columns are others, a value does not fit, or a key is there twice.

    """
    if not fillable(spec):
        raise _unfit(spec, "it is a ring, or of a type without entries", "fill an array or a hash")
    table = _table(spec, given)
    key, value = _columns(spec)
    if set(table.columns) != {*key, *value}:
        why = f"it has the columns {', '.join((*key, *value))}, not {', '.join(map(str, table.columns))}"
        raise _unfit(spec, why, _SHAPE)
    keys = _rows(spec, table[key], spec.key, spec.key_size)
    values = _rows(spec, table[value], spec.value, spec.value_size)
    found = dict(zip(keys, values, strict=True))
    if len(found) < len(table):
        raise _unfit(spec, "a key is there twice", "give each key once")
    return found


def fillable(spec: MapSpec) -> bool:
    """Return whether a map has entries that can be given."""
    return spec.type in _FILLABLE and not spec.name.startswith(".")


def require_entries(spec: MapSpec, values: Mapping[bytes, bytes]) -> None:
    """Check the number of entries and the indexes, for values by key.

    Raises:
        ProbeError: There are more than the map has entries, or an index is too large.

    """
    if len(values) > spec.max_entries:
        raise _unfit(spec, f"it has {spec.max_entries:,} entries, and {len(values):,} were given", "give fewer")
    if spec.type not in HASHES and (largest := max(map(_index, values), default=0)) >= spec.max_entries:
        raise _unfit(spec, f"it has {spec.max_entries:,} entries, and none has the index {largest}", "use smaller keys")


def _table(spec: MapSpec, given: object) -> pd.DataFrame:
    """Arrange what was given as a frame with columns of keys and values."""
    if isinstance(given, pd.DataFrame):
        return given
    if isinstance(given, Mapping):
        keys, values = list(given), list(given.values())
    elif isinstance(given, list | tuple | pd.Series) or (isinstance(given, np.ndarray) and given.ndim == 1):
        keys, values = list(range(len(given))), list(given)
    else:
        raise _unfit(spec, f"{type(given).__name__} is not a table", _SHAPE)
    key, value = _columns(spec)
    if len(key) != 1 or len(value) != 1:
        raise _unfit(spec, f"it has the columns {', '.join((*key, *value))}", "give a data frame with them")
    return pd.DataFrame({key[0]: pd.Series(keys, dtype=object), value[0]: pd.Series(values, dtype=object)})


def _columns(spec: MapSpec) -> tuple[list[str], list[str]]:
    """Return the columns of the map's keys and values, as its frames have them, without that of threads."""
    cells = np.empty((0, cell_bytes(spec)), np.uint8)
    names = list(entries_at(spec, np.empty(0, np.int64), cells, 1).columns)
    count = key_count(spec)
    return names[: 1 if spec.type in PER_THREAD else count], names[count:]


def _rows(spec: MapSpec, table: pd.DataFrame, layout: CLayout | None, size: int) -> list[bytes]:
    """Encode columns in the order of the layout's fields: `size` bytes for each row."""
    layout = layout or guessed(size, "value")
    cells = np.zeros((len(table), size), np.uint8)
    for name, field in zip(table, layout.fields, strict=True):
        cells[:, field.offset : field.offset + field.size] |= _encoded(spec, field, table[name])
    return [row.tobytes() for row in cells]


def _encoded(spec: MapSpec, field: CField, column: pd.Series[Any]) -> NDArray[np.uint8]:
    """Encode one column: (rows, field.size) uint8."""
    values = column.tolist()
    if field.kind not in _NUMBERS:
        cells = b"".join(_text(spec, field, value) for value in values)
        return np.frombuffer(cells, np.uint8).reshape(len(values), field.size)
    kind = np.dtype("<f8" if field.kind == "float" else "<i8" if field.type[0] == "i" else "<u8")
    try:
        numbers = np.array(values, dtype=object).astype(kind)
        fits = [number == value for number, value in zip(numbers.tolist(), values, strict=True)]
    except (OverflowError, TypeError, ValueError):
        raise _unfit(spec, f"{field.name} holds numbers of type {field.type}", "give numbers of this type") from None
    if field.kind == "float":
        return numbers.astype(f"<{field.type}").view(np.uint8).reshape(len(values), field.size)
    bits = field.bits or 8 * field.size
    low, high = (-(1 << (bits - 1)), 1 << (bits - 1)) if field.type[0] == "i" else (0, 1 << bits)
    if not all(fits) or not all(low <= number < high for number in numbers.tolist()):
        raise _unfit(spec, f"{field.name} holds whole numbers from {low} to {high - 1}", "give numbers in this range")
    placed = (numbers.view("<u8") & np.uint64((1 << bits) - 1)) << np.uint64(field.shift)
    return placed.view(np.uint8).reshape(len(values), 8)[:, : field.size]


def _text(spec: MapSpec, field: CField, value: object) -> bytes:
    encoded = value.encode() if isinstance(value, str) else value
    if field.kind == "text" and isinstance(encoded, bytes) and len(encoded) < field.size:
        return encoded.ljust(field.size, b"\0")
    if isinstance(encoded, bytes) and len(encoded) == field.size:
        return encoded
    raise _unfit(spec, f"{field.name} has {field.size} bytes, and {value!r:.40} has not", "give so many bytes")


def _index(key: bytes) -> int:
    return int.from_bytes(key, "little")


def _unfit(spec: MapSpec, why: str, fix: str) -> ProbeError:
    return ProbeError(f"{spec.name} cannot be filled with this", why=why, fix=fix, code="program.bad-setting")

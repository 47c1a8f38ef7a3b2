"""JSON files of profilers: read whole, and taken apart with errors that name the place."""

from __future__ import annotations

import json
import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from accel_magic.errors import RecordingError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

T = TypeVar("T")


class PlaceError(ValueError):
    """What is wrong in a file, and where: `profiles[2].weights: is no list`."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"{place}: {why}")


def load(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        RecordingError: It cannot be read or is no JSON; with line and column.

    """
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise RecordingError(
            f"cannot read {path}",
            why=error.strerror or str(error),
            fix="check the path and its permissions",
            code="recording.unreadable",
        ) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise RecordingError(
            f"{path} is damaged",
            why=str(error) or type(error).__name__,
            fix="copy or download the file again; it may have been cut short",
            code="recording.damaged",
        ) from error


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turn what is wrong in a file, while it is taken apart, into the error that users see.

    Raises:
        RecordingError: Something was.

    """
    try:
        yield
    except (PlaceError, OverflowError, MemoryError) as error:
        raise RecordingError(
            f"{path} is no {what}",
            why=str(error) or type(error).__name__,
            fix="write it again with the tool that it came from",
            code="recording.unknown-format",
        ) from error


def part(data: Any, key: str, kind: type[T], place: str, default: T | None = None) -> T:
    """Value of a key of an object, of this type.

    Raises:
        PlaceError: It is missing and there is no default, or of another type.

    """
    if type(data) is not dict:
        raise PlaceError(place or "the whole", "is no object")
    where = f"{place}.{key}" if place else key
    value = data.get(key)
    if value is None:  # some tools write null for what they do not know
        value = default
    if value is None:
        raise PlaceError(where, "is missing")
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise PlaceError(where, f"is no {_WORDS.get(kind, kind.__name__)}: {value!r:.40}")
    return value


def number(value: Any, place: str) -> float:
    """Give a finite number as it is.

    Raises:
        PlaceError: It is none.

    """
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return value
    raise PlaceError(place, f"is no number: {value!r:.40}")


def index(value: Any, size: int, place: str) -> int:
    """Give the number of one of `size` things.

    Raises:
        PlaceError: There is no such thing.

    """
    if type(value) is int and 0 <= value < size:
        return value
    raise PlaceError(place, f"is not the number of any of {size}: {value!r:.40}")


def line_number(value: int, place: str) -> int:
    """Give the number of a line, from 1; 0 for negative ones, which mean that it is not known.

    Raises:
        PlaceError: No file has so many lines.

    """
    return index(max(value, 0), 1 << 31, place)


_WORDS = {dict: "object", list: "list", str: "text", int: "whole number"}

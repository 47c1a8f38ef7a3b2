"""Profilers' JSON files: loading, and access to their parts with errors that name the place."""

from __future__ import annotations

import json
import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from accel_magic.errors import RecordingError
from accel_magic.formats import text_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

T = TypeVar("T")


class PlaceError(ValueError):
    """A format violation and its place: `profiles[2].weights: is not a list`."""

    def __init__(self, place: str, why: str, fix: str = "") -> None:
        super().__init__(f"{place}: {why}")
        self.fix = fix


def load(path: Path, repaired: list[str] | None = None) -> Any:
    """Read a JSON file.

    Args:
        path: The file.
        repaired: If given, an array may lack its end, as Chrome's format allows; a note about it is appended.

    Raises:
        RecordingError: The file cannot be read or is not JSON; names line and column.

    """
    try:
        text = text_file.read(path)
        try:
            return json.loads(text)
        except ValueError:
            if repaired is None or not text.lstrip().startswith(b"["):
                raise
            events = json.loads(text.rstrip().removesuffix(b",") + b"]")
            repaired.append("the list of events has no end, so the last ones may be missing")
            return events
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
            fix="copy or download the file again; it may be truncated",
            code="recording.damaged",
        ) from error


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Convert errors raised while parsing a file into the error that users see.

    Args:
        path: The file.
        what: Its expected content, following "a" or "not a".

    Raises:
        RecordingError: The block raised PlaceError, OverflowError or MemoryError.

    """
    try:
        yield
    except (PlaceError, OverflowError, MemoryError) as error:
        raise RecordingError(
            f"{path} is not a {what}",
            why=str(error) or type(error).__name__,
            fix=getattr(error, "fix", "") or "write it again with the tool that created it",
            code="recording.unknown-format",
        ) from error


def part(data: Any, key: str, kind: type[T], place: str, default: T | None = None) -> T:
    """Return the value of an object's key, checking its type.

    Raises:
        PlaceError: It is missing and there is no default, or it has another type.

    """
    if type(data) is not dict:
        raise PlaceError(place or "the file", "is not an object")
    where = f"{place}.{key}" if place else key
    value = data.get(key)
    if value is None:  # some tools write null for unknown values
        value = default
    if value is None:
        raise PlaceError(where, "is missing")
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise PlaceError(where, f"is not {_WORDS.get(kind, kind.__name__)}: {value!r:.40}")
    return value


def number(value: Any, place: str) -> float:
    """Check that a value is a finite number, and return it.

    Raises:
        PlaceError: It is not.

    """
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return value
    raise PlaceError(place, f"is not a number: {value!r:.40}")


def index(value: Any, size: int, place: str) -> int:
    """Check that a value is an index below `size`, and return it.

    Raises:
        PlaceError: It is not.

    """
    if type(value) is int and 0 <= value < size:
        return value
    raise PlaceError(place, f"is not an index below {size}: {value!r:.40}")


def line_number(value: int, place: str) -> int:
    """Return a line number, from 1; 0 for negative ones, which mean unknown.

    Raises:
        PlaceError: The number is too large.

    """
    return index(max(value, 0), 1 << 31, place)


_WORDS = {dict: "an object", list: "a list", str: "text", int: "an integer"}

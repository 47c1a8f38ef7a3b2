"""Accesses to memory as arrays: the columns of a trace, or of a part of it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

CHUNK: Final = 1 << 20
"""Accesses that are generated, stored and read at a time."""
DTYPES: Final[Mapping[str, np.dtype[Any]]] = {
    "page": np.dtype(np.uint64),
    "write": np.dtype(np.bool_),
    "kernel": np.dtype(np.int32),
    "launch": np.dtype(np.int32),
    "tenant": np.dtype(np.uint16),
    "allocation": np.dtype(np.int32),
    "origin": np.dtype(np.int32),
}


@dataclass(frozen=True, eq=False)
class Accesses:
    """Consecutive accesses. All arrays have the shape (accesses,) and the type in `DTYPES`; columns may be None.

    Attributes:
        page: Number of the page of 4 KiB: 512 times the block of 2 MiB, plus the page in the block.
        tenant: Code of the process.
        write: Whether the access writes.
        kernel: Code of the GPU kernel; -1 if unknown.
        launch: Number of the launch; -1 if unknown.
        allocation: Code of the allocation; -1 if unknown.
        origin: Code of what makes the access; -1 if unknown.

    """

    page: NDArray[np.uint64]
    tenant: NDArray[np.uint16]
    write: NDArray[np.bool_] | None = None
    kernel: NDArray[np.int32] | None = None
    launch: NDArray[np.int32] | None = None
    allocation: NDArray[np.int32] | None = None
    origin: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.page)

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """Arrays by name, without those that are None."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: array for name, array in values.items() if array is not None}

    def rows(self, start: int, stop: int) -> Self:
        """Select consecutive accesses, without copying them."""
        return type(self)(**{name: array[start:stop] for name, array in self.columns.items()})

    @classmethod
    def joined(cls, parts: Sequence[Accesses]) -> Self:
        """Join parts that have the same columns, at least one."""
        names = parts[0].columns
        return cls(**{name: np.concatenate([part.columns[name] for part in parts]) for name in names})


def in_chunks(parts: Iterable[Accesses], rows: int) -> Iterator[Accesses]:
    """Divide parts of any length into chunks of `rows` accesses; the last one may be shorter."""
    waiting: list[Accesses] = []
    there = 0
    for part in parts:
        at = 0
        while len(part) - at >= rows - there:
            end = at + rows - there
            waiting.append(part.rows(at, end))
            yield waiting[0] if len(waiting) == 1 else Accesses.joined(waiting)
            waiting, there, at = [], 0, end
        if at < len(part):
            waiting.append(part.rows(at, len(part)))
            there += len(part) - at
    if waiting:
        yield Accesses.joined(waiting)

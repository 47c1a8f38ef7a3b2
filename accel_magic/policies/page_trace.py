"""`PageTrace`: the pages that a program accesses, in order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pandas as pd

from accel_magic.errors import ProbeError, RecordingError
from accel_magic.policies import trace_file
from accel_magic.policies.accesses import CHUNK, DTYPES, Accesses
from accel_magic.policies.trace_file import NAMES, TraceDescription
from accel_magic.quantities import counted_text
from accel_magic.recording import memory_bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import ArrayLike, NDArray

PAGE_BYTES: Final = 4096
BLOCK_BYTES: Final = 2 << 20
PAGES_PER_BLOCK: Final = BLOCK_BYTES // PAGE_BYTES
"""Pages in a block."""
_SHIFT: Final = np.uint64(PAGES_PER_BLOCK.bit_length() - 1)
_LARGEST_TABLE: Final = 1 << 24
"""Blocks between the first and the last one for which a table is faster than searching."""


@dataclass(frozen=True, eq=False)
class PageTrace:
    """The pages that a program accesses, in order; in memory, in a file, or generated while it is read.

    Attributes:
        described: What the trace is, its length, columns and names.
        parts: Returns an iterator over all accesses, so many at a time; can be called repeatedly.

    """

    described: TraceDescription
    parts: Callable[[int], Iterator[Accesses]]

    @classmethod
    def of(
        cls,
        page: ArrayLike,
        *,
        source: str,
        tenant: ArrayLike | None = None,
        write: ArrayLike | None = None,
        kernel: ArrayLike | None = None,
        launch: ArrayLike | None = None,
        allocation: ArrayLike | None = None,
        origin: ArrayLike | None = None,
        kernels: Sequence[str] = (),
        tenants: Sequence[str] = (),
        allocations: Sequence[str] = (),
        origins: Sequence[str] = (),
    ) -> Self:
        """Make a trace of arrays, which are copied. All have the shape (accesses,).

        Args:
            page: Page numbers: 512 times the block of 2 MiB, plus the page in the block.
            source: What the trace is, in words: how it was generated, or the device that it was recorded on.
            tenant: Code of each access's process; None if there is one process.
            write: Whether each access writes.
            kernel: Code of each access's GPU kernel, -1 if unknown.
            launch: Number of each access's launch, -1 if unknown.
            allocation: Code of each access's allocation, -1 if unknown.
            origin: Code of what makes each access, -1 if unknown: the kernel, or a program that asks for a page.
            kernels: Names by code; "0", "1" and so on if there are none.
            tenants: The same for processes.
            allocations: The same for allocations.
            origins: The same for origins.

        Raises:
            ProbeError: An array has another length, values outside its type (int32, uint16 for `tenant`), or codes
                without a name.

        """
        length = np.size(page)
        given: dict[str, ArrayLike | None] = {
            "page": page,
            "tenant": np.zeros(length, np.uint16) if tenant is None else tenant,
        }
        given |= {"write": write, "kernel": kernel, "launch": launch, "allocation": allocation, "origin": origin}
        arrays = {name: _checked(name, values, length) for name, values in given.items() if values is not None}
        names = {"kernels": kernels, "tenants": tenants, "allocations": allocations, "origins": origins}
        for column, attribute in NAMES.items():
            codes = arrays.get(column)
            if not names[attribute] and codes is not None and len(codes):
                names[attribute] = [str(code) for code in range(int(codes.max()) + 1)]
        described = TraceDescription(
            length,
            tuple(name for name in DTYPES if name in arrays),
            source,
            **{attribute: tuple(texts) for attribute, texts in names.items()},
        )
        accesses = Accesses(**arrays)
        try:
            described.check(accesses)
        except ValueError as error:
            raise _bad_column(str(error), "give a name for each code") from None
        return cls(described, _InMemory(accesses))

    def __len__(self) -> int:
        return self.described.length

    def __repr__(self) -> str:
        return f"<PageTrace of {counted_text(len(self), 'access', 'accesses')}: {self.source}>"

    def __eq__(self, other: object) -> bool:
        """Whether both have the same accesses, names and source."""
        if not isinstance(other, PageTrace):
            return NotImplemented
        return self.described == other.described and all(
            np.array_equal(array, theirs.columns[name])
            for ours, theirs in zip(self.parts(CHUNK), other.parts(CHUNK), strict=True)
            for name, array in ours.columns.items()
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def source(self) -> str:
        """What the trace is, in words."""
        return self.described.source

    @property
    def kernels(self) -> tuple[str, ...]:
        """Names of the GPU kernels."""
        return self.described.kernels

    @property
    def tenants(self) -> tuple[str, ...]:
        """Names of the processes."""
        return self.described.tenants

    @property
    def allocations(self) -> tuple[str, ...]:
        """Names of the allocations."""
        return self.described.allocations

    @property
    def origins(self) -> tuple[str, ...]:
        """What makes accesses; () if the trace does not say."""
        return self.described.origins

    @cached_property
    def accesses(self) -> Accesses:
        """All accesses in memory.

        Raises:
            RecordingError: They need more memory than opening a file may take.

        """
        if isinstance(self.parts, _InMemory):
            return self.parts.accesses
        needed = len(self) * sum(DTYPES[name].itemsize for name in self.described.columns)
        if needed > memory_bounds.limit():
            raise RecordingError(
                f"a trace of {len(self):,} accesses is too large for memory",
                why=f"it needs {needed:,} bytes; {memory_bounds.limit():,} are allowed",
                fix=f"iterate over chunks(), or allow more MiB: %env {memory_bounds.VARIABLE}={(needed >> 20) + 1}",
                code="pages.too-large",
            )
        if not len(self):
            return Accesses(**{name: np.empty(0, DTYPES[name]) for name in self.described.columns})
        return Accesses.joined(list(self.parts(CHUNK)))

    @property
    def page(self) -> NDArray[np.uint64]:
        """Page numbers, (accesses,) uint64."""
        return self.accesses.page

    @property
    def tenant(self) -> NDArray[np.uint16]:
        """Codes into `tenants`, (accesses,) uint16."""
        return self.accesses.tenant

    @property
    def write(self) -> NDArray[np.bool_] | None:
        """Whether each access writes, (accesses,) bool; None if unknown."""
        return self.accesses.write

    @property
    def kernel(self) -> NDArray[np.int32] | None:
        """Codes into `kernels`, (accesses,) int32, -1 if unknown; None if all are."""
        return self.accesses.kernel

    @property
    def launch(self) -> NDArray[np.int32] | None:
        """Numbers of launches, (accesses,) int32, -1 if unknown; None if all are."""
        return self.accesses.launch

    @property
    def allocation(self) -> NDArray[np.int32] | None:
        """Codes into `allocations`, (accesses,) int32, -1 if unknown; None if all are."""
        return self.accesses.allocation

    @cached_property
    def blocks(self) -> NDArray[np.uint64]:
        """Numbers of the blocks that are accessed, ascending, (blocks,) uint64."""
        found, new, waiting = np.empty(0, np.uint64), [], 0
        for part in self.parts(CHUNK):
            new.append(pd.unique(part.page >> _SHIFT))
            waiting += len(new[-1])
            if waiting > len(found):  # seldom, because this sorts all of them
                found, new, waiting = np.unique(np.concatenate([found, *new])), [], 0
        return np.unique(np.concatenate([found, *new]))

    @property
    def footprint(self) -> int:
        """Bytes of all blocks that are accessed."""
        return len(self.blocks) * BLOCK_BYTES

    def chunks(self, rows: int = CHUNK) -> Iterator[Self]:
        """Iterate over the trace, `rows` accesses at a time; the last chunk may be shorter.

        Raises:
            RecordingError: The trace is in a file, and the file is damaged.

        """
        for part in self.parts(rows):
            yield type(self)(replace(self.described, length=len(part)), _InMemory(part))

    def compact(self) -> Self:
        """Number the blocks from 0 without gaps, in their order; block n is `self.blocks[n]`."""
        count = len(self.blocks)
        if not count or int(self.blocks[-1]) == count - 1:
            return self
        return type(self)(self.described, _Compacted(self.parts, self.blocks))

    def frame(self) -> pd.DataFrame:
        """One row per access: `block`, `page` (in the block), `tenant`, `write`, `kernel`, `launch` and so on.

        Columns that the trace lacks are left out. Names are categories, missing if unknown.

        Raises:
            RecordingError: The trace is too large for memory.

        """
        columns: dict[str, Any] = dict(self.accesses.columns)
        page = columns.pop("page")
        for column, attribute in NAMES.items():
            if column in columns:
                names = _unique(getattr(self, attribute))
                columns[column] = pd.Categorical.from_codes(
                    columns[column].astype(np.int32), categories=pd.Index(names)
                )
        return pd.DataFrame({"block": page >> _SHIFT, "page": (page % PAGES_PER_BLOCK).astype(np.uint16), **columns})

    def save(self, path: str | Path) -> Path:
        """Write the trace to one Parquet file, which `accel_magic.open` reads, and return its absolute path.

        Raises:
            RecordingError: The path cannot be written to.

        """
        return trace_file.write(self.described, self.parts(CHUNK), path)


def load(path: Path) -> PageTrace:
    """Open a trace written by `PageTrace.save`. Its accesses are read when they are used.

    Raises:
        RecordingError: The file does not exist, is damaged, is not a page trace, or was written by a later version.

    """
    stored = trace_file.read(path)
    return PageTrace(stored.described, stored)


@dataclass(frozen=True, eq=False)
class _InMemory:
    """Reads accesses in memory."""

    accesses: Accesses

    def __call__(self, rows: int) -> Iterator[Accesses]:
        for start in range(0, len(self.accesses), rows):
            yield self.accesses.rows(start, start + rows)


@dataclass(frozen=True, eq=False)
class _Compacted:
    """Reads accesses with their blocks' places among `blocks` instead of their numbers."""

    parts: Callable[[int], Iterator[Accesses]]
    blocks: NDArray[np.uint64]

    def __call__(self, rows: int) -> Iterator[Accesses]:
        first, span = self.blocks[0], int(self.blocks[-1] - self.blocks[0]) + 1
        table = None
        if span <= _LARGEST_TABLE:
            table = np.zeros(span, np.uint64)
            table[self.blocks - first] = np.arange(len(self.blocks), dtype=np.uint64)
        for part in self.parts(rows):
            block = part.page >> _SHIFT
            place = np.searchsorted(self.blocks, block).astype(np.uint64) if table is None else table[block - first]
            yield replace(part, page=_fixed(place << _SHIFT | part.page % np.uint64(PAGES_PER_BLOCK)))


def _checked(name: str, values: ArrayLike, length: int) -> NDArray[Any]:
    """Copy a column into its type."""
    array, kind = np.asarray(values), DTYPES[name]
    if array.shape != (length,):
        raise _bad_column(f"{name} has the shape {array.shape} instead of ({length},)", "give one value per access")
    if len(array) and (array.dtype.kind not in "biu" or (kind.kind == "b") != (array.dtype.kind == "b")):
        raise _bad_column(f"{name} has the type {array.dtype}", f"give an array of {kind}")
    converted = array.astype(kind)
    if len(array) and kind.kind != "b" and not np.array_equal(converted, array):
        raise _bad_column(f"{name} has values that do not fit into {kind}", f"give an array of {kind}")
    return _fixed(converted)


def _fixed(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


def _unique(names: Sequence[str]) -> list[str]:
    """Append the codes if a name occurs several times, which a category cannot."""
    return [*names] if len({*names}) == len(names) else [f"{name} ({code})" for code, name in enumerate(names)]


def _bad_column(why: str, fix: str) -> ProbeError:
    return ProbeError("this is not a page trace", why=why, fix=fix, code="pages.bad-column")

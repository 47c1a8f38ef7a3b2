"""Stacks of a recording's events: raw from the kernel (addresses), and with names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from accel_magic.kernel.stacks.frames import Frame

KERNEL: Final = 0
USER: Final = 1
PYTHON: Final = 2
"""Kinds of stacks, as in bpf/kernel/stacks.h."""
COLUMNS: Final = {"kernel_stack": KERNEL, "user_stack": USER, "python_stack": PYTHON}
"""Columns of events that contain keys of stacks; 0 means no stack."""


@dataclass(frozen=True)
class RawStacks:
    """S distinct stacks, innermost frame first.

    Attributes:
        keys: (S,) uint64, as in the events.
        kinds: (S,) uint8.
        starts: (S + 1,) int64, where each stack's words begin in `words`.
        words: uint64. Kernel and user stacks: return addresses, one per frame. Python stacks: two per frame, first the
            address of the code object; then the instruction's byte offset in its bytecode (lower 32 bits) and the
            code's first line (upper 32 bits).
        pids: (S,) int32, process that the addresses belong to, as BPF programs see its id; 0 for kernel stacks.
            None: all belong to this process.
        limit: Maximum recorded frames of kernel and native stacks; 0: unknown.

    """

    keys: NDArray[np.uint64]
    kinds: NDArray[np.uint8]
    starts: NDArray[np.int64]
    words: NDArray[np.uint64]
    pids: NDArray[np.int32] | None = None
    limit: int = 0


def joined(parts: Sequence[RawStacks]) -> RawStacks:
    """Join the stacks of several tables, all with the processes that they belong to."""
    if len(parts) == 1:
        return parts[0]
    lengths = np.concatenate([np.diff(part.starts) for part in parts])
    return RawStacks(
        keys=np.concatenate([part.keys for part in parts]),
        kinds=np.concatenate([part.kinds for part in parts]),
        starts=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        words=np.concatenate([part.words for part in parts]),
        pids=np.concatenate([part.pids for part in parts if part.pids is not None]),
        limit=max(part.limit for part in parts),
    )


@dataclass(frozen=True)
class StackTable:
    """S distinct stacks with names, outermost frame first.

    Attributes:
        keys: (S,) uint64, ascending, as in the events.
        kinds: (S,) uint8.
        starts: (S + 1,) int64, where each stack's frames begin in `frames_of`.
        frames_of: int32, indices into `frames`.
        frames: Every frame once.

    """

    keys: NDArray[np.uint64]
    kinds: NDArray[np.uint8]
    starts: NDArray[np.int64]
    frames_of: NDArray[np.int32]
    frames: tuple[Frame, ...]

    def rows(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Row of each key, (N,) int64: -1 for key 0 (no stack), -2 for a stack that did not fit in the table."""
        keys = keys.astype(np.uint64)
        if not len(self.keys):
            return np.where(keys == 0, -1, -2).astype(np.int64)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(keys == 0, -1, np.where(self.keys[at] == keys, at, -2)).astype(np.int64)

    def of(self, row: int) -> tuple[Frame, ...]:
        """Frames of a row, outermost first."""
        return tuple(self.frames[frame] for frame in self.frames_of[self.starts[row] : self.starts[row + 1]])


def concatenated(tables: Sequence[StackTable]) -> StackTable:
    """Join tables of several traces, at least one: their rows follow each other, and row r has the key r + 1."""
    numbers: dict[Frame, int] = {}
    frames_of = [
        np.array([numbers.setdefault(frame, len(numbers)) for frame in one.frames], np.int32)[one.frames_of]
        for one in tables
    ]
    lengths = np.concatenate([np.diff(one.starts) for one in tables])
    return StackTable(
        keys=np.arange(1, len(lengths) + 1, dtype=np.uint64),
        kinds=np.concatenate([one.kinds for one in tables]),
        starts=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        frames_of=np.concatenate(frames_of),
        frames=tuple(numbers),
    )


def table(keys: NDArray[np.uint64], kinds: NDArray[np.uint8], stacks: Sequence[Sequence[Frame]]) -> StackTable:
    """Make a table of S stacks, each a sequence of frames, outermost first."""
    numbers: dict[Frame, int] = {}
    order = np.argsort(keys, kind="stable")
    chosen = [stacks[row] for row in order]
    frames_of = [numbers.setdefault(frame, len(numbers)) for stack in chosen for frame in stack]
    starts = np.cumsum([0, *(len(stack) for stack in chosen)])
    return StackTable(
        keys[order].astype(np.uint64),
        kinds[order].astype(np.uint8),
        starts.astype(np.int64),
        np.array(frames_of, np.int32),
        tuple(numbers),
    )

"""What known algorithms do with a trace: LRU (the driver's default), FIFO, MRU, and OPT, which no policy can beat.

Memory holds chunks of one block of 2 MiB each. An access is a miss if its block is not in memory, and then the block
replaces another if memory is full.

The algorithms are C, committed as LLVM IR and compiled by llvmlite, as for the model of a GPU's memory: each access
depends on the one before, which numpy cannot express, and users need no C compiler. They read a trace in parts, and
their memory grows with the number of blocks only.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from accel_magic.errors import ProbeError
from accel_magic.policies.accesses import CHUNK
from accel_magic.ptx import llvm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from accel_magic.policies.page_trace import PageTrace

MOST_BLOCKS: Final = 1 << 28
"""512 TiB."""
_LEVELS: Final = 6
_WORD: Final = 64


def _slots(least: int) -> int:
    """Length of a timeline."""
    return -(-max(least, 1024) // _WORD) * _WORD


def _timeline(blocks: int, slots: int) -> tuple[Any, ...]:
    return 0, slots, np.zeros(blocks, np.uint32), np.zeros(slots, np.uint32)


def _lru(blocks: int, _: int) -> tuple[Any, ...]:
    slots = _slots(4 * blocks)
    marks, tree = np.zeros(slots // _WORD, np.uint64), np.zeros(slots // _WORD + 1, np.uint32)
    return *_timeline(blocks, slots), marks, tree, np.zeros(blocks + 1, np.uint64), blocks, 0


def _fifo(blocks: int, chunks: int) -> tuple[Any, ...]:
    return np.zeros(chunks, np.uint32), np.zeros(blocks, np.uint8), 0, 0


def _mru(blocks: int, _: int) -> tuple[Any, ...]:
    return np.zeros(blocks, np.uint8), 0, 0


def _opt(blocks: int, chunks: int) -> tuple[Any, ...]:
    slots = _slots(8 * blocks)
    levels = (np.zeros(-(-slots // _WORD ** (level + 1)), np.uint64) for level in range(_LEVELS))
    return *_timeline(blocks, slots), chunks - 1, *levels


ALGORITHMS: Final[Mapping[str, Callable[[int, int], tuple[Any, ...]]]] = {
    "lru": _lru,
    "fifo": _fifo,
    "mru": _mru,
    "opt": _opt,
}
"""For each algorithm, the members of its struct in known.c, arrays for pointers, given the blocks and the chunks."""
_HISTOGRAM: Final = 6
"""Place of the histogram among the members of `lru`."""


def misses_by_step(trace: PageTrace, algorithm: str, chunks: int, edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the misses in stretches of the trace.

    Which accesses miss under OPT is a choice between equally good ones; up to each access, no policy has fewer misses.

    Args:
        trace: The accesses.
        algorithm: One of `ALGORITHMS`.
        chunks: Blocks that fit into memory.
        edges: The first access of each stretch, ascending from 0, (stretches,) int64.

    Returns:
        (stretches,) int64.

    Raises:
        ProbeError: There is no such algorithm, memory is empty, or the trace has more than `MOST_BLOCKS` blocks.
        RecordingError: The trace is in a file, and the file is damaged.

    """
    counted = np.zeros(len(edges), np.int64)

    def add(at: int, part: NDArray[np.bool_]) -> None:
        missed = at + np.flatnonzero(part)
        counted[:] += np.diff(np.searchsorted(missed, [*edges, at + len(part)]))

    _run(trace, algorithm, chunks, add)
    return counted


def count(trace: PageTrace, algorithm: str, chunks: int) -> int:
    """Count the misses. Raises as `misses_by_step`."""
    return _run(trace, algorithm, chunks)[0]


def curve(trace: PageTrace, sizes: Iterable[int] = ()) -> pd.DataFrame:
    """Find out how misses depend on the size of memory.

    Args:
        trace: The accesses.
        sizes: Numbers of chunks for which to count OPT's misses too, which takes one pass over the trace each.

    Returns:
        A row for each size from one chunk to all blocks: `chunks` (the index), and the misses `lru` (int64) and `opt`
        (Int64, missing except for `sizes`).

    Raises:
        ProbeError, RecordingError: As for `misses_by_step`.

    """
    optimal = pd.Series({size: count(trace, "opt", size) for size in sizes}, dtype="Int64")
    _, state = _run(trace, "lru", 1)
    by_distance = state[_HISTOGRAM][: len(trace.blocks)].astype(np.int64)
    table = pd.DataFrame({"lru": len(trace) - np.cumsum(by_distance)})
    table.index = pd.RangeIndex(1, len(table) + 1, name="chunks")
    return table.assign(opt=optimal.reindex(table.index))


def _run(
    trace: PageTrace, algorithm: str, chunks: int, use: Callable[[int, NDArray[np.bool_]], None] | None = None
) -> tuple[int, tuple[Any, ...]]:
    """Run an algorithm; returns the number of misses and the members of its struct.

    `use` gets the place of each part of the trace, and which of its accesses miss.
    """
    if algorithm not in ALGORITHMS:
        raise ProbeError(
            f"there is no known algorithm {algorithm!r:.60}",
            fix=f"choose one of {', '.join(ALGORITHMS)}",
            code="pages.unknown-algorithm",
        )
    blocks = max(len(trace.blocks), 1)
    if chunks < 1 or blocks > MOST_BLOCKS:
        raise ProbeError(
            f"{algorithm} cannot run on {blocks:,} blocks and {chunks:,} chunks of memory",
            why=f"there must be at least one chunk and at most {MOST_BLOCKS:,} blocks",
            fix="give more memory" if chunks < 1 else "divide the trace",
            code="pages.bad-memory",
        )
    fitting = int(min(chunks, blocks))
    members = ALGORITHMS[algorithm](blocks, fitting)
    state = np.array([each if isinstance(each, int) else each.ctypes.data for each in members], np.uint64)
    run = _compiled().functions[algorithm]
    total = at = 0
    for part in trace.compact().parts(CHUNK):
        pages = np.ascontiguousarray(part.page)
        out = np.empty(len(pages) if use else 0, np.bool_)
        total += run(state.ctypes.data, pages.ctypes.data, len(pages), fitting, out.ctypes.data if use else None)
        if use:
            use(at, out)
        at += len(pages)
    return total, members


@dataclass(frozen=True)
class _Compiled:
    """Functions of known.c by algorithm, and the engine that owns their code."""

    functions: Mapping[str, Callable[..., int]]
    engine: Any


@cache
def _compiled() -> _Compiled:
    binding = llvm.binding()
    machine = binding.Target.from_triple(binding.get_process_triple()).create_target_machine(opt=3, jit=True)
    module = llvm.parse((resources.files("accel_magic.policies") / "known.ll").read_text("utf-8"))
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    pointer, number = ctypes.c_void_p, ctypes.c_uint64
    kind = ctypes.CFUNCTYPE(number, pointer, pointer, number, number, pointer)
    return _Compiled({name: kind(engine.get_function_address(f"known_{name}")) for name in ALGORITHMS}, engine)

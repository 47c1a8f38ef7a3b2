"""Trying policies on a trace: each on an engine's memory, beside the driver's default and the optimum."""

from __future__ import annotations

import contextlib
import functools
import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from accel_magic.errors import ProbeError
from accel_magic.policies import known_algorithms
from accel_magic.policies.accesses import CHUNK
from accel_magic.policies.model_engine import FAULT, HIT, MISS, ModelMemory
from accel_magic.policies.page_trace import BLOCK_BYTES, PAGES_PER_BLOCK
from accel_magic.policies.policy import MEMORY_TABLE, SCHEDULING_TABLE, load
from accel_magic.policies.trace_file import NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from accel_magic.findings import Finding
    from accel_magic.gpu.maps.map_content import MapContent
    from accel_magic.policies.accesses import Accesses
    from accel_magic.policies.kernel_engine import KernelMemory
    from accel_magic.policies.model_engine import PolicyCounts
    from accel_magic.policies.page_trace import PageTrace
    from accel_magic.policies.policy import Policy

DEFAULT: Final = "default"
"""Name of the driver's own policy: the least recently used block goes."""
STEPS: Final = 200
"""Steps over a trace, of equal numbers of accesses, by which results are kept."""
ENGINES: Final = ("model", "kernel")
"""Where policies run: compiled into a model of the memory, or in the kernel, on the lab's accelerator."""
DRIVER: Final = "driver"
"""The engine that has no trial: the machine's own driver, see `accel_magic.policies.driver_engine`."""
_ABOUT: Final = {
    MEMORY_TABLE: ("memory", "try it on a trace: --trace zipf"),
    SCHEDULING_TABLE: (
        "scheduling",
        'try it with tenants: --tenants "critical*2:work=50us,every=10ms batch*4:work=5ms"',
    ),
}
_PLACES: Final = {"address": BLOCK_BYTES, "page": PAGES_PER_BLOCK, "block": 1}
"""Columns that say where an access was: what they are divided by for the block."""
_MEMORY: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(%|[KMGT]i?B)?")
_UNITS: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True)
class Trial:
    """One policy on one trace.

    Attributes:
        name: The policy's name.
        counts: Totals.
        steps: (steps, 3) int64: hits, faults that are no misses, misses in each step.
        groups: For "tenant", "kernel" and "allocation", if the trace has them: (codes + 1, 3) int64 likewise; the first
            row is that of accesses without a code.
        evictions: (blocks,) int64: how often each block of `PageTrace.blocks` was evicted.
        maps: The policy's maps at the end.
        lints: What `accel_magic.policies.lints` found in its code.

    """

    name: str
    counts: PolicyCounts
    steps: NDArray[np.int64]
    groups: Mapping[str, NDArray[np.int64]]
    evictions: NDArray[np.int64]
    maps: tuple[MapContent, ...]
    lints: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Trials:
    """Several policies on one trace.

    Attributes:
        trace: The trace.
        chunks: Size of the memory in chunks of 2 MiB.
        observed: Whether policies heard of every access, or of faults only.
        engine: One of `ENGINES`.
        trials: The driver's default first, then the policies in their order.
        optimum: (steps,) int64, misses of the optimum in each step.
        accesses: (blocks,) int64: how often each block of `PageTrace.blocks` is accessed.

    """

    trace: PageTrace
    chunks: int
    observed: bool
    engine: str
    trials: tuple[Trial, ...]
    optimum: NDArray[np.int64]
    accesses: NDArray[np.int64]


def try_policies(
    policies: Sequence[str | Path],
    trace: PageTrace,
    memory: str | int = "50%",
    *,
    observed: bool = True,
    engine: str = "model",
    settings: Mapping[str, int] = MappingProxyType({}),
    fill: Mapping[str, pd.DataFrame] = MappingProxyType({}),
    progress: Callable[[str, int], None] | None = None,
) -> Trials:
    """Try policies on a trace.

    Args:
        policies: As for `accel_magic.policies.policy.load`; the driver's default is always tried too.
        trace: The accesses.
        memory: Size of the memory: "60%" of what the trace touches, "512MiB", or a number of chunks of 2 MiB.
        observed: Whether policies hear of every access, or of faults only, as with GPUs without access counters.
        engine: One of `ENGINES`; "kernel" works in the accelerator lab only.
        settings: As for `accel_magic.policies.policy.load`; each must be one that a policy has.
        fill: Content of policies' maps whose keys are where blocks start: tables with a column `address`, `page` or
            `block`, and one with numbers, which are added up by block. Blocks that the trace lacks are left out.
        progress: Called after every million accesses with the policy's name and the accesses that it has seen.

    Raises:
        ProbeError: The engine is not one, the trace is empty, the size is not one, two policies have one name, or a
            setting is wrong.
        ProgramError: A policy is rejected.
        MachineError: llvmlite or clang is missing.

    """
    check_engine(engine)
    blocks = len(trace.blocks)
    if not blocks:
        raise ProbeError("the trace has no accesses", fix="trace a cell that runs kernels", code="policy.no-accesses")
    chunks = memory_size(memory, blocks)
    loaded = load_all(
        policies, settings, MEMORY_TABLE, {name: _by_block(trace, name, table) for name, table in fill.items()}
    )
    trials = tuple(
        _try(name, trace, functools.partial(_memory, engine, one, trace, chunks, observed), one, progress)
        for name, one in loaded
    )
    optimum = known_algorithms.misses_by_step(trace, "opt", chunks, _edges(len(trace)))
    accesses = np.zeros(blocks, np.int64)
    for part in trace.compact().parts(CHUNK):
        accesses += np.bincount((part.page // PAGES_PER_BLOCK).astype(np.int64), minlength=blocks)
    return Trials(trace, chunks, observed, engine, trials, optimum, accesses)


def check_engine(engine: str) -> None:
    """Raise ProbeError if there is no such engine, or it needs a cell."""
    if engine == DRIVER:
        raise ProbeError(
            "a trace cannot be replayed on a driver, and neither can tenants",
            why="the driver decides about what programs access and run now",
            fix="write %%gpupolicy POLICY --engine driver over a cell, or `with accel_magic.attach_policy(POLICY):`",
            code="policy.needs-cell",
        )
    if engine not in ENGINES:
        raise ProbeError(f"there is no engine {engine!r}", fix=f"use {' or '.join(ENGINES)}", code="policy.no-engine")


def load_all(
    policies: Sequence[str | Path],
    settings: Mapping[str, int],
    table: str,
    fill: Mapping[str, Mapping[int, int]] = MappingProxyType({}),
) -> list[tuple[str, Policy | None]]:
    """Load policies that decide about the same; returns them by name, after the driver's default (None).

    Args:
        policies: As for `accel_magic.policies.policy.load`.
        settings: Likewise; each must be one that a policy has.
        table: What they decide about: `MEMORY_TABLE` or `SCHEDULING_TABLE`.
        fill: As for `load`; likewise.

    Raises:
        ProbeError: Two have one name, a setting is wrong, or one decides about something else.
        ProgramError, MachineError: As `load`.

    """
    given = [load(one, settings=settings, fill=fill) for one in policies]
    unused = sorted((settings.keys() | fill.keys()) - frozenset().union(*(one.settings for one in given)))
    if unused:
        raise ProbeError(
            f"no policy has {', '.join(unused)}",
            why="settings are names of constants and initialised variables, or MAP.KEY; maps are filled by name",
            fix="look at the policy's source",
            code="program.bad-setting",
        )
    for one in given:
        if one.table != table:
            about, fix = _ABOUT[one.table]
            raise ProbeError(f"{one.name} decides about {about}", fix=fix, code="policy.other-table")
    names = [DEFAULT, *(one.name for one in given)]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ProbeError(
            f"two policies are called {min(twice)}",
            why="results are shown by name",
            fix="rename one of the files",
            code="policy.name-twice",
        )
    return list(zip(names, [None, *given], strict=True))


def _by_block(trace: PageTrace, name: str, table: pd.DataFrame) -> dict[int, int]:
    """Numbers by the address at which the trial has the block, which numbers blocks without gaps."""
    places = [column for column in _PLACES if column in table]
    values = [column for column in table if column not in places and pd.api.types.is_integer_dtype(table[column])]
    if len(places) != 1 or len(values) != 1 or not pd.api.types.is_integer_dtype(table[places[0]]):
        raise ProbeError(
            f"{name} cannot be filled with this table",
            why=f"it has the columns {', '.join(map(str, table.columns))}",
            fix="it must have one of address, page and block, and one other column of integers",
            code="program.bad-setting",
        )
    sums = table[values[0]].groupby(table[places[0]] // _PLACES[places[0]]).sum()
    sums = sums[sums.index.isin(trace.blocks)]
    starts = np.searchsorted(trace.blocks, sums.index.to_numpy(np.uint64)) * BLOCK_BYTES
    return dict(zip(starts.tolist(), sums.tolist(), strict=True))


def memory_size(memory: str | int, blocks: int) -> int:
    """Return the chunks of a memory; arguments and errors as for `try_policies`."""
    found = _MEMORY.fullmatch(str(memory).strip())
    size = 0.0
    if found:
        number, unit = float(found[1]), found[2]
        size = number * blocks / 100 if unit == "%" else number * _UNITS[unit[0]] / BLOCK_BYTES if unit else number
    if size < 1:
        raise ProbeError(
            f"{memory!r} is not a size of memory",
            why="it has less than one chunk of 2 MiB" if found else "",
            fix='write "60%" of what the trace touches, "512MiB", or a number of chunks of 2 MiB',
            code="policy.bad-memory",
        )
    return int(size)


def _edges(length: int) -> NDArray[np.int64]:
    """First access of each step."""
    steps = min(STEPS, length)
    return np.arange(steps, dtype=np.int64) * length // steps


def _memory(
    engine: str, policy: Policy | None, trace: PageTrace, chunks: int, observed: bool
) -> contextlib.AbstractContextManager[ModelMemory | KernelMemory]:
    blocks, tenants = len(trace.blocks), max(len(trace.tenants), 1)
    if engine == "model":
        model = ModelMemory(policy, chunks=chunks, blocks=blocks, tenants=tenants, observe=observed)
        return contextlib.nullcontext(model)
    from accel_magic.policies.kernel_engine import KernelMemory

    return KernelMemory(policy, chunks=chunks, blocks=blocks, tenants=tenants, observe=observed)


def _try(
    name: str,
    trace: PageTrace,
    made: Callable[[], contextlib.AbstractContextManager[ModelMemory | KernelMemory]],
    policy: Policy | None,
    progress: Callable[[str, int], None] | None,
) -> Trial:
    blocks = len(trace.blocks)
    evictions = np.zeros(blocks, np.int64)
    edges = _edges(len(trace))
    steps = np.zeros((len(edges), 3), np.int64)
    groups = {
        column: np.zeros((len(getattr(trace, names)) + 1, 3), np.int64)
        for column, names in NAMES.items()
        if getattr(trace, names)
    }
    at = 0
    with made() as memory:
        for part in trace.compact().parts(CHUNK):
            reported = memory.run(part.page, part.tenant)
            outcome, evicted = reported["outcome"], reported["evicted"]
            evictions += np.bincount(evicted[evicted >= 0], minlength=blocks)
            _add(steps, np.searchsorted(edges, np.arange(at, at + len(part)), side="right") - 1, outcome)
            for column, table in groups.items():
                _add(table, _codes(part, column) + 1, outcome)
            at += len(part)
            if progress:
                progress(name, at)
        lints = policy.lints if policy else ()
        return Trial(name, memory.counts, steps, groups, evictions, memory.maps(), lints)


def _codes(part: Accesses, column: str) -> NDArray[np.int64]:
    codes: NDArray[Any] | None = getattr(part, column)
    return np.full(len(part), -1, np.int64) if codes is None else codes.astype(np.int64)


def _add(table: NDArray[np.int64], rows: NDArray[np.int64], outcome: NDArray[np.uint8]) -> None:
    """Count outcomes by row."""
    cells = rows * 3 + np.array([HIT, FAULT, MISS])[outcome]
    table += np.bincount(cells, minlength=table.size).reshape(table.shape)

"""Generated page traces, for which the best and the worst policies are known.

A trace is generated while it is read. Equal options give equal traces: of numpy's random numbers, only those are used
that no version of numpy changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.errors import ProbeError
from accel_magic.policies.accesses import CHUNK, Accesses, in_chunks
from accel_magic.policies.page_trace import PAGES_PER_BLOCK, PageTrace
from accel_magic.policies.trace_file import TraceDescription
from accel_magic.probes.globs import suggestion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Options = Mapping[str, float]
    Draw = Callable[[NDArray[np.int64], Options, np.random.Generator], NDArray[np.int64]]

MOST_ACCESSES: Final = 1 << 40
_MOST_BLOCKS: Final = 1 << 24


@dataclass(frozen=True)
class Generator:
    """One kind of trace.

    Attributes:
        shows: What it is, in one line.
        options: Its options with their defaults, besides `accesses` and `seed`.
        draw: Returns the page numbers of consecutive accesses, given their positions in the trace.
        unit: Option with the number of accesses that must be drawn together; 1 without.

    """

    shows: str
    options: Options
    draw: Draw
    unit: Callable[[Options], int] = lambda _: 1


_LEAST: Final[Mapping[str, float]] = {"skew": 0.0, "seed": 0}
"""Smallest values of options, if not 1."""
_MOST: Final[Mapping[str, float]] = {"skew": 16.0, "seed": 2**63, "blocks": _MOST_BLOCKS, "touches": PAGES_PER_BLOCK}
_MOST_ELSE: Final = 1 << 32


def _scan(at: NDArray[np.int64], options: Options, _: np.random.Generator) -> NDArray[np.int64]:
    """Visit blocks one after the other, and never again: every policy misses once a block."""
    touches = int(options["touches"])
    return at // touches * PAGES_PER_BLOCK + at % touches


def _loop(at: NDArray[np.int64], options: Options, _: np.random.Generator) -> NDArray[np.int64]:
    """Visit the same blocks in turn: LRU and FIFO miss each if memory lacks a single one, MRU is optimal."""
    touches = int(options["touches"])
    return at // touches % int(options["blocks"]) * PAGES_PER_BLOCK + at % touches


def _sequential(at: NDArray[np.int64], options: Options, _: np.random.Generator) -> NDArray[np.int64]:
    return at % (int(options["blocks"]) * PAGES_PER_BLOCK)


def _stride(at: NDArray[np.int64], options: Options, _: np.random.Generator) -> NDArray[np.int64]:
    return at * int(options["stride"]) % (int(options["blocks"]) * PAGES_PER_BLOCK)


def _zipf(at: NDArray[np.int64], options: Options, random: np.random.Generator) -> NDArray[np.int64]:
    """Draw blocks so that the n-th most wanted comes 1 / n**skew times as often as the first."""
    bounds, order = _ranks(int(options["blocks"]), options)
    drawn = random.random((len(at), 2))
    block = order[np.searchsorted(bounds, drawn[:, 0], side="right")]
    return block * PAGES_PER_BLOCK + (drawn[:, 1] * PAGES_PER_BLOCK).astype(np.int64)


def _zipf_scan(at: NDArray[np.int64], options: Options, random: np.random.Generator) -> NDArray[np.int64]:
    """Draw as `_zipf`; now and then, visit blocks that are never wanted again."""
    every, scan = int(options["every"]), int(options["scan"])
    turn, phase = at // (every + scan), at % (every + scan)
    scanned = int(options["blocks"]) + turn * scan + phase - every
    return np.where(phase < every, _zipf(at, options, random), scanned * PAGES_PER_BLOCK)


def _moe(at: NDArray[np.int64], options: Options, random: np.random.Generator) -> NDArray[np.int64]:
    """For each token, choose `active` experts and read all blocks of each: `blocks`, divided among the experts.

    Gumbel's noise on logarithms of probabilities: the largest are a draw without replacement.
    """
    experts, active = int(options["experts"]), int(options["active"])
    size = int(options["blocks"]) // experts
    tokens = -(-len(at) // (active * size))
    _, order = _ranks(experts, options)
    requested = -options["skew"] * np.log(np.arange(1, experts + 1))
    noise = -np.log(-np.log(random.random((tokens, experts)) + np.finfo(np.float64).tiny))
    chosen = order[np.argsort(-(requested + noise), axis=1, kind="stable")[:, :active]]
    block = (chosen[:, :, None] * size + np.arange(size)).reshape(-1)
    return block[: len(at)] * PAGES_PER_BLOCK


_ZIPF: Final[Options] = {"blocks": 512, "skew": 1.0}
GENERATORS: Final[Mapping[str, Generator]] = {
    "scan": Generator("blocks that are visited once", {"touches": 1}, _scan),
    "loop": Generator("the same blocks in turn", {"blocks": 80, "touches": 1}, _loop),
    "sequential": Generator("page after page, from the start again at the end", {"blocks": 512}, _sequential),
    "stride": Generator("every n-th page, from the start again at the end", {"blocks": 512, "stride": 8}, _stride),
    "zipf": Generator("few blocks often, many seldom", _ZIPF, _zipf),
    "zipf+scan": Generator("zipf, interrupted by scans of new blocks", {**_ZIPF, "every": 500, "scan": 96}, _zipf_scan),
    "moe": Generator(
        "a mixture of experts: few experts for each token, some more popular",
        {"blocks": 512, "experts": 64, "active": 2, "skew": 1.0},
        _moe,
        unit=lambda options: int(options["active"]) * (int(options["blocks"]) // int(options["experts"])),
    ),
}


def generate(name: str, /, *, accesses: int = 100_000, seed: int = 0, **options: float) -> PageTrace:
    """Generate a trace.

    Args:
        name: One of `GENERATORS`.
        accesses: Its length.
        seed: Seed of its random numbers.
        options: As for the generator: `blocks` of 2 MiB that it visits; `touches`, accesses to a block in succession;
            `skew`, exponent of the popularity; `stride` in pages; `every`, accesses between two scans of `scan` blocks;
            `experts`, and how many of them are `active` for a token.

    Raises:
        ProbeError: There is no such generator or option, or a value is out of range.

    """
    generator = GENERATORS.get(name)
    if generator is None:
        raise ProbeError(
            f"there is no generated trace {name!r:.60}",
            fix=f"{suggestion(name, GENERATORS)} there are {', '.join(GENERATORS)}".strip(),
            code="pages.unknown-generator",
        )
    if unknown := options.keys() - generator.options.keys():
        raise ProbeError(
            f"{name} has no option {min(unknown)!r:.60}",
            fix=f"its options are {', '.join(['accesses', 'seed', *generator.options])}",
            code="pages.bad-option",
        )
    chosen = {**generator.options, **options}
    for option, value in {"accesses": accesses, "seed": seed, **chosen}.items():
        _check(name, option, value)
    if name == "moe" and not chosen["active"] <= chosen["experts"] <= chosen["blocks"]:
        raise ProbeError(
            f"moe cannot have {chosen['active']} active of {chosen['experts']} experts in {chosen['blocks']} blocks",
            why="active experts are a part of all, and each expert has a block of its own",
            fix="give active <= experts <= blocks",
            code="pages.bad-option",
        )
    accesses, seed = int(accesses), int(seed)
    shown = ", ".join(f"{key}={value}" for key, value in {"accesses": accesses, **chosen, "seed": seed}.items())
    described = TraceDescription(accesses, ("page", "tenant"), f"generated: {name} ({shown})", tenants=("0",))
    return PageTrace(described, _Generated(generator, accesses, seed, tuple(chosen.items())))


def parse(text: str) -> PageTrace:
    """Generate the trace that a command line names: `zipf`, or `zipf:blocks=512,skew=0.9`.

    Raises:
        ProbeError: The text has another form, or as for `generate`.

    """
    name, colon, rest = text.partition(":")
    options: dict[str, float] = {}
    for item in rest.split(",") if colon else ():
        key, _, value = item.strip().partition("=")
        try:
            number = float(value)
            options[key.strip()] = int(number) if number.is_integer() else number
        except (ValueError, OverflowError):
            raise ProbeError(
                f"{item.strip()!r:.60} is not an option of a generated trace",
                why="an option is a name, =, and a number",
                fix="write it like zipf:blocks=512,skew=0.9",
                code="pages.bad-option",
            ) from None
    return generate(name.strip(), **options)  # type: ignore[arg-type]


def shared(traces: Sequence[PageTrace], *, turn: int = 64) -> PageTrace:
    """Merge traces into one of as many processes, which take turns of `turn` accesses until each is at its end.

    Blocks are numbered so that no process accesses another's. Only pages and whether they are written are kept.

    Raises:
        ProbeError: There are no traces or more than 65,536, or `turn` is not positive.

    """
    if not 0 < len(traces) <= 1 << 16 or turn < 1:
        raise ProbeError(
            f"{len(traces)} traces cannot take turns of {turn} accesses",
            fix="give 1 to 65,536 traces, and a positive turn",
            code="pages.bad-option",
        )
    columns = ("page", "write", "tenant") if all("write" in each.described.columns for each in traces) else ()
    described = TraceDescription(
        sum(len(each) for each in traces),
        columns or ("page", "tenant"),
        f"{turn} accesses in turn of: " + "; ".join(each.source for each in traces),
        tenants=tuple(str(number) for number in range(len(traces))),
    )
    return PageTrace(described, _Shared(tuple(each.compact() for each in traces), turn, bool(columns)))


@dataclass(frozen=True)
class _Generated:
    """Reads a generated trace."""

    generator: Generator
    accesses: int
    seed: int
    options: tuple[tuple[str, float], ...]

    def __call__(self, rows: int) -> Iterator[Accesses]:
        return in_chunks(self._parts(), rows)

    def _parts(self) -> Iterator[Accesses]:
        # The length of a part must not depend on `rows`: the random numbers would be others.
        options = {**dict(self.options), "seed": self.seed}
        unit = self.generator.unit(options)
        length = max(CHUNK // unit, 1) * unit
        random = np.random.Generator(np.random.PCG64(self.seed))
        for start in range(0, self.accesses, length):
            at = np.arange(start, min(start + length, self.accesses))
            page = self.generator.draw(at, options, random).astype(np.uint64)
            yield Accesses(page=page, tenant=np.zeros(len(page), np.uint16))


@dataclass(frozen=True)
class _Shared:
    """Reads traces in turn."""

    traces: tuple[PageTrace, ...]
    turn: int
    write: bool

    def __call__(self, rows: int) -> Iterator[Accesses]:
        return in_chunks(self._parts(), rows)

    def _parts(self) -> Iterator[Accesses]:
        first = np.cumsum([0, *(len(each.blocks) for each in self.traces)]) * PAGES_PER_BLOCK
        length = max(CHUNK // len(self.traces) // self.turn, 1) * self.turn
        running = {number: each.parts(length) for number, each in enumerate(self.traces)}
        while running:
            there = {number: part for number, parts in running.items() if (part := next(parts, None)) is not None}
            running = {number: running[number] for number in there}
            if there:
                turns = np.concatenate([np.arange(len(part)) // self.turn for part in there.values()])
                order = np.argsort(turns, kind="stable")
                tenant = np.repeat([*there], [len(part) for part in there.values()]).astype(np.uint16)
                page = np.concatenate([part.page + np.uint64(first[number]) for number, part in there.items()])
                write = np.concatenate([part.columns["write"] for part in there.values()]) if self.write else None
                yield Accesses(page[order], tenant[order], None if write is None else write[order])


def _ranks(count: int, options: Options) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Cumulative probabilities of `count` ranks, and what has each rank."""
    weights = np.arange(1, count + 1, dtype=np.float64) ** -options["skew"]
    order = np.argsort(np.random.Generator(np.random.PCG64([int(options["seed"]), 1])).random(count), kind="stable")
    return np.cumsum(weights)[:-1] / weights.sum(), order


def _check(name: str, option: str, value: float) -> None:
    least = _LEAST.get(option, 1)
    most = MOST_ACCESSES if option == "accesses" else _MOST.get(option, _MOST_ELSE)
    kind = Real if option == "skew" else Integral
    if not (isinstance(value, kind) and not isinstance(value, bool) and least <= value <= most):
        raise ProbeError(
            f"{name} cannot have {option}={value!r:.60}",
            why=f"it must be a {'' if option == 'skew' else 'whole '}number from {least:g} to {most:g}",
            fix=f"for example {option}={GENERATORS[name].options.get(option, least):g}",
            code="pages.bad-option",
        )

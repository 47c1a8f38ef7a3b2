"""Which accesses of a kernel's threads conflict: the same bytes, at least one write, and nothing that orders them.

Whole-block barriers divide the accesses of a block into intervals. Within an interval, accesses of different threads
are not ordered, except those of lanes between which `bar.warp.sync` lies, and those between which both threads have an
atomic or volatile access. Stores of equal values to the same bytes do not conflict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.gpu.program.sections import Where
from accel_magic.gpu_tools.common import LANES, launch_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.gpu_tools.tool import Run

_SHARED_FUNCTION: Final = 0xFFFFFFFF
"""Kernel of a place in a device function of several kernels."""
_GUARD: Final = r"^(?:@\S+\s+)?"
_WHOLE_BLOCK: Final = _GUARD + r"bar(?:rier)?(?:\.cta)?(?:\.sync(?:\.aligned)?\s+0|\.red\.\S+\s+\S+,\s*0,\s*!?%\w+)\s*;"
"""Barriers for which all threads of the block wait."""
_OF_WARP: Final = _GUARD + r"bar\.warp\.sync"
_OTHER_ORDER: Final = _GUARD + r"(?:mbarrier\.|bar|cp\.\S*bulk)"
"""Instructions other than the above that order accesses in ways that the records do not show."""
_STRONG: Final = r"\.(?:volatile|relaxed|acquire|release|acq_rel|mmio)\b"
_UNKNOWN: Final = _GUARD + r"(?:multimem\.|cp\.\S*bulk)"
"""Accesses whose bytes the records do not show."""
_UNSEEN_WRITE: Final = _GUARD + r"(?:cp\.|wmma\.store|multimem\.)"
_NAMES_LANES: Final = _GUARD + r"((?:bar\.warp|barrier\.warp|shfl|vote|match|redux)\b)\S*\.?sync"
"""Instructions of a warp whose records have the lanes that they name."""
_READS_LANES: Final = "shfl"
"""Of these, what reads registers of the named lanes: those that do not exist must not be named."""
_MATRIX: Final = _GUARD + r"(?:ld|st)matrix"
_ROW: Final = 16
_ROWS: Final = 8
"""Bytes of a matrix's row, and rows of a matrix: one for each address."""
_WIDEST_CELL: Final = 16
_THREAD: Final = ["launch", "block", "thread"]


@dataclass(frozen=True)
class Conflicts:
    """What the records show.

    Attributes:
        races: One row per pair of places: `kernel`, `space`, `site`, `other_site`, `address`, `bytes`, `launches`, and
            `launch`, `block`, `thread`, `other_block`, `other_thread` of an example. `site` writes.
        absent: One row per place that names lanes of its warp that do not come there: `kernel`, `site`, `launches`, and
            `launch`, `block`, `thread` and `other_thread` (the absent one) of an example.
        unwritten: As `races`, for reads of shared memory that was not written; without the columns of another access.
        unchecked: Places of kernels within whose blocks nothing was compared: `kernel`, `site`.

    """

    races: pd.DataFrame
    unwritten: pd.DataFrame
    absent: pd.DataFrame
    unchecked: pd.DataFrame


def find(run: Run, events: pd.DataFrame) -> Conflicts:
    """Compare the accesses of each launch.

    Args:
        run: Its sites and launches are used.
        events: Records of the ring `events`, in order.

    """
    sites = _classified(run.sites)
    placed = _placed(run, events).merge(sites, on="site", how="inner")
    unchecked = placed.loc[placed["other_order"], ["kernel", "site"]].drop_duplicates(ignore_index=True)
    accesses = _with_intervals(placed)
    cells = _cells(accesses)
    within = cells[~cells["kernel"].isin(unchecked["kernel"])]
    interval = ["launch", "space", "block", "interval", "cell"]
    warps = _races(within, interval, "warp", ("next_own", "last_own"))
    # Lanes that had another number of warp barriers in an interval do not wait for the same lanes.
    lanes = _races(within, [*interval, "warp", "warp_interval", "warp_intervals"], "thread", ("next_own", "last_own"))
    shared = cells["space"] == "shared"
    blocks = _races(cells[~shared], ["launch", "space", "cell"], "block", ("next_block", "last_block"))
    unseen = sites.loc[sites["unseen_write"], "of_kernel"]
    known = cells[shared & ~cells["kernel"].isin(unseen) & (not (unseen == _SHARED_FUNCTION).any())]
    absent = _absent(placed[placed["names_lanes"] != ""])
    return Conflicts(_by_places(pd.concat([warps, lanes, blocks])), _unwritten(known), absent, unchecked)


def _classified(sites: pd.DataFrame) -> pd.DataFrame:
    """Return what each site means here."""
    text, where = sites["instruction"].astype("str"), sites["where"]
    barrier = where == Where.BARRIER.value
    atomic = sites["operation"] == "atomic"
    writes = sites["operation"].isin(["store", "atomic"])
    matrices = text.str.extract(r"\.x([124])\b")[0].astype("float").fillna(1).astype("int64")
    followed = (barrier & text.str.contains(_WHOLE_BLOCK)) | text.str.contains(_OF_WARP)
    return pd.DataFrame(
        {
            "site": sites["site"],
            "of_kernel": sites["kernel"],
            "named_space": sites["space"],
            "barrier": barrier,
            "warp_barrier": text.str.contains(_OF_WARP),
            "other_order": text.str.contains(_OTHER_ORDER) & ~followed,
            # Instructions that name no space may access local memory, whose addresses are each thread's own.
            "access": (where == Where.MEMORY.value) & ~text.str.contains(_UNKNOWN) & (sites["space"] != "generic"),
            "write": writes,
            "atomic": atomic,
            "strong": atomic | text.str.contains(_STRONG),
            "names_lanes": text.str.extract(_NAMES_LANES)[0].fillna(""),
            "rows": (_ROWS * matrices).where(text.str.contains(_MATRIX), 0),
            "unseen_write": text.str.contains(_UNSEEN_WRITE) | (writes & (sites["space"] == "generic")),
        }
    )


def _placed(run: Run, events: pd.DataFrame) -> pd.DataFrame:
    """Replace the device's launch and thread numbers by the launch's row, the block, and the thread in its block."""
    launch = launch_of(run, events["launch"])
    known = (launch >= 0).to_numpy()
    events, launch = events[known], launch[known]
    shape = run.launches.loc[launch.to_numpy()]
    grid, block = ([shape[f"{what}_{axis}"].to_numpy(np.int64) for axis in "xyz"] for what in ("grid", "block"))
    at, rest = [], events["thread"].to_numpy(np.int64)
    for blocks, threads in zip(grid, block, strict=True):
        at.append(rest % (blocks * threads))
        rest = rest // (blocks * threads)
    of, inside = ([part(a, size) for a, size in zip(at, block, strict=True)] for part in (np.floor_divide, np.mod))
    thread = (inside[2] * block[1] + inside[1]) * block[0] + inside[0]
    return pd.DataFrame(
        {
            "order": np.arange(len(events)),
            "launch": launch.to_numpy(),
            "block": (of[2] * grid[1] + of[1]) * grid[0] + of[0],
            "thread": thread,
            "warp": thread // LANES,
            "kernel": events["kernel"].to_numpy(np.int64),
            "site": events["site"].to_numpy(np.int32),
            "address": events["address"].to_numpy(np.uint64),
            "size": events["size"].to_numpy(np.int64),
            "stored": _stored(events),
            "threads": block[0] * block[1] * block[2],
        }
    )


def _stored(events: pd.DataFrame) -> NDArray[np.int64]:
    """Number stored values by address: equal ones have the same number; those that are not known differ from all."""
    keys = events.groupby(["address", "size", "values", "value"], sort=False).ngroup().to_numpy(np.int64)
    return np.where(events["values"].to_numpy() > 0, keys, -1 - np.arange(len(events)))


def _with_intervals(placed: pd.DataFrame) -> pd.DataFrame:
    """Return the accesses, in order, with their intervals and the nearest strong accesses of their thread and block."""
    rows = placed.sort_values("order", ignore_index=True)
    rows["interval"] = rows["barrier"].groupby([rows[name] for name in _THREAD]).cumsum().astype("int64")
    lanes = rows.groupby([*_THREAD, "interval"])["warp_barrier"]
    rows["warp_interval"] = lanes.cumsum().astype("int64")
    rows["warp_intervals"] = lanes.transform("sum").astype("int64")
    strong = rows["order"].where(rows["strong"])
    for name, keys in (("own", _THREAD), ("block", _THREAD[:2])):
        groups = strong.groupby([rows[key] for key in keys])
        rows[f"next_{name}"] = groups.bfill().fillna(np.inf)
        rows[f"last_{name}"] = groups.ffill().fillna(-np.inf)
    return rows[rows["access"]]


def _cells(accesses: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each cell of each access: the largest power of two of bytes that no access divides."""
    matrix = accesses["rows"] > 0
    kept = accesses[~matrix | (accesses["thread"] % LANES < accesses["rows"])]
    size = kept["size"].where(kept["rows"] == 0, _ROW)
    kept = kept.assign(size=size)[size > 0]
    kept = kept.rename(columns={"named_space": "space"})
    width = _cell_bytes(kept["address"].to_numpy(np.uint64), kept["size"].to_numpy(np.uint64))
    count = kept["size"].to_numpy(np.int64) // width
    first = np.repeat(np.cumsum(count) - count, count)
    cells = kept.loc[kept.index.repeat(count)].reset_index(drop=True)
    address = cells["address"].to_numpy(np.uint64) + (np.arange(len(cells)) - first).astype(np.uint64) * np.uint64(
        width
    )
    return cells.assign(cell=address // np.uint64(width), address=address, width=width)


def _cell_bytes(addresses: NDArray[np.uint64], sizes: NDArray[np.uint64]) -> int:
    bits = int(np.bitwise_or.reduce(addresses | sizes)) if len(addresses) else _WIDEST_CELL
    return min(bits & -bits, _WIDEST_CELL)


def _races(cells: pd.DataFrame, group: list[str], unit: str, nearest: tuple[str, str]) -> pd.DataFrame:
    """Pair conflicting accesses of different units.

    Of each place, those of the first and of the last unit stand for all: if two units conflict, two of these do.

    Args:
        cells: As from `_cells`.
        group: Columns; accesses with the same values are compared.
        unit: Column; accesses with the same value are not.
        nearest: Columns with the next strong access after each, and the last one before it.

    """
    together = cells.groupby(group, sort=False)
    several = together[unit].transform("min") != together[unit].transform("max")
    chosen = cells[several & together["write"].transform("any")]
    chosen = chosen.assign(number=chosen.groupby(group, sort=False).ngroup())
    stored = chosen.groupby(["number", "site"], sort=False)["stored"]
    alike = stored.transform("min") == stored.transform("max")
    ends = chosen.assign(alike=alike & (chosen["stored"] >= 0)).sort_values(["number", "site", unit, "order"])
    first, last = (ends.drop_duplicates(["number", "site"], keep=keep) for keep in ("first", "last"))
    pairs = first.merge(last, on="number", suffixes=("", "_other"))
    conflict = (pairs["write"] | pairs["write_other"]) & ~(pairs["strong"] & pairs["strong_other"])
    same = pairs["alike"] & pairs["alike_other"] & (pairs["stored"] == pairs["stored_other"])
    pairs = pairs[conflict & ~same & (pairs[unit] != pairs[f"{unit}_other"])]
    following, before = nearest
    earlier = pairs["order"] < pairs["order_other"]
    signal = pairs[following].where(earlier, pairs[f"{following}_other"])
    seen = pairs[f"{before}_other"].where(earlier, pairs[before])
    return _writer_first(pairs[~(signal < seen)])


def _writer_first(pairs: pd.DataFrame) -> pd.DataFrame:
    swap = ~pairs["write"] | (pairs["write_other"] & (pairs["site"] > pairs["site_other"]))
    names = ["site", "block", "thread"]
    sides = {
        side: {name: pairs[f"{name}{own}"].where(~swap, pairs[f"{name}{other}"]) for name in names}
        for side, own, other in (("", "", "_other"), ("other_", "_other", ""))
    }
    columns = {f"{side}{name}": values for side, found in sides.items() for name, values in found.items()}
    return pairs[["kernel", "space", "launch", "address", "width"]].assign(**columns)


def _by_places(pairs: pd.DataFrame) -> pd.DataFrame:
    """Combine the pairs of the same two places."""
    places = ["kernel", "space", "site", *(["other_site"] if "other_site" in pairs else [])]
    ordered = pairs.sort_values(["launch", "block", "address"], kind="stable")
    owner = ordered["block"].where(ordered["space"] == "shared", 0)
    cells = ordered.assign(owner=owner).drop_duplicates([*places, "launch", "address", "owner"])
    sums = cells.groupby(places)["width"].sum().rename("bytes").reset_index()
    launches = ordered.groupby(places)["launch"].nunique().rename("launches").reset_index()
    examples = ordered.drop_duplicates(places).drop(columns="width")
    return examples.merge(sums, on=places).merge(launches, on=places)


def _absent(named: pd.DataFrame) -> pd.DataFrame:
    """Return the places whose masks name lanes that execute fewer instructions with this mask than others of the warp.

    Args:
        named: Records of instructions that name lanes, which are in `address`.

    """
    group = ["launch", "block", "warp", "address", "names_lanes"]
    rows = named.assign(lane=named["thread"] % LANES, turn=named.groupby([*group, "thread"]).cumcount())
    last = rows.sort_values("turn", kind="stable").drop_duplicates(group, keep="last")
    times = rows.groupby([*group, "lane"]).size().rename("times").reset_index()
    lanes = last.loc[last.index.repeat(LANES)].reset_index(drop=True)
    lanes["lane"] = np.tile(np.arange(LANES), len(last))
    lanes = lanes.merge(times, on=[*group, "lane"], how="left")
    lanes["other_thread"] = lanes["warp"] * LANES + lanes["lane"]
    requested = lanes["address"].to_numpy(np.uint64) >> lanes["lane"].to_numpy(np.uint64) & np.uint64(1)
    exists = (lanes["other_thread"] < lanes["threads"]) | (lanes["names_lanes"] == _READS_LANES)
    missing = lanes[(requested == 1) & exists & (lanes["times"].fillna(0) <= lanes["turn"])]
    missing = missing.sort_values(["launch", "block", "thread", "other_thread"], kind="stable")
    launches = missing.groupby(["kernel", "site"])["launch"].nunique().rename("launches").reset_index()
    examples = missing.drop_duplicates(["kernel", "site"])
    columns = ["kernel", "site", "launch", "block", "thread", "other_thread"]
    chosen: pd.DataFrame = examples[columns].assign(other_block=examples["block"])
    return chosen.merge(launches, on=["kernel", "site"])


def _unwritten(cells: pd.DataFrame) -> pd.DataFrame:
    """Return reads of shared memory before which no thread of the block had written the same bytes."""
    cell = ["launch", "block", "cell"]
    plain = cells.assign(stored=cells["order"].where(cells["write"]))
    written = plain.groupby(cell)["stored"].transform("min").fillna(np.inf)
    before = plain["order"] < written
    reads = plain[(~plain["write"] & before) | (plain["atomic"] & (plain["order"] <= written))]
    return _by_places(reads[["kernel", "space", "launch", "address", "width", "site", "block", "thread"]])

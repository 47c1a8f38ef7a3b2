"""The contents of a timeline as plain columns: the row of each step, and which steps are merged into blocks."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from accel_magic.analysis.nesting import lanes
from accel_magic.subsystems.npu.families import API, FENCE, INTERRUPT, IOCTL, LAYERS, TASK
from accel_magic.subsystems.npu.layers import CALLBACK, COMPLETES, DOORBELLS, ENDS_WAIT
from accel_magic.subsystems.npu.objects import SUBMITS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Codes = NDArray[np.int64]

DRAWN: Final = 12_000
"""The most steps drawn individually; if there are more, short ones that are close together are merged into blocks."""
JOBS: Final = 2_000
"""The most jobs drawn: the earliest ones."""
JOB_LANES: Final = 12
DOMAINS: Final = 8
"""The most kinds of tasks that are told apart."""
PROCESSES: Final = 10
"""The most processes with their own rows; the others share rows."""
DEVICE: Final = len(LAYERS)
"""Layer code of the row of jobs on the device."""
NONE: Final = -1
_SHARED: Final = 0  # group of rows that belong to no process
_THREAD_BITS: Final = 24
_HALVINGS: Final = 10
_CHAIN: Final = 7  # most names of a chain that are shown


@dataclass(frozen=True)
class TimelineRow:
    """One row: its label, the code of its layer, its first lane and its number of lanes."""

    label: str
    layer: int
    first: int
    lanes: int


@dataclass(frozen=True)
class Drawing:
    """Everything that is drawn.

    Attributes:
        rows: From top to bottom.
        bars: One row per bar: `left`, `right` ms; `lane`; `layer`; `kind`, `name`, `chain`, `who`: indices into the
            texts below; `id`, `root`, `job` as in the steps; `calls` hits; `steps` number of steps in the bar.
        kinds: Texts of `kind`: the layers, and the domains of tasks if there are several.
        names: Texts of `name`.
        chains: Texts of `chain`: the causes of a step, the first cause first.
        who: Texts of `who`: command, process and thread.
        links: The arrows of each job: `job`, from (`x0` ms, `lane0`) to (`x1`, `lane1`).
        merged: Steps that are drawn as blocks.
        blocks: Number of blocks.
        shorter_ns: Merged steps are shorter than this.
        jobs_left_out: Jobs that are not drawn.
        start_ns: First moment drawn.
        end_ns: Last moment drawn.

    """

    rows: tuple[TimelineRow, ...]
    bars: pd.DataFrame
    kinds: list[str]
    names: list[str]
    chains: list[str]
    who: list[str]
    links: pd.DataFrame
    merged: int
    blocks: int
    shorter_ns: float
    jobs_left_out: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class _Steps:
    """Columns of the steps as arrays, all (steps,)."""

    frame: pd.DataFrame
    start: Codes
    end: Codes
    layer: Codes
    parent: Codes
    inside: Codes
    name: Codes

    @classmethod
    def of(cls, frame: pd.DataFrame) -> _Steps:
        start = frame["start_ns"].to_numpy(np.int64)
        end = start + np.nan_to_num(frame["duration_ns"].to_numpy(np.float64)).astype(np.int64)
        layer, name = (np.asarray(frame[column].cat.codes, np.int64) for column in ("layer", "name"))
        parent, inside = (frame[column].to_numpy(np.int64) for column in ("parent", "inside"))
        return cls(frame, start, end, layer, parent, inside, name)


def drawing(
    steps: pd.DataFrame,
    jobs: pd.DataFrame,
    start_ns: int | None = None,
    end_ns: int | None = None,
    *,
    domains: Mapping[str, str] = MappingProxyType({}),
) -> Drawing:
    """Lay out steps and jobs.

    Args:
        steps: `subsystems.npu.layers.layers`.
        jobs: `subsystems.npu.jobs.jobs` of the same trace; `steps["job"]` are its row numbers.
        start_ns: Draw only what ends at or after this time.
        end_ns: Draw only what starts at or before this time.
        domains: The domain of each task, by its name.

    """
    every = _Steps.of(steps)
    first = int(every.start[0]) if start_ns is None and len(steps) else start_ns or 0
    last = max(int(every.end.max(initial=first)) if end_ns is None else end_ns, first + 1)
    shown = np.flatnonzero((every.end >= first) & (every.start <= last))
    device, left_out = _on_device(jobs, first, last)
    rows, lane = _rows(every, shown, int(device["lane"].max()) + 1 if len(device) else 0)
    chain, chains = _chains(every)
    who, texts = _who(steps)
    kind, kinds = _kinds(every, domains)
    bars = pd.DataFrame(
        {
            "left": every.start[shown] / 1e6,
            "right": every.end[shown] / 1e6,
            "lane": lane,
            "layer": every.layer[shown],
            "kind": kind[shown],
            "name": every.name[shown],
            "chain": chain[shown],
            "who": who[shown],
            "id": shown,
            "root": steps["root"].to_numpy()[shown],
            "job": steps["job"].to_numpy()[shown],
            "calls": steps["calls"].to_numpy()[shown],
            "steps": np.ones(len(shown), np.int64),
        }
    )
    names = [str(name) for name in steps["name"].cat.categories]
    links = _links(every, shown, lane, device, rows)
    bars, shorter_ms = _merged(bars, sum(row.lanes for row in rows), (last - first) / 1e6)
    blocks = bars["steps"].to_numpy()[bars["steps"].to_numpy() > 1]
    bars = _with_jobs(bars, every, device, rows[-1].first if rows else 0, (names, chain, who))
    bars["chain"], kept = _used(bars["chain"], chains)
    bars["who"], texts = _used(bars["who"], texts)
    return Drawing(
        *(rows, bars, kinds, names, [_chain_text(parts) for parts in kept], texts, links),
        *(int(blocks.sum()), len(blocks), shorter_ms * 1e6, left_out, first, last),
    )


def _on_device(jobs: pd.DataFrame, first: int, last: int) -> tuple[pd.DataFrame, int]:
    """Jobs on the device (`job`, `left`, `right` ns, `lane`), and the number left out."""
    known = {name: _times(jobs, name) for name in ("submitted_ns", "queued_ns", "doorbell_ns", "done_ns")}
    left = np.where(np.isnan(known["doorbell_ns"]), known["queued_ns"], known["doorbell_ns"])
    left = np.where(np.isnan(left), known["submitted_ns"], left)
    right = known["done_ns"]
    ended = ~np.isnan(right)
    # A job without an end is still running, unless it never reached the device or its end cannot be known.
    never = jobs["status"].isin(("refused", "not known")).to_numpy() if "status" in jobs else np.False_
    right = np.where(ended, right, last)
    drawn = np.flatnonzero(~np.isnan(left) & (ended | ~never) & (left <= last) & (right >= first))
    drawn = drawn[np.argsort(left[drawn], kind="stable")]
    kept = drawn[:JOBS]
    frame = pd.DataFrame({"job": kept, "left": left[kept], "right": right[kept]})
    frame["lane"] = lanes(left[kept], right[kept]) % JOB_LANES
    return frame, len(drawn) - len(kept)


def _times(jobs: pd.DataFrame, name: str) -> NDArray[np.float64]:
    return jobs[name].to_numpy(np.float64, na_value=np.nan) if name in jobs else np.full(len(jobs), np.nan)


def _rows(steps: _Steps, shown: Codes, job_lanes: int) -> tuple[tuple[TimelineRow, ...], Codes]:
    """Rows from top to bottom, and the lane (shown,) of each step: per thread, nested calls below their callers."""
    group, labels = _groups(steps)
    key = (group * DEVICE + steps.layer)[shown]
    # Shared rows come last.
    order = np.where(key < DEVICE, key + len(labels) * DEVICE, key)
    tid = np.where(steps.layer == FENCE, NONE, steps.frame["tid"].to_numpy())[shown]
    thread, tids = pd.factorize(tid)
    depth = np.where(steps.layer == FENCE, 0, _depths(steps, group))[shown]
    # Each thread's tasks have a row of their own.
    row = order << _THREAD_BITS | np.where(steps.layer[shown] == TASK, thread + 1, 0)
    tracks, track = np.unique(row << _THREAD_BITS | thread, return_inverse=True)
    deep = np.zeros(len(tracks), np.int64)
    np.maximum.at(deep, track, depth + 1)
    top = np.cumsum(deep) - deep
    lane = top[track] + depth
    of_row, first = np.unique(tracks >> _THREAD_BITS, return_index=True)
    deepest = np.add.reduceat(deep, first) if len(first) else deep
    places = (of_row >> _THREAD_BITS).tolist()
    named = [tids[code - 1] if code else None for code in (of_row & ((1 << _THREAD_BITS) - 1)).tolist()]
    rows = [
        TimelineRow(
            _label(labels, place, None if places.count(place) == 1 else tid), place % DEVICE, int(top[at]), int(count)
        )
        for place, tid, at, count in zip(places, named, first, deepest, strict=True)
    ]
    if job_lanes:
        rows.append(TimelineRow("jobs on the NPU", DEVICE, int(deep.sum()), job_lanes))
    return tuple(rows), lane


def _kinds(steps: _Steps, domains: Mapping[str, str]) -> tuple[Codes, list[str]]:
    """(steps,) what each step is: its layer; a task's domain, if there are several; and the texts of these codes."""
    texts = [*LAYERS, "NPU"]
    of_name = [domains.get(str(name), "") for name in steps.frame["name"].cat.categories]
    tasks = np.flatnonzero(steps.layer == TASK)
    domain, found = pd.factorize(
        np.array(of_name, dtype=object)[steps.name[tasks]] if len(tasks) else np.zeros(0, object)
    )
    if len(found) < 2:
        return steps.layer, texts
    order = np.argsort(-np.bincount(domain), kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.minimum(np.arange(len(order)), DOMAINS - 1)
    named = [f"task, {found[at]}" for at in order[: DOMAINS - 1]]
    named.append(f"task, {found[order[-1]]}" if len(order) == DOMAINS else "other tasks")
    kind = steps.layer.copy()
    kind[tasks] = len(texts) + place[domain]
    return kind, [*texts, *named[: len(order)]]


def _label(labels: list[str], place: int, tid: int | None) -> str:
    group, layer = divmod(place, DEVICE)
    owner = labels[group] if group < len(labels) else ""
    return ", ".join(filter(None, (LAYERS[layer], owner, "" if tid is None else f"thread {tid}")))


def _groups(steps: _Steps) -> tuple[Codes, list[str]]:
    """(steps,) group of rows of each step, and the groups' labels: one per process, then kernel threads."""
    pid = steps.frame["pid"].to_numpy(np.int64)
    calling = np.flatnonzero(np.isin(steps.layer, (TASK, API, IOCTL)))
    pids, first = np.unique(pid[calling], return_index=True)
    order = np.argsort(first)
    pids, first = pids[order], calling[first[order]]
    comm = steps.frame["comm"].astype("str").to_numpy()[first]
    labels = ["", *(f"{name} {number}" for name, number in zip(comm, pids, strict=True))][: PROCESSES + 1]
    if len(pids) == 1:
        labels[1] = ""
    number = np.minimum(np.arange(1, len(pids) + 1), PROCESSES + 1)
    if len(pids) > PROCESSES:
        labels.append(f"{len(pids) - PROCESSES} other processes")
    place = pd.Index(pids).get_indexer(pd.Index(pid))
    group = np.where(place >= 0, np.append(number, 0)[place], len(labels))
    shared = (steps.layer == INTERRUPT) | (steps.layer == FENCE)
    return np.where(shared, _SHARED, group).astype(np.int64), [*labels, "kernel threads"]


def _depths(steps: _Steps, group: Codes) -> Codes:
    """(steps,) nesting depth of each step within its row."""
    depth = np.zeros(len(steps.layer), np.int64)
    rows = np.arange(len(steps.layer))
    around = steps.inside.copy()
    while len(kept := np.flatnonzero(around >= 0)):
        rows, around = rows[kept], around[kept]
        depth[rows] += (steps.layer[around] == steps.layer[rows]) & (group[around] == group[rows])
        around = steps.inside[around]
    return depth


def _used(codes: pd.Series[int], texts: list[Any]) -> tuple[Codes, list[Any]]:
    """Drop texts that nothing drawn uses; -1 stays -1."""
    used, code = np.unique(np.append(codes.to_numpy(np.int64), NONE), return_inverse=True)
    return code[:-1] - 1, [texts[place] for place in used[1:].tolist()]


def _chains(steps: _Steps) -> tuple[Codes, list[tuple[str, ...]]]:
    """(steps,) index of each step's chain of causes, and the list of chains."""
    names = steps.frame["name"].cat.categories
    chain, chains = np.zeros(len(steps.parent), np.int64), [tuple[str, ...]()]
    settled = steps.parent < 0
    open_ = np.flatnonzero(~settled)
    while len(open_):
        ready = open_[settled[steps.parent[open_]]]
        above = steps.parent[ready]
        pairs, code = np.unique(chain[above] << 32 | steps.name[above], return_inverse=True)
        chain[ready] = code + len(chains)
        chains += [(*chains[pair >> 32], str(names[pair & 0xFFFFFFFF])) for pair in pairs.tolist()]
        settled[ready] = True
        open_ = open_[~settled[open_]]
    return chain, chains


def _chain_text(parts: tuple[str, ...]) -> str:
    if len(parts) > _CHAIN:
        parts = (*parts[:3], "…", *parts[3 - _CHAIN :])
    return " > ".join(parts)


def _who(steps: pd.DataFrame) -> tuple[Codes, list[str]]:
    """(steps,) index of each step's thread, and the list of the threads' texts."""
    comm, tid = steps["comm"].cat.codes.to_numpy(np.int64), steps["tid"].to_numpy(np.int64)
    _, first, who = np.unique(comm << 32 | (tid & 0xFFFFFFFF), return_index=True, return_inverse=True)
    threads: Any = steps.iloc[first]
    return who, [
        f"{name} {pid}, thread {tid}" if tid != pid else f"{name} {pid}" if pid >= 0 else name
        for name, pid, tid in zip(threads["comm"].astype("str"), threads["pid"], threads["tid"], strict=True)
    ]


def _links(
    steps: _Steps, shown: Codes, lane: Codes, device: pd.DataFrame, rows: tuple[TimelineRow, ...]
) -> pd.DataFrame:
    """Arrows from the doorbell to the device, from there to the completion, and on to the wait that it ends."""
    place = np.full(len(steps.start) + 1, NONE)  # the last one is for index -1
    place[shown] = lane
    start = np.append(steps.start / 1e6, np.nan)
    rung, completed, woken = (_of_job(steps, device, names) for names in (DOORBELLS, (CALLBACK,), (ENDS_WAIT,)))
    completed = np.where(completed >= 0, completed, _of_job(steps, device, (COMPLETES,)))
    own = device["lane"].to_numpy(np.int64) + next((row.first for row in rows if row.layer == DEVICE), 0)
    waiting = np.append(steps.inside, NONE)[woken]
    points = [
        (start[rung], place[rung], start[rung], own),
        (start[completed], own, start[completed], place[completed]),
        (start[completed], place[completed], start[woken], place[waiting]),
    ]
    names = ("x0", "lane0", "x1", "lane1")
    links = pd.concat(
        [pd.DataFrame({"job": device["job"], **dict(zip(names, point, strict=True))}) for point in points]
    )
    known = (links["lane0"] >= 0) & (links["lane1"] >= 0) & links["x0"].notna() & links["x1"].notna()
    return links[known].sort_values("job", kind="stable", ignore_index=True)


def _of_job(steps: _Steps, device: pd.DataFrame, names: tuple[str, ...]) -> Codes:
    """(jobs,) the first step of each job with one of these names, -1 if there is none."""
    requested = steps.frame["name"].cat.categories.get_indexer(pd.Index(names))
    job = steps.frame["job"].to_numpy(np.int64)
    rows = np.flatnonzero(np.isin(steps.name, requested[requested >= 0]) & (job >= 0))
    jobs, first = np.unique(job[rows], return_index=True)
    found = pd.Index(jobs).get_indexer(pd.Index(device["job"]))
    return np.where(found >= 0, np.append(rows[first], NONE)[found], NONE).astype(np.int64)


def _merged(bars: pd.DataFrame, count: int, span_ms: float) -> tuple[pd.DataFrame, float]:
    """Merge short steps that begin close together into blocks if there are too many; return the limit too, ms."""
    if len(bars) <= DRAWN:
        return bars, 0.0
    limit = _limit(bars, count, span_ms)
    short = ((bars["right"] - bars["left"]) < limit).to_numpy()
    block = (bars["left"] // limit)[short].astype(np.int64)
    grouped: Any = bars[short].groupby([bars["lane"][short], block], sort=False)
    blocks: pd.DataFrame = grouped.first()
    blocks["lane"] = blocks.index.get_level_values(0)
    blocks["right"], blocks["steps"], blocks["calls"] = (
        grouped["right"].max(),
        grouped["steps"].sum(),
        grouped["calls"].sum(),
    )
    several = blocks["steps"] > 1
    alone = (grouped["job"].min() == grouped["job"].max()) | ~several
    blocks["job"] = blocks["job"].where(alone, NONE)
    blocks.loc[several, ["id", "root"]] = NONE
    blocks.loc[several, "chain"] = 0
    drawn = pd.concat([bars[~short], blocks[bars.columns]], ignore_index=True)
    return drawn.sort_values("left", kind="stable", ignore_index=True), limit


def _limit(bars: pd.DataFrame, count: int, span_ms: float) -> float:
    """Find a length below which steps become blocks: about the shortest that keeps the number of bars below `DRAWN`.

    It starts at a length that is always long enough and halves it while the bars are few enough.
    """
    left, lane = bars["left"].to_numpy(), bars["lane"].to_numpy()
    length = bars["right"].to_numpy() - left
    limit = 2 * span_ms * max(count, 1) / DRAWN
    for _ in range(_HALVINGS):
        short = length < limit / 2
        blocks = pd.unique((left[short] // (limit / 2)).astype(np.int64) * (count + 1) + lane[short])
        if len(blocks) + int((~short).sum()) > DRAWN:
            break
        limit /= 2
    return limit


def _with_jobs(
    bars: pd.DataFrame,
    steps: _Steps,
    device: pd.DataFrame,
    first_lane: int,
    texts: tuple[list[str], Codes, Codes],
) -> pd.DataFrame:
    """Add a bar for each job on the device, attributed to the thread that submitted it."""
    names, chain, who = texts
    if not len(device):
        return bars
    names.append("job")
    submitted = _of_job(steps, device, SUBMITS)
    rung = _of_job(steps, device, DOORBELLS)
    own = pd.DataFrame(
        {
            "left": device["left"] / 1e6,
            "right": device["right"] / 1e6,
            "lane": device["lane"] + first_lane,
            "layer": DEVICE,
            "kind": DEVICE,
            "name": len(names) - 1,
            "chain": np.append(chain, 0)[np.where(rung >= 0, rung, submitted)],
            "who": np.append(who, NONE)[submitted],
            "id": NONE,
            "root": NONE,
            "job": device["job"],
            "calls": 1,
            "steps": 1,
        }
    )
    return pd.concat([bars, own], ignore_index=True)

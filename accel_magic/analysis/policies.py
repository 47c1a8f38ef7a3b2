"""What a trial of policies shows: tables by policy, over time and by tenant, and findings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.analysis.findings import Findings, combined, diagnose
from accel_magic.findings import Evidence, Rule, by_severity
from accel_magic.policies import known_algorithms
from accel_magic.policies.link_model import DEFAULT as DEFAULT_LINK
from accel_magic.policies.link_model import LINKS
from accel_magic.policies.lints import LINTS
from accel_magic.policies.page_trace import PAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from accel_magic.findings import Finding
    from accel_magic.policies.link_model import LinkModel
    from accel_magic.policies.trial import Trial, Trials

OPTIMUM: Final = "optimum"
_OUTCOMES: Final = ["hits", "faults", "misses"]
_HOT: Final = 4


@dataclass(frozen=True)
class PolicyTables:
    """Tables of a trial.

    Attributes:
        trials: The policies on the trace.
        link: What times are modelled by.

    """

    trials: Trials
    link: LinkModel = LINKS[DEFAULT_LINK]

    @cached_property
    def counts(self) -> pd.DataFrame:
        """A row per policy (the index), most hits first.

        Columns, int64: `hits` and `faults` (accesses to pages that were, or were not, in memory), `misses` (faults of
        blocks of which nothing was), `evictions`, `in_bytes` and `out_bytes` (migrated), `refused` (requests that the
        driver ignored). Float64: `hit_ratio`, `miss_ratio` (of accesses), `over_optimum` (misses, as a multiple of the
        optimum's), and `modelled_s` (of faults and moved pages over `link`, as `Link.seconds`).
        """
        rows = {
            trial.name: {
                "hits": trial.counts.accesses - trial.counts.faults,
                "faults": trial.counts.faults,
                "misses": trial.counts.misses,
                "evictions": trial.counts.evictions,
                "in_bytes": trial.counts.pages_in * PAGE_BYTES,
                "out_bytes": trial.counts.pages_out * PAGE_BYTES,
                "refused": trial.counts.refused,
            }
            for trial in self.trials.trials
        }
        table = pd.DataFrame.from_dict(rows, orient="index").astype("int64").rename_axis("policy")
        accesses = len(self.trials.trace)
        ratios = {"hit_ratio": table["hits"] / accesses, "miss_ratio": table["misses"] / accesses}
        moved = table["in_bytes"] + table["out_bytes"]
        modelled = [self.link.seconds(*pair) for pair in zip(table["faults"], moved, strict=True)]
        table = table.assign(**ratios, over_optimum=table["misses"] / self.optimum, modelled_s=modelled)
        return table.sort_values("hits", ascending=False, kind="stable")

    @property
    def optimum(self) -> int:
        """Misses of Belady's optimum, which evicts what is needed latest: no policy has fewer."""
        return int(self.trials.optimum.sum())

    @cached_property
    def over_time(self) -> pd.DataFrame:
        """A row per policy and step: `policy`, `step`, `access` (the first), `hits`, `faults`, `misses`; int64.

        Steps have equal numbers of accesses. The optimum has misses only; its other columns are missing.
        """
        length, steps = len(self.trials.trace), len(self.trials.optimum)
        first = np.arange(steps, dtype=np.int64) * length // steps
        parts = [pd.DataFrame(trial.steps, columns=_OUTCOMES).astype("Int64") for trial in self.trials.trials]
        parts.append(pd.DataFrame({"misses": self.trials.optimum}).astype("Int64"))
        names = [*(trial.name for trial in self.trials.trials), OPTIMUM]
        tables = [
            part.assign(policy=name, step=np.arange(steps), access=first)
            for name, part in zip(names, parts, strict=True)
        ]
        return pd.concat(tables, ignore_index=True)[["policy", "step", "access", *_OUTCOMES]]

    def by(self, column: str) -> pd.DataFrame:
        """A row per policy and name: `hits`, `faults`, `misses`, `hit_ratio`.

        Names are those of a `tenant`, `kernel`, `allocation` or `origin` (access, prefetch request).
        Accesses without a name have the name "". Empty if the trace does not have the column.
        """
        names = ["", *getattr(self.trials.trace, f"{column}s")]
        tables = [
            pd.DataFrame(trial.groups[column], columns=_OUTCOMES).assign(policy=trial.name, **{column: names})
            for trial in self.trials.trials
            if column in trial.groups
        ]
        if not tables:
            return pd.DataFrame(columns=["policy", column, *_OUTCOMES, "hit_ratio"])
        table = pd.concat(tables, ignore_index=True)[["policy", column, *_OUTCOMES]]
        accesses = table[_OUTCOMES].sum(axis=1)
        return table.assign(hit_ratio=table["hits"] / accesses.where(accesses > 0))[accesses > 0].reset_index(drop=True)

    @cached_property
    def blocks(self) -> pd.DataFrame:
        """A row per block of 2 MiB: `block` (its number, the index), `accesses`, and evictions by each policy; int64.

        Most accesses first.
        """
        evicted = {trial.name: trial.evictions for trial in self.trials.trials}
        table = pd.DataFrame({"accesses": self.trials.accesses, **evicted})
        table.index = pd.Index(self.trials.trace.blocks, name="block")
        return table.sort_values("accesses", ascending=False, kind="stable")

    @cached_property
    def hot(self) -> NDArray[np.bool_]:
        """Which blocks are used at least `_HOT` times as often as the mean, (blocks,) bool.

        None are if they do not all fit into memory.
        """
        accesses = self.trials.accesses
        hot: NDArray[np.bool_] = accesses >= _HOT * accesses.mean()
        return hot if hot.sum() <= self.trials.chunks else np.zeros_like(hot)

    @cached_property
    def curve(self) -> pd.DataFrame:
        """Misses by the size of memory: `chunks` (the index), `lru` for every size, `opt` for a few; Int64."""
        blocks = len(self.trials.trace.blocks)
        sizes = np.unique(np.geomspace(1, blocks, num=min(12, blocks)).round().astype(int))
        return known_algorithms.curve(self.trials.trace, sorted({*sizes.tolist(), min(self.trials.chunks, blocks)}))

    @cached_property
    def findings(self) -> Findings:
        """What is worth knowing, most severe first."""
        return combined(
            [diagnose(RULES, self), of_lints(finding for trial in self.trials.trials[1:] for finding in trial.lints)]
        )

    def __len__(self) -> int:
        """Count the policies, without the default."""
        return len(self.trials.trials) - 1


def _thrashing(tables: PolicyTables, rule: Rule[PolicyTables]) -> Iterator[Evidence]:
    misses = tables.trials.trials[0].counts.misses
    again = misses - len(tables.trials.trace.blocks)
    if again > 0 and again / misses > rule.threshold:
        yield Evidence({"misses": misses, "again_share": again / misses, "again": f"{again:,}"})


def _no_policy_helps(tables: PolicyTables, rule: Rule[PolicyTables]) -> Iterator[Evidence]:
    misses, optimum = tables.trials.trials[0].counts.misses, tables.optimum
    if optimum > len(tables.trials.trace.blocks) and optimum > rule.threshold * misses:
        yield Evidence({"optimum": optimum, "of_default_share": optimum / misses})


def _worse_than_default(tables: PolicyTables, rule: Rule[PolicyTables]) -> Iterator[Evidence]:
    default, *others = tables.trials.trials
    for trial in others:
        ratio = trial.counts.misses / max(default.counts.misses, 1)
        if ratio > rule.threshold:
            yield Evidence({"policy": trial.name, "misses_ratio": ratio})


def _requests_ignored(tables: PolicyTables, _: Rule[PolicyTables]) -> Iterator[Evidence]:
    for trial in tables.trials.trials[1:]:
        if trial.counts.refused:
            yield Evidence({"policy": trial.name, "refused": trial.counts.refused})


def _prefetches_too_much(tables: PolicyTables, rule: Rule[PolicyTables]) -> Iterator[Evidence]:
    default, *others = tables.trials.trials
    for trial in others:
        moved = trial.counts.pages_in / max(default.counts.pages_in, 1)
        if moved > rule.threshold and trial.counts.faults < default.counts.faults:
            yield Evidence({"policy": trial.name, "pages_ratio": moved})


def _tenant_starved(tables: PolicyTables, rule: Rule[PolicyTables]) -> Iterator[Evidence]:
    default, *others = tables.trials.trials
    for trial in others:
        fell = _hit_ratios(default) - _hit_ratios(trial)
        if len(fell) > 1 and np.nanmax(fell) > rule.threshold and np.nanmin(fell) < 0:
            yield Evidence({"policy": trial.name, "hit_ratio_fell": float(np.nanmax(fell))})


def _hit_ratios(trial: Trial) -> NDArray[np.float64]:
    table = trial.groups.get("tenant", np.zeros((0, 3), np.int64))
    accesses = table.sum(axis=1)
    ratios: NDArray[np.float64] = np.divide(table[:, 0], accesses, out=np.full(len(table), np.nan), where=accesses > 0)
    return ratios


def _hot_blocks_evicted(tables: PolicyTables, rule: Rule[PolicyTables]) -> Iterator[Evidence]:
    for trial in tables.trials.trials:
        evicted = int(trial.evictions[tables.hot].sum())
        share = evicted / max(int(trial.evictions.sum()), 1)
        if share > rule.threshold:
            count = str(int(tables.hot.sum()))
            yield Evidence({"policy": trial.name, "evicted": evicted, "evictions_share": share, "count": count})


def of_lints(found: Iterable[Finding]) -> Findings:
    """Sort the findings about policies' code, and add the names of all lints as those that were checked."""
    return Findings(by_severity(found), tuple(rule.id for rule in LINTS))


RULES: Final = (
    Rule(
        "policy.thrashing",
        "problem",
        "{again_share:share} of the misses are blocks that had been in memory before",
        "Memory is too small for what the work uses again and again, and blocks are brought back {again} times.",
        "Look at the curve of misses by memory size, and try policies that keep a part of a loop (mru), or what is "
        "used often (lfu).",
        0.5,
        "share of misses",
        "more is moved again than for the first time",
        check=_thrashing,
    ),
    Rule(
        "policy.no-policy-helps",
        "note",
        "the optimum has {of_default_share:share} of the misses of the driver's default",
        "No policy can avoid many of them, whatever it knows.",
        "Use less memory, or change the order of accesses.",
        0.95,
        "share of the default's misses",
        "below it, at most one miss in 20 can be avoided",
        check=_no_policy_helps,
    ),
    Rule(
        "policy.worse-than-default",
        "warning",
        "{policy} misses {misses_ratio:.2f} times as often as the driver's default",
        "The policy evicts what is needed soon.",
        "Do not attach it for this work.",
        1.05,
        "misses, as a multiple of the default's",
        "a difference that repeated runs on hardware can show",
        check=_worse_than_default,
    ),
    Rule(
        "policy.requests-ignored",
        "warning",
        "the driver ignored {refused:,} requests of {policy}",
        "They ask for something that does not exist, or for two different things in one call; the driver then does "
        "what it does by default.",
        "Ask once per call, with the constants of the interface.",
        check=_requests_ignored,
    ),
    Rule(
        "policy.prefetches-too-much",
        "warning",
        "{policy} moves {pages_ratio:.1f} times as many pages as the driver's default, for fewer faults",
        "Many of the pages that it brings are not used before they are evicted.",
        "Bring less with each fault, or only while faults are in sequence.",
        1.5,
        "pages moved, as a multiple of the default's",
        "the link moves half as much again",
        check=_prefetches_too_much,
    ),
    Rule(
        "policy.tenant-starved",
        "warning",
        "with {policy} the hit ratio of one process falls by {hit_ratio_fell:share}, while another's rises",
        "The policy takes memory from one process for the others.",
        "Look at `by('tenant')`; give each process a quota.",
        0.1,
        "fall of the hit ratio",
        "one access in ten that hit before",
        check=_tenant_starved,
    ),
    Rule(
        "policy.hot-blocks-evicted",
        "warning",
        "{policy} evicts the {count} most used blocks {evicted:,} times: {evictions_share:share} of its evictions",
        "They fit into memory, and each is used at least four times as often as the mean: each comes back soon.",
        "Look at `result.blocks`; try policies that keep what is used often (lfu, 2q).",
        0.1,
        "share of the policy's evictions",
        "one eviction in ten",
        check=_hot_blocks_evicted,
    ),
)


def compare(ours: PolicyTables, baseline: PolicyTables) -> pd.DataFrame:
    """Compare two trials policy by policy: a row for each of either (the index), with the least misses first.

    `misses`, `faults`, `evictions` and `moved_bytes` (Int64) and `modelled_s` (float64), each with its `baseline_…` and
    `…_ratio` (NaN where the baseline is 0 or missing).
    """
    columns = ["misses", "faults", "evictions", "moved_bytes", "modelled_s"]
    tables = [
        each.counts.assign(moved_bytes=each.counts["in_bytes"] + each.counts["out_bytes"])[columns]
        for each in (ours, baseline)
    ]
    names = tables[0].index.union(tables[1].index, sort=False)
    this, that = (table.reindex(names) for table in tables)
    joined = {}
    for column in columns:
        joined[column], joined[f"baseline_{column}"] = this[column], that[column]
        joined[f"{column}_ratio"] = this[column] / that[column].where(that[column] > 0)
    counts = {name: "Int64" for name in joined if name.removeprefix("baseline_") in columns[:-1]}
    table = pd.DataFrame(joined, index=names).astype(counts).rename_axis("policy")
    return table.sort_values("misses", kind="stable")

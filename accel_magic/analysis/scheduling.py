"""What a trial of scheduling policies shows: latencies by policy and tenant, shares of the GPU, fairness, findings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.analysis.findings import Findings, combined, diagnose
from accel_magic.analysis.policies import of_lints
from accel_magic.findings import Evidence, Rule

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from numpy.typing import NDArray

    from accel_magic.policies.sharing import SharingResult, Sharings


_TASK_COLUMNS: Final = [
    *("policy", "tenant", "name", "timeslice_us", "interleave", "admitted", "refused", "preempted"),
]


@dataclass(frozen=True)
class SchedulingTables:
    """Tables of a trial.

    Attributes:
        trials: The policies with the tenants.

    """

    trials: Sharings

    @cached_property
    def tasks(self) -> pd.DataFrame:
        """A row per policy and tenant.

        `policy`, `tenant` (its number), `name`, `timeslice_us`, `interleave`, `admitted`, `refused` (requests of the
        policy that were not valid), `preempted` (how often it lost the engine, in all runs).
        """
        rows = [
            (
                trial.name,
                number,
                tenant.name,
                task.timeslice_us,
                task.interleave,
                task.admitted,
                task.refused,
                preempted,
            )
            for trial in self.trials.trials
            for number, (tenant, task, preempted) in enumerate(
                zip(self.trials.tenants, trial.tasks, _preempted(trial), strict=True)
            )
        ]
        return pd.DataFrame(rows, columns=_TASK_COLUMNS)

    @cached_property
    def latencies(self) -> pd.DataFrame:
        """A row per job: `policy`, `run`, `tenant`, `name`, `arrival_us`, `wait_us` and `latency_us`.

        From when it came until it first ran, and until it ended; float64, NaN if that was not reached.
        """
        names = np.array([tenant.name for tenant in self.trials.tenants])
        tables = [
            pd.DataFrame(
                {
                    "policy": trial.name,
                    "run": run,
                    "tenant": schedule.jobs["tenant"],
                    "name": names[schedule.jobs["tenant"]],
                    "arrival_us": schedule.jobs["arrival_us"],
                    "wait_us": schedule.jobs["start_us"] - schedule.jobs["arrival_us"],
                    "latency_us": schedule.jobs["end_us"] - schedule.jobs["arrival_us"],
                }
            )
            for trial in self.trials.trials
            for run, schedule in enumerate(trial.schedules)
        ]
        return pd.concat(tables, ignore_index=True)

    @cached_property
    def counts(self) -> pd.DataFrame:
        """A row per policy and name of a tenant (the index), in their order.

        `jobs` and `ended` (int64), `p50_us`, `p99_us` and `worst_us` (latencies of all runs), `p99_mean_us` and
        `p99_median_us` (mean and median of each run's own P99: a few bad runs move the one, not the other),
        `gpu_share` (of the modelled time, all of that name together), `fairness` (Jain's index of their times: 1 if
        all had the same), `rejected` (tenants that were not admitted, int64).
        """
        rows = {}
        by_job = self.latencies.groupby(["policy", "name"], sort=False)
        for trial in self.trials.trials:
            for name in dict.fromkeys(tenant.name for tenant in self.trials.tenants):
                rows[trial.name, name] = self._row(
                    by_job.get_group((trial.name, name)) if (trial.name, name) in by_job.groups else None, trial, name
                )
        table = pd.DataFrame.from_dict(rows, orient="index")
        table.index = pd.MultiIndex.from_tuples(table.index, names=["policy", "name"])
        return table.astype({"jobs": "int64", "ended": "int64", "rejected": "int64"})

    def _row(self, jobs: pd.DataFrame | None, trial: SharingResult, name: str) -> dict[str, float]:
        members = [number for number, tenant in enumerate(self.trials.tenants) if tenant.name == name]
        busy = np.array([schedule.busy_us[members] for schedule in trial.schedules])
        ended = pd.Series(dtype="float64") if jobs is None else jobs["latency_us"].dropna()
        each = ended.groupby(jobs.loc[ended.index, "run"]).quantile(0.99) if jobs is not None else ended
        return {
            "jobs": 0 if jobs is None else len(jobs),
            "ended": len(ended),
            "p50_us": ended.quantile(0.5),
            "p99_us": ended.quantile(0.99),
            "worst_us": ended.max(),
            "p99_mean_us": each.mean(),
            "p99_median_us": each.median(),
            "gpu_share": float(busy.sum()) / (self.trials.duration_us * len(trial.schedules)),
            "fairness": _jain(busy.sum(axis=0)),
            "rejected": sum(not trial.tasks[number].admitted for number in members),
        }

    @cached_property
    def findings(self) -> Findings:
        """What is worth knowing, most severe first."""
        return combined(
            [diagnose(RULES, self), of_lints(finding for trial in self.trials.trials[1:] for finding in trial.lints)]
        )

    def rows(self) -> Iterator[tuple[dict[str, str], dict[Hashable, float], dict[Hashable, float]]]:
        """For each policy and name of a tenant: their names, their row of `counts`, and that of the default."""
        default, rows = self.trials.trials[0].name, self.counts.to_dict("index")
        for trial in self.trials.trials[1:]:
            for name in dict.fromkeys(tenant.name for tenant in self.trials.tenants):
                yield {"policy": trial.name, "name": name}, rows[trial.name, name], rows[default, name]


def _preempted(trial: SharingResult) -> list[int]:
    counts: list[int] = np.sum([schedule.preempted for schedule in trial.schedules], axis=0).tolist()
    return counts


def _jain(times: NDArray[np.float64]) -> float:
    return float(times.sum() ** 2 / (len(times) * (times**2).sum())) if times.any() else float("nan")


def _tenants_rejected(tables: SchedulingTables, _: Rule[SchedulingTables]) -> Iterator[Evidence]:
    for names, row, _default in tables.rows():
        if row["rejected"]:
            yield Evidence({**names, "rejected": row["rejected"]})


def _latency_grows(tables: SchedulingTables, rule: Rule[SchedulingTables]) -> Iterator[Evidence]:
    for names, row, default in tables.rows():
        ratio = row["p99_median_us"] / default["p99_median_us"]
        if ratio > rule.threshold:
            yield Evidence({**names, "p99_ratio": ratio})


def _tenant_starved_of_time(tables: SchedulingTables, rule: Rule[SchedulingTables]) -> Iterator[Evidence]:
    for names, row, default in tables.rows():
        share = row["gpu_share"] / default["gpu_share"] if default["gpu_share"] else 1.0
        if share < rule.threshold:
            yield Evidence({**names, "of_default_share": share})


RULES: Final = (
    Rule(
        "policy.tenants-rejected",
        "note",
        "{policy} does not admit {rejected:.0f} of the tenants {name}",
        "Their programs get an error when they make a channel.",
        "Admit them later, or on another GPU.",
        check=_tenants_rejected,
    ),
    Rule(
        "policy.latency-grows",
        "warning",
        "with {policy} the P99 of {name} is {p99_ratio:.2f} times the driver's",
        "The median over the runs: not a few bad ones.",
        "Look at `tasks`: whose time slices grew, and who is on the runlist more often?",
        1.05,
        "P99, as a multiple of the default's",
        "a difference that repeated runs on hardware can show",
        check=_latency_grows,
    ),
    Rule(
        "policy.tenant-starved-of-time",
        "warning",
        "with {policy} {name} has {of_default_share:share} of the time on the GPU that it has with the driver's "
        "default",
        "Tenants with longer time slices, or more often on the runlist, have the rest.",
        "Give them shorter time slices, or a level less.",
        0.5,
        "share of the default's time",
        "half of the throughput is lost",
        check=_tenant_starved_of_time,
    ),
)

"""Trying scheduling policies: tenants share an engine under each, beside the driver's default.

The engine is modelled, or it is the one of the lab's accelerator, behind the kernel's own DRM scheduler.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.errors import ProbeError
from accel_magic.policies import runlist
from accel_magic.policies.model_engine import ModelMemory
from accel_magic.policies.policy import LAUNCHES, SCHEDULING_TABLE
from accel_magic.policies.trial import check_engine, load_all

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from accel_magic.findings import Finding
    from accel_magic.gpu.maps.map_content import MapContent
    from accel_magic.policies.model_engine import ScheduledTask
    from accel_magic.policies.policy import Policy
    from accel_magic.policies.runlist import Schedule
    from accel_magic.policies.tenants import Tenant

MOST_RUNS = 1000


@dataclass(frozen=True)
class SharingResult:
    """One policy.

    Attributes:
        name: The policy's name.
        tasks: What it made of each tenant's task.
        schedules: What the engine did in each run.
        maps: The policy's maps at the end.
        lints: What `accel_magic.policies.lints` found in its code.

    """

    name: str
    tasks: tuple[ScheduledTask, ...]
    schedules: tuple[Schedule, ...]
    maps: tuple[MapContent, ...]
    lints: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Sharings:
    """Several policies with the same tenants.

    Attributes:
        tenants: The tenants.
        duration_us: The time of a run, in us.
        switch_us: What it costs to go from one task to another, in us.
        engine: Where policies decided and jobs ran: "model", or "kernel" for the lab's accelerator.
        trials: The driver's default first, then the policies in their order.

    """

    tenants: tuple[Tenant, ...]
    duration_us: float
    switch_us: float
    engine: str
    trials: tuple[SharingResult, ...]


def try_scheduling(
    policies: Sequence[str | Path],
    tenants: Sequence[Tenant],
    *,
    duration_us: float = 1e6,
    runs: int = 10,
    switch_us: float = 0.0,
    engine: str = "model",
    settings: Mapping[str, int] | None = None,
) -> Sharings:
    """Try scheduling policies.

    Args:
        policies: As for `accel_magic.policies.policy.load`; the driver's default is always tried too.
        tenants: What wants to run.
        duration_us: The time of each run, in us.
        runs: Number of runs. In each, jobs come at other random times, the same for all policies.
        switch_us: What it costs to go from one task to another, in us; of the model only.
        engine: Where policies decide and jobs run: "model", or "kernel" in the accelerator lab.
        settings: As for `accel_magic.policies.policy.load`.

    Raises:
        ProbeError: An argument is out of range, or a policy does not decide about scheduling.
        ProgramError: A policy is rejected.
        MachineError: llvmlite or clang is missing, or there is no accelerator.

    """
    check_engine(engine)
    if not (0 < duration_us <= 1e9 and 0 < runs <= MOST_RUNS and 0 <= switch_us < duration_us):
        raise ProbeError(
            f"{runs} runs of {duration_us:g} us with {switch_us:g} us for a switch cannot be modelled",
            why=f"there are 1 to {MOST_RUNS} runs of up to 1,000 s, and switches take less",
            fix="use other numbers",
            code="policy.bad-tenant",
        )
    if engine == "kernel" and switch_us:
        raise ProbeError(
            "the kernel's engine cannot be told what a switch costs",
            why="jobs run on the lab's accelerator, and switches cost there what they cost",
            fix="leave out --switch, or use --engine model",
            code="option.conflict",
        )
    share = _in_kernel if engine == "kernel" else _in_model
    trials = []
    for name, policy in load_all(policies, settings or {}, SCHEDULING_TABLE):
        tasks, schedules, maps = share(policy, tenants, duration_us, runs, switch_us)
        trials.append(SharingResult(name, tasks, schedules, maps, policy.lints if policy else ()))
    return Sharings(tuple(tenants), duration_us, switch_us, engine, tuple(trials))


_Outcome = tuple[tuple["ScheduledTask", ...], tuple["Schedule", ...], tuple["MapContent", ...]]
"""The tenants' tasks, what the engine did in each run, and the policy's maps while all tasks were there."""


def _in_model(
    policy: Policy | None, tenants: Sequence[Tenant], duration_us: float, runs: int, switch_us: float
) -> _Outcome:
    model = ModelMemory(policy, chunks=1, blocks=1, tenants=len(tenants))
    tasks = tuple(model.task(number, one.name, int(one.asks_us)) for number, one in enumerate(tenants))
    launch = model.launch if policy and not policy.hooks.keys().isdisjoint(LAUNCHES) else None
    schedules = tuple(
        runlist.run(tenants, tasks, duration_us, np.random.default_rng(number), switch_us=switch_us, launch=launch)
        for number in range(runs)
    )
    maps = model.maps()
    for number in range(len(tenants)):
        model.task_end(number)
    return tasks, schedules, maps


def _in_kernel(
    policy: Policy | None, tenants: Sequence[Tenant], duration_us: float, runs: int, _switch_us: float
) -> _Outcome:
    from accel_magic.policies.kernel_engine import share

    arrivals = [
        [one.arrivals(duration_us, random) for one in tenants]
        for random in (np.random.default_rng(number) for number in range(runs))
    ]
    return share(policy, tenants, arrivals, duration_us)

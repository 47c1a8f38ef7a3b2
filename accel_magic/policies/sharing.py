"""Trying scheduling policies: tenants share a modelled engine under each, beside the driver's default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.errors import ProbeError
from accel_magic.policies import runlist
from accel_magic.policies.engine import Model
from accel_magic.policies.policy import SCHEDULING_TABLE
from accel_magic.policies.trial import check_engine, load_all

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from accel_magic.findings import Finding
    from accel_magic.gpu.maps.content import MapContent
    from accel_magic.policies.engine import Task
    from accel_magic.policies.policy import Policy
    from accel_magic.policies.runlist import Schedule
    from accel_magic.policies.tenants import Tenant

MOST_RUNS = 1000


@dataclass(frozen=True)
class Shared:
    """One policy.

    Attributes:
        name: The policy's name.
        tasks: What it made of each tenant's task.
        schedules: What the engine did in each run.
        maps: The policy's maps at the end.
        lints: What `accel_magic.policies.lints` found in its code.

    """

    name: str
    tasks: tuple[Task, ...]
    schedules: tuple[Schedule, ...]
    maps: tuple[MapContent, ...]
    lints: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Sharings:
    """Several policies with the same tenants.

    Attributes:
        tenants: The tenants.
        duration_us: The modelled time of a run, in µs.
        switch_us: What it costs to go from one task to another, in µs.
        engine: Where the policies decided: "model" or "kernel". The engine that is shared is always modelled.
        trials: The driver's default first, then the policies in their order.

    """

    tenants: tuple[Tenant, ...]
    duration_us: float
    switch_us: float
    engine: str
    trials: tuple[Shared, ...]


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
        duration_us: The time to model in each run, in µs.
        runs: Number of runs. In each, jobs come at other random times, the same for all policies.
        switch_us: What it costs to go from one task to another, in µs.
        engine: Where policies decide: "model", or "kernel" in the accelerator lab.
        settings: As for `accel_magic.policies.policy.load`.

    Raises:
        ProbeError: An argument is out of range, or a policy does not decide about scheduling.
        ProgramError: A policy is rejected.
        MachineError: llvmlite or clang is missing, or there is no accelerator.

    """
    check_engine(engine)
    if not (0 < duration_us <= 1e9 and 0 < runs <= MOST_RUNS and 0 <= switch_us < duration_us):
        raise ProbeError(
            f"{runs} runs of {duration_us:g} µs with {switch_us:g} µs for a switch cannot be modelled",
            why=f"there are 1 to {MOST_RUNS} runs of up to 1,000 s, and switches take less",
            fix="use other numbers",
            code="policy.bad-tenant",
        )
    names = [tenant.name for tenant in tenants]
    trials = []
    for name, policy in load_all(policies, settings or {}, SCHEDULING_TABLE):
        tasks, maps = _in_kernel(policy, names) if engine == "kernel" else _in_model(policy, names)
        schedules = tuple(
            runlist.run(tenants, tasks, duration_us, np.random.default_rng(number), switch_us) for number in range(runs)
        )
        trials.append(Shared(name, tasks, schedules, maps, policy.lints if policy else ()))
    return Sharings(tuple(tenants), duration_us, switch_us, engine, tuple(trials))


def _in_model(policy: Policy | None, names: Sequence[str]) -> tuple[tuple[Task, ...], tuple[MapContent, ...]]:
    model = Model(policy, chunks=1, blocks=1, tenants=len(names))
    tasks = tuple(model.task(number, name) for number, name in enumerate(names))
    maps = model.maps()
    for number in range(len(names)):
        model.task_end(number)
    return tasks, maps


def _in_kernel(policy: Policy | None, names: Sequence[str]) -> tuple[tuple[Task, ...], tuple[MapContent, ...]]:
    from accel_magic.policies.kernel import tasks

    return tasks(policy, names)

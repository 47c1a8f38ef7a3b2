"""`gpupolicy(...)`: try policies of a GPU's driver on a trace of accesses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from accel_magic.analysis.policies import of_lints
from accel_magic.errors import ProbeError
from accel_magic.machine import describe
from accel_magic.policies import generators
from accel_magic.policies.link_model import DEFAULT, parse
from accel_magic.policies.page_trace import PageTrace
from accel_magic.policies.policy import load
from accel_magic.policies.sharing import try_scheduling
from accel_magic.policies.tenants import parse as parse_tenants
from accel_magic.policies.trial import try_policies
from accel_magic.results.gpu_result import GpuResult
from accel_magic.results.policy_result import PolicyResult
from accel_magic.results.scheduling_result import ScheduleResult
from accel_magic.views.diagnosis import Diagnosis

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pandas as pd

    from accel_magic.policies.tenants import Tenant


def gpupolicy(
    policies: str | Path | Sequence[str | Path],
    trace: PageTrace | GpuResult | str | Path,
    *,
    memory: str | int = "50%",
    faults_only: bool = False,
    engine: str = "model",
    link: str = DEFAULT,
    settings: Mapping[str, int] | None = None,
    fill: Mapping[str, pd.DataFrame] | None = None,
    progress: Callable[[str, int], None] | None = None,
) -> PolicyResult:
    """Try policies on a trace, on a model of a GPU's memory, beside the driver's default and the optimum.

    Args:
        policies: Names of shipped policies, C files in gpu_ext's interface, objects compiled from them, or C (text).
        trace: A trace, the result of `%%gputrace pagetrace`, a file with one of both, or a generated trace: "loop",
            "zipf:blocks=512,skew=0.9".
        memory: "60%" of what the trace touches, "512MiB", or a number of chunks of 2 MiB.
        faults_only: Whether policies hear of faults only, as with GPUs without access counters.
        engine: "model" anywhere, or "kernel" in the accelerator lab: the kernel's verifier, and its own compiler.
        link: What times are modelled by: a name of `accel_magic.policies.link_model.LINKS`, with options
            "pcie4:gb_per_s=25,fault_us=40".
        settings: Values of policies' constants ("quota") and of entries of their maps ("policy_config.1").
        fill: Content of their maps whose keys are where blocks start, such as what a program on the device counted:
            tables with a column `address`, `page` or `block`, and one with numbers.
        progress: Called after every million accesses with the policy's name and the accesses that it has seen.

    Raises:
        ProbeError, ProgramError, MachineError: As `try_policies`.
        RecordingError: The file cannot be read.

    """
    given = [policies] if isinstance(policies, str | Path) else list(policies)
    model = parse(link)
    trials = try_policies(
        given,
        _trace(trace),
        memory,
        observed=not faults_only,
        engine=engine,
        settings=settings or {},
        fill=fill or {},
        progress=progress,
    )
    return PolicyResult(trials, describe(), model)


def gpuschedule(
    policies: str | Path | Sequence[str | Path],
    tenants: str | Sequence[Tenant],
    *,
    duration_s: float = 1.0,
    runs: int = 10,
    switch_us: float = 0.0,
    engine: str = "model",
    settings: Mapping[str, int] | None = None,
) -> ScheduleResult:
    """Try scheduling policies of a GPU's driver with tenants that share a modelled GPU, beside the driver's default.

    Args:
        policies: As for `gpupolicy`.
        tenants: What wants to run: "critical*2:work=50us,every=10ms batch*4:work=5ms", or tenants.
        duration_s: The time to model in each run, in seconds.
        runs: Number of runs. In each, jobs come at other random times, the same for all policies.
        switch_us: What it costs to go from one task to another, in us.
        engine: Where policies decide: "model", or "kernel" in the accelerator lab.
        settings: As for `gpupolicy`.

    Raises:
        ProbeError, ProgramError, MachineError: As `try_scheduling`.

    """
    given = [policies] if isinstance(policies, str | Path) else list(policies)
    who = parse_tenants(tenants) if isinstance(tenants, str) else tuple(tenants)
    trials = try_scheduling(
        given, who, duration_us=duration_s * 1e6, runs=runs, switch_us=switch_us, engine=engine, settings=settings
    )
    return ScheduleResult(trials, describe())


def check(policies: str | Path | Sequence[str | Path]) -> Diagnosis:
    """Verify policies, and look in their code for what is known to go wrong on GPUs; nothing runs.

    Args:
        policies: As for `gpupolicy`.

    Raises:
        ProgramError: One does not compile, or the verifier rejects it.
        MachineError: clang is missing.

    """
    given = [policies] if isinstance(policies, str | Path) else policies
    return Diagnosis.of(of_lints(finding for one in given for finding in load(one).lints))


def _trace(trace: object) -> PageTrace:
    if isinstance(trace, PageTrace):
        return trace
    if isinstance(trace, GpuResult):
        return trace.pages
    if not isinstance(trace, str | Path):
        raise _no_trace(f"a {type(trace).__name__}")
    name = str(trace).partition(":")[0]
    if name in generators.GENERATORS or not Path(trace).exists():
        return generators.parse(str(trace))
    from accel_magic.api.open import open_result

    opened = open_result(trace)
    if not isinstance(opened, PageTrace | GpuResult):
        raise _no_trace(f"{trace}, a {type(opened).__name__},")
    return _trace(opened)


def _no_trace(what: str) -> ProbeError:
    return ProbeError(
        f"{what} is not a trace of accesses",
        fix="trace with %%gputrace pagetrace, or open a table with a column page or address",
        code="policy.no-trace",
    )

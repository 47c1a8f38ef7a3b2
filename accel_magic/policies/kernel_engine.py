"""The engine `kernel`: a policy in the kernel, attached to the memory of the lab's accelerator."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pandas as pd

from accel_magic.gpu.maps import map_access, map_layout
from accel_magic.gpu.maps.map_content import MapContent
from accel_magic.gpu.program.helpers import HASHES
from accel_magic.kernel import bpf_syscalls
from accel_magic.lab.accelerator import Accelerator, attached, counts
from accel_magic.lab.accelerator.tenants import TenantProcess, TenantWork, run
from accel_magic.policies.model_engine import PolicyCounts, ScheduledTask
from accel_magic.policies.runlist import JOB, Schedule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

    from numpy.typing import NDArray

    from accel_magic.gpu.program.object_model import MapSpec
    from accel_magic.policies.policy import Policy
    from accel_magic.policies.tenants import Tenant

_TENANT: Final = (sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()")
_PER_CPU: Final = (5, 6)


class KernelMemory:
    """The accelerator's memory under a policy; like `accel_magic.policies.model_engine.ModelMemory`. A context manager.

    Each tenant is a process that does nothing. Accesses are made on one processor, so that maps with a value for each
    have all that the policy counted in one place.

    Raises:
        MachineError: There is no accelerator, or a size is out of range.
        PolicyRefusedError: The kernel's verifier refused the policy, or another one is attached.

    """

    def __init__(
        self, policy: Policy | None, *, chunks: int, blocks: int, tenants: int = 1, observe: bool = True
    ) -> None:
        self._policy = policy
        self._processor = min(os.sched_getaffinity(0))
        self._stack = contextlib.ExitStack()
        try:
            self._accelerator = self._stack.enter_context(Accelerator())
            processes = [self._tenant() for _ in range(tenants)] if tenants > 1 else []
            self._accelerator.memory(chunks, blocks, observe=observe, processes=processes)
            self._attached = None
            if policy:
                maps = {spec.name: spec for spec in policy.object.maps}
                values = {
                    name: {key: _repeated(value, maps[name]) for key, value in given.items()}
                    for name, given in policy.values.items()
                }
                self._attached = self._stack.enter_context(attached(policy.object.data, policy.name, values=values))
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._stack.close()

    def _tenant(self) -> int:
        process = self._stack.enter_context(subprocess.Popen(_TENANT, stdin=subprocess.PIPE))
        return process.pid  # it ends when its standard input is closed, at the latest with this process

    def run(self, pages: NDArray[Any], tenants: NDArray[Any] | None = None) -> NDArray[Any]:
        """Access pages in turn; arguments and result as of `Model.run`."""
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {self._processor})
        try:
            return self._accelerator.replay(pages, tenants)
        finally:
            os.sched_setaffinity(0, before)

    def maps(self) -> tuple[MapContent, ...]:
        """Copy the policy's maps."""
        if self._policy is None or self._attached is None:
            return ()
        plan = map_layout.plan_memory(self._policy.maps, 1, limit=1 << 33)
        return tuple(
            MapContent(self._policy.name, spec, self._content(self._attached.maps[spec.name], spec, kind, region), 0)
            for spec, kind, region in zip(
                self._policy.maps, (one.type for one in self._policy.object.maps), plan.maps, strict=True
            )
        )

    def _content(self, table: int, spec: MapSpec, kind: int, region: map_layout.Region) -> NDArray[np.uint8]:
        """The content of the map with this descriptor, in the layout of the model's."""
        raw = np.zeros(region.bytes, np.uint8)
        raw[: len(region.initial)] = np.frombuffer(bytes(region.initial), np.uint8)
        step = map_layout.round_up(spec.value_size, 8) if kind in _PER_CPU else 0
        for key, value in _entries(table, spec, step):
            start = step * self._processor
            map_access.update(
                spec,
                raw,
                key if spec.type in HASHES else int.from_bytes(key, "little"),
                value[start : start + spec.value_size],
            )
        return raw

    @property
    def counts(self) -> PolicyCounts:
        """What happened since the beginning, as the module counted it."""
        return PolicyCounts(**vars(self._accelerator.counts))


def share(
    policy: Policy | None,
    tenants: Sequence[Tenant],
    arrivals: Sequence[Sequence[NDArray[np.float64]]],
    duration_us: float,
) -> tuple[tuple[ScheduledTask, ...], tuple[Schedule, ...], tuple[MapContent, ...]]:
    """Have tenants share the accelerator's engine, each a process that submits jobs to the kernel's scheduler.

    Args:
        policy: A scheduling policy; None for the driver's default.
        tenants: What wants to run.
        arrivals: For each run and tenant: when jobs come, in us from the start.
        duration_us: The time of a run, in us.

    Returns:
        What the kernel made of each task, what the engine did in each run, and the policy's maps at the end.

    Raises:
        MachineError, PolicyRefusedError: As `Kernel`; a tenant ended, or has more jobs than are recorded.

    """
    with contextlib.ExitStack() as stack:
        kernel = stack.enter_context(KernelMemory(policy, chunks=1, blocks=1))
        processes = [stack.enter_context(TenantProcess(one.name, int(one.asks_us))) for one in tenants]
        made = tuple(
            ScheduledTask(int(one.timeslice_us), int(one.interleave), not one.rejected, int(one.refused))
            for one in (process.task for process in processes)
        )
        admitted = [number for number, task in enumerate(made) if task.admitted]
        schedules = []
        for times in arrivals:
            before = _preempted()
            work = [_work(tenants[number], times[number]) for number in admitted]
            start, records = run([processes[number] for number in admitted], work, int(duration_us * 1000))
            found = {number: _jobs(one, start) for number, one in zip(admitted, records, strict=True)}
            preempted = [_preempted().get(one.task.tsg_id, 0) - before.get(one.task.tsg_id, 0) for one in processes]
            schedules.append(_schedule(times, found, duration_us, preempted))
        return made, tuple(schedules), kernel.maps()


def _work(tenant: Tenant, times: NDArray[np.float64]) -> TenantWork:
    return TenantWork(max(round(tenant.work_us), 1), (times * 1000).astype(np.int64), not tenant.every_us)


def _preempted() -> dict[int, int]:
    """How often each task lost the engine, as the module counted it."""
    return {row["client"]: row["preempted"] for row in counts.clients()}


def _jobs(records: NDArray[Any], start_ns: int) -> pd.DataFrame:
    """Times of a tenant's jobs in us from the start; the index is their number."""
    table = pd.DataFrame({name: records[name] for name in records.dtype.names or ()}).set_index("cookie")
    for name in ("queued", "started", "ended"):
        table[name] = (table[f"{name}_ns"].astype("int64") - start_ns) / 1000
    return table


def _schedule(
    times: Sequence[NDArray[np.float64]],
    found: Mapping[int, pd.DataFrame],
    duration_us: float,
    preempted: Sequence[int],
) -> Schedule:
    """The run as the model describes one; what happened after its end is left out."""
    busy, jobs = np.zeros(len(times)), []
    for number, column in enumerate(times):
        table = found.get(number, pd.DataFrame(columns=["queued", "started", "ended", "busy_ns"]))
        # A job comes when it should; one that follows another comes when it is submitted.
        coming: dict[Any, float] = {at: float(time) for at, time in enumerate(column, 1)}
        coming |= {at: float(time) for at, time in table["queued"].items() if at not in coming}
        after = (table["ended"] - duration_us).clip(lower=0)
        busy[number] = (table["busy_ns"] / 1000 - after).clip(lower=0).sum()
        for at, time in coming.items():
            times_of = table.loc[at, ["started", "ended"]].tolist() if at in table.index else [np.nan, np.nan]
            in_time = [moment if moment <= duration_us else np.nan for moment in times_of]
            if time < duration_us:
                jobs.append((number, time, *in_time))
    ordered = np.sort(np.array(jobs, JOB), order="arrival_us", kind="stable")
    slices = sum(int(table["slices"].sum()) for table in found.values())
    return Schedule(ordered, busy, slices, np.array(preempted, np.int64))


def _repeated(value: bytes, spec: MapSpec) -> bytes:
    """A value, for each processor if the map has one for each."""
    if spec.type not in _PER_CPU:
        return value
    return value.ljust(map_layout.round_up(spec.value_size, 8), b"\0") * _possible_processors()


def _entries(descriptor: int, spec: MapSpec, step: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield (key, value) of a map in the kernel; values of all possible processors where `step` is not 0."""
    size = step * _possible_processors() if step else spec.value_size
    value = ctypes.create_string_buffer(size)
    key, following = None, ctypes.create_string_buffer(spec.key_size)
    while True:
        try:
            bpf_syscalls.map_next_key(descriptor, key, following)
        except FileNotFoundError:
            return
        bpf_syscalls.map_lookup(descriptor, following, value)
        yield following.raw, value.raw
        key = ctypes.create_string_buffer(following.raw, spec.key_size)


def _possible_processors() -> int:
    return int(Path("/sys/devices/system/cpu/possible").read_text().strip().rpartition("-")[2]) + 1

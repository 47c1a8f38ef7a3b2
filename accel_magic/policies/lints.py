"""What is known to go wrong with policies on real GPUs, found in their code before they are loaded.

The rules come from gpu_ext's own log of incidents. What the verifier refuses (writes to decisions and chunks, loops
without an end) is not repeated here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from accel_magic.findings import BaseRule
from accel_magic.gpu.program.helpers import HASHES, KFUNCS
from accel_magic.gpu.program.isa import CALL, CALL_HELPER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from accel_magic.findings import Finding
    from accel_magic.gpu.program.isa import Instruction
    from accel_magic.gpu.program.model import MapSpec, Program

_REORDER: Final = KFUNCS["bpf_gpu_request_reorder"]
_CURRENT: Final = {14: "bpf_get_current_pid_tgid", 16: "bpf_get_current_comm"}
_ACCESS: Final = "gpu_block_access"
_SET_TIMESLICE: Final = KFUNCS["bpf_nv_gpu_set_timeslice"]
_CONTROL: Final = "on_timeslice_control"
_HOT: Final = (_ACCESS, "gpu_block_activate", "gpu_page_prefetch_iter")
"""Hooks that the driver calls with its lock held, for every chunk or step."""

_OF_TENANT: Final = ("on_task_init", "on_bind", "on_task_destroy", _CONTROL, "launch", "launched")
"""Hooks that the driver calls in the tenant's own process."""


@dataclass(frozen=True)
class Lint(BaseRule):
    """A rule about a policy's code."""

    AREA: ClassVar[str] = "policy"


def lint(name: str, hooks: Mapping[str, Program], maps: Sequence[MapSpec], looping: Sequence[str]) -> Iterator[Finding]:
    """Yield findings about a policy.

    Args:
        name: The policy's.
        hooks: Its programs by hook.
        maps: Its maps.
        looping: Hooks whose programs have loops.

    """
    called = {
        hook: {one.imm for one in _instructions(program) if one.opcode == CALL and one.src == CALL_HELPER}
        for hook, program in hooks.items()
    }
    deciding = [hook for hook, numbers in called.items() if _REORDER in numbers]
    if deciding == [_ACCESS]:
        yield ACCESS_ONLY.finding({}, {"policy": name})
    if _SET_TIMESLICE in called.get("on_task_init", ()) and _CONTROL not in hooks:
        yield OVERWRITTEN.finding({}, {"policy": name})
    hashes = {spec.name for spec in maps if spec.type in HASHES}
    used = {
        hook: hashes & {one.reference.map for one in _instructions(program) if one.reference}
        for hook, program in hooks.items()
        if hook in _HOT
    }
    current = {
        hook: {_CURRENT[one] for one in _CURRENT.keys() & numbers}
        for hook, numbers in called.items()
        if hook not in _OF_TENANT
    }
    for rule, found in (
        (HASH, used),
        (CURRENT, current),
        (LOOP, {hook: {hook} for hook in looping if hook in _HOT}),
    ):
        whats = sorted(set().union(*found.values()))
        if whats:
            hooked = ", ".join(hook for hook, what in found.items() if what)
            yield rule.finding({}, {"policy": name, "hooks": hooked, "what": ", ".join(whats)})


def _instructions(program: Program) -> Iterator[Instruction]:
    for function in program.functions:
        yield from (one for one in function.code if one)


ACCESS_ONLY: Final = Lint(
    "decides-on-access-only",
    "warning",
    "{policy} asks for places in gpu_block_access only",
    "GPUs without access counters report faults only: there the hook is seldom called, and the policy seldom acts.",
    "Decide in gpu_block_activate, too; try it with --faults-only.",
)
HASH: Final = Lint(
    "hash-in-hot-hook",
    "note",
    "{policy} uses a hash ({what}) in {hooks}",
    "The driver calls it with its lock held. gpu_ext reports faults of the GPU (Xid 31) under memory pressure from "
    "policies with hashes there.",
    "Use an array; chunk->address >> 21 numbers the chunks.",
)
CURRENT: Final = Lint(
    "current-process",
    "warning",
    "{policy} asks for the current process ({what}) in {hooks}",
    "A thread of the driver calls the hook: the current process is seldom the one whose memory it is.",
    "Follow chunk->va_block->managed_range to the process (bpf/policies/quota.bpf.c).",
)
LOOP: Final = Lint(
    "loop-in-hot-hook",
    "note",
    "{policy} has a loop in {hooks}",
    "It ends, but the driver calls the hook with its lock held, and all other faults wait.",
    "Do a part of the work in each call.",
)
OVERWRITTEN: Final = Lint(
    "timeslice-overwritten",
    "warning",
    "{policy} sets time slices in on_task_init only",
    "CUDA asks for a time slice of 2,048 µs after a task was made, and gets it: what the policy set is gone.",
    "Set it in on_timeslice_control, too; try it with tenants that have asks=2048us.",
)
LINTS: Final = (ACCESS_ONLY, HASH, CURRENT, LOOP, OVERWRITTEN)

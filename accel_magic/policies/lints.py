"""What is known to go wrong with policies on real GPUs, found in their code before they are loaded.

The rules come from gpu_ext's own log of incidents. What the verifier refuses (writes to decisions and chunks, loops
without an end) is not repeated here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from accel_magic.findings import Evidence, Rule
from accel_magic.gpu.program.helpers import HASHES, KFUNCS
from accel_magic.gpu.program.isa import CALL, CALL_HELPER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from accel_magic.findings import Finding
    from accel_magic.gpu.program.isa import EbpfInstruction
    from accel_magic.gpu.program.object_model import EbpfProgram, MapSpec

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
class PolicyCode:
    """What the lints read.

    Attributes:
        name: The policy's.
        hooks: Its programs by hook.
        maps: Its maps.
        looping: Hooks whose programs have loops.

    """

    name: str
    hooks: Mapping[str, EbpfProgram]
    maps: Sequence[MapSpec]
    looping: Sequence[str]

    @cached_property
    def called(self) -> dict[str, set[int]]:
        """Numbers of the helpers and functions that each hook calls."""
        return {
            hook: {one.imm for one in _instructions(program) if one.opcode == CALL and one.src == CALL_HELPER}
            for hook, program in self.hooks.items()
        }


def lint(code: PolicyCode) -> tuple[Finding, ...]:
    """Return the findings about a policy, in the order of the lints."""
    return tuple(finding for rule in LINTS for finding in rule.findings(code))


def _access_only(code: PolicyCode, _: Rule[PolicyCode]) -> Iterator[Evidence]:
    if [hook for hook, numbers in code.called.items() if _REORDER in numbers] == [_ACCESS]:
        yield Evidence({"policy": code.name})


def _overwritten(code: PolicyCode, _: Rule[PolicyCode]) -> Iterator[Evidence]:
    if _SET_TIMESLICE in code.called.get("on_task_init", ()) and _CONTROL not in code.hooks:
        yield Evidence({"policy": code.name})


def _hash(code: PolicyCode, _: Rule[PolicyCode]) -> Iterator[Evidence]:
    hashes = {spec.name for spec in code.maps if spec.type in HASHES}
    return _in_hooks(
        code,
        {
            hook: hashes & {one.reference.map for one in _instructions(program) if one.reference}
            for hook, program in code.hooks.items()
            if hook in _HOT
        },
    )


def _current(code: PolicyCode, _: Rule[PolicyCode]) -> Iterator[Evidence]:
    return _in_hooks(
        code,
        {
            hook: {_CURRENT[one] for one in _CURRENT.keys() & numbers}
            for hook, numbers in code.called.items()
            if hook not in _OF_TENANT
        },
    )


def _loop(code: PolicyCode, _: Rule[PolicyCode]) -> Iterator[Evidence]:
    return _in_hooks(code, {hook: {hook} for hook in code.looping if hook in _HOT})


def _in_hooks(code: PolicyCode, found: Mapping[str, set[str]]) -> Iterator[Evidence]:
    """Yield evidence if anything was found in a hook."""
    if names := sorted(set().union(*found.values())):
        hooks = ", ".join(hook for hook, what in found.items() if what)
        yield Evidence({"policy": code.name, "hooks": hooks, "what": ", ".join(names)})


def _instructions(program: EbpfProgram) -> Iterator[EbpfInstruction]:
    for function in program.functions:
        yield from (one for one in function.code if one)


ACCESS_ONLY: Final = Rule(
    "policy.decides-on-access-only",
    "warning",
    "{policy} asks for places in gpu_block_access only",
    "GPUs without access counters report faults only: there the hook is seldom called, and the policy seldom acts.",
    "Decide in gpu_block_activate, too; try it with --faults-only.",
    check=_access_only,
)
HASH: Final = Rule(
    "policy.hash-in-hot-hook",
    "note",
    "{policy} uses a hash ({what}) in {hooks}",
    "The driver calls it with its lock held. gpu_ext reports faults of the GPU (Xid 31) under memory pressure from "
    "policies with hashes there.",
    "Use an array; chunk->address >> 21 numbers the chunks.",
    check=_hash,
)
CURRENT: Final = Rule(
    "policy.current-process",
    "warning",
    "{policy} asks for the current process ({what}) in {hooks}",
    "A thread of the driver calls the hook: the current process is seldom the one whose memory it is.",
    "Follow chunk->va_block->managed_range to the process (bpf/policies/quota.bpf.c).",
    check=_current,
)
LOOP: Final = Rule(
    "policy.loop-in-hot-hook",
    "note",
    "{policy} has a loop in {hooks}",
    "It ends, but the driver calls the hook with its lock held, and all other faults wait.",
    "Do a part of the work in each call.",
    check=_loop,
)
OVERWRITTEN: Final = Rule(
    "policy.timeslice-overwritten",
    "warning",
    "{policy} sets time slices in on_task_init only",
    "CUDA asks for a time slice of 2,048 us after a task was made, and gets it: what the policy set is gone.",
    "Set it in on_timeslice_control, too; try it with tenants that have asks=2048us.",
    check=_overwritten,
)
LINTS: Final = (ACCESS_ONLY, OVERWRITTEN, HASH, CURRENT, LOOP)

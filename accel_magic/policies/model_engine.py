"""The engine `model`: a policy, translated and linked with a model of a GPU's memory, run on a trace of accesses."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic.errors import ProgramError
from accel_magic.gpu.codegen import bitcode
from accel_magic.gpu.codegen.lowering import BackendTarget
from accel_magic.gpu.codegen.lowering.module import lower_all
from accel_magic.gpu.maps import map_access, map_layout
from accel_magic.gpu.maps.map_content import MapContent
from accel_magic.policies.page_trace import PAGES_PER_BLOCK
from accel_magic.policies.policy import HOOKS, LAUNCHES, PROBED, SCHEDULING
from accel_magic.ptx import llvm

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from accel_magic.policies.policy import Policy

MOST_BLOCKS: Final = 1 << 22
"""8 TiB, for which the model needs 0.5 GiB."""

ACCESS: Final = np.dtype(
    {
        "names": ["evicted", "pages_in", "pages_out", "outcome", "refused"],
        "formats": ["<i4", "<u2", "<u2", "u1", "u1"],
        "offsets": [0, 4, 6, 8, 9],
        "itemsize": 12,
    }
)
"""What happened with one access: `struct accel_lab_decision` of lab/module. `evicted` is a block, -1 for none."""
HIT, FAULT, MISS = 0, 1, 2
"""`outcome`: the page was there; only other pages of its block were; nothing of the block was."""
_COUNTERS: Final = ("accesses", "faults", "misses", "evictions", "pages_in", "pages_out", "refused")
_FIRST_COUNTER: Final = 0
_STATE, _CHUNK, _BLOCK, _TENANT = 1024, 56, 96, 48
"""Bytes of the model's structs; model.c checks them."""
_ALIGNMENT: Final = 4096
_LEVEL: Final = 3
_ENTRIES: Final = ("model_start", "model_run", "model_task", "model_task_end", "model_control", "model_launch")
_COMM: Final = slice(8, 24)
"""Place of the name in `struct tenant`."""
_WITHOUT: Final = "define i64 @policy_{hook}(ptr %arguments) alwaysinline {{ ret i64 0 }}"
_WITH: Final = """define i64 @policy_{hook}(ptr %arguments) alwaysinline {{
  %answer = call i64 @"bpf_{program}"(ptr %arguments, i64 0)
  ret i64 %answer
}}"""


@dataclass(frozen=True)
class PolicyCounts:
    """Totals: accesses, faults (of pages), misses (of blocks), evictions, pages moved, refused requests."""

    accesses: int
    faults: int
    misses: int
    evictions: int
    pages_in: int
    pages_out: int
    refused: int


DEFAULT_TIMESLICE_US, DEFAULT_INTERLEAVE = 2000, 1
"""Of the driver, for tasks about which no policy decides."""


@dataclass(frozen=True)
class ScheduledTask:
    """What a scheduling policy made of a tenant's task.

    Attributes:
        timeslice_us: How long it keeps the GPU while others wait, in us.
        interleave: Its level: how often it is on the runlist.
        admitted: Whether it may run.
        refused: Requests of the policy about it that the driver ignored, because they were not valid.

    """

    timeslice_us: int
    interleave: int
    admitted: bool
    refused: int = 0


class ModelMemory:
    """A GPU's memory under a policy; `run` continues where the last one ended.

    Args:
        policy: A verified policy; None for the driver's default, which evicts the least recently used block.
        chunks: Size of the memory in chunks of 2 MiB.
        blocks: Number of blocks that accesses may name.
        tenants: Number of processes that accesses may name.
        observe: Whether the policy hears of every access, or of faults only, as with GPUs without access counters.

    Raises:
        ProgramError: A size is out of range, or the policy cannot be translated.
        MachineError: llvmlite is missing.

    """

    def __init__(
        self, policy: Policy | None, *, chunks: int, blocks: int, tenants: int = 1, observe: bool = True
    ) -> None:
        for what, value, most in (
            ("chunks", chunks, MOST_BLOCKS),
            ("blocks", blocks, MOST_BLOCKS),
            ("tenants", tenants, 1 << 16),
        ):
            if not 0 < value <= most:
                raise ProgramError(
                    f"the model cannot have {value:,} {what}",
                    why=f"it has 1 to {most:,}",
                    fix="use another memory size, or a trace with fewer blocks",
                    code="policy.bad-size",
                )
        self._blocks, self._tenants = blocks, tenants
        plan = map_layout.plan_memory(policy.maps if policy else (), 1, limit=1 << 33)
        self._first_tenant = _STATE + chunks * _CHUNK + blocks * _BLOCK
        model = self._first_tenant + tenants * _TENANT
        sizes = (model, plan.device_bytes, plan.host_bytes)
        starts = np.cumsum([0, *(map_layout.round_up(size, _ALIGNMENT) for size in sizes)])
        self._memory = np.zeros(int(starts[-1]) + _ALIGNMENT, np.uint8)
        arena = map_layout.round_up(self._memory.ctypes.data, _ALIGNMENT)
        self._arena, self._bytes = arena, int(starts[-1])
        placement = map_layout.placement(plan, arena + int(starts[1]), arena + int(starts[2]))
        self._name, self._losses = policy.name if policy else "", placement.losses
        self._maps = tuple(zip(policy.maps if policy else (), plan.maps, placement.bases, strict=True))
        for _, region, base in self._maps:
            ctypes.memmove(base, region.initial, len(region.initial))
        for spec, region, base in self._maps:
            raw = self._memory[base - self._memory.ctypes.data :][: region.bytes]
            for key, first in (policy.values if policy else {}).get(spec.name, {}).items():
                map_access.update(spec, raw, key, first)
        self._functions = _Compiled(_linked(policy, placement, (arena, self._bytes)))
        self._functions.start(chunks, blocks, tenants, int(observe))

    def run(self, pages: NDArray[np.uint64], tenants: NDArray[np.uint16] | None = None) -> NDArray[Any]:
        """Access pages in turn.

        Args:
            pages: Block * 512 + page in the block.
            tenants: The process of each access; all zeros by default.

        Returns:
            A structured array of `ACCESS`, one row per access.

        Raises:
            ProgramError: A block or a tenant is out of range.

        """
        pages = np.ascontiguousarray(pages, np.uint64)
        tenants = np.zeros(len(pages), np.uint16) if tenants is None else np.ascontiguousarray(tenants, np.uint16)
        reported = np.empty(len(pages), ACCESS)
        if len(tenants) != len(pages):
            raise ValueError(f"{len(pages)} pages and {len(tenants)} tenants")
        for what, seen, count in (
            ("block", pages.max(initial=0) // PAGES_PER_BLOCK, self._blocks),
            ("tenant", tenants.max(initial=0), self._tenants),
        ):
            if seen >= count:
                raise ProgramError(
                    f"the trace accesses {what} {seen}",
                    why=f"the model has {count} {what}s",
                    fix="make the model from the same trace",
                    code="policy.bad-size",
                )
        self._functions.run(pages.ctypes.data, tenants.ctypes.data, len(pages), reported.ctypes.data)
        return reported

    def task(self, tenant: int, name: str, asks_us: int = 0) -> ScheduledTask:
        """Have a tenant make its task, and ask the scheduling policy about it.

        Args:
            tenant: Its number.
            name: The name of its process, of which the kernel keeps 15 bytes.
            asks_us: The time slice that it then asks for, in us; 0 for none.

        """
        start = self._arena - self._memory.ctypes.data + self._first_tenant + tenant * _TENANT
        comm = name.encode()[: _COMM.stop - _COMM.start - 1].ljust(_COMM.stop - _COMM.start, b"\0")
        self._memory[start:][_COMM] = np.frombuffer(comm, np.uint8)
        reported = np.zeros(4, np.uint64)
        self._functions.task(tenant, DEFAULT_TIMESLICE_US, DEFAULT_INTERLEAVE, reported.ctypes.data)
        timeslice_us, interleave, admitted, refused = map(int, reported)
        if asks_us:
            self._functions.control(tenant, asks_us, 0, reported.ctypes.data)
            timeslice_us, refused = int(reported[0]) or timeslice_us, refused + int(reported[1])
        return ScheduledTask(timeslice_us, interleave, bool(admitted), refused)

    def launch(self, tenant: int, after: bool) -> tuple[int, ...]:
        """Have a tenant launch a kernel, which the policy may probe.

        Args:
            tenant: Its number.
            after: Whether the job is queued: programs on the call's return run, not those on its entry.

        Returns:
            The tenants whose tasks the policy preempted.

        """
        reported = np.zeros(4, np.uint64)
        self._functions.launch(tenant, int(after), 0, reported.ctypes.data)
        return tuple(np.flatnonzero(np.unpackbits(reported.view(np.uint8), bitorder="little")).tolist())

    def task_end(self, tenant: int) -> None:
        """End a tenant's task."""
        self._functions.task_end(tenant, 0, 0, 0)

    def maps(self) -> tuple[MapContent, ...]:
        """Copy the policy's maps."""
        memory = np.ctypeslib.as_array((ctypes.c_uint8 * self._bytes).from_address(self._arena))
        lost = (ctypes.c_uint64 * len(self._maps)).from_address(self._losses)
        return tuple(
            MapContent(self._name, spec, memory[base - self._arena :][: region.bytes].copy(), lost[at])
            for at, (spec, region, base) in enumerate(self._maps)
        )

    @property
    def counts(self) -> PolicyCounts:
        """What happened since the beginning."""
        values = (ctypes.c_uint64 * len(_COUNTERS)).from_address(self._arena + _FIRST_COUNTER)
        return PolicyCounts(**dict(zip(_COUNTERS, values, strict=True)))


class _Compiled:
    """Machine code of a linked module; it lives as long as this object."""

    def __init__(self, module: Any) -> None:
        # An engine owns its target machine, so it gets its own.
        self._engine = llvm.binding().create_mcjit_compiler(module, _new_machine())
        self._engine.finalize_object()
        functions = map(self._function, _ENTRIES)
        self.start, self.run, self.task, self.task_end, self.control, self.launch = functions

    def _function(self, name: str) -> Callable[..., None]:
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_uint64] * 4)
        return kind(self._engine.get_function_address(name))


def _linked(policy: Policy | None, placement: map_layout.Placement, arena: tuple[int, int]) -> Any:
    hooked = policy.hooks if policy else {}
    text = lower_all(
        [(one.program, frozenset(), one.pointers) for one in hooked.values()],
        policy.maps if policy else (),
        placement,
        target=BackendTarget.HOST,
        probes=False,
    )
    entries = [
        (_WITH if hook in hooked else _WITHOUT).format(
            hook=hook, program=hooked[hook].program.name if hook in hooked else ""
        )
        for hook in (*HOOKS, PROBED, *SCHEDULING, *LAUNCHES)
    ]
    start, size = arena
    constants = [f"@accel_arena = constant i64 {start}", f"@accel_arena_size = constant i64 {size}"]
    module = llvm.parse("\n".join([text, *constants, *entries]))
    machine = _machine()
    bitcode.link(module, [_model(), bitcode.helpers("host")], machine, keep=set(_ENTRIES))
    bitcode.optimise(module, machine, _LEVEL)
    bitcode.require_complete(module, "the model", built_in=("memset", "memcpy", "memmove"))
    return module


@cache
def _machine() -> Any:
    return _new_machine()


def _new_machine() -> Any:
    binding = llvm.binding()
    return binding.Target.from_triple(binding.get_process_triple()).create_target_machine(opt=_LEVEL, jit=True)


@cache
def _model() -> bytes:
    return bitcode.bitcode(resources.files(__package__).joinpath("model.ll").read_text("utf-8"))

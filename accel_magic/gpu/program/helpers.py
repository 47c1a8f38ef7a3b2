"""The helpers that GPU programs and policies may call: numbers, arguments, results, and which differ between lanes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping


class MapType(IntEnum):
    """Types of maps that GPU programs may use; numbers from 1500 are compatible with other GPU eBPF projects."""

    HASH = 1
    ARRAY = 2
    RINGBUF = 27
    GPU_HASH = 1501
    PER_THREAD_ARRAY = 1502
    GPU_ARRAY = 1503
    SHARED_ARRAY = 1504
    PER_THREAD_ARRAY_HOST = 1512
    GPU_ARRAY_HOST = 1513
    GPU_RINGBUF = 1527


HASHES: Final = frozenset({MapType.HASH, MapType.GPU_HASH})
ARRAYS: Final = frozenset({MapType.ARRAY, MapType.GPU_ARRAY, MapType.SHARED_ARRAY, MapType.GPU_ARRAY_HOST})
PER_THREAD: Final = frozenset({MapType.PER_THREAD_ARRAY, MapType.PER_THREAD_ARRAY_HOST})
RINGS: Final = frozenset({MapType.RINGBUF, MapType.GPU_RINGBUF})


User = Literal["gpu", "policy", "both"]


class Arg(Enum):
    """The kind of value that an argument must have."""

    ANY = "any number"
    MAP = "a map"
    KEY = "readable memory of the map's key size"
    VALUE = "readable memory of the map's value size"
    OUT8 = "8 writable bytes"
    MEMORY = "readable memory; the next argument is its size"
    SIZE = "bytes of the memory before, known to be bounded"
    SIZE_CONST = "bytes to reserve, a constant"
    RECORD = "what a ring buffer's reserve returned"
    INTO = "writable memory; the next argument is its size"
    INTO_SIZE = "bytes of the memory before, known to be bounded; they are written"
    PREFETCH = "the prefetch decision that the hook was given"
    EVICTION = "the eviction decision that the hook was given"
    TASK = "the context of on_task_init"
    BIND = "the context of on_bind"
    CONTROL = "the context of on_timeslice_control"
    TEXT = "readable memory that ends with a zero byte"
    CONTEXT = "the context, or any value: it is ignored"
    POINTER = "any address: it is not read"


class HelperResult(Enum):
    """The result in r0."""

    NUMBER = "a number"
    VALUE_OR_NULL = "a pointer into a map's value, or null"
    RECORD_OR_NULL = "a pointer to a reserved record, or null"
    NOTHING = "nothing: r0 is not set"
    NEVER = "it does not return"


class Lanes(Enum):
    """Whether the lanes of a warp get the same result when they call with the same arguments."""

    UNIFORM = "the same in all lanes"
    VARYING = "differs from lane to lane"


@dataclass(frozen=True, slots=True)
class Helper:
    """One helper.

    Attributes:
        id: Number in the call instruction.
        name: Name in bpf/gpu/accel_gpu.h.
        arguments: The required kind of value in each register from r1 on; other registers are ignored.
        result: The kind of result.
        lanes: Whether the result (or what is written through OUT8 arguments) differs between lanes.
        effect: The visible side effect, '' for none: 'update', 'delete', 'output', 'print', 'exit'.
        converges: Whether all lanes of the warp must call it together: votes, barriers.
        user: The programs that may call it: those in GPU kernels, policies of a GPU's driver, or both.

    """

    id: int
    name: str
    arguments: tuple[Arg, ...]
    result: HelperResult
    lanes: Lanes
    effect: str = ""
    converges: bool = False
    user: User = "gpu"


_FIRST_KFUNC: Final = 10_000
"""Kernel functions have names instead of numbers: policies call them by these, which nothing else has."""
_XYZ = (Arg.OUT8, Arg.OUT8, Arg.OUT8)
_TABLE = (
    Helper(1, "bpf_map_lookup_elem", (Arg.MAP, Arg.KEY), HelperResult.VALUE_OR_NULL, Lanes.UNIFORM, user="both"),
    Helper(
        2,
        "bpf_map_update_elem",
        (Arg.MAP, Arg.KEY, Arg.VALUE, Arg.ANY),
        HelperResult.NUMBER,
        Lanes.UNIFORM,
        effect="update",
        user="both",
    ),
    Helper(
        3, "bpf_map_delete_elem", (Arg.MAP, Arg.KEY), HelperResult.NUMBER, Lanes.UNIFORM, effect="delete", user="both"
    ),
    Helper(5, "bpf_ktime_get_ns", (), HelperResult.NUMBER, Lanes.VARYING, user="both"),
    Helper(
        6,
        "bpf_trace_printk",
        (Arg.MEMORY, Arg.SIZE, Arg.ANY, Arg.ANY, Arg.ANY),
        HelperResult.NUMBER,
        Lanes.UNIFORM,
        effect="print",
        user="both",
    ),
    Helper(8, "bpf_get_smp_processor_id", (), HelperResult.NUMBER, Lanes.UNIFORM, user="both"),
    Helper(14, "bpf_get_current_pid_tgid", (), HelperResult.NUMBER, Lanes.UNIFORM, user="both"),
    Helper(
        25,
        "bpf_perf_event_output",
        (Arg.CONTEXT, Arg.MAP, Arg.ANY, Arg.MEMORY, Arg.SIZE),
        HelperResult.NUMBER,
        Lanes.UNIFORM,
        effect="output",
    ),
    Helper(
        130,
        "bpf_ringbuf_output",
        (Arg.MAP, Arg.MEMORY, Arg.SIZE, Arg.ANY),
        HelperResult.NUMBER,
        Lanes.UNIFORM,
        effect="output",
        user="both",
    ),
    Helper(
        131,
        "bpf_ringbuf_reserve",
        (Arg.MAP, Arg.SIZE_CONST, Arg.ANY),
        HelperResult.RECORD_OR_NULL,
        Lanes.VARYING,
        user="both",
    ),
    Helper(
        132,
        "bpf_ringbuf_submit",
        (Arg.RECORD, Arg.ANY),
        HelperResult.NOTHING,
        Lanes.UNIFORM,
        effect="output",
        user="both",
    ),
    Helper(133, "bpf_ringbuf_discard", (Arg.RECORD, Arg.ANY), HelperResult.NOTHING, Lanes.UNIFORM, user="both"),
    Helper(501, "gpu_puts", (Arg.TEXT,), HelperResult.NUMBER, Lanes.UNIFORM, effect="print"),
    Helper(502, "gpu_globaltimer", (), HelperResult.NUMBER, Lanes.VARYING),
    Helper(503, "gpu_block_idx", _XYZ, HelperResult.NUMBER, Lanes.UNIFORM),
    Helper(504, "gpu_block_dim", _XYZ, HelperResult.NUMBER, Lanes.UNIFORM),
    Helper(505, "gpu_thread_idx", _XYZ, HelperResult.NUMBER, Lanes.VARYING),
    Helper(506, "gpu_membar", (), HelperResult.NUMBER, Lanes.UNIFORM),
    Helper(507, "gpu_exit", (), HelperResult.NEVER, Lanes.UNIFORM, effect="exit"),
    Helper(508, "gpu_grid_dim", _XYZ, HelperResult.NUMBER, Lanes.UNIFORM),
    Helper(509, "gpu_sm_id", (), HelperResult.NUMBER, Lanes.UNIFORM),
    Helper(510, "gpu_warp_id", (), HelperResult.NUMBER, Lanes.UNIFORM),
    Helper(511, "gpu_lane_id", (), HelperResult.NUMBER, Lanes.VARYING),
    # Helpers of accel_magic.
    Helper(600, "gpu_active_mask", (), HelperResult.NUMBER, Lanes.UNIFORM),
    Helper(601, "gpu_is_leader", (), HelperResult.NUMBER, Lanes.VARYING),  # 1 in the lowest active lane
    Helper(602, "gpu_ballot", (Arg.ANY,), HelperResult.NUMBER, Lanes.UNIFORM, converges=True),
    Helper(603, "gpu_any", (Arg.ANY,), HelperResult.NUMBER, Lanes.UNIFORM, converges=True),
    Helper(604, "gpu_all", (Arg.ANY,), HelperResult.NUMBER, Lanes.UNIFORM, converges=True),
    Helper(605, "gpu_prefetch", (Arg.POINTER,), HelperResult.NUMBER, Lanes.UNIFORM),
    Helper(606, "gpu_clock", (), HelperResult.NUMBER, Lanes.VARYING),
    Helper(607, "gpu_thread_number", (), HelperResult.NUMBER, Lanes.VARYING),  # row-major over the whole grid
    Helper(608, "gpu_block_number", (), HelperResult.NUMBER, Lanes.UNIFORM),  # row-major over the grid
    Helper(609, "gpu_barrier", (), HelperResult.NUMBER, Lanes.UNIFORM, converges=True),  # all threads of the block
    Helper(
        610, "gpu_distinct", (Arg.ANY,), HelperResult.NUMBER, Lanes.UNIFORM, converges=True
    ),  # values in active lanes
    # Passes through the banks of shared memory for (address, size) of the active lanes.
    Helper(611, "gpu_bank_passes", (Arg.ANY, Arg.ANY), HelperResult.NUMBER, Lanes.UNIFORM, converges=True),
    Helper(
        612, "gpu_is_first", (Arg.ANY,), HelperResult.NUMBER, Lanes.VARYING, converges=True
    ),  # lowest lane with the value
    Helper(613, "gpu_stripe_id", (), HelperResult.NUMBER, Lanes.UNIFORM),  # for counters of which there are several
    Helper(614, "gpu_warp_size", (), HelperResult.NUMBER, Lanes.UNIFORM),  # lanes of a full warp
)

_POLICY_TABLE = (
    Helper(7, "bpf_get_prandom_u32", (), HelperResult.NUMBER, Lanes.VARYING, user="policy"),
    Helper(16, "bpf_get_current_comm", (Arg.INTO, Arg.INTO_SIZE), HelperResult.NUMBER, Lanes.UNIFORM, user="policy"),
    Helper(
        113,
        "bpf_probe_read_kernel",
        (Arg.INTO, Arg.INTO_SIZE, Arg.POINTER),
        HelperResult.NUMBER,
        Lanes.UNIFORM,
        user="policy",
    ),
    Helper(
        177,
        "bpf_trace_vprintk",
        (Arg.MEMORY, Arg.SIZE, Arg.MEMORY, Arg.SIZE),
        HelperResult.NUMBER,
        Lanes.UNIFORM,
        effect="print",
        user="policy",
    ),
    *(
        Helper(_FIRST_KFUNC + at, name, arguments, result, Lanes.UNIFORM, user="policy")
        for at, (name, arguments, result) in enumerate(
            (
                ("bpf_gpu_set_prefetch_region", (Arg.PREFETCH, Arg.ANY, Arg.ANY), HelperResult.NUMBER),
                ("bpf_gpu_request_reorder", (Arg.EVICTION, Arg.ANY, Arg.ANY), HelperResult.NUMBER),
                ("bpf_nv_gpu_set_timeslice", (Arg.TASK, Arg.ANY), HelperResult.NUMBER),
                ("bpf_nv_gpu_set_interleave", (Arg.TASK, Arg.ANY), HelperResult.NUMBER),
                ("bpf_nv_gpu_reject_bind", (Arg.BIND,), HelperResult.NOTHING),
                ("bpf_nv_gpu_override_timeslice", (Arg.CONTROL, Arg.ANY), HelperResult.NUMBER),
                ("bpf_nv_gpu_preempt_tsg", (Arg.ANY, Arg.ANY), HelperResult.NUMBER),
            )
        )
    ),
)

KFUNCS: Final[Mapping[str, int]] = MappingProxyType(
    {helper.name: helper.id for helper in _POLICY_TABLE if helper.id >= _FIRST_KFUNC}
)
"""Kernel functions of gpu_ext's driver by name: the numbers under which `HELPERS` has them."""

HELPERS: Final[Mapping[int, Helper]] = MappingProxyType({helper.id: helper for helper in (*_TABLE, *_POLICY_TABLE)})
"""All helpers by number."""

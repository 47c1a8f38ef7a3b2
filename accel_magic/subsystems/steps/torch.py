"""PyTorch's collectives on CPUs (gloo), what waits for them, its process groups, and steps of its optimizers.

Everything is found by C++ functions that `libtorch_cpu.so` exports; arguments follow the Itanium ABI: `arg0` is the
object, objects that are passed by value or by reference are pointers, and a result that is an object comes before all
of them. All probes are at entries, because exceptions (of a lost peer) pass through these functions.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Final

from accel_magic.probes.presets import Preset, PresetProbe

LIBRARY: Final = "libtorch_cpu.so"
_INSTALL: Final = {LIBRARY: "pip install torch where accel_magic is installed, or import torch before the traced cell"}

COLLECTIVES: Final = "torch:collectives"
GROUPS: Final = "torch:groups"
WAITS: Final = "torch:waits"
STEPS: Final = "torch:steps"

_GLOO: Final = "_ZN4c10d16ProcessGroupGloo"
MADE: Final = f"{_GLOO}9AsyncWorkC2E"
"""A collective was called: a work object is made, with its kind and its number in the group."""
ENQUEUED: Final = f"{_GLOO}7enqueueE"
"""A work object is given to its group."""
FINISHED: Final = f"{_GLOO}9AsyncWork14finishWorkGlooE"
FAILED: Final = f"{_GLOO}9AsyncWork19finishWorkGlooErrorE"
"""A collective is complete, or failed, in this process."""
GROUP_MADE: Final = f"{_GLOO}C2E"
GROUP_NAMED: Final = "_ZN4c10d12ProcessGroup12setGroupNameE"
"""A group is made; the same thread then names it."""
WAIT: Final = "_ZN4c10d4Work4waitE"
"""A thread waits for one work object."""
WAIT_FOR_ALL: Final = "_ZN4c10d7Reducer17finalize_backwardE"
"""`DistributedDataParallel` waits for the reduction of all gradients."""
RECORDED: Final = "_ZN5torch8autograd8profiler25record_function_enter_newE"
"""A named stretch of code begins, as for PyTorch's profiler: optimizers name theirs `Optimizer.step#SGD.step`."""
OPTIMIZER: Final = "Optimizer.step#"

OPERATIONS: Final = (
    "broadcast",
    "allreduce",
    "allreduce_coalesced",
    "reduce",
    "allgather",
    "allgather_base",
    "allgather_coalesced",
    "gather",
    "scatter",
    "reduce_scatter",
    "alltoall_base",
    "alltoall",
    "send",
    "recv",
    "recv_any_source",
    "barrier",
    "reduce_scatter_base",
    "coalesced",
    "allreduce_sparse",
)
"""Names of the values of `c10d::OpType`."""

WORK, GROUP, OPERATION, NUMBER = "work", "group", "operation", "sequence"
GROUP_NAME, NAME = "group_name", "name"
"""Columns of the events."""


def _own() -> Path | None:
    """Return the library of the PyTorch that this Python would import, without importing it; None if there is none."""
    found = find_spec("torch")
    places = () if found is None else found.submodule_search_locations or ()
    files = (Path(place, "lib", LIBRARY) for place in places)
    return next((file.resolve() for file in files if file.is_file()), None)


def _probe(part: str, function: str, args: str) -> PresetProbe:
    return PresetProbe(part, f"uprobe:{LIBRARY}:{function}*", args, group=part)


PRESET: Final = Preset(
    name="torch",
    probes=(
        _probe(COLLECTIVES, MADE, f"{WORK}=arg0:u64,{OPERATION}=arg3:u8,{NUMBER}=arg4:u64"),
        _probe(COLLECTIVES, ENQUEUED, f"{GROUP}=arg0:u64,{WORK}=arg1[0]:u64"),
        _probe(COLLECTIVES, FINISHED, f"{WORK}=arg0:u64"),
        _probe(COLLECTIVES, FAILED, f"{WORK}=arg0:u64"),
        _probe(GROUPS, GROUP_MADE, f"{GROUP}=arg0:u64"),
        _probe(GROUPS, GROUP_NAMED, f"{GROUP_NAME}=arg1[0]:str"),
        _probe(WAITS, WAIT, f"{WORK}=arg0:u64"),
        _probe(WAITS, WAIT_FOR_ALL, ""),
        _probe(STEPS, RECORDED, f"{NAME}=arg1[0]:str"),
    ),
    install=MappingProxyType(_INSTALL),
    places=MappingProxyType({LIBRARY: _own}),
    for_users=True,
)

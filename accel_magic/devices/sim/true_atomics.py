"""Processor atomics for memory with concurrent writers: the Linux kernel's BPF arrays, which CPU programs update.

All other memory is private to the device, where numpy is sufficient.
"""

from __future__ import annotations

import ctypes
import threading
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic.ptx import llvm

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from accel_magic.devices.sim.types import Array

_INSTRUCTIONS: Final[Mapping[str, str]] = {
    **{name: f"atomicrmw {name} ptr %at, TYPE %value seq_cst, align SIZE" for name in ("add", "and", "or", "xor")},
    "exch": "atomicrmw xchg ptr %at, TYPE %value seq_cst, align SIZE",
    "cas": "cmpxchg ptr %at, TYPE %value, TYPE %other seq_cst seq_cst, align SIZE",
}
_SIZES: Final = (4, 8)
_LOOP: Final = """
define void @NAME_SIZE(ptr %memory, ptr %places, ptr %values, ptr %others, ptr %before, i64 %count) {
entry:
  %some = icmp ne i64 %count, 0
  br i1 %some, label %lane, label %done
lane:
  %k = phi i64 [ 0, %entry ], [ %next, %lane ]
  %at_place = getelementptr i64, ptr %places, i64 %k
  %place = load i64, ptr %at_place, align 8
  %at = getelementptr TYPE, ptr %memory, i64 %place
  %at_value = getelementptr TYPE, ptr %values, i64 %k
  %value = load TYPE, ptr %at_value, align SIZE
  %at_other = getelementptr TYPE, ptr %others, i64 %k
  %other = load TYPE, ptr %at_other, align SIZE
  %result = INSTRUCTION
  %old = FETCHED
  %at_before = getelementptr TYPE, ptr %before, i64 %k
  store TYPE %old, ptr %at_before, align SIZE
  %next = add i64 %k, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %lane, label %done
done:
  ret void
}
"""


_COMPILING: Final = threading.Lock()


@dataclass(frozen=True)
class _Compiled:
    """All operations by name and size; the engine owns their machine code."""

    functions: Mapping[tuple[str, int], Callable[..., None]]
    engine: Any


def possible(name: str, memory: Array) -> bool:
    """Whether this operation is supported (`add`, `and`, `or`, `xor`, `exch`, `cas`) for these units."""
    return name in _INSTRUCTIONS and memory.dtype.kind in "iu" and memory.dtype.itemsize in _SIZES


def apply(name: str, memory: Array, places: Array, values: list[Array]) -> Array:
    """Execute PTX's atom, lane by lane.

    Args:
        name: The operation.
        memory: (units,) of 4 or 8 bytes, contiguous; modified.
        places: (lanes,) int64 indices into it.
        values: One array, (lanes,); for `cas`, the expected and the new values.

    Returns:
        (lanes,) previous values.

    """
    size = memory.dtype.itemsize
    operands = [np.ascontiguousarray(value, memory.dtype) for value in (values[0], values[-1])]
    where = np.ascontiguousarray(places, np.int64)
    before = np.empty(len(where), memory.dtype)
    addresses = [array.ctypes.data for array in (memory, where, *operands, before)]
    _functions()[name, size](*addresses, len(where))
    return before


def _functions() -> Mapping[tuple[str, int], Callable[..., None]]:
    with _COMPILING:  # threads may call this concurrently
        return _compiled().functions


@cache
def _compiled() -> _Compiled:
    binding = llvm.binding()
    machine = binding.Target.from_triple(binding.get_process_triple()).create_target_machine(opt=2, jit=True)
    text = "\n".join(_function(name, size) for name in _INSTRUCTIONS for size in _SIZES)
    engine = binding.create_mcjit_compiler(llvm.parse(text), machine)
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5, ctypes.c_uint64)
    functions = {
        (name, size): kind(engine.get_function_address(f"{name}_{size}")) for name in _INSTRUCTIONS for size in _SIZES
    }
    return _Compiled(functions, engine)


def _function(name: str, size: int) -> str:
    kind = f"i{8 * size}"
    fetched = f"extractvalue {{ {kind}, i1 }} %result, 0" if name == "cas" else f"add {kind} %result, 0"
    text = _LOOP.replace("INSTRUCTION", _INSTRUCTIONS[name]).replace("FETCHED", fetched)
    return text.replace("NAME", name).replace("TYPE", kind).replace("SIZE", str(size))

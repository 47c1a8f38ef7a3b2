"""Functions that the driver provides on a GPU: printf, failed assertions, and the heap of kernels."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.devices.sim import memory_access
from accel_magic.devices.sim.faults import Violation
from accel_magic.devices.sim.instruction_compiler import require
from accel_magic.devices.sim.memory_access import LaneAccess

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.devices.sim.faults import FaultSite
    from accel_magic.devices.sim.instruction_compiler import CompiledInstruction, Step, Variable
    from accel_magic.devices.sim.lane_state import ExecutionState

_CONVERSION = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?(hh|h|ll|l|j|z|t|L)?([diouxXcsfFeEgGaAp%])")
_TEXT_LIMIT = 4096


def _argument(state: ExecutionState, variable: Variable, lane: int) -> int:
    """Read a call's parameter of one lane as a number."""
    start = int(state.frame[lane]) + lane * state.local_stride + variable.offset
    return int.from_bytes(state.local.data[start : start + variable.size].tobytes(), "little")


class _Memory:
    """Reads one lane's memory, byte by byte, with the same bounds checks as its loads."""

    def __init__(self, state: ExecutionState, site: FaultSite, lane: int) -> None:
        self._state = state
        self._lane = lane
        self._site = site

    def read(self, address: int, size: int) -> bytes:
        """Read bytes at a generic address."""
        before = self._state.selection
        self._state.selection = np.full(size, self._lane, np.int64)
        try:
            how = LaneAccess("", 1, 1, False, self._site)
            (data,) = memory_access.load(self._state, how, np.uint64(address) + np.arange(size, dtype=np.uint64))
        finally:
            self._state.selection = before
        return bytes(data.tobytes())

    def text(self, address: int) -> str:
        """Read a zero-terminated string."""
        data = bytearray()
        while len(data) < _TEXT_LIMIT and (one := self.read(address + len(data), 1)) != b"\0":
            data += one
        return data.decode(errors="replace")


def formatted(pattern: str, memory: _Memory, arguments: int) -> str:
    """Format like C's printf; arguments are consecutive, each aligned to its size."""
    at = arguments

    def value(size: int) -> bytes:
        nonlocal at
        at = -(-at // size) * size
        data = memory.read(at, size)
        at += size
        return data

    def convert(match: re.Match[str]) -> str:
        flags, width, precision, length, kind = match.groups()
        if kind == "%":
            return "%"
        sizes = [
            str(int.from_bytes(value(4), "little", signed=True)) if part == "*" else part for part in (width, precision)
        ]
        layout = f"%{flags}{sizes[0] or ''}{'.' + sizes[1] if sizes[1] is not None else ''}"
        return _one(layout, length or "", kind, value, memory)

    return _CONVERSION.sub(convert, pattern)


def _one(layout: str, length: str, kind: str, value: Callable[[int], bytes], memory: _Memory) -> str:
    if kind in "fFeEgGaA":
        (number,) = struct.unpack("<d", value(8))
        return float.hex(number) if kind in "aA" else (layout + kind) % number
    if kind == "s":
        return (layout + "s") % memory.text(int.from_bytes(value(8), "little"))
    if kind == "p":
        return (layout + "s") % hex(int.from_bytes(value(8), "little"))
    size = 8 if length in ("l", "ll", "j", "z", "t") else 4
    whole = int.from_bytes(value(size), "little", signed=kind in "di")
    if length in ("h", "hh"):
        cut = {"h": 2, "hh": 1}[length]
        whole = int.from_bytes((whole & 2 ** (8 * cut) - 1).to_bytes(cut, "little"), "little", signed=kind in "di")
    if kind == "c":
        return (layout + "s") % chr(whole & 255)
    return (layout + {"i": "d", "u": "d"}.get(kind, kind)) % whole


def _vprintf(code: CompiledInstruction, results: list[Variable], arguments: list[Variable]) -> Step:
    site = code.site
    pattern, values = arguments

    def step(state: ExecutionState) -> None:
        for lane in state.lanes():
            memory = _Memory(state, site, int(lane))
            layout = memory.text(_argument(state, pattern, lane))
            state.printed.append(formatted(layout, memory, _argument(state, values, lane)))
            if results:
                start = int(state.frame[lane]) + int(lane) * state.local_stride + results[0].offset
                count = len(_CONVERSION.findall(layout))
                state.local.data[start : start + results[0].size] = np.frombuffer(
                    count.to_bytes(results[0].size, "little"), np.uint8
                )

    return step


def _assert_fail(code: CompiledInstruction, _results: list[Variable], arguments: list[Variable]) -> Step:
    site = code.site

    def step(state: ExecutionState) -> None:
        lane = int(state.lanes()[0])
        memory = _Memory(state, site, lane)
        message, file, line, function = (_argument(state, variable, lane) for variable in arguments[:4])
        raise Violation(
            f"assertion failed: {memory.text(message)}",
            site=site,
            lane=lane,
            why=f"{memory.text(file)}:{line}, in {memory.text(function)}",
            fix="Check the kernel's arguments and input data.",
            code="gpu.fault.assertion",
        )

    return step


def _values(state: ExecutionState, variable: Variable) -> list[int]:
    """Read a call's parameter in every executing lane."""
    return [_argument(state, variable, int(lane)) for lane in state.lanes()]


def _require_words(variables: list[Variable], count: int) -> None:
    """Check that there are this many variables of 8 bytes."""
    right = [variable.size for variable in variables] == [8] * count
    require(right and all(variable.offset % 8 == 0 for variable in variables), "it is not declared as in CUDA")


def _malloc(_code: CompiledInstruction, results: list[Variable], arguments: list[Variable]) -> Step:
    _require_words(results, 1)
    _require_words(arguments, 1)
    (result,), (size,) = results, arguments

    def step(state: ExecutionState) -> None:
        found = state.heap.allocate_in_kernel(_values(state, size))
        lanes = state.lanes()
        starts = state.frame[lanes] + lanes * state.local_stride + result.offset
        state.local.units[8][starts // 8] = np.array(found, np.uint64)

    return step


def _free(code: CompiledInstruction, _results: list[Variable], arguments: list[Variable]) -> Step:
    _require_words(arguments, 1)
    (pointer,) = arguments

    def step(state: ExecutionState) -> None:
        for lane, address in zip(state.lanes(), _values(state, pointer), strict=True):
            if address and not state.heap.free_in_kernel(address):
                raise Violation(
                    "free() of an address that malloc() did not return, or that was freed before",
                    site=code.site,
                    lane=int(lane),
                    address=address,
                    fix="Free each pointer of the kernel's own malloc() or new once.",
                    code="gpu.fault.bad-free",
                )

    return step


FUNCTIONS: dict[str, Callable[[CompiledInstruction, list[Variable], list[Variable]], Step]] = {
    "vprintf": _vprintf,
    "__assertfail": _assert_fail,
    "malloc": _malloc,
    "free": _free,
}
"""Function name to what compiles a call of it."""

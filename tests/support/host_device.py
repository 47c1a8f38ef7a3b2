"""eBPF programs compiled for this CPU from the same LLVM IR as GPU code, and run sequentially."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic.errors import ProgramError
from accel_magic.gpu.codegen import bitcode
from accel_magic.gpu.codegen.lowering import BackendTarget, lower_all, probe_name
from accel_magic.gpu.maps.map_layout import Placement
from accel_magic.gpu.program import context
from accel_magic.ptx import llvm

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from accel_magic.gpu.program.object_model import EbpfProgram, MapSpec, Per

NOWHERE: Final = Placement(bases=(), threads=1, losses=0, printk=0)
"""The placement of programs without maps."""
_C_TYPES: Final = {4: ctypes.c_uint32, 8: ctypes.c_uint64}
_ENTRY: Final = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64)
_PROBE: Final = ctypes.CFUNCTYPE(None, *(_C_TYPES[size] for _, size in context.PARAMETERS))
_ALIGNMENT: Final = 16


@dataclass(frozen=True)
class HostProgram:
    """One compiled program; it runs in the calling thread, with maps in this process's memory.

    Attributes:
        name: The program's name.

    """

    name: str
    _entry: Any = field(repr=False)
    _probe: Any = field(repr=False)
    _engine: Any = field(repr=False)

    def run(self, memory: bytes | bytearray | NDArray[np.uint8] = b"") -> int:
        """Run it with r1 = address of `memory` (0 if it is empty) and r2 = its size in bytes.

        Args:
            memory: Input of the program; a contiguous uint8 array or a bytearray also receives the program's writes.

        Returns:
            r0, 64 bits, unsigned.

        """
        given = np.frombuffer(memory, np.uint8) if isinstance(memory, bytes | bytearray) else memory
        if not given.size:
            return int(self._entry(None, 0))
        aligned = _aligned(given.size)
        aligned[:] = given
        result = int(self._entry(aligned.ctypes.data, given.size))
        if given.flags.writeable:
            given[:] = aligned
        return result

    def probe(self, **parameters: int) -> None:
        """Run it as an injected probe: `context.PARAMETERS` by name, 0 for those not given."""
        if self._probe is None:
            raise ProgramError(
                f"{self.name} was compiled without its probe function",
                fix="compile it with probes=True",
                code="conformance.no-probe",
            )
        self._probe(*(parameters.get(name, 0) for name, _ in context.PARAMETERS))


@dataclass(frozen=True)
class HostModule:
    """Programs compiled together.

    Attributes:
        programs: In the order given.

    """

    programs: tuple[HostProgram, ...]
    _engine: Any = field(repr=False)

    def symbol(self, name: str) -> int:
        """Address of a variable of the helpers, such as `accel_self`; 0 if the module has no helpers."""
        return int(self._engine.get_global_value_address(name))


def _aligned(size: int) -> NDArray[np.uint8]:
    room = np.empty(size + _ALIGNMENT, np.uint8)
    start = -room.ctypes.data % _ALIGNMENT
    return room[start : start + size]


def compile_programs(
    programs: Sequence[EbpfProgram],
    maps: Sequence[MapSpec] = (),
    placement: Placement = NOWHERE,
    *,
    per: Per = "thread",
    promoted: frozenset[tuple[int, int]] = frozenset(),
    pointers: Mapping[tuple[int, int], str] | None = None,
    probes: bool = True,
    level: int = 3,
) -> HostModule:
    """Compile programs for this CPU.

    Args:
        programs: Programs with distinct names.
        maps: Maps of their object.
        placement: Addresses in this process; the caller keeps that memory alive.
        per: For the probe functions: "warp" runs in the leader lane only.
        promoted: Accesses promoted by the verifier, for all programs.
        pointers: The verifier's knowledge of pointers, for all programs.
        probes: Whether `HostProgram.probe` is needed, which requires the helpers.
        level: LLVM's optimization level, 0 to 3.

    Returns:
        The compiled programs.

    Raises:
        MachineError: llvmlite is missing.
        ProgramError: A program cannot be translated.

    """
    lowered = [(program, promoted, pointers or {}) for program in programs]
    text = lower_all(lowered, maps, placement, target=BackendTarget.HOST, per=per, probes=probes)
    machine = _machine(level)
    module = llvm.parse(text)
    bitcode.adopt(module, machine)
    if bitcode.undefined(module):
        keep = {name for program in programs for name in (f"bpf_{program.name}", probe_name(program.name))}
        bitcode.link(module, [bitcode.helpers("host")], machine, keep=keep | {"accel_self"})
    bitcode.optimise(module, machine, level)
    bitcode.require_complete(module, "this CPU")
    # An engine owns its target machine, so it gets its own; that of _machine is for the optimizer.
    engine = llvm.binding().create_mcjit_compiler(module, _new_machine(level))
    engine.finalize_object()
    return HostModule(tuple(_program(program.name, engine, probes=probes) for program in programs), engine)


def _program(name: str, engine: Any, *, probes: bool) -> HostProgram:
    entry = _ENTRY(engine.get_function_address(f"bpf_{name}"))
    probe = _PROBE(engine.get_function_address(probe_name(name))) if probes else None
    return HostProgram(name, entry, probe, engine)


def _new_machine(level: int) -> Any:
    binding = llvm.binding()
    target = binding.Target.from_triple(binding.get_process_triple())
    return target.create_target_machine(opt=level, jit=True)


@cache
def _machine(level: int) -> Any:
    return _new_machine(level)

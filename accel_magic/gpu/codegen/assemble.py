"""Machine code from PTX, by nvJitLink from its wheel or else `ptxas` on the PATH. Neither needs a GPU."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NoReturn

from accel_magic import scratch
from accel_magic.errors import MachineError, ProbeError, ProgramError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


_PTX: Final = 2
"""NVJITLINK_INPUT_PTX."""
_TIMEOUT_S: Final = 300
_UNSUPPORTED: Final = re.compile(r"Unsupported \.version (\d+)\.(\d+); current version is '(\d+)\.(\d+)'")
_AT_LINE: Final = re.compile(r"line (\d+); (?:error|fatal)\s*: (.*)")
_PROPERTIES: Final = re.compile(r"Function properties for '?([\w$%.]+)'?")
_STACK: Final = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED: Final = re.compile(r"Used (\d+) registers")
_SHARED: Final = re.compile(r"(\d+) bytes smem")
_CONSTANT: Final = re.compile(r"(\d+) bytes cmem\[\d+\]")
_COMPILING: Final = re.compile(r"Compiling entry function '([^']+)'")


@dataclass(frozen=True, slots=True)
class Resources:
    """A function's resources as reported by the assembler.

    Attributes:
        registers: Registers per thread; None for a device function that is not inlined, which uses its callers'.
        spill_stores: Bytes spilled from registers to memory.
        spill_loads: Bytes of spilled registers loaded back.
        stack: Bytes of stack per thread.
        shared: Bytes of static shared memory.
        constant: Bytes of constant memory, parameters included.

    """

    registers: int | None
    spill_stores: int
    spill_loads: int
    stack: int
    shared: int = 0
    constant: int = 0


@dataclass(frozen=True, slots=True)
class Assembled:
    """A module's machine code.

    Attributes:
        cubin: An ELF file.
        functions: Resources of each kernel and of each device function that was not inlined.
        arch: Its architecture.
        assembler: "nvJitLink" or "ptxas".

    """

    cubin: bytes
    functions: Mapping[str, Resources]
    arch: str
    assembler: str


@dataclass(frozen=True, slots=True)
class Change:
    """Resources of a kernel without and with inserted programs.

    Attributes:
        kernel: Its name.
        before: Resources without programs.
        after: Resources with programs.
        occupancy_before: Occupancy without programs.
        occupancy_after: Occupancy with programs.

    """

    kernel: str
    before: Resources
    after: Resources
    occupancy_before: Occupancy
    occupancy_after: Occupancy


@dataclass(frozen=True, slots=True)
class _Outcome:
    cubin: bytes
    log: str
    errors: str


def assemble(text: str, arch: str) -> Assembled:
    """Assemble a module.

    Args:
        text: PTX.
        arch: E.g. `sm_90`; a module for `sm_90a` must be assembled for exactly that.

    Raises:
        ProgramError: The assembler rejects the module; the error shows the line.
        MachineError: There is no assembler.

    """
    name, run = _assembler()
    outcome = run(text, arch)
    if not outcome.cubin:
        _refused(text, arch, name, outcome.errors)
    return Assembled(outcome.cubin, _functions(outcome.log), arch, name)


def compare(before: Assembled, after: Assembled, threads: int, shared: int = 0) -> tuple[Change, ...]:
    """Compare the kernels that are in both modules.

    Args:
        before: The original module.
        after: The instrumented module, for the same architecture.
        threads: Threads per block.
        shared: Bytes of dynamic shared memory.

    Raises:
        ProbeError: `occupancy` does not support the architecture, or the number of threads is not valid.

    """
    return tuple(
        Change(name, old, new, _occupancy(before, old, threads, shared), _occupancy(after, new, threads, shared))
        for name, old in before.functions.items()
        if (new := after.functions.get(name)) is not None and old.registers is not None
    )


def _occupancy(module: Assembled, needs: Resources, threads: int, shared: int) -> Occupancy:
    return occupancy(module.arch, needs.registers or 0, threads, needs.shared + shared)


@cache
def _assembler() -> tuple[str, Callable[[str, str], _Outcome]]:
    library = _library()
    if library is not None:
        return "nvJitLink", lambda text, arch: _link(library, text, arch)
    program = shutil.which("ptxas")
    if program is not None:
        return "ptxas", lambda text, arch: _ptxas(program, text, arch)
    raise MachineError(
        "no assembler for PTX was found",
        why="neither nvJitLink (the package nvidia-nvjitlink) nor ptxas is installed",
        fix="pip install 'accel-magic[gpu]'",
        code="gpu.no-assembler",
    )


@cache
def _newest(name: str, run: Callable[[str, str], _Outcome]) -> tuple[int, int]:
    # The error for a version that does not exist names the newest supported version.
    found = _UNSUPPORTED.search(run(".version 99.0\n.target sm_75\n.address_size 64\n", "sm_75").errors)
    if found is None:
        raise MachineError(
            f"{name} does not report which PTX version it supports",
            fix="pip install --upgrade nvidia-nvjitlink",
            code="gpu.assembler-unusable",
        )
    return int(found[3]), int(found[4])


def _library() -> ctypes.CDLL | None:
    """Load nvJitLink from its newest installed wheel, or from the loader's search path."""
    spec = find_spec("nvidia")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    wheels = [str(path) for folder in folders for path in sorted(Path(folder).glob("*/lib/libnvJitLink.so.*"))]
    for candidate in (*reversed(wheels), "libnvJitLink.so.13"):
        try:
            library = ctypes.CDLL(candidate)
            library.nvJitLinkCreate  # noqa: B018 - older versions use other names
        except (OSError, AttributeError):
            continue
        return library
    return None


def _link(library: ctypes.CDLL, text: str, arch: str) -> _Outcome:
    handle = ctypes.c_void_p()
    options = (ctypes.c_char_p * 2)(f"-arch={arch}".encode(), b"-verbose")
    code = text.rstrip("\0").encode() + b"\0"
    failed = library.nvJitLinkCreate(ctypes.byref(handle), len(options), options)
    if not handle:
        return _Outcome(b"", "", f"nvJitLink cannot be started for {arch} (code {failed})")
    try:
        failed = failed or library.nvJitLinkAddData(handle, _PTX, code, ctypes.c_size_t(len(code)), b"kernels.ptx")
        failed = failed or library.nvJitLinkComplete(handle)
        errors = _log(library, handle, "Error")
        if failed:
            return _Outcome(b"", "", errors or f"nvJitLink failed (code {failed})")
        size = ctypes.c_size_t()
        library.nvJitLinkGetLinkedCubinSize(handle, ctypes.byref(size))
        cubin = ctypes.create_string_buffer(size.value)
        library.nvJitLinkGetLinkedCubin(handle, cubin)
        return _Outcome(cubin.raw, _log(library, handle, "Info"), errors)
    finally:
        library.nvJitLinkDestroy(ctypes.byref(handle))


def _log(library: ctypes.CDLL, handle: ctypes.c_void_p, kind: str) -> str:
    size = ctypes.c_size_t()
    library[f"nvJitLinkGet{kind}LogSize"](handle, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value + 1)
    library[f"nvJitLinkGet{kind}Log"](handle, text)
    return text.value.decode(errors="replace")


def _ptxas(program: str, text: str, arch: str) -> _Outcome:
    with scratch.folder("ptxas") as folder:
        source, result = folder / "kernels.ptx", folder / "kernels.cubin"
        source.write_text(text.rstrip("\0"), "utf-8")
        done = subprocess.run(
            [program, "-v", f"-arch={arch}", str(source), "-o", str(result)],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        output = done.stdout + done.stderr
        return _Outcome(result.read_bytes(), output, "") if done.returncode == 0 else _Outcome(b"", output, output)


def _refused(text: str, arch: str, name: str, errors: str) -> NoReturn:
    newer = _UNSUPPORTED.search(errors)
    if newer:
        raise ProgramError(
            f"the kernels are PTX {newer[1]}.{newer[2]}, but {name} supports only up to {newer[3]}.{newer[4]}",
            why="the framework's compiler is newer than the assembler",
            fix="pip install --upgrade nvidia-nvjitlink",
            code="gpu.assembler-too-old",
        )
    at = _AT_LINE.search(errors)
    if at is None:
        lines = [line for line in errors.splitlines() if line.strip()]
        raise ProgramError(
            f"{name} cannot generate machine code for {arch}",
            why=" ".join(lines[:3])[:400],
            fix="check that the PTX is for this architecture",
            code="gpu.assembler-lacks-architecture",
        )
    number, message = int(at[1]), at[2].strip()
    shown = "".join(text.splitlines()[number - 1 : number]).strip()
    raise ProgramError(
        f"{name} rejects line {number} of the PTX: {message}",
        why=shown[:200],
        fix="if the kernel assembles without accel_magic, report this defect and include this line",
        code="gpu.assembler-rejects-ptx",
    )


def _functions(log: str) -> dict[str, Resources]:
    """Parse the output of `-v`: the properties of each function, followed for kernels by the resources they use."""
    found: dict[str, Resources] = {}
    name = entry = ""
    stack = (0, 0, 0)
    for line in log.splitlines():
        if compiling := _COMPILING.search(line):
            entry = compiling[1]
        elif properties := _PROPERTIES.search(line):
            name = properties[1]
        elif (sizes := _STACK.search(line)) and name:
            stack = (int(sizes[1]), int(sizes[2]), int(sizes[3]))
            found[name] = Resources(None, stack[1], stack[2], stack[0])
        elif (used := _USED.search(line)) and entry:
            own = found.get(entry, Resources(None, 0, 0, 0))
            shared = sum(int(size) for size in _SHARED.findall(line))
            constant = sum(int(size) for size in _CONSTANT.findall(line))
            found[entry] = Resources(int(used[1]), own.spill_stores, own.spill_loads, own.stack, shared, constant)
    return found


LANES: Final = 32
_REGISTERS: Final = 65536
_REGISTER_UNIT: Final = 256
_PARTS: Final = 4
_MOST_REGISTERS: Final = 255
_MOST_THREADS: Final = 1024


@dataclass(frozen=True, slots=True)
class Multiprocessor:
    """Limits of one multiprocessor.

    Attributes:
        warps: Maximum resident warps.
        blocks: Maximum resident blocks.
        shared: Bytes of shared memory for all blocks.
        block_shared: Maximum bytes of shared memory per block.
        shared_unit: Allocation unit of shared memory in bytes.
        kept: Bytes reserved by the system for each block.

    """

    warps: int
    blocks: int
    shared: int
    block_shared: int
    shared_unit: int = 128
    kept: int = 1024


_KIB: Final = 1024
MULTIPROCESSORS: Final[Mapping[int, Multiprocessor]] = MappingProxyType(
    {
        75: Multiprocessor(32, 16, 64 * _KIB, 64 * _KIB, shared_unit=256, kept=0),
        80: Multiprocessor(64, 32, 164 * _KIB, 163 * _KIB),
        86: Multiprocessor(48, 16, 100 * _KIB, 99 * _KIB),
        87: Multiprocessor(48, 16, 164 * _KIB, 163 * _KIB),
        89: Multiprocessor(48, 24, 100 * _KIB, 99 * _KIB),
        90: Multiprocessor(64, 32, 228 * _KIB, 227 * _KIB),
        100: Multiprocessor(64, 32, 228 * _KIB, 227 * _KIB),
        103: Multiprocessor(64, 32, 228 * _KIB, 227 * _KIB),
        110: Multiprocessor(48, 24, 228 * _KIB, 227 * _KIB),
        120: Multiprocessor(48, 24, 100 * _KIB, 99 * _KIB),
        121: Multiprocessor(48, 24, 100 * _KIB, 99 * _KIB),
    }
)
"""By architecture: 90 for sm_90 and sm_90a."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Occupancy of a multiprocessor.

    Attributes:
        blocks: Resident blocks; 0 if not even one fits.
        warps: Resident warps.
        share: Resident warps as a fraction of the maximum, 0 to 1.
        limits: The resources that limit the number of blocks: "warps", "blocks", "registers", "shared memory".

    """

    blocks: int
    warps: int
    share: float
    limits: tuple[str, ...]


def occupancy(arch: str, registers: int, threads: int, shared: int = 0) -> Occupancy:
    """Return a kernel's occupancy.

    Args:
        arch: E.g. `sm_90`.
        registers: Registers per thread.
        threads: Threads per block.
        shared: Bytes of shared memory per block, static and dynamic.

    Raises:
        ProbeError: The architecture is not supported, or the number of threads is not valid.

    """
    machine = multiprocessor(arch)
    if not 1 <= threads <= _MOST_THREADS:
        raise ProbeError(
            f"a block must have 1 to {_MOST_THREADS} threads, not {threads}",
            fix="pass the launch's block size",
            code="gpu.bad-launch-shape",
        )
    warps = -(-threads // LANES)
    fitting = {
        "warps": machine.warps // warps,
        "blocks": machine.blocks,
        "registers": _by_registers(registers, warps),
        "shared memory": _by_shared(machine, shared),
    }
    blocks = min(fitting.values())
    limits = tuple(name for name, count in fitting.items() if count == blocks)
    return Occupancy(blocks, blocks * warps, blocks * warps / machine.warps, limits)


def multiprocessor(arch: str) -> Multiprocessor:
    """Return the limits of an architecture, such as `sm_90` or `sm_90a`.

    Raises:
        ProbeError: The architecture is not supported.

    """
    match = re.fullmatch(r"sm_(\d+)[af]?", arch)
    if match is None or int(match[1]) not in MULTIPROCESSORS:
        known = ", ".join(f"sm_{number}" for number in MULTIPROCESSORS)
        raise ProbeError(
            f"the multiprocessor of {arch} is not known",
            fix=f"use one of {known}",
            code="gpu.unsupported-architecture",
        )
    return MULTIPROCESSORS[int(match[1])]


def _by_registers(registers: int, warps: int) -> int:
    if registers > _MOST_REGISTERS:
        return 0
    each = -(-max(registers, 1) * LANES // _REGISTER_UNIT) * _REGISTER_UNIT
    # Each of a multiprocessor's four partitions has its own registers, and a launch is checked as if the block's warps
    # were rounded up to fill all partitions equally.
    if each * -(-warps // _PARTS) * _PARTS > _REGISTERS:
        return 0
    return _REGISTERS // _PARTS // each * _PARTS // warps


def _by_shared(machine: Multiprocessor, shared: int) -> int:
    if shared > machine.block_shared:
        return 0
    each = -(-(shared + machine.kept) // machine.shared_unit) * machine.shared_unit
    return machine.shared // each if each else machine.blocks

"""Machine code from PTX: with nvJitLink from its wheel, else with `ptxas` on the PATH. Neither needs a GPU."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from accel_magic import scratch
from accel_magic.errors import MachineError, ProgramError
from accel_magic.gpu.occupancy import Occupancy, occupancy

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
    """What a function needs, as the assembler says.

    Attributes:
        registers: For each thread; None for a device function that is called: it uses its callers'.
        spill_stores: Bytes that are stored because registers do not suffice.
        spill_loads: Bytes that are loaded again.
        stack: Bytes of stack for each thread.
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
        functions: What each kernel, and each device function that was not inlined, needs.
        arch: What it is for.
        assembler: "nvJitLink" or "ptxas".

    """

    cubin: bytes
    functions: Mapping[str, Resources]
    arch: str
    assembler: str


@dataclass(frozen=True, slots=True)
class Change:
    """What a kernel needs before and after something was put into it.

    Attributes:
        kernel: Its name.
        before: Without.
        after: With.
        occupancy_before: Without.
        occupancy_after: With.

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
        arch: `sm_90`; a module for `sm_90a` must be assembled for just that.

    Raises:
        ProgramError: The assembler refuses the module; names the line and shows it.
        MachineError: There is no assembler.

    """
    name, run = _assembler()
    outcome = run(text, arch)
    if not outcome.cubin:
        _refused(text, arch, name, outcome.errors)
    return Assembled(outcome.cubin, _functions(outcome.log), arch, name)


def newest_isa() -> tuple[int, int]:
    """Say which PTX ISA is the newest that the assembler reads: (9, 5).

    Raises:
        MachineError: There is no assembler, or it does not say.

    """
    name, run = _assembler()
    return _newest(name, run)


def compare(before: Assembled, after: Assembled, threads: int, shared: int = 0) -> tuple[Change, ...]:
    """Compare the kernels that are in both modules.

    Args:
        before: The original.
        after: The instrumented one, for the same architecture.
        threads: Threads of a block.
        shared: Bytes of dynamic shared memory.

    Raises:
        ProbeError: The architecture is not known to `occupancy`, or the block is none.

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
    # Asked for a version that does not exist, the assembler says which one it has.
    found = _UNSUPPORTED.search(run(".version 99.0\n.target sm_75\n.address_size 64\n", "sm_75").errors)
    if found is None:
        raise MachineError(
            f"{name} does not say which PTX it reads",
            fix="pip install --upgrade nvidia-nvjitlink",
            code="gpu.assembler-unusable",
        )
    return int(found[3]), int(found[4])


def _library() -> ctypes.CDLL | None:
    """Load nvJitLink from the newest of its wheels that is installed, or from where the loader finds it."""
    spec = find_spec("nvidia")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    wheels = [str(path) for folder in folders for path in sorted(Path(folder).glob("*/lib/libnvJitLink.so.*"))]
    for candidate in (*reversed(wheels), "libnvJitLink.so.13"):
        try:
            library = ctypes.CDLL(candidate)
            library.nvJitLinkCreate  # noqa: B018 - older ones have it under other names
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
        return _Outcome(b"", "", f"the linker cannot be started for {arch} (code {failed})")
    try:
        failed = failed or library.nvJitLinkAddData(handle, _PTX, code, ctypes.c_size_t(len(code)), b"kernels.ptx")
        failed = failed or library.nvJitLinkComplete(handle)
        errors = _log(library, handle, "Error")
        if failed:
            return _Outcome(b"", "", errors or f"the linker failed (code {failed})")
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
            f"the kernels are PTX {newer[1]}.{newer[2]}, and {name} reads up to {newer[3]}.{newer[4]}",
            why="the framework's compiler is newer than the assembler",
            fix="pip install --upgrade nvidia-nvjitlink",
            code="gpu.assembler-too-old",
        )
    at = _AT_LINE.search(errors)
    if at is None:
        lines = [line for line in errors.splitlines() if line.strip()]
        raise ProgramError(
            f"{name} cannot make machine code for {arch}",
            why=" ".join(lines[:3])[:400],
            fix="check that the architecture is the one that the PTX is for",
            code="gpu.assembler-lacks-architecture",
        )
    number, message = int(at[1]), at[2].strip()
    shown = "".join(text.splitlines()[number - 1 : number]).strip()
    raise ProgramError(
        f"{name} refuses line {number} of the PTX: {message}",
        why=shown[:200],
        fix="if the kernel assembles without accel_magic, please report it with this line",
        code="gpu.assembler-rejects-ptx",
    )


def _functions(log: str) -> dict[str, Resources]:
    """Read what `-v` says: for each function its properties, and of kernels then what they use."""
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

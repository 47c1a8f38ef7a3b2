"""OpenCL C to SPIR-V, because drivers do not show what they compile: clang, then llvm-spirv or LLVM's own backend."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic.errors import MachineError, ProgramError
from accel_magic.gpu.codegen.spirv import emit
from accel_magic.spirv.spirv_module import SpirvModule

if TYPE_CHECKING:
    from collections.abc import Sequence

_NUMBERED: Final = re.compile(r"clang-(\d+)")
_OLDEST: Final = 15
"""The first clang with pointers as llvmlite's LLVM and llvm-spirv 15 read them."""
_NEWEST_READ: Final = 22
_TIMEOUT_S: Final = 120.0
_LEVELS: Final = (2, 1)
"""Of optimization, the next if no translator to SPIR-V takes what clang's optimizer has written."""
_OPENCL: Final = 300
_STRIDE: Final = 6
"""Operand of a copy by a work-group."""
_NARROW: Final = 32
_OF_VENDORS: Final = ("-ze-", "-igc", "-vc-")
_OF_OPENCL: Final = frozenset(
    f"-cl-{name}"
    for name in (
        *("std", "ext", "opt-disable", "strict-aliasing", "single-precision-constant", "finite-math-only"),
        *("kernel-arg-info", "unsafe-math-optimizations", "fast-relaxed-math", "mad-enable", "no-signed-zeros"),
        *("denorms-are-zero", "fp32-correctly-rounded-divide-sqrt", "uniform-work-group-size"),
    )
)
"""OpenCL's options, which clang knows."""
# Vectors are the driver's: those of clang change how often memory is accessed, and have types that SPIR-V lacks.
# Drivers emit `inline` functions, as C did before C99.
_ALWAYS: Final = (
    *("-Xclang", "-finclude-default-header", "-gline-tables-only", "-emit-llvm", "-c", "-x", "cl"),
    *("-fno-vectorize", "-fno-slp-vectorize", "-fgnu89-inline"),
)
NO_LINES: Final = "its source lines are not known: LLVM writes none (llvm-spirv of clang's version would)"


@dataclass(frozen=True)
class OpenClCompiler:
    """A clang that compiles OpenCL C, and the llvm-spirv of its version; '' for LLVM's own backend."""

    clang: str
    translator: str


@dataclass(frozen=True)
class CompiledKernels:
    """SPIR-V, and whether it has the lines of the source."""

    code: bytes
    has_lines: bool


def compilers() -> tuple[OpenClCompiler, ...]:
    """Find the newest clang that has its llvm-spirv, and the newest clang, for LLVM's own backend.

    Raises:
        MachineError: There is none.

    """
    return _found(os.environ.get("PATH", os.defpath))


@lru_cache(maxsize=4)
def _found(search: str) -> tuple[OpenClCompiler, ...]:
    versions = set[int]()
    for folder in search.split(os.pathsep):
        try:
            names = [path.name for path in Path(folder or ".").iterdir()]
        except OSError:
            continue
        versions |= {int(found[1]) for found in map(_NUMBERED.fullmatch, names) if found}
    known = [one for one in sorted(versions, reverse=True) if _OLDEST <= one <= _NEWEST_READ]
    if not known:
        raise MachineError(
            "kernels in OpenCL C cannot be traced without clang",
            why="drivers take OpenCL C and show no SPIR-V, so it has to be compiled here",
            fix="apt install clang-19",
            code="opencl.no-clang",
        )
    translators = ((one, shutil.which(f"llvm-spirv-{one}", path=search)) for one in known)
    first = next((OpenClCompiler(f"clang-{one}", path) for one, path in translators if path), None)
    return (*([] if first is None else [first]), OpenClCompiler(f"clang-{known[0]}", ""))


def options_of(text: str) -> tuple[str, ...]:
    """The words of a program's build options."""
    try:
        return tuple(shlex.split(text))
    except ValueError:  # a quotation mark without its partner, which drivers may ignore
        return tuple(text.split())


def compiled(source: str, options: Sequence[str], version: tuple[int, int], opencl: int = _OPENCL) -> CompiledKernels:
    """Compile OpenCL C to SPIR-V.

    Args:
        source: The program.
        options: The program's build options, as given to `clBuildProgram`.
        version: The newest version of SPIR-V that the device takes.
        opencl: The device's version of OpenCL, of which programs read the macro: 300 for 3.0.

    Raises:
        MachineError: There is no clang.
        ProgramError: The program does not compile for SPIR-V, e.g. because it uses a vendor's own functions.

    """
    levels = (0,) if "-cl-opt-disable" in options else _LEVELS
    left = list(compilers())
    for level in levels:
        for one in tuple(left):
            try:
                code = _bitcode(one, source, options, level, opencl)
            except ProgramError as error:
                failed = error
                left.remove(one)
                continue
            try:
                return CompiledKernels(_translated(one, code, version), has_lines=bool(one.translator))
            except ProgramError as error:
                # llvm-spirv refuses some of what clang's optimizer writes (`freeze`), LLVM's own backend other things.
                failed = error
    raise failed


def _bitcode(found: OpenClCompiler, source: str, options: Sequence[str], level: int, opencl: int) -> bytes:
    triple = "spir64-unknown-unknown" if found.translator else "spirv64-unknown-unknown"
    standard = [] if any(one.startswith("-cl-std=") for one in options) else ["-cl-std=CL1.2"]
    with tempfile.TemporaryDirectory(prefix="accel_magic_") as folder:
        file = Path(folder) / "kernels.cl"
        file.write_text(source, "utf-8")
        command = [found.clang, f"--target={triple}", *_ALWAYS, f"-fdebug-prefix-map={folder}/=", *standard]
        # clang leaves it to the platform's compiler.
        command += [f"-D__OPENCL_VERSION__={opencl}", f"-O{level}", *_known(options), "-o", "-", str(file)]
        return _run(command, b"", "OpenCL C cannot be compiled for tracing", f"{folder}/")


def _translated(found: OpenClCompiler, code: bytes, version: tuple[int, int]) -> bytes:
    # 1.2 suffices for OpenCL C; programs raise it if they need more.
    number = "{}.{}".format(*min(version, (1, 2)))
    if not found.translator:
        return _with_wide_strides(emit(code, f"spirv64v{number}-unknown-unknown"))
    return _run([found.translator, f"--spirv-max-version={number}", "-", "-o", "-"], code, "llvm-spirv failed")


def _with_wide_strides(code: bytes) -> bytes:
    """Give copies by work-groups a stride as wide as a pointer: LLVM's backend writes 32 bits, which drivers lack."""
    module = SpirvModule.read(code)
    copies = [one for one in module.instructions() if one.name == "GroupAsyncCopy"]
    integers = {one.words[0]: one.words[1] for one in module.sections["type"] if one.name == "TypeInt"}
    constants = {one.words[1]: one.words for one in module.sections["type"] if one.name == "Constant"}
    for one in copies:
        kind, _, *value = constants.get(one.words[_STRIDE], (0, 0))
        if integers.get(kind) == _NARROW:
            one.words[_STRIDE] = module.constant(2 * _NARROW, value[0])
    return module.write() if copies else code


def _known(options: Sequence[str]) -> list[str]:
    """Without vendors' own options, which clang would reject: `-cl-intel-greater-than-4GB-buffer-required`."""
    return [
        one
        for one in options
        if not one.startswith(_OF_VENDORS) and (not one.startswith("-cl-") or one.partition("=")[0] in _OF_OPENCL)
    ]


def _run(command: Sequence[str], given: bytes, what: str, folder: str = "") -> bytes:
    try:
        done = subprocess.run(command, input=given, capture_output=True, check=False, timeout=_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProgramError(
            what, why=str(error), fix="run the kernel without tracing", code="opencl.not-compiled"
        ) from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").splitlines()
        why = next((line for line in lines if "error:" in line), lines[-1] if lines else f"status {done.returncode}")
        raise ProgramError(
            what, why=why.replace(folder, "").strip(), fix="the kernel runs as it is", code="opencl.not-compiled"
        )
    return done.stdout

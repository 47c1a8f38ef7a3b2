"""How the library that patches is built, and where it is. Without numpy, because building the wheel needs it."""

from __future__ import annotations

import platform
import sys
from functools import cache as remember
from pathlib import Path
from typing import Final

from accel_magic import cache
from accel_magic.c_programs import CProgram, bpf_folder, compile_program, files, is_built_from, mark
from accel_magic.collecting import collector_folder
from accel_magic.errors import MachineError

SHIPPED: Final = "libaccel_magic_patching.so"
_FOLDER: Final = Path(__file__).parent


def _sources() -> tuple[Path, ...]:
    return (*files(_FOLDER, ".c"), *files(_FOLDER, ".S"), *files(collector_folder(), ".c"))


def _headers() -> tuple[Path, ...]:
    return (*files(_FOLDER, ".h"), *files(collector_folder(), ".h"), bpf_folder() / "kernel" / "python_walk.h")


@remember
def _mark() -> str:
    """Text in a library that was built from these sources."""
    return mark("patching", (*_sources(), *_headers()))


def program() -> CProgram:
    """Return how the library is built."""
    return CProgram(
        "patching",
        sources=_sources(),
        headers=_headers(),
        flags=(
            f"-I{collector_folder()}",
            f"-I{bpf_folder() / 'kernel'}",
            "-fPIC",
            "-shared",
            "-fvisibility=hidden",
            # Its callers' vector registers stay as they are, and it calls nothing that might be patched.
            "-mgeneral-regs-only",
            "-fno-stack-protector",
            "-fno-tree-loop-distribute-patterns",
            "-Wl,--no-undefined",
            f'-DSOURCES="{_mark()}"',
        ),
        libraries=("-ldl",),
        suffix=".so",
    )


def library() -> Path:
    """Return the path of the library: the one in the package, else one compiled now.

    Raises:
        MachineError: The package has none, and there is no C compiler, or this is another kind of machine.

    """
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise MachineError(
            "functions cannot be patched on this machine",
            why=f"it is {platform.machine()} with {platform.system()}: only x86-64 with Linux is supported",
            fix="use --uprobes=kernel, as root or through the broker",
            code="machine.platform",
        )
    shipped = _FOLDER / SHIPPED
    return shipped if is_built_from(shipped, _mark()) else compile_program(program(), cache.own("patching"))

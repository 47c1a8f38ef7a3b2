"""The program that loads policies, and its installation in a guest."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from accel_magic.c_programs import Program, compile_program
from accel_magic.lab import programs
from accel_magic.lab.image.accelerator import LOADER as LINKER

if TYPE_CHECKING:
    from accel_magic.lab.image.accelerator import AcceleratorFiles

NAME = "policy_loader"


def install(folder: Path, files: AcceleratorFiles) -> None:
    """Install the loader of policies in a folder of programs; it runs with the accelerator's own libraries.

    Raises:
        MachineError: There is no C compiler, or the compilation failed.

    """
    program = Program(
        NAME,
        sources=programs.files("accelerator/policy_loader.c"),
        headers=(files.headers / "bpf" / "libbpf.h",),
        flags=("-g1", f"-I{files.headers}", "-Wno-unused-parameter"),
        libraries=(str(files.libraries / "libbpf.so.1"), "-Wl,--allow-shlib-undefined"),
    )
    compiled = compile_program(program, programs.folder())
    linked = [files.libraries / LINKER, "--inhibit-cache", "--library-path", files.libraries, compiled]
    target = Path(folder) / NAME
    target.write_text(f'#!/bin/sh\nexec {shlex.join(map(str, linked))} "$@"\n')
    target.chmod(0o755)

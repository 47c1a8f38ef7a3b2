"""The programs of the accelerator, and their installation in a guest: the loader of policies, and tenants."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic.c_programs import CProgram, compile_program
from accel_magic.lab import program_folder
from accel_magic.lab.image.accelerator import LOADER as LINKER
from accel_magic.lab.image.accelerator import SOURCES

if TYPE_CHECKING:
    from accel_magic.lab.image.accelerator import AcceleratorFiles

NAME = "policy_loader"
TENANT = "accelerator_tenant"
_HEADERS: Final = (
    *program_folder.files("accelerator/launch.h", "accelerator/drm_calls.h"),
    *(SOURCES / name for name in ("accel_lab_uapi.h", "accel_lab_access.h")),
)
_INCLUDE: Final = (f"-I{SOURCES}", f"-I{Path(__file__).parent}")


def install(folder: Path, files: AcceleratorFiles) -> None:
    """Install the programs in a folder; the loader of policies runs with the accelerator's own libraries.

    It finds the tenants' library, whose launches policies probe, by the name of CUDA's.

    Raises:
        MachineError: There is no C compiler, or the compilation failed.

    """
    program = CProgram(
        NAME,
        sources=program_folder.files("accelerator/policy_loader.c"),
        headers=(files.headers / "bpf" / "libbpf.h",),
        flags=("-g1", f"-I{files.headers}", "-Wno-unused-parameter"),
        libraries=(str(files.libraries / "libbpf.so.1"), "-Wl,--allow-shlib-undefined"),
    )
    compiled = compile_program(program, program_folder.folder())
    library = _tenants_library()
    linked = [files.libraries / LINKER, "--inhibit-cache", "--library-path", files.libraries, compiled]
    start = f'LD_LIBRARY_PATH={shlex.quote(str(library.parent))} exec {shlex.join(map(str, linked))} "$@"'
    _script(folder / NAME, start)
    _script(folder / TENANT, f'exec {shlex.quote(str(_tenant(library)))} "$@"')


def _tenants_library() -> Path:
    program = CProgram(
        "tenants_library",
        sources=program_folder.files("accelerator/launch.c"),
        headers=_HEADERS,
        flags=("-shared", "-fPIC", *_INCLUDE),
        suffix="/libcuda.so.1",
    )
    return compile_program(program, program_folder.folder())


def _tenant(library: Path) -> Path:
    program = CProgram(
        TENANT,
        sources=program_folder.files("accelerator/tenant.c"),
        headers=_HEADERS,
        flags=_INCLUDE,
        libraries=(str(library), f"-Wl,-rpath,{library.parent}"),
    )
    return compile_program(program, program_folder.folder())


def _script(target: Path, line: str) -> None:
    target.write_text(f"#!/bin/sh\n{line}\n")
    target.chmod(0o755)

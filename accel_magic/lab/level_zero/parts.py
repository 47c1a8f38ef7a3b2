"""The parts of Level Zero in the lab, and their installation in a guest."""

from __future__ import annotations

import os
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from accel_magic import cache
from accel_magic.c_programs import CProgram, compile_program
from accel_magic.errors import MachineError
from accel_magic.lab import program_folder
from accel_magic.lab.image import find_level_zero
from accel_magic.lab.level_zero import loader
from accel_magic.npu_interface import level_zero

if TYPE_CHECKING:
    from collections.abc import Mapping

DRIVERS = "ZE_ENABLE_ALT_DRIVERS"
"""Environment variable from which the loader reads the paths of driver libraries."""
_PATHS = "LD_LIBRARY_PATH"


def _files(*names: str) -> tuple[Path, ...]:
    return program_folder.files(*(f"level_zero/{name}" for name in names))


_DRIVER_SOURCES = ("device", "memory", "list", "event", "queue", "graph", "arguments", "profiling", "tables")
_DRIVER_HEADERS = ("lab_driver.h", "ze_api.h", "npu_api.h", "job_format.h")

LOAD = CProgram(
    "ze_load",
    sources=_files("ze_load.c", "ze_jobs.c", "ze_report.c"),
    headers=(*_files("ze_load.h", *_DRIVER_HEADERS), *program_folder.files("npu/npu_uapi.h")),
    flags=("-g1",),
    libraries=("-ldl",),
)
DRIVER = CProgram(
    "libze_lab_npu",
    sources=_files(*(f"lab_{name}.c" for name in _DRIVER_SOURCES)),
    headers=(*_files(*_DRIVER_HEADERS), *program_folder.files("npu/npu_uapi.h")),
    flags=("-g1", "-fPIC", "-shared", "-fvisibility=hidden"),
    suffix=f"/{level_zero.LAB_DRIVER}",
)


NEWER = CProgram(
    "libze_newer",
    sources=_files("ze_newer.c"),
    headers=_files("ze_api.h"),
    flags=("-g1", "-fPIC", "-shared", "-fvisibility=hidden"),
    suffix=".so",
)


@dataclass(frozen=True)
class LevelZero:
    """The lab's Level Zero files; their paths are the same on the host and in the guest.

    Attributes:
        loader: `libze_loader.so.1`, alone in its folder; complete enough for OpenVINO.
        driver: Our driver library, alone in its folder.
        program: `ze_load`.

    """

    loader: Path
    driver: Path
    program: Path

    @property
    def options(self) -> tuple[str, ...]:
        """Options that make `ze_load` use these files regardless of the environment."""
        return ("--loader", str(self.loader), "--driver", str(self.driver))

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """Variables that let programs find the files, and probes both libraries by name; existing values are kept."""
        paths = filter(None, (str(self.loader.parent), str(self.driver.parent), given.get(_PATHS, "")))
        return {_PATHS: os.pathsep.join(paths), DRIVERS: given.get(DRIVERS) or str(self.driver)}


def find() -> LevelZero:
    """Return the lab's Level Zero; the driver and `ze_load` are compiled, and the loader is completed, if necessary.

    Raises:
        MachineError: The loader is not built, or there is no C compiler.

    """
    folder = program_folder.folder()
    loader = _complete(find_level_zero(), folder)
    return LevelZero(loader, compile_program(DRIVER, folder), compile_program(LOAD, folder))


def _complete(original: Path, folder: Path) -> Path:
    """Return a loader that OpenVINO accepts: the original, or a copy that needs the library with what it lacks."""
    content = original.read_bytes()
    if not loader.lacks_function(content):
        return original
    newer, file = compile_program(NEWER, folder), f"/{original.name}"
    name = f"ze_loader-{cache.sha256_of(original)[:32]}-{cache.sha256_of(newer)[:32]}"
    if kept := cache.find(folder, name, file):
        return kept
    with tempfile.TemporaryDirectory(dir=folder, prefix=".ze_loader-") as scratch:
        made = Path(scratch) / original.name
        made.write_bytes(loader.with_needed(content, f"$ORIGIN/../{newer.name}"))
        return cache.keep(made, folder, name, file)


def install(folder: Path) -> LevelZero | None:
    """Install `ze_load` in a folder. If it is unavailable, install a script that prints why, and return None."""
    target = folder / "ze_load"
    try:
        found = find()
    except MachineError as error:
        target.write_text(f"#!/bin/sh\nprintf '%s\\n' {shlex.quote(f'ze_load: {error}')} >&2\nexit 3\n")
        target.chmod(0o755)
        return None
    target.symlink_to(found.program)
    return found

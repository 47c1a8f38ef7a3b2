"""The parts of Level Zero in the lab, and their installation in a guest."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel_magic.c_programs import Program, compile_program
from accel_magic.errors import MachineError
from accel_magic.lab import programs as program
from accel_magic.lab.image import find_level_zero

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DRIVERS = "ZE_ENABLE_ALT_DRIVERS"
"""Environment variable from which the loader reads the paths of driver libraries."""
_PATHS = "LD_LIBRARY_PATH"


def _files(*names: str) -> tuple[Path, ...]:
    return program.files(*(f"level_zero/{name}" for name in names))


LOAD = Program(
    "ze_load",
    sources=_files("ze_load.c", "ze_jobs.c", "ze_report.c"),
    headers=(*_files("ze_load.h", "ze_api.h", "lab_driver.h"), *program.files("npu/npu_uapi.h")),
    flags=("-g1",),
    libraries=("-ldl",),
)
DRIVER = Program(
    "libze_lab_npu",
    sources=_files("lab_device.c", "lab_memory.c", "lab_list.c", "lab_queue.c", "lab_tables.c"),
    headers=(*_files("lab_driver.h", "ze_api.h"), *program.files("npu/npu_uapi.h")),
    flags=("-g1", "-fPIC", "-shared", "-fvisibility=hidden"),
    suffix=".so",
)


@dataclass(frozen=True)
class LevelZero:
    """The lab's Level Zero files; their paths are the same on the host and in the guest.

    Attributes:
        loader: `libze_loader.so.1`, alone in its folder.
        driver: Our driver library.
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
        """Variables that let programs, and probes on `libze_loader.so.1`, find the files; existing values are kept."""
        paths = filter(None, (str(self.loader.parent), given.get(_PATHS, "")))
        return {_PATHS: os.pathsep.join(paths), DRIVERS: given.get(DRIVERS) or str(self.driver)}


def find() -> LevelZero:
    """Return the lab's Level Zero; the driver and `ze_load` are compiled if necessary.

    Raises:
        MachineError: The loader is not built, or there is no C compiler.

    """
    loader, folder = find_level_zero(), program.folder()
    return LevelZero(loader, compile_program(DRIVER, folder), compile_program(LOAD, folder))


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

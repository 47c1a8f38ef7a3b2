"""Programs that every lab has in its `PATH`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from accel_magic import own_python
from accel_magic.errors import MachineError
from accel_magic.lab.level_zero import parts
from accel_magic.lab.npu import program
from accel_magic.lab.npu.program import compile_load

if TYPE_CHECKING:
    from pathlib import Path


def install(folder: Path) -> parts.LevelZero | None:
    """Put `npu_load` and `ze_load` into a folder; returns the lab's Level Zero if it is built.

    Where `npu_load` cannot be compiled, its counterpart in Python is put there.
    """
    folder.mkdir()
    target = folder / "npu_load"
    try:
        target.symlink_to(compile_load(program.folder()))
    except MachineError:
        target.write_text(f'#!/bin/sh\nexec {shlex.join(own_python.command("accel_magic.lab.npu"))} "$@"\n')
        target.chmod(0o755)
    return parts.install(folder)

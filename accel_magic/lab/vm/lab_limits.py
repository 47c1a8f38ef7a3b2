"""How many labs may run on this machine: `/etc/accel_magic/lab.toml`, for machines with several users."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from accel_magic import free_memory
from accel_magic.errors import MachineError
from accel_magic.lab.vm import running_labs

FILE: Final = Path("/etc/accel_magic/lab.toml")
_END_ONE: Final = "shut down a kernel that you do not need; accel-magic lab status shows who runs what"


@dataclass(frozen=True)
class LabLimits:
    """What a lab needs in order to start; 0 is no limit.

    Attributes:
        user_labs: Labs of one user at once.
        all_labs: Labs of all users at once.
        free_mib: Memory that must be available before another lab starts, MiB.

    """

    user_labs: int = 0
    all_labs: int = 0
    free_mib: int = 0


def load(file: Path = FILE) -> LabLimits:
    """Read the limits; without a file there are none.

    Raises:
        MachineError: The file cannot be read, or has something else than limits.

    """
    try:
        content = tomllib.loads(file.read_text())
    except FileNotFoundError:
        return LabLimits()
    except (OSError, ValueError) as error:
        raise _invalid(file, str(error)) from error
    names = [each.name for each in fields(LabLimits)]
    for name, value in content.items():
        if name not in names:
            raise _invalid(file, f"{name} is not one of {', '.join(names)}")
        if type(value) is not int or value < 0:
            raise _invalid(file, f"{name} = {value!r} is not a number of 0 or more")
    return LabLimits(**content)


def _invalid(file: Path, why: str) -> MachineError:
    return MachineError(
        f"the limits of labs in {file} cannot be used",
        why=why,
        fix="ask the administrator to correct the file: see docs/jupyterhub.md",
        code="lab.bad-limits",
    )


def check(limits: LabLimits) -> None:
    """Check that one more lab of this user may start.

    Raises:
        MachineError: The limits do not allow it.

    """
    if limits == LabLimits():
        return
    running = running_labs.find()
    own = sum(lab.uid == os.getuid() for lab in running)
    available = free_memory.available_bytes() >> 20
    for too_many, what, why in (
        (0 < limits.user_labs <= own, f"you already run {own} labs", f"a user may run {limits.user_labs}"),
        (
            0 < limits.all_labs <= len(running),
            f"this machine already runs {len(running)} labs",
            f"{limits.all_labs} may run at once",
        ),
        (
            available < limits.free_mib,
            "there is not enough memory for another lab",
            f"{available:,} MiB are available, and {limits.free_mib:,} MiB must be",
        ),
    ):
        if too_many:
            raise MachineError(what, why=f"{why} ({FILE})", fix=_END_ONE, code="lab.too-many")

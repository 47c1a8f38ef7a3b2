"""What recording with iaprof needs, as checks of the doctor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic.checks import Check
from accel_magic.subsystems.iaprof import requirements

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from accel_magic.checks import Status


def checks(root: Path, *, requested: bool) -> Iterator[Check]:
    """Check each requirement, if that was requested or if there is a GPU for it below `root`."""
    if not requested and not requirements.xe_gpus(root):
        return
    statuses: dict[bool | None, Status] = {True: "ok", False: "warning", None: "info"}
    for found in requirements.requirements(root):
        status = statuses[found.met] if found.needed or found.met else "info"
        yield Check(f"iaprof: {found.name}", status, found.detail, found.fix)

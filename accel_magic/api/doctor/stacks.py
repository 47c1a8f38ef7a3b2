"""The stacks and profiles that can be taken here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic.checks import Check
from accel_magic.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from accel_magic.checks import Status


def checks(root: Path, *, xe: bool) -> tuple[Check, ...]:
    """Check stacks; also what iaprof needs, if `xe` or if there is a GPU for it below `root`."""
    return (*_stacks(), *_iaprof(root, requested=xe))


def _stacks() -> Iterator[Check]:
    """Check which stacks `--stacks` can take besides the kernel's."""
    from accel_magic.kernel.stacks import python_layout
    from accel_magic.kernel.symbols import frame_pointers

    try:
        python_layout.layout()
    except MachineError as error:
        yield Check("Python stacks", "info", f"{error.what}: {error.why}", error.fix)
    else:
        yield Check("Python stacks", "ok", "the frames of this Python can be read")
    kept, why = frame_pointers()
    yield Check("native stacks", *(("ok", why) if kept else ("info", f"{why}: stacks end early there")))


def _iaprof(root: Path, *, requested: bool) -> Iterator[Check]:
    """Check what recording with iaprof needs, if asked or if there is a GPU for it."""
    from accel_magic.subsystems.iaprof import requirements

    if not requested and not requirements.xe_gpus(root):
        return
    statuses: dict[bool | None, Status] = {True: "ok", False: "warning", None: "info"}
    for found in requirements.requirements(root):
        status = statuses[found.met] if found.needed or found.met else "info"
        yield Check(f"iaprof: {found.name}", status, found.detail, found.fix)

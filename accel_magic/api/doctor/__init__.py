"""What works on this machine, what does not, and how to fix it: `%accel_doctor`, `python -m accel_magic doctor`."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from accel_magic import subsystems
from accel_magic.api.doctor import bcc, devices, gpu, kernel, python, stacks
from accel_magic.api.doctor.report import Report
from accel_magic.api.doctor.uses import uses
from accel_magic.checks import Check, Use
from accel_magic.errors import ProbeError

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["Check", "Report", "Use", "examine", "report"]

_ROOT = Path("/")


def report(**companions: bool) -> Report:
    """Check this machine and this process.

    Args:
        **companions: What can record beside a flame trace, by its option (`xe=True`): check what it needs even if its
            hardware is not here.

    """
    return examine(requested=[name for name, requested in companions.items() if requested])


def examine(root: Path = _ROOT, *, requested: Collection[str] = ()) -> Report:
    """Run every check once, those of the subsystems last. This takes a second or two.

    On other systems than Linux, the checks are those of what recordings need.

    Args:
        root: Folder below which drivers and devices are looked up.
        requested: Companions of flame traces, by their options, that are checked even if their hardware is not here.

    Raises:
        ProbeError: There is no such companion.

    """
    known = {one.attribute: one for one in subsystems.companions().values()}
    if unknown := [name for name in requested if name not in known]:
        raise ProbeError(
            f"the doctor has no checks called {unknown[0]!r}",
            fix=f"use {', '.join(known)}",
            code="option.unknown",
        )
    if sys.platform != "linux":
        return _of_recordings()
    with ExitStack() as stack:
        of_subsystems = [stack.enter_context(each.checks(root)) for each in subsystems.registered().values()]
        found = [
            *kernel.requirements(),
            *bcc.checks(),
            *kernel.checks(),
            *python.checks(),
            *devices.checks(root),
            *gpu.checks(),
            *stacks.checks(),
            *chain.from_iterable(one.checks(root, name in requested) for name, one in known.items()),
            *chain.from_iterable(of_subsystems),
        ]
    checks = tuple(one for one in found if isinstance(one, Check))
    return Report(checks, uses(root, checks, [one for one in found if isinstance(one, Use)]))


def _of_recordings() -> Report:
    """Check what recordings need, where nothing is traced."""
    detail = "recordings of other machines; accel_magic.open(FILE) and `accel-magic show FILE` open them"
    use = Use("%%ktrace --replay FILE, %%flame, %%gputrace", "replay", detail)
    return Report((kernel.platform_check(), *python.checks()), (use,))

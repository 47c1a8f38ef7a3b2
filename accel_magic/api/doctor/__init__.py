"""What works on this machine, what does not, and how to fix it: `%accel_doctor`, `python -m accel_magic doctor`."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import chain
from pathlib import Path

from accel_magic import subsystems
from accel_magic.api.doctor import bcc, devices, gpu, kernel, python, stacks
from accel_magic.api.doctor.report import Report
from accel_magic.checks import Check

__all__ = ["Check", "Report", "checks", "report"]

_ROOT = Path("/")


def report(*, xe: bool = False) -> Report:
    """Check this machine and this process; also what iaprof needs, if `xe` or if there is an Intel Xe GPU."""
    return Report(checks(xe=xe))


def checks(root: Path = _ROOT, *, xe: bool = False) -> tuple[Check, ...]:
    """Run every check once, those of the subsystems last. This takes a second or two.

    Args:
        root: Folder below which drivers and devices are looked up.
        xe: Check what iaprof needs even if there is no GPU for it.

    """
    with ExitStack() as stack:
        of_subsystems = [stack.enter_context(each.checks(root)) for each in subsystems.registered().values()]
        return (
            *kernel.requirements(),
            *bcc.checks(),
            *kernel.checks(),
            *python.checks(),
            *devices.checks(root),
            *gpu.checks(),
            *stacks.checks(root, xe=xe),
            *chain.from_iterable(of_subsystems),
        )

"""The options of a flame trace that are iaprof's: their check, and the run that they request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from accel_magic.errors import ProbeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.subsystems.iaprof.iaprof_process import IaprofRun

_LONGEST_INTERVAL_MS: Final = 60_000
_LARGEST_SUBSAMPLE: Final = 1_000_000_000


def check(options: Mapping[str, Any]) -> None:
    """Check the options `xe`, `interval` and `eu_stall_subsample`. Raises ProbeError."""
    for name, most in (("interval", _LONGEST_INTERVAL_MS), ("eu_stall_subsample", _LARGEST_SUBSAMPLE)):
        value = options[name]
        if value is None:
            continue
        option = name.replace("_", "-")
        if not options["xe"]:
            raise ProbeError(
                f"--{option} needs --xe",
                why="it is an option of iaprof, which runs only with --xe",
                fix=f"add --xe (in Python: xe=True), or remove --{option}",
                code="flame.needs-xe",
            )
        if not 1 <= value <= most or value != int(value):
            raise ProbeError(
                f"--{option} {value} is out of range",
                fix=f"use a whole number, 1 to {most:,}",
                code=f"flame.{option}",
            )


def run_with(options: Mapping[str, Any]) -> IaprofRun | None:
    """Make the run that the options request; None without `xe`."""
    if not options["xe"]:
        return None
    from accel_magic.subsystems.iaprof import iaprof_process

    return iaprof_process.IaprofRun(
        interval=options["interval"] or iaprof_process.INTERVAL_MS,
        eu_stall_subsample=options["eu_stall_subsample"] or iaprof_process.SUBSAMPLE,
    )

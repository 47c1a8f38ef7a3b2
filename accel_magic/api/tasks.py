"""Collecting the ITT tasks of libraries outside a notebook."""

from __future__ import annotations

from accel_magic import subsystems
from accel_magic.itt import collector


def collect_tasks() -> None:
    """Have libraries that are imported from now on report their ITT tasks, as `%load_ext accel_magic` does.

    Child processes that are started from now on report theirs too.

    Raises:
        MachineError: The collector is not part of this installation and cannot be compiled, or another tool's is set.

    """
    collector.require(())
    for subsystem in subsystems.registered().values():
        subsystem.watch()

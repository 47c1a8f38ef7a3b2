"""What the subsystems of a trace find out in this process when it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic.recording.observation import Observation

if TYPE_CHECKING:
    from accel_magic.probes.plan import Plan


def observe(plan: Plan) -> dict[str, Observation]:
    """Observations by subsystem, of those that claim a point of the plan. One that fails is a note."""
    from accel_magic.subsystems import of_plan  # importing it earlier would be traced

    found = {}
    for subsystem in of_plan(plan):
        try:
            observation = subsystem.observe(plan)
        except Exception as exception:  # noqa: BLE001 - another package's code must not end a trace
            note = f"{subsystem.name}: nothing was observed at the end: {type(exception).__name__}: {exception}"
            observation = Observation(notes=(note,))
        if observation is not None:
            found[subsystem.name] = observation
    return found

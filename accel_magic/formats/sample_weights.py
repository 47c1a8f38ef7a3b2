"""Weights of sampled events: their units, and a profile for each event, because different weights are never added."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from accel_magic.kernel.stacks.frames import readable_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from accel_magic.recording.profile import Profile, Unit

_CLOCK: Final = re.compile(r"(?:.*/)?(?:cpu|task)[-_]clock(?:[/:].*)?")


def is_clock(event: str) -> bool:
    """Whether an event's period is CPU time in ns."""
    return _CLOCK.fullmatch(event) is not None


def unit_of(event: str, *, weighed: bool) -> Unit:
    """Unit of an event's weights: if its samples are not weighed by their periods, each counts one."""
    if not weighed:
        return "samples"
    return "ns" if is_clock(event) else "events"


def by_event(
    whole: Profile, events: NDArray[np.int32], names: Sequence[str], units: Sequence[Unit], origin: str
) -> Profile:
    """Split a profile by event: that of the first CPU clock, else of the first event, with the others in `others`.

    Args:
        whole: All samples.
        events: (samples,) the event of each.
        names: The events' names; '' if unknown.
        units: The unit of each event's weights.
        origin: The tool; the event's name is added.

    """
    present = list(dict.fromkeys(events.tolist()))
    first = next((code for code in present if is_clock(names[code])), present[0])
    profiles = [
        replace(
            whole.select(events == code),
            unit=units[code],
            event=readable_text(names[code]),
            origin=readable_text(f"{origin}: {names[code]}") if names[code] else origin,
        )
        for code in (first, *(code for code in present if code != first))
    ]
    return replace(profiles[0], others=tuple(profiles[1:]))

"""The finding about a trace of which no subsystem claims anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from accel_magic.findings import BaseRule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from accel_magic.findings import Finding


@dataclass(frozen=True)
class Rule(BaseRule):
    """A rule about traces of any kind."""

    AREA: ClassVar[str] = "trace"


NO_SUBSYSTEM: Final = Rule(
    "no-subsystem",
    "note",
    "no rule applies to what was traced",
    "There are rules about {names}, and this trace has none of their probe points. Counts, latencies and events are "
    "complete all the same.",
    "Add a preset to the probes, such as `%%ktrace npu`, `%%ktrace drm` or `%%ktrace openvino`.",
    source="no probe point of the trace belongs to a subsystem",
)


def no_subsystem(names: Iterable[str]) -> Finding:
    """Make the finding; `names` are those of the subsystems that there are."""
    return NO_SUBSYSTEM.finding({}, {"names": ", ".join(sorted(names))})
